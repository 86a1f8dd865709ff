"""A cap in dollars: a call that could cross it is refused before it is sent."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.ledger.errors import LedgerError
from tokenbox.ledger.money import EXACT, ZERO, money_text

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.ledger.call import Prediction
    from tokenbox.ledger.totals import Totals


class CostCapError(LedgerError):
    """A call is not sent, because of the cap in dollars."""

    code = "cost_cap"


class CostCapExceeded(CostCapError):
    """What the call could cost at most is more than is left under the cap. All figures are dollars."""

    code = "cost_cap_exceeded"

    def __init__(self, *, cap: Decimal, spent: Decimal, held: Decimal, call: Decimal, exact: bool) -> None:
        self.cap, self.spent, self.held, self.call = cap, spent, held, call
        self.over = EXACT.subtract(EXACT.add(EXACT.add(spent, held), call), cap)
        figures = {"cap": cap, "spent": spent, "held": held, "call": call, "over": self.over}
        said = {name: money_text(amount) for name, amount in figures.items()}
        about = "" if exact else "~"
        unanswered = f" (and ${said['held']} held for calls without a known cost)" if held else ""
        super().__init__(
            f"the call can cost {about}${said['call']}, and ${said['spent']}{unanswered} of the cap of "
            f"${said['cap']} is spent: {about}${said['over']} too much. Raise the cap, reserve less output, "
            "or send less.",
            **said,
            exact=exact,
        )


class CostCapUnknown(CostCapError):
    """Whether the cap would hold cannot be said. ``details["unknown"]`` is what is not known."""

    code = "cost_cap_unknown"


class Unpriced(StrEnum):
    """What becomes of a call under a cap when a cost is not known."""

    REFUSE = "refuse"
    ALLOW = "allow"


def cap_at_dollars(
    cap: Decimal,
    spent: Totals,
    model: str,
    predicted: Prediction,
    *,
    unpriced: Unpriced = Unpriced.REFUSE,
) -> Decimal | None:
    """What the call can cost at most; None if that is not known and ``unpriced`` allows it.

    Raises :class:`CostCapExceeded` if it is more than ``spent`` leaves of ``cap``; to reach the cap is fine.
    A call that never ended holds what it could have cost at most. Where something is not known, which is
    never taken for 0, the call raises :class:`CostCapUnknown`, or with ``Unpriced.ALLOW`` what is known must
    fit.
    """
    if unpriced is Unpriced.REFUSE:
        if spent.unheld:
            raise _unknown_so_far(cap, spent.unheld)
        if predicted.at_most is None:
            raise _unknown_call(cap, model, predicted)
    call = ZERO if predicted.at_most is None else predicted.at_most
    if EXACT.add(EXACT.add(spent.cost.known, spent.held), call) > cap:
        raise CostCapExceeded(
            cap=cap, spent=spent.cost.known, held=spent.held, call=call, exact=predicted.exact
        )
    return predicted.at_most


def _unknown_so_far(cap: Decimal, calls: int) -> CostCapUnknown:
    of_calls = "1 call" if calls == 1 else f"{calls:,} calls"
    return CostCapUnknown(
        f"the cost of {of_calls} so far is unknown, so a cap of ${money_text(cap)} cannot be held. "
        "Give the models prices, or allow unpriced calls under the cap.",
        unknown="spent",
        calls=calls,
        cap=money_text(cap),
    )


def _unknown_call(cap: Decimal, model: str, predicted: Prediction) -> CostCapUnknown:
    unknown, said, remedy = (
        ("input_tokens", "its input", "Count the input before sending.")
        if predicted.input_tokens is None
        else ("reserved_output", "its longest answer", "Reserve a number of output tokens (max_tokens).")
        if predicted.reserved_output is None
        else ("price", "its price", "Give the model a price, or allow unpriced calls under the cap.")
    )
    return CostCapUnknown(
        f"the cost of a call of {model} is unknown, because {said} is unknown, so a cap of "
        f"${money_text(cap)} cannot be held. {remedy}",
        unknown=unknown,
        model=model,
        cap=money_text(cap),
    )
