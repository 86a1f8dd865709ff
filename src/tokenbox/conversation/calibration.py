"""Comparison of counts with the ``usage`` in the server's answers (requests.md, "Calibration").

After the first difference, counts for that chat format, model and endpoint are no longer exact in this
process. :meth:`Calibration.compare` returns that difference once, for the caller to report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count


@dataclass(frozen=True, slots=True)
class CountedFor:
    """A kind of count: the fingerprint of the chat format, the model, the address of the endpoint."""

    format: str
    model: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class CountDifference:
    """The first exact count of its kind that differed from the server's."""

    counted: CountedFor
    predicted: int
    reported: int

    def __str__(self) -> str:
        return (
            f"{self.counted.model} at {self.counted.endpoint} reported {self.reported:,} prompt tokens where "
            f"{self.predicted:,} were counted as exact. Its counts are marked ~ until tokenbox restarts."
        )


def unread(count: Count, reported: int | None) -> int | None:
    """Return about how many tokens of a request the server did not read; None if there is no sign of it.

    A server that silently drops the beginning of a long request shows it only by a ``usage`` that is smaller
    than the count. An exact count is compared directly. An estimate overcounts the text around messages, so
    at least half of it must be missing, and 1,024 tokens.
    """
    if not reported:  # some servers report 0 for what they do not count
        return None
    missing = count.total - reported
    is_clear = missing > 0 if count.exact else missing >= _MIN_MISSING and missing >= reported
    return missing if is_clear else None


_MIN_MISSING = 1_024
# The maximum number of records. Beyond it, records without a difference are dropped.
_MAX_RECORDS = 10_000


@dataclass(slots=True)
class CalibrationRecord:
    """The comparisons of one kind of count. ``shortfall``: the most by which a count was too low."""

    compared: int = 0
    equal: int = 0
    shortfall: int = 0
    difference: CountDifference | None = None


class Calibration:
    """The records of a process. Call ``compare`` after every answer, ``checked`` before every decision."""

    def __init__(self) -> None:
        self._records: dict[CountedFor, CalibrationRecord] = {}
        self.is_clean = True
        """True while no exact count of any kind has differed."""

    def compare(self, counted: CountedFor, count: Count, reported: int | None) -> CountDifference | None:
        """Record the server's figure. Return the difference if it is the first of an exact count of its kind.

        ``reported``: all prompt tokens of the request, including those read from a cache; None if the server
        reported none, or 0, which no request has. That is not recorded.
        """
        if not reported:
            return None
        record = self._records.get(counted)
        if record is None:
            if len(self._records) >= _MAX_RECORDS:  # clients choose model names: bound the memory
                self._records = {kind: one for kind, one in self._records.items() if one.difference}
            record = self._records[counted] = CalibrationRecord()
        record.compared += 1
        record.equal += reported == count.total
        record.shortfall = max(record.shortfall, reported - count.total)
        if reported == count.total or not count.exact or record.difference is not None:
            return None
        self.is_clean = False
        record.difference = CountDifference(counted, count.total, reported)
        return record.difference

    def trusts(self, counted: CountedFor) -> bool:
        """Return True if no exact count of this kind has differed."""
        record = self._records.get(counted)
        return record is None or record.difference is None

    def checked(self, counted: CountedFor, count: Count, *, bound: int) -> Count:
        """Return the count, no longer exact if one of its kind has differed.

        Its upper bound is then ``bound``, or the total plus the largest shortfall seen if that is more.
        """
        if not count.exact or self.trusts(counted):
            return count
        shortfall = self._records[counted].shortfall
        return replace(count, exact=False, at_most=max(bound, count.total + shortfall))

    def records(self) -> dict[CountedFor, CalibrationRecord]:
        """Return a copy of the records, for metrics and ``:tokenize``."""
        return {counted: replace(record) for counted, record in self._records.items()}
