"""Format totals for people: estimates are marked ``~``, and unknown parts are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenbox.ledger.money import dollars

if TYPE_CHECKING:
    from tokenbox.ledger.totals import Sum, Totals

HEADS = ("calls", "input", "cached", "output", "cost")


def cells(totals: Totals) -> tuple[str, ...]:
    """Return a text for each of :data:`HEADS`."""
    return (
        f"{totals.calls:,}",
        tokens_text(totals.input, totals.calls),
        tokens_text(totals.cached, totals.calls),
        tokens_text(totals.output, totals.calls),
        cost_text(totals),
    )


def tokens_text(figure: Sum[int], calls: int) -> str:
    """Return ``1,234``, ``~1,234`` for an estimate, ``1,234+`` for a lower bound, or ``unknown``."""
    if calls and figure.unknown == calls:
        return "unknown"
    return f"{'~' if figure.estimated else ''}{figure.known:,}{'+' if figure.unknown else ''}"


def cost_text(totals: Totals) -> str:
    """Return ``$1.230000``, ``~$1.230000``, ``$1.230000 + 2 unpriced + 1 unknown`` or ``unpriced``."""
    cost = totals.cost
    counted = (("unpriced", totals.unpriced), ("unknown", cost.unknown - totals.unpriced))
    missing = [(name, number) for name, number in counted if number]
    nothing_known = bool(totals.calls) and cost.unknown == totals.calls
    if nothing_known and len(missing) == 1:
        return missing[0][0]
    known = [] if nothing_known else [f"{'~' if cost.estimated else ''}{dollars(cost.known)}"]
    return " + ".join([*known, *(f"{number:,} {name}" for name, number in missing)])


def aligned(rows: Sequence[Sequence[str]], first: int) -> list[list[str]]:
    """Align the columns from ``first`` to the right, as figures are; the last column is not."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        [text.rjust(widths[i]) if first <= i < last else text for i, text in enumerate(row)] for row in rows
    ]


def notes(totals: Totals) -> list[str]:
    """Return notes for a reader of the table, a sentence each."""
    found = []
    tokens = (totals.input, totals.cached, totals.output)
    if totals.cost.estimated or any(figure.estimated for figure in tokens):
        found.append("~ marks estimates.")
    if any(0 < figure.unknown < totals.calls for figure in tokens):
        found.append("+ marks lower bounds: the figure of some calls is unknown.")
    if totals.unpriced:
        found.append(
            f"{_calls(totals.unpriced)} unpriced: no price is known. "
            "Give one in [catalog.MODEL], price_input and price_output."
        )
    unreported = totals.cost.unknown - totals.unpriced - totals.unfinished
    if totals.unfinished:
        found.append(f"{_calls(totals.unfinished)} in progress or cut off: the usage is unknown.")
    if unreported > 0:
        found.append(f"{_calls(unreported)} of unknown cost: the server did not report usage.")
    return found


def _calls(number: int) -> str:
    return "1 call is" if number == 1 else f"{number:,} calls are"
