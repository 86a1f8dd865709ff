"""Stored sessions: every turn is on disk when the method that wrote it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.call import MAX_NAME, parse_time, storable, time_text
from tokenbox.ledger.errors import LedgerError
from tokenbox.records import to_record
from tokenbox.store.database import insert
from tokenbox.store.errors import (
    AmbiguousSession,
    DuplicateSession,
    InvalidSession,
    SessionChanged,
    StoreDamaged,
    UnknownSession,
)
from tokenbox.store.turns import Turn, TurnState, json_text, json_value

if TYPE_CHECKING:
    from datetime import datetime

    from tokenbox.store.database import Database, Transaction, Value

__all__ = ["SessionInfo", "Sessions", "StoredSession"]

SAVED = "tokenbox_session"
SAVED_VERSION = 1
# Names that the error for an ambiguous name shows.
SHOWN_NAMES = 5

_COLUMNS = "id name created updated model project settings".split()
CREATE = f"{insert('tokenbox_sessions', _COLUMNS)} ON CONFLICT DO NOTHING"
INFO = f"SELECT {', '.join(_COLUMNS)} FROM tokenbox_sessions"
TURNS = """
    SELECT message, written, tokens, exact, pinned, state, position, place FROM tokenbox_turns
    WHERE session = :session ORDER BY place, position
"""
_TURN = "session position place written message tokens exact pinned state".split()
APPEND = f"{insert('tokenbox_turns', _TURN)} ON CONFLICT (session, position) DO NOTHING"
# Another shell that continued the session saw a question without an answer. Now it has one.
RESTORE = """
    UPDATE tokenbox_turns SET state = 'kept'
    WHERE session = :session AND place = :place AND state = 'dropped'
"""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The name and settings of a session. ``settings`` is any JSON object, and never contains a key."""

    id: str
    name: str
    created: datetime
    updated: datetime
    model: str | None = None
    project: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    turns: int = 0

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "id name created updated model project settings turns",
            created=time_text(self.created),
            updated=time_text(self.updated),
        )


