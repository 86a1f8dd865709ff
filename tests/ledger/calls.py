"""Prices and calls for the tests of the ledger and its store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tokenbox.catalog import Price
from tokenbox.ledger import Call, Outcome, Prediction, Usage

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


HAIKU = Price(
    Decimal(1),
    Decimal(5),
    cached_input=Decimal("0.1"),
    cache_write=Decimal("1.25"),
    source="a price list",
    date="2026-11-01",
)
CLAUDE = replace(HAIKU, cache_write_1h=Decimal(2))
PLAIN = Price(Decimal("0.5"), Decimal(2))

counts = st.none() | st.integers(0, 3_000_000)
rates = st.none() | st.decimals(0, 100, places=4)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    return Usage.reported(*(draw(counts) for _ in range(6)))


@st.composite
def calls(draw: st.DrawFn, ids: SearchStrategy[str] | None = None) -> Call:
    """Generate started or ended calls, with or without a price, within three days."""
    price = draw(st.sampled_from([None, HAIKU, CLAUDE, PLAIN]))
    started = NOON + timedelta(minutes=draw(st.integers(-2_000, 2_000)), microseconds=draw(st.integers(0, 3)))
    call = Call(
        draw(st.uuids().map(str) if ids is None else ids),
        started,
        draw(st.sampled_from(["gpt-4o", "haiku", "llama-3", "модель"])),
        draw(st.sampled_from(["main", "summarize", "tool"])),
        project=draw(st.sampled_from([None, "/home/ada/engine", "notes"])),
        session=draw(st.sampled_from([None, "s1", "s2"])),
        predicted=Prediction.of(draw(counts), draw(counts), price, exact=draw(st.booleans())),
    )
    outcome = draw(st.sampled_from(Outcome))
    if outcome is Outcome.STARTED:
        return call
    ended = started + timedelta(seconds=3)
    return call.end(ended, draw(usages()), price, exact=draw(st.booleans()), outcome=outcome)
