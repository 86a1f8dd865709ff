"""Totals of calls that track their unknown parts, and their table for people, where ~ marks an estimate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Generic, TypeVar

from tokenbox.ledger.call import Call, Outcome
from tokenbox.ledger.cost import EXACT, ZERO, dollars, money_text

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


# The parts of usage that are added up, with the names of their sums.
SUMMED = {
    "input_tokens": "input",
    "cached_input_tokens": "cached",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
}
Number = TypeVar("Number", bound=int | Decimal)


@dataclass(frozen=True, slots=True)
class Sum(Generic[Number]):
    """The sum of the known parts, and the number of unknown parts. If that is 0, the sum is complete.

    ``estimated`` is the number of known parts that are estimates.
    """

    known: Number
    unknown: int = 0
    estimated: int = 0

    @property
    def exact(self) -> bool:
        return not self.unknown and not self.estimated

    def __add__(self, other: Sum[Number]) -> Sum[Number]:
        return Sum(
            _plus(self.known, other.known), self.unknown + other.unknown, self.estimated + other.estimated
        )

    def to_dict(self) -> dict[str, object]:
        known = money_text(self.known) if isinstance(self.known, Decimal) else self.known
        return {
            "known": known,
            "unknown_calls": self.unknown,
            "estimated_calls": self.estimated,
            "exact": self.exact,
        }


NO_TOKENS: Sum[int] = Sum(0)
NO_DOLLARS: Sum[Decimal] = Sum(ZERO)


@dataclass(frozen=True, slots=True)
class Totals:
    """The usage and cost of a number of calls.

    ``unfinished`` calls have no recorded end; ``unpriced`` ones ended and have no price. ``held`` is the
    highest cost, in dollars, of the calls with an unknown cost; ``unheld`` is the number of calls for which
    that is unknown, too.
    """

    calls: int = 0
    unfinished: int = 0
    unpriced: int = 0
    input: Sum[int] = NO_TOKENS
    cached: Sum[int] = NO_TOKENS
    output: Sum[int] = NO_TOKENS
    reasoning: Sum[int] = NO_TOKENS
    cost: Sum[Decimal] = NO_DOLLARS
    held: Decimal = ZERO
    unheld: int = 0

    @classmethod
    def of(cls, call: Call) -> Totals:
        usage, dollars, at_most = call.usage, call.cost.dollars, call.predicted.at_most
        ended = call.outcome is not Outcome.STARTED
        return cls(
            calls=1,
            unfinished=int(not ended),
            unpriced=int(ended and not call.cost.priced),
            **{name: _part(getattr(usage, field), 0, exact=call.exact) for field, name in SUMMED.items()},
            cost=_part(dollars, ZERO, exact=call.cost.exact),
            held=at_most if dollars is None and at_most is not None else ZERO,
            unheld=int(dollars is None and at_most is None),
        )

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(_plus(getattr(self, name), getattr(other, name)) for name in _FIELDS))

    def to_dict(self) -> dict[str, object]:
        return {
            "calls": self.calls,
            "unfinished_calls": self.unfinished,
            "unpriced_calls": self.unpriced,
            **{field: getattr(self, name).to_dict() for field, name in SUMMED.items()},
            "dollars": self.cost.to_dict(),
            "held_dollars": money_text(self.held),
        }


NOTHING = Totals()
_FIELDS = tuple(field.name for field in fields(Totals))


def _plus(one: Any, other: Any) -> Any:  # noqa: ANN401  # two numbers or sums of one type
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _part(value: Number | None, nothing: Number, *, exact: bool) -> Sum[Number]:
    return Sum(nothing, unknown=1) if value is None else Sum(value, estimated=int(not exact))


def total(parts: Iterable[Totals]) -> Totals:
    return sum(parts, start=NOTHING)


class Ledger:
    """The calls of a session, added up per model and category.

    A call is recorded when it starts and again when it ends, or only once. Recording is idempotent, and the
    first end of a call is kept. ``rows`` are totals of earlier calls per (model, category).
    """

    def __init__(
        self, calls: Iterable[Call] = (), rows: Iterable[tuple[tuple[str, str], Totals]] = ()
    ) -> None:
        self._ended: dict[tuple[str, str], Totals] = {}
        self._running: dict[str, Call] = {}
        self._ids: set[str] = set()
        for key, totals in rows:
            self._add(key, totals)
        for call in calls:
            self.record(call)

    def record(self, call: Call) -> None:
        if call.id in self._ids:
            return
        if call.outcome is Outcome.STARTED:
            self._running.setdefault(call.id, call)
            return
        self._running.pop(call.id, None)
        self._ids.add(call.id)
        self._add((call.model, call.category), Totals.of(call))

    def _add(self, key: tuple[str, str], totals: Totals) -> None:
        self._ended[key] = self._ended.get(key, NOTHING) + totals

    def rows(self) -> dict[tuple[str, str], Totals]:
        """Return the totals per (model, category), in the order of their names."""
        rows = dict(self._ended)
        for call in self._running.values():
            key = (call.model, call.category)
            rows[key] = rows.get(key, NOTHING) + Totals.of(call)
        return dict(sorted(rows.items()))

    @property
    def total(self) -> Totals:
        return total(self.rows().values())
