"""The turns of a session: one per message, as it is stored and as it is saved to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tokenbox.ledger.call import parse_time, time_text
from tokenbox.ledger.errors import LedgerError
from tokenbox.ledger.usage import is_count
from tokenbox.records import to_record
from tokenbox.store.errors import InvalidSession


class TurnState(StrEnum):
    """The state of a turn. Turns that are no longer sent stay in the record of the session."""

    KEPT = "kept"
    EVICTED = "evicted"
    SUMMARIZED = "summarized"  # a later turn replaces it
    DROPPED = "dropped"  # by the user


@dataclass(frozen=True, slots=True)
class Turn:
    """A message (OpenAI shape, as given) with its count and state.

    ``tokens`` is None until it was counted; ``exact`` tells whether the count is exact. ``position`` is where
    in the record a turn was written, from 0. ``place`` is its place in the conversation, by default its
    position: a summary has the place of the first turn that it replaces, an answer that of its question.
    """

    message: Mapping[str, object]
    written: datetime
    tokens: int | None = None
    exact: bool = False
    pinned: bool = False
    state: TurnState = TurnState.KEPT
    position: int | None = None
    place: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.message.get("role"), str):
            raise InvalidSession("a turn needs a message: an object with a role.")
        if self.written.tzinfo is None:
            raise InvalidSession(f"the time of a turn needs a time zone, not {self.written!r}.")
        object.__setattr__(self, "written", self.written.astimezone(UTC))
        for name in ("tokens", "position", "place"):
            value = getattr(self, name)
            if value is not None and not is_count(value):
                raise InvalidSession(f"{name} of a turn is {value!r}, and must be a whole number from 0.")

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self, "message written tokens exact pinned state place", written=time_text(self.written)
        )

    @classmethod
    def from_dict(cls, record: object, position: int) -> Turn:
        """Read the data of :meth:`to_dict`. Raises :class:`InvalidSession`."""
        if not isinstance(record, dict):
            raise InvalidSession(f"turn {position} is not an object.")
        message, place = record.get("message"), record.get("place")
        if not isinstance(message, dict):
            raise InvalidSession(f"turn {position} has no message: an object with a role.")
        flags = {name: record.get(name, False) for name in ("exact", "pinned")}
        if not all(isinstance(flag, bool) for flag in flags.values()):
            raise InvalidSession(f"turn {position}: exact and pinned must be true or false.")
        if place is not None and not (is_count(place) and place <= position):
            raise InvalidSession(f"turn {position} has the place {place!r}, and no turn is there.")
        try:
            return cls(
                message,
                parse_time(record.get("written")),
                record.get("tokens"),
                state=TurnState(record.get("state", TurnState.KEPT)),
                position=position,
                place=position if place is None else place,
                **flags,
            )
        except (LedgerError, ValueError, TypeError) as error:
            raise InvalidSession(f"turn {position} is not valid: {error}") from None


def json_text(value: object, what: str) -> str:
    """Return JSON that every database can store, with lone surrogates escaped.

    ``what`` names the value in the error. Raises :class:`InvalidSession`.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            text.encode()
        except UnicodeEncodeError:
            text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSession(f"{what} cannot be written as JSON: {error}.") from None
    return text


def json_value(text: str, what: str) -> dict[str, Any]:
    """Return the object in ``text``. Raises :class:`InvalidSession`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidSession(f"{what} in the database is not a JSON object. Another program wrote it.")
    return value
