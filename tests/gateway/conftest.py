"""Fixtures of the gateway's tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.gateway.running import shared_gateways, start_gateway, upstream
from tests.store.conftest import new_postgres
from tests.waiting import until
from tokenbox.tokenizers.bpe import BpeTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["new_postgres", "shared_gateways", "start_gateway", "upstream"]

# Longer than nearly every test takes, and shorter than ``until`` waits.
_TEST = timedelta(seconds=100)


@pytest.fixture(autouse=True, scope="module")
def _without_fastokens() -> Iterator[None]:
    """Load no second engine into the process of the tests: it takes four seconds for two vocabularies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BpeTokenizer, "expect", lambda *_: None)
        yield


@pytest.fixture(autouse=True)
def _one_day() -> None:
    """Wait for midnight (UTC) if it is near: the quotas of a day and of a month begin again with it."""
    until(lambda: (now := datetime.now(UTC)).date() == (now + _TEST).date(), "midnight")
