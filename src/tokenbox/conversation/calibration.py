"""Counts compared with the ``usage`` that comes back (requests.md, "Calibration").

The first difference takes ``exact`` from that chat format, model and endpoint for the process. The class
keeps records and has no clock; a caller reports the difference that :meth:`Calibration.compare` returns once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count


@dataclass(frozen=True, slots=True)
class CountedFor:
    """Who counted for whom: the fingerprint of the chat format, the model, the address of the endpoint."""

    format: str
    model: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class CountDifference:
    """The first request of its kind whose exact count was not the server's."""

    counted: CountedFor
    predicted: int
    reported: int

    def __str__(self) -> str:
        return (
            f"{self.counted.model} at {self.counted.endpoint} reported {self.reported:,} prompt tokens where "
            f"{self.predicted:,} were counted as exact. Its counts are marked ~ until tokenbox restarts."
        )


def unread(count: Count, reported: int | None) -> int | None:
    """About how many tokens of a request the server did not read; None where nothing tells of it.

    A server that drops the beginning of what is too long says so only by its ``usage``, which is smaller than
    what was counted. An exact count is compared as it is. An estimate is generous with what is around
    messages, so of one at least half must be missing, and 1,024 tokens.
    """
    if reported is None:
        return None
    missing = count.total - reported
    told = missing > 0 if count.exact else missing >= _CLEARLY and missing >= reported
    return missing if told else None


_CLEARLY = 1_024
# Records that are kept. Of more, those of kinds that were never different are forgotten.
_MOST = 10_000


@dataclass(slots=True)
class CalibrationRecord:
    """How often counts of one kind were compared, and how far below the server's figure they were."""

    compared: int = 0
    equal: int = 0
    shortfall: int = 0
    difference: CountDifference | None = None


class Calibration:
    """One for the process. ``compare`` after every answer, ``checked`` before every decision."""

    def __init__(self) -> None:
        self._records: dict[CountedFor, CalibrationRecord] = {}
        self.is_clean = True
        """Whether no exact count was ever different, of whatever kind."""

    def compare(self, counted: CountedFor, count: Count, reported: int | None) -> CountDifference | None:
        """Record what the server reported. Returns the difference if it is the first one of an exact count.

        ``reported``: all prompt tokens of the request, those read from a cache included; None if the server
        did not say, which records nothing.
        """
        if reported is None:
            return None
        record = self._records.get(counted)
        if record is None:
            if len(self._records) >= _MOST:  # names of models are the clients': they must not fill the memory
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
        """Whether no exact count of this kind was ever different."""
        record = self._records.get(counted)
        return record is None or record.difference is None

    def checked(self, counted: CountedFor, count: Count, *, bound: int) -> Count:
        """The count as it may be relied on: without ``exact`` once one of its kind was different.

        ``bound`` is the bound of a count that is not exact; the largest shortfall seen is added to the total.
        """
        if not count.exact or self.trusts(counted):
            return count
        shortfall = self._records[counted].shortfall
        return replace(count, exact=False, at_most=max(bound, count.total + shortfall))

    def records(self) -> dict[CountedFor, CalibrationRecord]:
        """What was compared so far, for metrics and ``:tokenize``."""
        return {counted: replace(record) for counted, record in self._records.items()}
