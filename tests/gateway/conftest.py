"""Fixtures of the gateway's tests."""

from tests.gateway.running import shared_gateways, start_gateway, upstream
from tests.store.conftest import new_postgres

__all__ = ["new_postgres", "shared_gateways", "start_gateway", "upstream"]
