"""Dollars are exact; what is not known is said, and never 0."""

from __future__ import annotations

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.calls import CLAUDE, HAIKU, NOON, PLAIN, counts, rates, usages
from tokenbox.catalog import Price, PriceTier
from tokenbox.ledger import Call, InvalidMoney, Prediction, Usage, cost_at_most, cost_of
from tokenbox.ledger.cost import dollars, money, money_text


def test_the_example_of_the_seed() -> None:
    cost = cost_of(Usage(179, 8, 0), HAIKU)
    assert cost.to_dict() == {
        "dollars": "0.000219",
        "exact": True,
        "priced": True,
        "source": "a price list",
        "date": "2026-11-01",
    }


def test_audio_has_rates_of_its_own_which_are_unknown() -> None:
    assert cost_of(Usage(179, 8, 0, audio=True), HAIKU).to_dict() == {
        "dollars": None,
        "exact": False,
        "priced": False,
        "source": None,
        "date": None,
    }


def test_cached_and_written_tokens_have_their_own_prices() -> None:
    cost = cost_of(Usage(1_000_000, 0, 600_000, cache_write_tokens=300_000), HAIKU)
    assert cost.dollars == Decimal("0.06") + Decimal("0.375") + Decimal("0.1")
    assert cost.exact


@pytest.mark.parametrize(
    ("written", "hour", "price", "dollars", "exact"),
    [
        (300_000, 0, CLAUDE, "0.375", True),
        (300_000, 300_000, CLAUDE, "0.6", True),
        (300_000, 100_000, CLAUDE, "0.45", True),
        (300_000, None, CLAUDE, "0.375", False),  # some of it may cost more
        (0, None, CLAUDE, "0", True),
        (None, None, CLAUDE, "0", True),
        # The price for an hour is unknown: it is at least the other.
        (300_000, 300_000, HAIKU, "0.375", False),
        (300_000, 0, HAIKU, "0.375", True),
        (300_000, None, HAIKU, "0.375", True),
        (300_000, 300_000, PLAIN, "0.15", False),
        # One without the other: the input may lack them, too.
        (None, 300_000, CLAUDE, "0.6", False),
    ],
)
def test_a_cache_of_an_hour_has_a_price_of_its_own(
    written: int | None, hour: int | None, price: Price, dollars: str, exact: bool
) -> None:
    usage = Usage(written or hour or 0, 0, 0, None, written, hour)
    cost = cost_of(usage, price)
    assert (cost.dollars, cost.exact) == (Decimal(dollars), exact)
    at_most = cost_at_most(usage.input_tokens or 0, 0, price)
    assert at_most is not None
    assert at_most >= Decimal(dollars)


@pytest.mark.parametrize(
    ("usage", "price", "dollars", "exact"),
    [
        # How much came from a cache is not known, and it matters.
        (Usage(1_000_000, 0), HAIKU, "1", False),
        # It does not matter where there is one price, or nothing was read.
        (Usage(1_000_000, 0), PLAIN, "0.5", True),
        (Usage(0, 1_000_000), HAIKU, "5", True),
        (Usage(1_000_000, 0), Price(Decimal(1), Decimal(1), cached_input=Decimal(1)), "1", True),
        # Tokens from a cache whose price is not known.
        (Usage(1_000_000, 0, 10), PLAIN, "0.5", False),
        (Usage(1_000_000, 0, 0), PLAIN, "0.5", True),
        # Counted as both: never less than nothing.
        (Usage(1_000_000, 0, 800_000, cache_write_tokens=800_000), HAIKU, "1.08", False),
    ],
)
def test_an_estimate_is_marked(usage: Usage, price: Price, dollars: str, exact: bool) -> None:
    cost = cost_of(usage, price)
    assert (cost.dollars, cost.exact) == (Decimal(dollars), exact)
    assert not cost_of(usage, price, exact=False).exact


def test_a_long_request_may_cost_more_per_token() -> None:
    price = Price(Decimal(1), Decimal(2), tiers=(PriceTier(200_000, Decimal(2), Decimal(3)),))
    assert cost_of(Usage(200_000, 1_000_000), price).dollars == Decimal("2.2")
    assert cost_of(Usage(200_001, 1_000_000), price).dollars == Decimal("3.400002")
    assert cost_at_most(200_001, 1_000_000, price) == Decimal("3.400002")
    # What was read from a cache makes a request as long as what was not.
    assert cost_of(Usage(200_001, 1_000_000, 200_000), price).dollars == Decimal("3.400002")


@pytest.mark.parametrize(
    ("estimate", "at_most", "dollars"),
    [
        (200_000, None, "2.2"),
        (200_000, 200_000, "2.2"),
        (200_000, 200_001, "3.4"),
        (200_000, 400_000, "3.4"),
        (200_000, 400_001, "5.8"),
        (100_000, 10**15, "5.4"),
        (200_001, 300_000, "3.400002"),
        (400_001, 400_001, "6.600004"),
    ],
)
def test_an_estimate_near_a_border_may_cost_the_rates_behind_it(
    estimate: int, at_most: int | None, dollars: str
) -> None:
    tiers = (PriceTier(200_000, Decimal(2), Decimal(3)), PriceTier(400_000, Decimal(4), Decimal(5)))
    price = Price(Decimal(1), Decimal(2), tiers=tiers)
    found = Prediction.of(estimate, 1_000_000, price, exact=False, input_at_most=at_most)
    assert found.at_most == Decimal(dollars)
    unpriced = Price(Decimal(1), Decimal(2), tiers=(PriceTier(200_000, Decimal(2), None),))
    reached = estimate > 200_000 or (at_most or 0) > 200_000
    assert (cost_at_most(estimate, 1, unpriced, input_at_most=at_most) is None) == reached


