"""Endpoints of other packages, by entry points of the group ``tokenbox.endpoints``.

Each names a function that is called with the services of the gateway and gives ``(method, path, handler)``. A
handler is like those of :mod:`tokenbox.gateway.routes`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from tokenbox.errors import TokenboxError
from tokenbox.gateway.protocols import PROTOCOLS

if TYPE_CHECKING:
    from tokenbox.gateway.app import Gateway
    from tokenbox.gateway.build import GatewayServices

GROUP: Final = "tokenbox.endpoints"


class EndpointProblem(TokenboxError):
    """An endpoint of another package cannot be added, so the gateway does not start."""

    code = "gateway_endpoint"


def add_offered(gateway: Gateway, standing: GatewayServices) -> None:
    """Add what installed packages offer. Raises :class:`EndpointProblem`."""
    for point in sorted(entry_points(group=GROUP)):
        try:
            for method, path, handler in point.load()(standing):
                _check_free(gateway, method, path)
                gateway.add(method, path, handler)
        except Exception as error:
            raise EndpointProblem(
                f"the endpoint {point.name!r} of {point.value} cannot be added: "
                f"{type(error).__name__}: {error}. Update or remove the package that offers it.",
                endpoint=point.name,
            ) from error


def _check_free(gateway: Gateway, method: str, path: str) -> None:
    """A package cannot answer in place of the gateway. Raises ``ValueError``."""
    if (method, path) in gateway.routes or (method == "POST" and path in PROTOCOLS):
        raise ValueError(f"{method} {path} is taken")
