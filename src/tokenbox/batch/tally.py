"""What compiling a row gives, its columns and figures, and the sums of figures for a shard and for a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.errors import ContextCriticalOverflow
from tokenbox.records import to_record

if TYPE_CHECKING:
    from typing import Any, Self

    from tokenbox.errors import TokenboxError


class RowOutcome(StrEnum):
    """The outcome of a row."""

    WHOLE = "whole"
    """All of the input is in the result."""
    CUT = "cut"
    """Something was shortened or left out."""
    REFUSED = "refused"
    """The critical parts do not fit, or the policy refuses the request."""
    FAILED = "failed"
    """Another error."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of a row: its columns, without those kept from the input, and figures for the summary.

    ``saved``: input tokens that are not in the result; None if they were not counted.
    """

    columns: Mapping[str, object]
    outcome: RowOutcome
    total: int | None = None
    exact: bool = True
    saved: int | None = None

    @classmethod
    def failed(cls, error: TokenboxError) -> RowResult:
        refused = isinstance(error, ContextCriticalOverflow)
        return cls({"error": error.to_dict()}, RowOutcome.REFUSED if refused else RowOutcome.FAILED)


@dataclass(slots=True)
class Tally:
    """Sums over the results of rows.

    ``histogram``: the number of rows by their tokens, rounded up to a power of two (or 0). ``by_tier``:
    tokens by the price tier that their row reaches. ``saved``: input tokens that are not in the results,
    except for the ``unmeasured`` rows. ``first_error``: the first row with an error, from 0, and its message.
    """

    rows: int = 0
    tokens: int = 0
    exact: bool = True
    saved: int = 0
    unmeasured: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    histogram: Counter[int] = field(default_factory=Counter)
    by_tier: Counter[int] = field(default_factory=Counter)
    first_error: tuple[int, str] | None = None

    @property
    def failed(self) -> int:
        """The number of rows with an error instead of a result."""
        return self.errors.total()

    def add(self, results: Sequence[RowResult], tiers: Sequence[int] = ()) -> None:
        """Add these results. ``tiers``: the numbers of input tokens above which the price changes."""
        self.outcomes.update([result.outcome.value for result in results])
        for row, result in enumerate(results, self.rows):
            error = result.columns.get("error")
            if isinstance(error, dict):
                self.errors[str(error["code"])] += 1
                if self.first_error is None:
                    self.first_error = row, str(error["message"])
        self.rows += len(results)
        counted = [result for result in results if result.total is not None]
        totals = [result.total for result in counted if result.total is not None]
        self.tokens += sum(totals)
        self.exact = self.exact and all(result.exact for result in counted)
        self.histogram.update([1 << (total - 1).bit_length() if total else 0 for total in totals])
        for total in totals if tiers else ():
            self.by_tier[max((tier for tier in tiers if total > tier), default=0)] += total
        if not tiers:
            self.by_tier[0] += sum(totals)
        measured = [result.saved for result in counted if result.saved is not None]
        self.saved += sum(measured)
        self.unmeasured += len(counted) - len(measured)

    def merge(self, other: Tally) -> None:
        """Add the figures of the rows that follow."""
        if self.first_error is None and other.first_error is not None:
            row, message = other.first_error
            self.first_error = self.rows + row, message
        self.exact = self.exact and other.exact
        for name in (*_SUMS, *_COUNTERS):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "rows tokens exact saved unmeasured outcomes errors histogram by_tier first_error",
            **{name: {str(key): n for key, n in sorted(getattr(self, name).items())} for name in _COUNTERS},
        )

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Parse the record of :meth:`to_dict`."""
        first = record.get("first_error")
        return cls(
            rows=int(record["rows"]),
            tokens=int(record["tokens"]),
            exact=bool(record["exact"]),
            saved=int(record["saved"]),
            unmeasured=int(record["unmeasured"]),
            outcomes=Counter(record["outcomes"]),
            errors=Counter(record["errors"]),
            histogram=Counter({int(bound): n for bound, n in record["histogram"].items()}),
            by_tier=Counter({int(tier): n for tier, n in record["by_tier"].items()}),
            first_error=None if first is None else (int(first[0]), str(first[1])),
        )


_SUMS = ("rows", "tokens", "saved", "unmeasured")
_COUNTERS = ("outcomes", "errors", "histogram", "by_tier")
