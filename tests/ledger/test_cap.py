"""A call that could cross the cap is refused before it is sent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.calls import HAIKU, NOON
from tokenbox.cli.outcome import Exit, status_of
from tokenbox.ledger import (
    Call,
    CostCapError,
    CostCapExceeded,
    CostCapUnknown,
    Prediction,
    Totals,
    Unpriced,
    Usage,
    cap_at_dollars,
)
from tokenbox.ledger.totals import NOTHING

# At most 1.25 dollars of input and 0.50 of output.
BIG = Prediction.of(1_000_000, 100_000, HAIKU, exact=True)


def test_the_cap_may_be_reached_and_not_crossed() -> None:
    assert cap_at_dollars(Decimal("1.75"), NOTHING, "haiku", BIG) == Decimal("1.75")
    with pytest.raises(CostCapExceeded) as caught:
        cap_at_dollars(Decimal("1.749999"), NOTHING, "haiku", BIG)
    assert caught.value.to_dict() == {
        "code": "cost_cap_exceeded",
        "message": "the call can cost $1.75, and $0 of the cap of $1.749999 is spent: $0.000001 too much. "
        "Raise the cap, reserve less output, or send less.",
        "cap": "1.749999",
        "spent": "0",
        "held": "0",
        "call": "1.75",
        "over": "0.000001",
        "exact": True,
    }


def test_a_command_that_is_refused_says_so_by_its_exit_status() -> None:
    with pytest.raises(CostCapExceeded) as caught:
        cap_at_dollars(Decimal(1), NOTHING, "haiku", BIG)
    assert status_of(caught.value) is Exit.REFUSED


def test_an_estimated_input_is_marked() -> None:
    guess = Prediction.of(1_000_000, 100_000, HAIKU, exact=False)
    with pytest.raises(CostCapExceeded, match=r"can cost ~\$1\.75, .* ~\$0\.75 too much"):
        cap_at_dollars(Decimal(1), NOTHING, "haiku", guess)


def test_a_call_that_was_cut_off_holds_what_it_can_have_cost() -> None:
    cut_off = Totals.of(Call("a", NOON, "haiku", predicted=BIG))
    with pytest.raises(CostCapExceeded, match=r"and \$1.75 held for calls without a known cost") as caught:
        cap_at_dollars(Decimal(3), cut_off, "haiku", BIG)
    assert caught.value.over == Decimal("0.5")
    assert cap_at_dollars(Decimal("3.5"), cut_off, "haiku", BIG) == Decimal("1.75")


@pytest.mark.parametrize(
    ("predicted", "unknown", "remedy"),
    [
        (Prediction.of(None, 10, HAIKU, exact=False), "input_tokens", "Count the input"),
        (Prediction.of(10, None, HAIKU, exact=True), "reserved_output", "max_tokens"),
        (Prediction.of(10, 10, None, exact=True), "price", "Set price_input and price_output"),
    ],
)
def test_what_is_not_known_is_refused_with_a_remedy_or_allowed(
    predicted: Prediction, unknown: str, remedy: str
) -> None:
    with pytest.raises(CostCapUnknown, match=remedy) as caught:
        cap_at_dollars(Decimal(1), NOTHING, "llama-3", predicted)
    assert caught.value.details["unknown"] == unknown
    assert cap_at_dollars(Decimal(1), NOTHING, "llama-3", predicted, unpriced=Unpriced.ALLOW) is None


def test_unpriced_calls_so_far_are_refused_or_allowed() -> None:
    spent = Totals.of(Call("a", NOON, "llama-3").end(NOON, Usage(5, 5), None))
    with pytest.raises(CostCapUnknown, match="the cost of 1 call so far is unknown") as caught:
        cap_at_dollars(Decimal(2), spent, "haiku", BIG)
    remedies = ["tokenbox config set --user cost.unpriced allow"]
    assert caught.value.details == {"unknown": "spent", "calls": 1, "cap": "2", "remedies": remedies}
    assert cap_at_dollars(Decimal(2), spent, "haiku", BIG, unpriced=Unpriced.ALLOW) == Decimal("1.75")
    with pytest.raises(CostCapExceeded):
        cap_at_dollars(Decimal(1), spent, "haiku", BIG, unpriced=Unpriced.ALLOW)


@given(
    cap=st.decimals(0, 5, places=3),
    asked=st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 300_000), st.booleans()), max_size=9),
)
def test_whatever_is_asked_the_cap_holds(cap: Decimal, asked: list[tuple[int, int, bool]]) -> None:
    spent = NOTHING
    for number, (size, reserved, cut_off) in enumerate(asked):
        predicted = Prediction.of(size, reserved, HAIKU, exact=True)
        call = Call(str(number), NOON, "haiku", predicted=predicted)
        try:
            cap_at_dollars(cap, spent, "haiku", predicted)
        except CostCapError:
            continue
        # The dearest answer there can be.
        ended = call.end(NOON, Usage(size, reserved, 0, cache_write_tokens=size), HAIKU)
        spent += Totals.of(call if cut_off else ended)
    assert spent.cost.known + spent.held <= cap
