"""Fixtures of the gateway's tests."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.gateway.running import shared_gateways, start_gateway, upstream
from tests.store.conftest import new_postgres
from tests.waiting import until

__all__ = ["new_postgres", "shared_gateways", "start_gateway", "upstream"]

# Longer than nearly every test takes, and shorter than ``until`` waits.
_TEST = timedelta(seconds=100)


@pytest.fixture(autouse=True)
def _one_day() -> None:
    """Wait for midnight (UTC) if it is near: the quotas of a day and of a month begin again with it."""
    until(lambda: (now := datetime.now(UTC)).date() == (now + _TEST).date(), "midnight")
