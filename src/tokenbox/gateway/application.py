"""The gateway as an ASGI application, for ``tokenbox serve`` and for other ASGI servers.

``uvicorn --factory tokenbox.gateway.application:application``, or the same with hypercorn or granian, reads
the settings of the current folder, and adds the endpoints of installed packages: entry points of the group
``tokenbox.endpoints``, each a function that takes the services of the gateway and returns
``(method, path, handler)``, with a handler like those of :mod:`tokenbox.gateway.routes`. ``tokenbox serve``
adds bounds on how slow a client may be, workers with common metrics, the operator's listener and reloads.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from tokenbox.compose.remembered import COUNTS
from tokenbox.config import load
from tokenbox.errors import TokenboxError
from tokenbox.gateway.admin import Admin
from tokenbox.gateway.app import Application, Gateway
from tokenbox.gateway.configured import is_loopback, settings_from
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.services import GatewayServices, Stores

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.settings import GatewaySettings


GROUP: Final = "tokenbox.endpoints"


class EndpointProblem(TokenboxError, code="gateway_endpoint"):
    """An endpoint of another package cannot be added, so the gateway does not start."""


def add_plugin_endpoints(gateway: Gateway, services: GatewayServices) -> None:
    """Add the endpoints of installed packages. Raises :class:`EndpointProblem`."""
    for point in sorted(entry_points(group=GROUP)):
        try:
            for method, path, handler in point.load()(services):
                _check_free(gateway, method, path)
                gateway.add(method, path, handler)
        except Exception as error:
            raise EndpointProblem(
                f"the endpoint {point.name!r} of {point.value} cannot be added: "
                f"{type(error).__name__}: {error}. Update or remove the package that offers it.",
                endpoint=point.name,
            ) from error


def _check_free(gateway: Gateway, method: str, path: str) -> None:
    """Raise ``ValueError`` if the gateway itself answers there."""
    if (method, path) in gateway.routes or (method == "POST" and path in PROTOCOLS):
        raise ValueError(f"{method} {path} is taken")


# Characters of the texts whose counts a worker caches: about 15,000 messages of running conversations.
CACHED_CHARACTERS = 8_000_000


def application(folder: str = ".") -> Gateway:
    """Build the application from the settings of ``folder``.

    It cannot know from where the server is reached, so clients need keys unless ``gateway.keys`` is false.
    Raises ``ConfigError`` and the errors of the stores.
    """
    settings = settings_from(folder, {})
    if load(folder).value("gateway.keys") is None:
        settings = replace(settings, keys_required=True)
    gateway, _ = gateway_of(settings, Stores.open(settings), RequestLog(sys.stderr.write))
    return gateway


def gateway_of(
    settings: GatewaySettings, stores: Stores, log: RequestLog, workers_folder: Path | None = None
) -> tuple[Gateway, GatewayServices]:
    """Build the gateway and its services. ``workers_folder`` is where several workers find each other."""
    COUNTS.limit(CACHED_CHARACTERS)
    services = GatewayServices(settings, stores, log, workers_folder)
    gateway = Gateway(services)
    Routes(services).add_to(gateway, operating=settings.admin_port is None)
    add_plugin_endpoints(gateway, services)
    return gateway, services


def admin_of(services: GatewayServices) -> Application:
    """Build the application of the operator's listener."""
    app = Application(services, is_local=is_loopback(services.settings.admin_host))
    Routes(services).add_operating_to(app)
    Admin(services).add_to(app)
    return app
