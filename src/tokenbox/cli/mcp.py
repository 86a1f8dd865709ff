"""``tokenbox mcp``: tokenbox as a server of the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tokenbox.cli.outcome import UsageProblem, reporting
from tokenbox.cli.streams import write_error
from tokenbox.errors import MissingExtra

TOKEN = "TOKENBOX_MCP_TOKEN"  # noqa: S105  # the name of a variable
PORT = 8321
DEFAULT_TOKENS = 20_000


def mcp(
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="FOLDER",
            help="A folder that may be read; may be repeated.",
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve by HTTP instead of standard input.")] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name of this machine; may be repeated."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="The model that reads the answers.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="TOKENS", min=1, help="Most tokens of an answer.")
    ] = DEFAULT_TOKENS,
) -> None:
    """Serve files within token budgets to agents, by the Model Context Protocol.

    The tools are pack, count, select, explain, expand and verify. Files are read only inside the roots that
    the client names, and only inside --root where it is given.

    Example: tokenbox mcp --root . --model gpt-4o
    """
    with reporting():
        try:
            from tokenbox.mcp.run import is_loopback, serve_http, serve_stdio  # an extra
            from tokenbox.mcp.server import make_server
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tokenbox"):
                raise
            raise MissingExtra.of("the MCP server", "mcp") from None
        from tokenbox import api
        from tokenbox.cli.proving import trusted_keys
        from tokenbox.mcp.tools import Desk

        roots = tuple(_folder(path) for path in root or ())
        if model is not None:
            api.text_counter(model, None)  # a name that nothing counts for is said now, not at the first call
        server = make_server(Desk(model, max_tokens, trusted_keys()), roots)
        if not http:
            serve_stdio(server)
            return
        if not roots:
            raise UsageProblem(
                "--http needs --root FOLDER: over the network, roots that a client names protect nothing."
            )
        token = os.environ.get(TOKEN)
        if not is_loopback(host) and not token:
            raise UsageProblem(
                f"other machines can reach --host {host}. Set {TOKEN} to a secret that clients must send as "
                "a bearer token, or leave out --host."
            )
        try:
            serve_http(server, host, port, write_error, names=allow_host or (), token=token or None)
        except OSError as error:
            raise UsageProblem(f"cannot listen on {host} port {port}: {error.strerror or error}.") from None


def _folder(path: str) -> str:
    """The folder without links. Raises :class:`UsageProblem`."""
    real = Path(path).resolve()
    if not real.is_dir():
        raise UsageProblem(f"--root {path} is not a folder.")
    return str(real)
