"""Prices on a day, and what a request costs, to the last digit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.catalog import Price, PriceTier, Rates, cost, price

TODAY = date(2026, 11, 21)
D = Decimal


@dataclass(frozen=True)
class Used:
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None = None


@pytest.mark.parametrize(
    ("asked", "rates"),
    [
        ("gpt-5", Rates(D("1.25"), D(10), D("0.125"))),
        ("openai/gpt-5-2025-08-07", Rates(D("1.25"), D(10), D("0.125"))),
        ("gpt-5-2031-01-01", Rates(D("1.25"), D(10), D("0.125"))),
        ("claude-sonnet-4.5", Rates(D(3), D(15), D("0.3"), D("3.75"))),
        ("gemini-2.5-pro", Rates(D("1.25"), D(10), D("0.125"))),
    ],
)
def test_today(asked: str, rates: Rates) -> None:
    found = price(asked, TODAY)
    assert found is not None
    assert found.rates == rates
    assert found.source.startswith("genai-prices ")
    assert found.date is not None


def test_a_price_holds_from_its_day() -> None:
    before, after = price("o3", date(2025, 6, 9)), price("o3", date(2025, 6, 10))
    assert before is not None
    assert after is not None
    assert (before.rates.input, after.rates.input) == (D(10), D(2))
    assert after.date == "2025-06-10"


def test_a_price_of_some_hours() -> None:
    day = price("deepseek-v4-flash", TODAY)
    peak = price("deepseek-v4-flash", datetime(2026, 11, 21, 2, tzinfo=UTC))
    quiet = price("deepseek-v4-flash", datetime(2026, 11, 21, 12, tzinfo=UTC))
    assert day is not None
    assert peak is not None
    assert quiet is not None
    assert (day.rates, peak.rates.input) == (quiet.rates, D("0.3"))
    assert day.note is not None
    assert quiet.note is None


@pytest.mark.parametrize(
    "asked", ["llama3.1:8b", "mistral-7b-instruct-v0.3.Q4_K_M.gguf", "no-such-model", "", "/", "x" * 9999]
)
def test_unpriced_is_none(asked: str) -> None:
    assert price(asked, TODAY) is None


def test_the_users_own_price_comes_first() -> None:
    mine = Price(Rates(D("0.5"), D(1)), "config.toml:9")
    assert price("gpt-5", TODAY, configured={"gpt-5": mine}) is mine
    assert price("my-own", TODAY, configured={"my-own": mine}) is mine
    assert price("gpt-4o", TODAY, configured={"gpt-5": mine}) is not mine


PRICE = Price(
    Rates(D("1.25"), D(10), D("0.125"), D("2")),
    "test",
    tiers=(PriceTier(200_000, Rates(D("2.5"), D(15), D("0.25"))),),
)


@pytest.mark.parametrize(
    ("used", "written", "dollars"),
    [
        (Used(0, 0), None, "0"),
        (Used(1, 0), None, "0.00000125"),
        (Used(1000, 100), None, "0.00225"),
        (Used(1000, 100, 400), None, "0.0018"),
        (Used(1000, 100, 0), 200, "0.0024"),
        (Used(1000, 100, 5000), None, "0.001125"),  # more cached than there was: all of it
        (Used(200_000, 0), None, "0.25"),
        (Used(200_001, 0), None, "0.5000025"),  # the whole request at the higher rate
        (Used(200_001, 0, 0), 200_001, "0.5000025"),  # that tier has no price for writing: as input
        (Used(None, 1), None, None),
        (Used(1, None), None, None),
    ],
)
def test_cost(used: Used, written: int | None, dollars: str | None) -> None:
    assert cost(used, PRICE, cache_write_tokens=written) == (None if dollars is None else D(dollars))


def test_what_has_no_price_costs_nobody_knows_what() -> None:
    assert cost(Used(1, 1), None) is None
    assert cost(Used(1, 1), Price(Rates(D(1), None), "test")) is None
    assert cost(Used(1, 0), Price(Rates(D(1), None), "test")) == D("0.000001")


counts = st.integers(0, 10**12)
amounts = st.none() | st.decimals(0, 10**6, places=6)


@given(counts, counts, st.none() | counts, st.none() | counts, st.tuples(amounts, amounts, amounts, amounts))
def test_cost_is_exact(
    taken: int, given_: int, cached: int | None, written: int | None, rates: tuple[Decimal | None, ...]
) -> None:
    into, out, read, write = rates
    found = cost(
        Used(taken, given_, cached), Price(Rates(into, out, read, write), "test"), cache_write_tokens=written
    )
    hits = min(cached or 0, taken)
    writes = min(written or 0, taken - hits)
    charges = [
        (taken - hits - writes, into),
        (hits, into if read is None else read),
        (writes, into if write is None else write),
        (given_, out),
    ]
    if any(tokens and rate is None for tokens, rate in charges):
        assert found is None
    else:
        exact = sum((Fraction(tokens) * Fraction(rate or 0) / 10**6 for tokens, rate in charges), Fraction(0))
        assert found is not None
        assert Fraction(found) == exact
