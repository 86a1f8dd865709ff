"""``tokenbox serve``: runs the gateway in front of LLM servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tokenbox.cli.options import flag, option
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import write_bytes, write_error, write_warnings
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
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


def serve(
    upstream: list[str] | None = option(
        "--upstream -u [NAME=]URL", "An LLM server, such as http://127.0.0.1:8080; may be repeated."
    ),
    host: str | None = option("--host HOST", "The address to listen on."),
    port: int | None = option("--port -p PORT", "The port to listen on."),
    mode: str | None = option(
        "--mode <observe|enforce|fit>", "Pass on, refuse or shorten requests that do not fit."
    ),
    database: str | None = option("--database URL", "For keys and the ledger: a file, or postgresql://..."),
    redis: str | None = option("--redis URL", "For quotas of several replicas: redis://..."),
    keys: bool | None = option("--keys/--no-keys", "Require a gateway key from every client."),
    workers: int | None = option("--workers -w N", "Processes that share the port.", min=1),
    admin_port: int | None = option(
        "--admin-port PORT", "The operator's port: /metrics, /readyz and /admin."
    ),
    quiet: bool = flag("--quiet", "Log only starts, stops and refusals."),
) -> None:
    """Run the gateway. It counts each request, refuses what does not fit, and reports usage.

    Example: tokenbox serve --upstream http://127.0.0.1:8080
    """
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