@pytest.mark.parametrize("price", [None, Price(None, Decimal(1)), Price(Decimal(1), None)])
def test_no_price_is_unpriced_and_not_free(price: Price | None) -> None:
    cost = cost_of(Usage(10, 10), price)
    assert (cost.dollars, cost.priced, cost.exact) == (None, False, False)
    assert cost_at_most(10, 10, price) is None


def test_what_gives_no_tokens_needs_no_price_for_them() -> None:
    embeddings = Price(Decimal("0.02"), None)
    assert cost_of(Usage(1_000_000, 0), embeddings).dollars == Decimal("0.02")
    assert cost_at_most(1_000_000, 0, embeddings) == Decimal("0.02")
    assert not cost_of(Usage(1_000_000, None), embeddings).priced
    assert cost_of(Usage(1_000_000, 0), Price(None, None)).dollars is None


@pytest.mark.parametrize("usage", [Usage(None, 5), Usage(5, None), Usage(None, None)])
def test_unknown_usage_has_unknown_cost(usage: Usage) -> None:
    cost = cost_of(usage, HAIKU)
    assert (cost.dollars, cost.priced, cost.exact) == (None, True, False)


@given(usage=usages(), price=st.builds(Price, rates, rates, rates, rates, cache_write_1h=rates))
def test_a_cost_is_what_fractions_say(usage: Usage, price: Price) -> None:
    with localcontext() as context:
        context.prec = 3  # what a program sets for itself does not round our money
        cost = cost_of(usage, price)
    unpriced = price.input is None or (price.output is None and usage.output_tokens != 0)
    if unpriced or None in {usage.input_tokens, usage.output_tokens}:
        assert cost.dollars is None
        return
    assert cost.dollars is not None
    read = usage.cached_input_tokens if price.cached_input is not None else 0
    hour = (usage.cache_write_1h_tokens or 0) if price.cache_write_1h is not None else 0
    written = (usage.cache_write_tokens or hour) - hour if price.cache_write is not None else 0
    plain = max(0, (usage.input_tokens or 0) - (read or 0) - written - hour)
    slow = (
        plain * Fraction(price.input or 0)
        + (read or 0) * Fraction(price.cached_input or 0)
        + written * Fraction(price.cache_write or 0)
        + hour * Fraction(price.cache_write_1h or 0)
        + (usage.output_tokens or 0) * Fraction(price.output or 0)
    ) / 1_000_000
    assert Fraction(cost.dollars) == slow


@given(
    usage=usages(),
    price=st.builds(Price, rates, rates, rates, rates, cache_write_1h=rates),
    spare=counts,
)
def test_a_call_never_costs_more_than_at_most(usage: Usage, price: Price, spare: int | None) -> None:
    cost = cost_of(usage, price)
    if cost.dollars is None or usage.input_tokens is None or usage.output_tokens is None:
        return
    written = usage.cache_write_tokens or usage.cache_write_1h_tokens or 0
    if (usage.cached_input_tokens or 0) + written > usage.input_tokens:
        return  # counted twice: no price list foresees that
    ceiling = cost_at_most(usage.input_tokens, usage.output_tokens + (spare or 0), price)
    if price.output is None and spare:
        assert ceiling is None
        return
    assert ceiling is not None
    assert cost.dollars <= ceiling


@pytest.mark.parametrize(
    "value", [0.1, True, None, "", "a", "nan", "inf", "-1", -1, "1e40", "1e-31", "1e999999"]
)
def test_what_is_no_amount_is_refused(value: object) -> None:
    with pytest.raises(InvalidMoney, match="not an amount of money"):
        money(value)


@given(
    price=st.sampled_from(("1e-30", "1e30", "9e30", "0.000000000000000000000000123456", "7")),
    usage=st.builds(Usage, st.integers(0, 10**12), st.integers(0, 10**12)),
)
def test_a_cost_by_any_price_is_read_back(price: str, usage: Usage) -> None:
    """Else a call would be in the ledger that makes every sum over it an error."""
    rates = Price(money(price), money(price))
    started = Call("a", NOON, "m", predicted=Prediction.of(10**12, 10**12, rates, exact=True))
    assert Call.from_dict(started.to_dict()) == started
    ended = started.end(NOON, usage, rates)
    assert Call.from_dict(ended.to_dict()) == ended


@given(amount=st.decimals(0, 10**12, places=9))
def test_an_amount_has_one_text(amount: Decimal) -> None:
    assert money(money_text(amount)) == amount
    assert money_text(amount) == money_text(amount + Decimal("0E-15"))
    assert getcontext().prec == 28


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.000000"),
        ("0.000219", "$0.000219"),
        ("0.0000005", "<$0.000001"),
        ("0.000001", "$0.000001"),
        ("1234.5678915", "$1,234.567892"),
        ("123456789012345678901234567890", "$123,456,789,012,345,678,901,234,567,890.000000"),
    ],
)
def test_dollars_for_people(amount: str, text: str) -> None:
    assert dollars(Decimal(amount)) == text
