"""A spending cap in dollars: a call that could exceed it is refused before it is sent."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tokenbox.errors import plural
from tokenbox.ledger.cost import EXACT, ZERO, money_text
from tokenbox.ledger.errors import LedgerError

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.ledger.call import Prediction
    from tokenbox.ledger.totals import Totals


class CostCapError(LedgerError, code="cost_cap"):
    """A call is not sent, because of the cap in dollars."""


class CostCapExceeded(CostCapError, code="cost_cap_exceeded"):
    """The highest cost of the call exceeds what is left under the cap. All figures are dollars."""

    def __init__(self, *, cap: Decimal, spent: Decimal, held: Decimal, call: Decimal, exact: bool) -> None:
        self.cap, self.spent, self.held, self.call = cap, spent, held, call
        self.over = EXACT.subtract(EXACT.add(EXACT.add(spent, held), call), cap)
        figures = {"cap": cap, "spent": spent, "held": held, "call": call, "over": self.over}
        texts = {name: money_text(amount) for name, amount in figures.items()}
        about = "" if exact else "~"
        unanswered = f" (and ${texts['held']} held for calls without a known cost)" if held else ""
        super().__init__(
            f"the call can cost {about}${texts['call']}, and ${texts['spent']}{unanswered} of the cap of "
            f"${texts['cap']} is spent: {about}${texts['over']} too much. Raise the cap, reserve less "
            "output, or send less.",
            **texts,
            exact=exact,
        )


class CostCapUnknown(CostCapError, code="cost_cap_unknown"):
    """Whether the cap would hold is unknown. ``details["unknown"]`` is the missing figure.

    ``details["remedies"]``: commands that mend it.
    """


class Unpriced(StrEnum):
    """What happens to a call under a cap if a cost is unknown."""

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
    """Return the highest cost of the call; None if it is unknown and ``unpriced`` allows it.

    Raises :class:`CostCapExceeded` if it is more than ``spent`` leaves of ``cap``; reaching the cap is fine.
    A call that never ended counts with its highest cost. An unknown cost is never taken for 0: it raises
    :class:`CostCapUnknown`, unless ``Unpriced.ALLOW`` is given, and then the known costs must fit.
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


# Commands that mend an unknown cost. A project's file may not allow one.
_ALLOW: Final = "tokenbox config set --user cost.unpriced allow"
_LIMIT: Final = "tokenbox config set policy.reserve_out 4096"


def _unknown_so_far(cap: Decimal, calls: int) -> CostCapUnknown:
    return CostCapUnknown(
        f"the cost of {plural(calls, 'call')} so far is unknown, so a cap of ${money_text(cap)} cannot "
        f"be held. Give the models prices, or allow calls of an unknown cost.\nRun: {_ALLOW}",
        unknown="spent",
        calls=calls,
        cap=money_text(cap),
        remedies=[_ALLOW],
    )


def _unknown_call(cap: Decimal, model: str, predicted: Prediction) -> CostCapUnknown:
    unknown, name, remedy, commands = (
        ("input_tokens", "its input", "Count the input before sending.", [_ALLOW])
        if predicted.input_tokens is None
        else ("reserved_output", "its longest answer", "Limit the answer with max_tokens.", [_LIMIT, _ALLOW])
        if predicted.reserved_output is None
        else (
            "price",
            "its price",
            f"Set price_input and price_output of [catalog.{model}], or allow calls of an unknown cost.",
            [_ALLOW],
        )
    )
    return CostCapUnknown(
        f"the cost of a call of {model} is unknown, because {name} is unknown, so a cap of "
        f"${money_text(cap)} cannot be held. {remedy}\nRun: {commands[0]}",
        unknown=unknown,
        model=model,
        cap=money_text(cap),
        remedies=commands,
    )
