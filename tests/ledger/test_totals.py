"""Sums say what they do not know, in whatever order they are made."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.calls import HAIKU, NOON, calls
from tokenbox.ledger import Call, Ledger, Outcome, Prediction, Sum, Totals, Usage
from tokenbox.ledger.cost import ZERO
from tokenbox.ledger.totals import NOTHING, total

if TYPE_CHECKING:
    from random import Random

many = st.lists(calls(), max_size=12)


def test_adding_to_what_is_unknown_says_at_least() -> None:
    known, unknown = Call("a", NOON, "m").end(NOON, Usage(7, 3, 0), HAIKU), Call("b", NOON, "m")
    both = Totals.of(known) + Totals.of(unknown)
    assert both.input == Sum(7, unknown=1)
    assert not both.input.exact
    assert both.cost.to_dict() == {
        "known": "0.000022",
        "unknown_calls": 1,
        "estimated_calls": 0,
        "exact": False,
    }
    assert (both.calls, both.unfinished, both.unpriced) == (2, 1, 0)


def test_a_sum_is_exact_if_all_parts_are_known_and_none_is_an_estimate() -> None:
    sums = (Sum(7), Sum(7, unknown=1), Sum(7, estimated=1), Sum(7, unknown=1, estimated=1))
    assert [one.exact for one in sums] == [True, False, False, False]


def test_unpriced_is_told_from_unfinished_and_from_unreported() -> None:
    unpriced = Totals.of(Call("a", NOON, "m").end(NOON, Usage(7, 3), None))
    unreported = Totals.of(Call("b", NOON, "m").end(NOON, Usage(None, None), HAIKU))
    assert (unpriced.unpriced, unpriced.unfinished, unpriced.cost.unknown) == (1, 0, 1)
    assert (unreported.unpriced, unreported.unfinished, unreported.cost.unknown) == (0, 0, 1)


def test_a_call_without_an_end_holds_what_it_can_have_cost() -> None:
    started = Call("a", NOON, "m", predicted=Prediction.of(1_000_000, 100_000, HAIKU, exact=True))
    assert (Totals.of(started).held, Totals.of(started).unheld) == (Decimal("1.75"), 0)
    ended = Totals.of(started.end(NOON, Usage(1_000_000, 10, 0), HAIKU))
    assert (ended.held, ended.unheld) == (ZERO, 0)
    assert (Totals.of(Call("a", NOON, "m")).held, Totals.of(Call("a", NOON, "m")).unheld) == (ZERO, 1)


@pytest.mark.slow
@given(recorded=many)
def test_totals_are_what_a_slow_sum_says(recorded: list[Call]) -> None:
    whole = total(Totals.of(call) for call in recorded)
    assert whole.calls == len(recorded)
    for name, field in (
        ("input", "input_tokens"),
        ("cached", "cached_input_tokens"),
        ("output", "output_tokens"),
        ("reasoning", "reasoning_tokens"),
    ):
        values = [getattr(call.usage, field) for call in recorded]
        known = [value for value in values if value is not None]
        guessed = [call for call in recorded if getattr(call.usage, field) is not None and not call.exact]
        assert getattr(whole, name) == Sum(sum(known), len(values) - len(known), len(guessed))
    paid = [call.cost for call in recorded if call.cost.dollars is not None]
    exponent = 18
    units = sum(int(cost.dollars.scaleb(exponent)) for cost in paid if cost.dollars is not None)
    assert whole.cost.known == Decimal(units).scaleb(-exponent)
    assert whole.cost.unknown == len(recorded) - len(paid)
    assert whole.cost.estimated == sum(not cost.exact for cost in paid)


@pytest.mark.slow
@given(recorded=many, chance=st.randoms(use_true_random=False), cut=st.integers(0, 12))
def test_the_order_of_adding_does_not_matter(recorded: list[Call], chance: Random, cut: int) -> None:
    parts = [Totals.of(call) for call in recorded]
    whole = total(parts)
    assert total(parts[:cut]) + total(parts[cut:]) == whole
    chance.shuffle(parts)
    assert total(parts) == whole
    assert whole + NOTHING == NOTHING + whole == whole


@pytest.mark.slow
@given(recorded=many, chance=st.randoms(use_true_random=False))
def test_a_call_recorded_again_counts_once(recorded: list[Call], chance: Random) -> None:
    ledger = Ledger()
    for call in recorded:
        ledger.record(Call(call.id, call.started, call.model, call.category, predicted=call.predicted))
        ledger.record(call)
        ledger.record(call)
    rows = ledger.rows()
    assert list(rows) == sorted({(call.model, call.category) for call in recorded})
    for (model, category), row in rows.items():
        members = [call for call in recorded if (call.model, call.category) == (model, category)]
        assert row == total(Totals.of(call) for call in members)
    assert ledger.total == total(Totals.of(call) for call in recorded)
    chance.shuffle(recorded)
    assert Ledger(recorded).rows() == rows


def test_what_ended_stays_as_it_ended_first() -> None:
    started = Call("a", NOON, "m")
    ended = started.end(NOON, Usage(1, 1), None)
    late = started.end(NOON, Usage(9, 9), None, outcome=Outcome.FAILED)
    assert Ledger([ended, late, started]).total == Totals.of(ended)


def test_data_of_totals() -> None:
    nothing = {"known": 0, "unknown_calls": 0, "estimated_calls": 0, "exact": True}
    assert NOTHING.to_dict() == {
        "calls": 0,
        "unfinished_calls": 0,
        "unpriced_calls": 0,
        "input_tokens": nothing,
        "cached_input_tokens": nothing,
        "output_tokens": nothing,
        "reasoning_tokens": nothing,
        "dollars": {**nothing, "known": "0"},
        "held_dollars": "0",
    }