class Sessions:
    """The sessions in a database. All methods raise :class:`~tokenbox.store.errors.StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        session_id: str,
        name: str,
        at: datetime,
        *,
        model: str | None = None,
        project: str | None = None,
        settings: Mapping[str, object] | None = None,
        turns: Sequence[Turn] = (),
    ) -> StoredSession:
        """Create a session with a new name. ``turns`` are its first turns, written all or none."""
        verify_name(name)
        info = SessionInfo(session_id, name, at, at, model, project, dict(settings or {}))
        with self._database.writing() as transaction:
            if not transaction.change(CREATE, _info_values(info)):
                raise _taken(name)
            for position, turn in enumerate(turns):
                _append(transaction, session_id, position, turn)
        return StoredSession(self._database, replace(info, turns=len(turns)))

    def find(self, name: str) -> SessionInfo:
        """Find the session with that name or id, or the only one whose name or id begins with it."""
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"{INFO} WHERE name = :start OR id = :start OR substr(name, 1, :length) = :start "
                "OR substr(id, 1, :length) = :start ORDER BY updated DESC, id",
                {"start": storable(name), "length": len(storable(name))},
            )
            found = [_info(row) for row in rows]
            exact = [info for info in found if name == info.name] or [
                info for info in found if name == info.id
            ]
            match exact or found:
                case [one]:
                    return replace(one, turns=_count(transaction, one.id))
                case []:
                    raise UnknownSession(
                        f"there is no session {name[:MAX_NAME]!r}. "
                        "`:sessions` in the shell lists those there are.",
                        name=name,
                    )
        names = [info.name for info in found]
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        raise AmbiguousSession(
            f"{len(names)} sessions begin with {name!r}: {', '.join(names[:SHOWN_NAMES])}{more}. "
            "Give more of the name.",
            name=name,
            names=names,
        )

    def open(self, name: str) -> StoredSession:
        """Open the session that :meth:`find` finds."""
        return StoredSession(self._database, self.find(name))

    def list(self, project: str | None = None) -> list[SessionInfo]:
        """List all sessions, or those of a project, the last used first."""
        with self._database.reading() as transaction:
            rows = transaction.rows(
                f"{INFO} WHERE {'1 = 1' if project is None else 'project = :project'} "
                "ORDER BY updated DESC, id",
                {} if project is None else {"project": project},
            )
            counted = transaction.rows("SELECT session, COUNT(*) FROM tokenbox_turns GROUP BY session")
        counts = {row[0]: row[1] for row in counted}
        return [replace(_info(row), turns=counts.get(row[0], 0)) for row in rows]

    def delete(self, name: str) -> SessionInfo:
        """Delete the session that :meth:`find` finds, with all turns. The records of its calls are kept."""
        info = self.find(name)
        with self._database.writing() as transaction:
            transaction.change("DELETE FROM tokenbox_sessions WHERE id = :id", {"id": info.id})
        return info

    def load(self, record: object, session_id: str, name: str | None, at: datetime) -> StoredSession:
        """Create a session from the data of :meth:`StoredSession.saved`, under its own name or another."""
        if not isinstance(record, dict) or record.get(SAVED) != SAVED_VERSION:
            raise InvalidSession("this is not a saved session: a JSON object with tokenbox_session: 1 is.")
        settings, turns = record.get("settings", {}), record.get("turns", [])
        if not isinstance(settings, dict) or not isinstance(turns, list):
            raise InvalidSession("in a saved session, settings is an object and turns a list.")
        texts = {key: record.get(key) for key in ("name", "model", "project")}
        for key, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise InvalidSession(f"in a saved session, {key} is a text.")
        return self.create(
            session_id,
            name if name is not None else texts["name"] or "",
            at,
            model=texts["model"],
            project=texts["project"],
            settings=settings,
            turns=[Turn.from_dict(turn, position) for position, turn in enumerate(turns)],
        )


class StoredSession:
    """An open session. If two processes write to it, the later one gets :class:`SessionChanged`."""

    def __init__(self, database: Database, info: SessionInfo) -> None:
        self._database = database
        self._info = info
        self._length = info.turns

    @property
    def info(self) -> SessionInfo:
        return replace(self._info, turns=self._length)

    def turns(self, *, all_states: bool = False) -> list[Turn]:
        """Return the turns that are still sent, or those of all states, in the order of the conversation."""
        with self._database.reading() as transaction:
            rows = transaction.rows(TURNS, {"session": self._info.id})
        turns = [_turn(row) for row in rows]
        return [turn for turn in turns if all_states or turn.state is TurnState.KEPT]

    def append(self, *turns: Turn) -> list[Turn]:
        """Append turns, all or none, and return them with their positions.

        An answer restores the turns of its place that another process has dropped meanwhile. Raises
        :class:`SessionChanged` if another process has written meanwhile. Retrying is safe: the same turn in
        the same position is written once.
        """
        with self._database.writing() as transaction:
            info = self._touched(transaction, turns)
            for place in {turn.place for turn in turns if turn.place is not None}:
                transaction.change(RESTORE, {"session": self._info.id, "place": place})
            written = [
                _append(transaction, self._info.id, self._length + i, turn) for i, turn in enumerate(turns)
            ]
        self._info, self._length = info, self._length + len(written)
        return written

    def summarize(self, positions: Iterable[int], summary: Turn) -> Turn:
        """Replace the turns at ``positions`` by ``summary``, in one transaction."""
        replaced = sorted(set(positions))
        with self._database.writing() as transaction:
            info = self._touched(transaction, [summary])
            self._change_turns(transaction, replaced, "state", TurnState.SUMMARIZED.value)
            (place,) = transaction.rows(
                "SELECT MIN(place) FROM tokenbox_turns WHERE session = :session AND position IN "
                f"({', '.join(str(int(position)) for position in replaced) or 'NULL'})",
                {"session": self._info.id},
            )[0]
            written = _append(
                transaction,
                self._info.id,
                self._length,
                replace(summary, place=self._length if place is None else place),
            )
        self._info, self._length = info, self._length + 1
        return written

    def mark(self, positions: Iterable[int], state: TurnState) -> None:
        """Set the state of turns."""
        with self._database.writing() as transaction:
            self._change_turns(transaction, positions, "state", state.value)

    def pin(self, positions: Iterable[int], *, pinned: bool = True) -> None:
        """Pin turns, or unpin them."""
        with self._database.writing() as transaction:
            self._change_turns(transaction, positions, "pinned", int(pinned))

    def change(
        self,
        at: datetime,
        *,
        name: str | None = None,
        model: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> SessionInfo:
        """Change the name, model or settings, those that are given."""
        if name is not None:
            verify_name(name)
        given = {"name": name, "model": model, "settings": None if settings is None else dict(settings)}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        info = replace(self._info, updated=at, **changes)
        values = _info_values(info)
        with self._database.writing() as transaction:
            others = transaction.rows(
                "SELECT 1 FROM tokenbox_sessions WHERE name = :name AND id <> :id", values
            )
            if others:
                raise _taken(info.name)
            changed = transaction.change(
                "UPDATE tokenbox_sessions SET name = :name, model = :model, settings = :settings, "
                "updated = :updated WHERE id = :id",
                values,
            )
            if not changed:
                raise self._deleted()
        self._info = info
        return self.info

    def saved(self) -> dict[str, object]:
        """Return the session as JSON data, for :meth:`Sessions.load` in any store."""
        turns = sorted(self.turns(all_states=True), key=lambda turn: turn.position or 0)
        info = self.info
        return {
            SAVED: SAVED_VERSION,
            "name": info.name,
            "created": time_text(info.created),
            "model": info.model,
            "project": info.project,
            "settings": info.settings,
            "turns": [turn.to_dict() for turn in turns],
        }

    def _touched(self, transaction: Transaction, turns: Sequence[Turn]) -> SessionInfo:
        """Set the time of the last use. Raises :class:`SessionChanged` if the session is gone."""
        at = max((turn.written for turn in turns), default=self._info.updated)
        changed = transaction.change(
            "UPDATE tokenbox_sessions SET updated = :at WHERE id = :id",
            {"at": time_text(at), "id": self._info.id},
        )
        if not changed:
            raise self._deleted()
        return replace(self._info, updated=at)

    def _change_turns(
        self, transaction: Transaction, positions: Iterable[int], column: str, value: Value
    ) -> None:
        for position in sorted(set(positions)):
            changed = transaction.change(
                f"UPDATE tokenbox_turns SET {column} = :value "
                "WHERE session = :session AND position = :position",
                {"value": value, "session": self._info.id, "position": position},
            )
            if not changed:
                raise InvalidSession(
                    f"session {self._info.name!r} has no turn {position}: it has {self._length:,}.",
                    position=position,
                )

    def _deleted(self) -> SessionChanged:
        return SessionChanged(
            f"session {self._info.name!r} is gone: another process has deleted it. "
            "To write what you have to a file: :export talk.md",
            session=self._info.id,
        )


def verify_name(name: str) -> None:
    """Raise :class:`InvalidSession` unless it is a valid name of a session."""
    if not name or not name.isprintable() or name != name.strip() or len(name) > MAX_NAME:
        raise InvalidSession(
            f"{name[:40]!r} is not a name for a session: give 1 to {MAX_NAME} printable characters without "
            "blanks around them."
        )


def _taken(name: str) -> DuplicateSession:
    return DuplicateSession(f"there is a session {name!r} already. Give another name.", name=name)


def _append(transaction: Transaction, session: str, position: int, turn: Turn) -> Turn:
    written = replace(turn, position=position, place=position if turn.place is None else turn.place)
    values: dict[str, Value] = {
        "session": session,
        "position": position,
        "place": written.place,
        "written": time_text(turn.written),
        "message": json_text(turn.message, "the message of a turn"),
        "tokens": turn.tokens,
        "exact": int(turn.exact),
        "pinned": int(turn.pinned),
        "state": turn.state.value,
    }
    if not transaction.change(APPEND, values):
        existing = transaction.rows(
            "SELECT message, written FROM tokenbox_turns WHERE session = :session AND position = :position",
            {"session": session, "position": position},
        )
        if tuple(existing[0]) != (values["message"], values["written"]):
            raise SessionChanged(
                f"another process wrote to the session: it has another turn {position}. Open the session "
                "again to read its current turns.",
                session=session,
                position=position,
            )
    return written


def _count(transaction: Transaction, session: str) -> int:
    rows = transaction.rows(
        "SELECT COUNT(*) FROM tokenbox_turns WHERE session = :session", {"session": session}
    )
    return int(rows[0][0])


def _info_values(info: SessionInfo) -> dict[str, Value]:
    return {
        "id": info.id,
        "name": info.name,
        "created": time_text(info.created),
        "updated": time_text(info.updated),
        "model": None if info.model is None else storable(info.model),
        "project": None if info.project is None else storable(info.project),
        "settings": json_text(info.settings, "the settings of a session"),
    }


def _info(row: Sequence[Any]) -> SessionInfo:
    session_id, name, created, updated, model, project, settings = row
    try:
        times = parse_time(created), parse_time(updated)
    except LedgerError as error:
        raise _damaged(f"session {name!r}", error) from None
    return SessionInfo(
        session_id, name, *times, model, project, json_value(settings, f"settings of session {name!r}")
    )


def _turn(row: Sequence[Any]) -> Turn:
    message, written, tokens, exact, pinned, state, position, place = row
    try:
        return Turn(
            json_value(message, f"turn {position}"),
            parse_time(written),
            tokens,
            bool(exact),
            bool(pinned),
            TurnState(state),
            position,
            place,
        )
    except (LedgerError, ValueError) as error:
        raise _damaged(f"turn {position}", error) from None


def _damaged(what: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(f"{what} in the database cannot be read: {error} Another program wrote it.")
