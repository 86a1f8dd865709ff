"""The gateway as an ASGI application, for ``tokenbox serve`` and for other ASGI servers.

``uvicorn --factory tokenbox.gateway.application:application``, or the same with hypercorn or granian, reads
the settings of the current folder. ``tokenbox serve`` adds bounds on how slow a client may be, workers with
common metrics, the operator's listener and reloads.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.compose.remembered import COUNTS
from tokenbox.config import load
from tokenbox.gateway.admin import Admin
from tokenbox.gateway.app import Application, Gateway
from tokenbox.gateway.configured import settings_from
from tokenbox.gateway.endpoints import add_plugin_endpoints
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.services import GatewayServices, Stores

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.settings import GatewaySettings

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
    app = Application(services)
    Routes(services).add_operating_to(app)
    Admin(services).add_to(app)
    return app
