"""``tokenbox mcp``: runs a Model Context Protocol server."""

from __future__ import annotations

import os
from pathlib import Path

from tokenbox import counters
from tokenbox.cli.options import flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.proving import trusted_keys
from tokenbox.cli.streams import write_error
from tokenbox.config.trust import is_loopback
from tokenbox.errors import needing
from tokenbox.mcp.answers import DEFAULT_TOKENS

TOKEN = "TOKENBOX_MCP_TOKEN"  # noqa: S105  # the name of a variable
PORT = 8321


def mcp(
    root: list[str] | None = option("--root FOLDER", "A folder that may be read; may be repeated."),
    http: bool = flag("--http", "Serve over HTTP instead of standard input and output."),
    host: str = option("--host HOST", "The address to listen on.", "127.0.0.1"),
    port: int = option("--port -p PORT", "The port; 0 takes any free port.", PORT, min=0, max=65535),
    allow_host: list[str] | None = option(
        "--allow-host NAME", "Another host name of this machine; may be repeated."
    ),
    model: str | None = option("--model -m NAME", "The model that reads the answers."),
    max_tokens: int = option("--max-tokens TOKENS", "The largest size of an answer.", DEFAULT_TOKENS, min=1),
) -> None:
    """Serve files to agents within token budgets, over the Model Context Protocol.

    The tools are pack, count, select, explain, expand and verify. Files are read only inside the roots that
    the client names and, if --root is given, only inside those folders.

    Example: tokenbox mcp --root . --model gpt-4o
    """
    with needing("the MCP server", "mcp"):
        from tokenbox.mcp.run import serve_http, serve_stdio
        from tokenbox.mcp.server import make_server
    from tokenbox.mcp.tools import SharedState

    roots = tuple(_folder(path) for path in root or ())
    if model is not None:
        counters.text_counter(model, None)  # an unknown model is an error now, not at the first call
    server = make_server(SharedState(model, max_tokens, trusted_keys()), roots)
    if not http:
        serve_stdio(server)
        return
    if not roots:
        raise UsageProblem(
            "--http needs --root FOLDER: roots that a client names over the network protect nothing."
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
    """Return the folder with its links resolved. Raises :class:`UsageProblem`."""
    real = Path(path).resolve()
    if not real.is_dir():
        raise UsageProblem(f"--root {path} is not a folder.")
    return str(real)
