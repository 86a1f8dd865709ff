"""A loop over messages whose recorded turns are applied again instead of executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import sub as minus
from typing import TYPE_CHECKING, Any

from tokenbox.conversation.llama.run import TURN_STEPS, BreakLoop, ContinueLoop, Run, Scope, Statement
from tokenbox.conversation.llama.tracked import (
    LoopAhead,
    TrackedLoop,
    TrackedMessages,
    TrackedNamespace,
    TrackedScope,
)
from tokenbox.conversation.llama.turns import OPAQUE, START, LoopMemory, Reference, TurnRun
from tokenbox.conversation.llama.values import Function

if TYPE_CHECKING:
    from tokenbox.conversation.llama.track import Track


class Fold:
    """A loop over messages. ``places``: those that its variable has in their stead."""

    def __init__(
        self,
        run: Run,
        track: Track,
        memory: LoopMemory,
        bind: Callable[[Any, Scope], None],
        turn: Statement,
        places: list[int] | None = None,
    ) -> None:
        self._run, self._track, self._memory = run, track, memory
        self._bind, self._turn = bind, turn
        self._places = places

    def run(self, given: Scope, out: list[Any], items: list[Any], first: int = 0) -> bool:
        scope = TrackedScope(given, self._track)
        self._track.items = items
        # The messages of the request, or a part of them, in their order.
        self._is_request = any(history.plain is items for history in self._track.histories.values())
        at, ended = first, False
        done: list[TurnRun] = []
        spent: list[tuple[int, ...]] = []
        try:
            while at < len(items):
                turns = self._known(scope, at, items)
                if turns is None:
                    turns = self.take(scope, at, items, out)
                else:
                    spent.append(turns.spent)
                    self._track.apply(turns, scope, at, out)
                done.append(turns)
                at += len(turns.items)
                ended = ended or turns.ended
        except BreakLoop:
            pass
        if spent:
            self._run.spend(tuple(map(sum, zip(*spent, strict=True))))
        self._remember(done)
        return ended

    def _known(self, scope: TrackedScope, at: int, items: list[Any]) -> TurnRun | None:
        """Return the longest recorded run of turns that has the same effect from here on."""
        for turns in reversed(self._memory.get(id(items[at]), ())):
            if self._track.matches(turns, scope, at, items) and self._holds(turns, at, items):
                return turns
        return None

    def _holds(self, turns: TurnRun, at: int, items: list[Any]) -> bool:
        """Return True if these are the messages of the recorded turns.

        A run holds all messages from its first to its last, and none is ever inserted between them. So if
        none was replaced since the last comparison, the two and the length are enough.
        """
        end, replaced = at + len(turns.items), self._track.replaced
        if self._is_request and turns.compared_at == replaced:
            return turns.items[-1] is items[end - 1]
        if turns.items != items[at:end]:
            return False
        turns.compared_at = replaced
        return True

    def take(self, scope: TrackedScope, at: int, items: list[Any], out: list[Any]) -> TurnRun:
        track, run = self._track, self._run
        record = TurnRun([items[at]], track.segments.empty, track.replaced)
        track.start, track.unread = at, None
        uncertain, run.uncertain = run.uncertain, False
        scope.own, scope.pending = set(), {}
        others, track.its_own = track.its_own, []
        track.record = record
        texts: list[Any] = []
        before = run.spent()
        run.steps(TURN_STEPS)
        try:
            if self._places is None:
                scope["loop"] = TrackedLoop(items, at, track)
                self._bind(items[at], scope)
            else:
                track.note(START, at)
                scope["loop"] = LoopAhead(self._places, at - self._places[0], track)
                self._bind(at, scope)
            try:
                self._turn(run, scope, texts)
                record.ended = True
            except ContinueLoop:
                pass
        except BreakLoop:
            out.append("".join(texts))
            raise
        finally:
            track.record, track.its_own = None, others
            record.certain = not run.uncertain
            run.uncertain = run.uncertain or uncertain
        for name in scope.own:
            record.writes["v", name] = OPAQUE if name in scope.pending else dict.__getitem__(scope, name)
        record.writes = {key: _handed_on(value, record, track) for key, value in record.writes.items()}
        record.spent = tuple(map(minus, run.spent(), before))
        text = "".join(texts)
        record.segment = replace(track.segments.of(text), text=text)
        out.append(record.segment)
        track.certain = track.certain and record.certain
        self._memory[id(items[at])] = [record]
        track.has_recorded = True
        return record

    def _remember(self, done: Sequence[TurnRun]) -> None:
        """Join adjacent runs of equal length, like carries of a binary counter."""
        carried: list[TurnRun] = []
        for turns in done:
            carried.append(turns)
            while len(carried) > 1 and (both := self._both(carried[-2], carried[-1])) is not None:
                carried[-2:] = [both]

    def _both(self, left: TurnRun, right: TurnRun) -> TurnRun | None:
        """Return the joined run; None if the two are not aligned halves of one."""
        size = len(left.items)
        if size != len(right.items) or not left.usable or not right.usable:
            return None
        number = self._track.messages
        one, other = number.get(id(left.items[0]), -1), number.get(id(right.items[0]), -1)
        forward = other - one == size and one % (2 * size) == 0
        backward = one - other == size and (one + 1) % (2 * size) == 0  # a loop in reverse order
        if not forward and not backward:
            return None
        runs = self._memory[id(left.items[0])]
        level = size.bit_length()
        if len(runs) > level and runs[level].halves == (left, right):
            return runs[level]
        both = left.then(right, self._track.segments)
        runs[level:] = [both]
        self._track.has_recorded = True
        return both


def _handed_on(value: Any, record: TurnRun, track: Track) -> Any:
    """Return the value as a later turn may read it; lists and objects of the template become opaque."""
    if isinstance(value, TrackedMessages):
        return Reference(is_list=True, key=value.key) if value.key >= 0 else OPAQUE
    if isinstance(value, TrackedNamespace):
        return track.reference(value)
    if isinstance(value, list | dict | Function) and id(value) not in track.messages:
        return OPAQUE
    return value
