"""``tokenbox serve``: runs the gateway in front of LLM servers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tokenbox.cli.outcome import UsageProblem, reporting
from tokenbox.cli.streams import write_bytes, write_error, write_warnings
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.gateway.settings import GatewaySettings


@contextmanager
def gateway_extra() -> Iterator[None]:
    """Wrap imports of the gateway. Raises :class:`MissingExtra` if a package of its extra is missing."""
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
            help="An LLM server, such as http://127.0.0.1:8080; may be repeated.",
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="The address to listen on.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", metavar="PORT", help="The port to listen on.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="<observe|enforce|fit>",
            help="Pass on, refuse or shorten requests that do not fit.",
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            "--database", metavar="URL", help="For keys and the ledger: a file, or postgresql://..."
        ),
    ] = None,
    redis: Annotated[
        str | None, typer.Option("--redis", metavar="URL", help="For quotas of several replicas: redis://...")
    ] = None,
    keys: Annotated[
        bool | None, typer.Option("--keys/--no-keys", help="Require a gateway key from every client.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", metavar="N", help="Processes that share the port.", min=1),
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(
            "--admin-port", metavar="PORT", help="The operator's port: /metrics, /readyz and /admin."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only starts, stops and refusals.")] = False,
) -> None:
    """Run the gateway. It counts each request, refuses what does not fit, and reports usage.

    Example: tokenbox serve --upstream http://127.0.0.1:8080
    """
    with reporting():
        from tokenbox.gateway.configured import settings_from

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

        def load() -> GatewaySettings:
            return settings_from(".", flags, upstream or [], warn=write_warnings)

        settings = load()
        if not settings.upstreams:
            raise UsageProblem("name a server with --upstream URL, or in [upstreams.NAME].")
        run(settings, load, lambda text: write_bytes(text.encode(), flush=True), write_error, quiet=quiet)
