"""Endpoints of other packages, found by entry points of the group ``tokenbox.endpoints``.

Each names a function that takes the services of the gateway and returns ``(method, path, handler)``. A
handler is like those of :mod:`tokenbox.gateway.routes`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenboxError
from tokenbox.gateway.protocols import PROTOCOLS

if TYPE_CHECKING:
    from tokenbox.gateway.app import Gateway
    from tokenbox.gateway.services import GatewayServices

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
