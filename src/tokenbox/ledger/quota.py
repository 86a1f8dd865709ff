"""Quotas: a number of tokens, or an amount of money, per window of time. All figures are integers.

Money is counted in nanodollars, 10^-9 dollars, so that every store adds it up exactly: Redis counts in
scripts with doubles, which are exact up to 2^53. The cost of a request is rounded up to the next nanodollar.
The ledger does not round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from tokenbox.ledger.cost import EXACT, money, money_text
from tokenbox.ledger.errors import LedgerError

NANODOLLARS = 9  # digits behind the point
_MAX = 2**52  # half of what a double represents exactly, so that a reservation can be added
_QUOTA = re.compile(
    r"(?P<tokens>[0-9][0-9_,]{0,40}) ?(tokens|tok)|"
    r"\$? ?(?P<money>[0-9]{1,40}(\.[0-9]{1,40})?) ?(usd|dollars)?"
)


class InvalidQuota(LedgerError, code="invalid_quota"):
    """A quota such as ``100000 tokens/day`` or ``$5/month`` does not parse."""


class QuotaUnit(StrEnum):
    """The unit that a quota counts."""

    TOKENS = "tokens"
    NANODOLLARS = "nanodollars"


class QuotaWindow(StrEnum):
    """The window of a quota. Windows are those of the clock and the calendar, in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def start(self, now: datetime) -> datetime:
        """Return the start of the window that contains ``now``."""
        minute = now.astimezone(UTC).replace(second=0, microsecond=0)
        if self is QuotaWindow.MINUTE:
            return minute
        if self is QuotaWindow.HOUR:
            return minute.replace(minute=0)
        day = minute.replace(hour=0, minute=0)
        if self is QuotaWindow.WEEK:
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self is QuotaWindow.MONTH else day

    def end(self, now: datetime) -> datetime:
        """Return the start of the next window."""
        start = self.start(now)
        if self is QuotaWindow.MONTH:
            return (start + timedelta(days=32)).replace(day=1)
        return start + _LENGTHS[self]


_LENGTHS = {
    QuotaWindow.MINUTE: timedelta(minutes=1),
    QuotaWindow.HOUR: timedelta(hours=1),
    QuotaWindow.DAY: timedelta(days=1),
    QuotaWindow.WEEK: timedelta(weeks=1),
}


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of ``limit`` units per window."""

    unit: QuotaUnit
    limit: int
    window: QuotaWindow

    @classmethod
    def parse(cls, text: str) -> Quota:
        """Parse a quota such as ``100000 tokens/day`` or ``$5/month``. Raises :class:`InvalidQuota`."""
        amount, _, window = text.strip().lower().partition("/")
        found = _QUOTA.fullmatch(amount.strip())
        name = window.strip().removeprefix("per ").strip()
        if found is None or name not in set(QuotaWindow):
            raise InvalidQuota(
                f"{text[:60]!r} is not a quota. Write one as '100000 tokens/day' or '$5/month'; "
                f"windows are {', '.join(QuotaWindow)}.",
                quota=text[:60],
            )
        if found["tokens"] is not None:
            unit, limit = QuotaUnit.TOKENS, int(found["tokens"].replace("_", "").replace(",", ""))
        else:
            unit, limit = QuotaUnit.NANODOLLARS, nanodollars(money(found["money"]))
        if limit > _MAX:
            raise InvalidQuota(f"the quota {text[:60]!r} is larger than can be counted.", quota=text[:60])
        return cls(unit, limit, QuotaWindow(name))

    def __str__(self) -> str:
        if self.unit is QuotaUnit.TOKENS:
            return f"{self.limit} tokens/{self.window}"
        return f"${money_text(dollars_of(self.limit))}/{self.window}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One window of one quota of a key, a user or a team.

    ``key_id`` is a key's id, or ``user:NAME`` or ``team:NAME``. After ``ends`` the bucket may be deleted.
    """

    key_id: str
    quota: Quota
    starts: datetime
    name: str = field(init=False, repr=False, compare=False)
    """Equal in every process. Buckets are taken in the order of their names."""
    ends: datetime = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        quota = self.quota
        name = f"{self.key_id}/{quota.unit}/{quota.window}/{self.starts:%Y%m%dT%H%M}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "ends", quota.window.end(self.starts))

    @classmethod
    def at(cls, key_id: str, quota: Quota, now: datetime) -> Bucket:
        return cls(key_id, quota, quota.window.start(now))


@dataclass(frozen=True, slots=True)
class Take:
    """An amount to take from a bucket, in units of its quota."""

    bucket: Bucket
    amount: int


@dataclass(frozen=True, slots=True)
class QuotaLevel:
    """The usage of a bucket, including reservations."""

    bucket: Bucket
    used: int

    @property
    def left(self) -> int:
        return max(0, self.bucket.quota.limit - self.used)


def nanodollars(amount: Decimal) -> int:
    """Return the amount in nanodollars, rounded up."""
    return int(EXACT.scaleb(amount, NANODOLLARS).to_integral_value(ROUND_CEILING, EXACT))


def dollars_of(nanodollars: int) -> Decimal:
    return EXACT.scaleb(Decimal(nanodollars), -NANODOLLARS)
