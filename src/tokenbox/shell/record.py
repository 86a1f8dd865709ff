"""The stored part of a session: its messages and its calls. Everything is written as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from tokenbox.content.message import Message, Role
from tokenbox.conversation.result_forms import handle_of
from tokenbox.errors import TokenboxError
from tokenbox.ledger import Call, Ledger, Outcome, Totals
from tokenbox.shell.errors import SessionFailed
from tokenbox.store.calls import CallField, CallSpan
from tokenbox.store.errors import DuplicateSession, SessionChanged, UnknownSession
from tokenbox.store.turns import Turn, TurnState

if TYPE_CHECKING:
    from tokenbox.providers.counting import TokenCount
    from tokenbox.store.sessions import SessionInfo, StoredSession
    from tokenbox.store.stores import Store

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class SessionRecord:
    """The session in the store. ``open_store``: None stores nothing.

    A session is stored from its first message on. If the store fails, the user is told once and the session
    continues without it: a full disk is no reason to lose a conversation.
    """

    open_store: Callable[[], Store] | None
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    notify: Callable[[str], None]
    model: Callable[[], str | None]
    settings: Callable[[], Mapping[str, object]]
    project: str | None = None
    name: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    last_call: Call | None = None
    positions: dict[int, int] = field(default_factory=dict)
    summary_position: int | None = None
    question: int | None = None
    """The position of the last question. Its answers get its place: another shell may write between them."""
    failure: TokenboxError | None = None
    """Why the store failed."""
    _store: Store | None = None
    _session: StoredSession | None = None
    _shared: bool = False
    _before: Mapping[tuple[str, str], Totals] = field(default_factory=dict)
    """The totals of the sessions that this process had before."""

    @property
    def store(self) -> Store:
        """The store, opened on first use. Raises ``StoreError``; without one, :class:`SessionFailed`."""
        if self._store is None:
            if self.open_store is None:
                raise SessionFailed(
                    "this session is not stored: --no-save was given, or the store failed. "
                    "Start the shell without --no-save."
                )
            self._store = self.open_store()
        return self._store

    @property
    def kept(self) -> bool:
        return self.open_store is not None

    @property
    def stored(self) -> StoredSession | None:
        """The session in the store; None before the first message, and after the store failed."""
        return self._session if self.kept else None

    def sessions(self) -> list[SessionInfo]:
        return self.store.sessions.list()

    def resume(self, session: StoredSession) -> None:
        rows = self._stored_rows(session)
        self.leave()
        self._session, self.name = session, session.info.name
        self._before, self.ledger = {}, Ledger(rows=rows)

    def leave(self) -> None:
        self._session, self.name, self._before = None, None, self.ledger.rows()
        self.positions, self.summary_position, self.question = {}, None, None

    def append(self, numbered: Mapping[int, Message], count: Callable[[str], TokenCount]) -> None:
        """Write messages, by their numbers in the conversation. They are on disk when this returns."""
        if not self.kept:
            return

        turns = []
        for message in numbered.values():
            counted = count(message.counted_text)
            place = None if message.role is Role.USER else self.question
            turns.append(Turn(message.to_dict(), self.now(), counted.value, exact=counted.exact, place=place))

        def write() -> None:
            written = self._opened().append(*turns)
            for (number, message), turn in zip(numbered.items(), written, strict=True):
                if turn.position is not None:
                    self.positions[number] = turn.position
                    self.question = turn.position if message.role is Role.USER else self.question

        self._write(write)

    def history(self) -> list[tuple[Message, bool]]:
        """Return the messages of the session, in order, and whether each left to make room.

        What the user took back is not among them, nor are summaries.
        """
        turns = [] if self._session is None else self._session.turns(all_states=True)
        return [
            (Message.of(turn.message), turn.state is not TurnState.KEPT)
            for turn in turns
            if turn.state is not TurnState.DROPPED and turn.message["role"] != Role.SYSTEM.value
        ]

    def texts(self, *, evicted: bool = False) -> dict[str, str]:
        """Return the texts of the messages by their handles; ``evicted``: only of those that left."""
        found = [message.text for message, left in self.history() if left or not evicted]
        return {handle_of(text): text for text in found if text}

    def mark(self, numbers: Iterable[int], state: str) -> None:
        """Mark messages as ``evicted`` or ``dropped``. They stay in the record."""
        positions, session = self._positions(numbers), self._session
        if positions and session is not None:
            self._write(lambda: session.mark(positions, TurnState(state)))

    def summarize(self, numbers: Iterable[int], summary: str) -> None:
        """Replace messages, and the previous summary, by a summary."""
        previous = [] if self.summary_position is None else [self.summary_position]
        positions = [*previous, *self._positions(numbers)]
        if self._session is None or not positions:
            return

        turn = Turn({"role": "system", "content": summary}, self.now())

        def write() -> None:
            self.summary_position = self._opened().summarize(positions, turn).position

        self._write(write)

    def pin(self, numbers: Iterable[int], *, pinned: bool) -> None:
        positions, session = self._positions(numbers), self._session
        if positions and session is not None:
            self._write(lambda: session.pin(positions, pinned=pinned))

    def settings_changed(self) -> None:
        session = self._session
        if session is not None:
            self._write(lambda: session.change(self.now(), model=self.model(), settings=self.settings()))

    def rename(self, name: str) -> None:
        """Give the session a name. Raises ``SessionError``."""
        self._opened().change(self.now(), name=name)
        self.name = name

    def call(self, call: Call) -> None:
        """Write a call. Used before it is sent, and again when it has ended."""
        self.last_call = call
        self.ledger.record(call)
        self._write(lambda: self.store.calls.record(call))

    def spent(self) -> Totals:
        """Return the totals of this session, including calls that another shell made in it."""
        session, call = self._session, self.last_call
        rows = None if session is None else self._write(lambda: self._stored_rows(session))
        if rows is None:
            return self.ledger.total
        found = Ledger(rows=[*self._before.items(), *rows])
        if call is None or call.outcome is not Outcome.STARTED:  # else its end would be another call
            self.ledger = found
        return found.total

    def _stored_rows(self, session: StoredSession) -> list[tuple[tuple[str, str], Totals]]:
        """Read the totals of a session per (model, category)."""
        by, span = (CallField.MODEL, CallField.CATEGORY), CallSpan(session=session.info.id)
        return [
            ((str(model), str(category)), row.totals)
            for row in self.store.calls.rows(by, span)
            for model, category in [row.key]
        ]

    def spent_today(self) -> Totals:
        """Return the totals of all calls of this day (UTC), in any session.

        Raises :class:`SessionFailed` if the store failed: what other sessions spend is unknown from then on.
        """
        midnight = self.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        found = self._write(lambda: self.store.calls.totals(CallSpan(since=midnight)))
        if self.failure is not None:
            raise SessionFailed(
                f"what all sessions have spent today is unknown: {self.failure.message} Nothing is sent "
                "under cost.cap_per_day. Start the shell again when the store works, or unset that cap."
            )
        return self.ledger.total if found is None else found

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> StoredSession:
        if self._session is None:
            session_id, begun = self.new_id(), f"{self.now():%Y-%m-%d %H:%M:%S}"
            try:
                self._session = self._created(session_id, begun if self.name is None else self.name)
            except DuplicateSession:
                if self.name is not None:
                    raise
                # Another shell began in the same second.
                self._session = self._created(session_id, f"{begun} {session_id[:6]}")
            self.name = self._session.info.name
        return self._session

    def _created(self, session_id: str, name: str) -> StoredSession:
        model, settings = self.model(), self.settings()
        return self.store.sessions.create(
            session_id, name, self.now(), model=model, project=self.project, settings=settings
        )

    def _catch_up(self, changed: SessionChanged) -> None:
        """Continue after the messages that another shell has written to this session, unless it is gone."""
        assert self._session is not None  # noqa: S101  # SessionChanged is about an open session
        try:
            self._session = self.store.sessions.open(self._session.info.id)
        except UnknownSession:
            raise changed from None
        if not self._shared:
            self.notify(
                "[another shell uses this session too; the messages of both are stored, "
                "and each shell sends only its own]"
            )
        self._shared = True

    @property
    def session_id(self) -> str | None:
        return None if self._session is None else self._session.info.id

    def _positions(self, numbers: Iterable[int]) -> list[int]:
        return [self.positions[number] for number in numbers if number in self.positions]

    def _write(self, write: Callable[[], T]) -> T | None:
        """Use the store. If it fails, return None: from then on the session is not stored."""
        if not self.kept:
            return None
        try:
            while True:
                try:
                    return write()
                except SessionChanged as changed:
                    self._catch_up(changed)
        except TokenboxError as error:
            self.open_store, self.failure = None, error
            self.notify(f"From here on this session is not stored: {error.message}")
            return None
