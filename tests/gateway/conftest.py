"""Fixtures of the gateway's tests."""

from tests.gateway.running import start_gateway

__all__ = ["start_gateway"]
