"""Parse times as people write them: 2026-11-01, 2026-11-01T12:30, 7d, 12h, today, yesterday."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tokenbox.ledger.errors import InvalidTime

UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
DAYS = {"today": timedelta(0), "yesterday": timedelta(days=1)}
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
AGO = re.compile(r"([0-9]{1,6})([mhdw])")


def moment(text: str, now: datetime, *, end: bool = False) -> datetime:
    """Return the time that ``text`` means at ``now``, in UTC. Raises :class:`InvalidTime`.

    A day means its start, or with ``end`` the start of the next day, so that a span from one day to another
    includes both.
    """
    written = text.strip().lower()
    now = now.astimezone(UTC)
    a_day = UNITS["d"] if end else timedelta(0)
    try:
        if written in DAYS:
            return now.replace(hour=0, minute=0, second=0, microsecond=0) - DAYS[written] + a_day
        ago = AGO.fullmatch(written)
        if ago is not None:
            return now - int(ago[1]) * UNITS[ago[2]]
        if DAY.fullmatch(written):
            return datetime.fromisoformat(written).replace(tzinfo=UTC) + a_day
        found = datetime.fromisoformat(written.upper())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidTime(
            f"{text[:40]!r} is not a time. Give a day as 2026-11-01, or a time as 2026-11-01T12:30 (in UTC); "
            "of the past also how long ago, as 90m, 12h, 7d or 2w, or today or yesterday."
        ) from None


def expiry(text: str, now: datetime) -> datetime:
    """Return the time at which a key expires. Raises :class:`InvalidTime` unless it is after ``now``."""
    found = moment(text, now)
    if found <= now:
        raise InvalidTime(f"expires: {text[:40]!r} is not in the future. Give a day to come: 2099-01-31.")
    return found
