"""``tokenbox serve``: the gateway in front of LLM servers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli.outcome import UsageProblem, reporting
from tokenbox.cli.streams import write_bytes, write_error
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def gateway_extra() -> Iterator[None]:
    """Around imports of what runs the gateway. Raises :class:`MissingExtra` where a package is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tokenbox"):
            raise
        raise MissingExtra.of("the gateway", "gateway") from None


def serve(  # noqa: PLR0913, PLR0917  # one parameter per option
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            "-u",
            metavar="[NAME=]URL",
            help="A server that answers, such as http://127.0.0.1:8080; may be repeated.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port to listen on.")] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="observe, enforce or fit: what becomes of what does not fit.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="Keys and ledger: a file, or postgresql://..."),
    ] = None,
    redis: Annotated[
        str | None, typer.Option("--redis", metavar="URL", help="Quotas shared by replicas: redis://...")
    ] = None,
    keys: Annotated[
        bool | None, typer.Option("--keys/--no-keys", help="Ask every client for a gateway key.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", help="Processes that share the port.", min=1)
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option("--admin-port", help="Port of the operator's listener: /metrics, /readyz, /admin."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only starts, stops and refusals.")] = False,
) -> None:
    """Run the gateway: count each request exactly, refuse what cannot fit, report what is used and left.

    Example: tokenbox serve --upstream http://127.0.0.1:8080
    """
    with reporting():
        from tokenbox.gateway.configured import settings_from  # what serving needs is heavy

        with gateway_extra():
            from tokenbox.gateway.run import run

        flags = {
            "gateway.host": host,
            "gateway.port": None if port is None else str(port),
            "gateway.workers": None if workers is None else str(workers),
            "gateway.admin_port": None if admin_port is None else str(admin_port),
            "gateway.mode": mode,
            "gateway.database": database,
            "gateway.redis": redis,
            "gateway.keys": None if keys is None else str(keys).lower(),
        }
        settings = settings_from(".", flags, upstream or [])
        if not settings.upstreams:
            raise UsageProblem("name a server with --upstream URL, or in [upstreams.NAME].")

        def say(text: str) -> None:
            write_bytes(text.encode(), flush=True)

        run(settings, lambda: settings_from(".", flags, upstream or []), say, write_error, quiet=quiet)
