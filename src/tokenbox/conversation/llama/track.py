"""Tracking of what a render reads and writes, and the reuse of recorded turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tokenbox.conversation.llama.run import MISSING
from tokenbox.conversation.llama.tracked import TrackedMessages, TrackedNamespace, TrackedRange, TrackedScope
from tokenbox.conversation.llama.turns import (
    ANY,
    NEAR,
    PLACES,
    START,
    THE_LOOPS,
    Key,
    LoopMemory,
    Memories,
    NotLocal,
    Placed,
    Reference,
    TurnRun,
    Within,
)
from tokenbox.conversation.llama.values import Function, Undefined

if TYPE_CHECKING:
    from tokenbox.conversation.llama.segments import Segments

LARGE: Final = 200  # parts of a value that is compared by what is in it
MANY_TIMES: Final = 100  # that one loop at the top of a template is executed in one render
MANY_SLICES: Final = 100_000  # of the messages in one render, which take seconds


class Outcomes:
    """The outcomes of one test of a field of messages. Each message is tested once in its life."""

    def __init__(self, known: dict[int, tuple[Any, bool]], messages: Mapping[int, int]) -> None:
        self._known, self._messages = known, messages

    def of(self, items: Iterable[Any], passes: Callable[[Any], bool]) -> list[bool]:
        found = []
        for item in items:
            known = self._known.get(id(item))
            if known is None or known[0] is not item:
                known = item, passes(item)
                if id(item) in self._messages:
                    self._known[id(item)] = known
            found.append(known[1])
        return found


class Track:
    """The tracking of one render. ``memories`` are kept between renders.

    ``messages``: the number of each message, by its identity. Adjacent messages have consecutive numbers.
    ``items`` and ``start``: the messages of the loop, and the place of the turn that is executed. ``unread``:
    the list that a loop is about to read.
    ``replaced``: how many messages have been replaced by others so far. ``has_recorded``: it has added
    records of turns, so the next render may apply others. ``histories``: the lists of messages in use.
    """

    def __init__(
        self,
        memories: Memories,
        segments: Segments,
        messages: Mapping[int, int],
        replaced: int,
    ) -> None:
        self.memories = memories
        self.segments = segments
        self.messages = messages
        self.replaced = replaced
        self.record: TurnRun | None = None
        self.caught = 0
        self.certain = True
        self.has_recorded = False
        self.its_own: list[Any] = []
        self.items: list[Any] = []
        self.start = 0
        self.unread: TrackedMessages | TrackedRange | None = None
        self._keys = count(1)
        self._times: dict[int, int] = {}
        self.spaces: dict[int, TrackedNamespace] = {}
        self.histories: WeakValueDictionary[int, TrackedMessages] = WeakValueDictionary()
        self._slices = 0

    # Reads and writes of a turn

    def note(self, key: Key, value: Any) -> None:
        record = self.record
        if record is None:
            return
        own = record.writes.get(key[1:] if isinstance(value, Within) else key, MISSING)
        if own is not MISSING:
            if isinstance(own, Placed):  # the turn depends on its place
                record.usable = False
            return
        if isinstance(value, Within):
            record.reads[key] = record.reads.get(key, ANY).both(value)
        else:
            record.reads.setdefault(key, self.reference(value))

    def note_all(self, reads: Mapping[Key, Any]) -> None:
        for key, value in reads.items():
            self.note(key, value)

    def note_at(self, history: TrackedMessages, place: int, found: Any) -> None:
        """Note the read of a message by its place, or by its distance if the place of the turn is known."""
        if self.record is not None and history.plain is self.items and START in self.record.reads:
            self.note((NEAR, place - self.start), found)
        else:
            self.note(("at", self.key_of(history), place), found)

    def near(self, place: int) -> Any:
        """Return the loop's message at a place, noted by its distance; :data:`MISSING` beyond the ends."""
        found = self.items[place] if 0 <= place < len(self.items) else MISSING
        self.note((NEAR, place - self.start), found)
        return found

    def key_of(self, history: TrackedMessages) -> int:
        return THE_LOOPS if history.plain is self.items else history.key

    def reference(self, value: Any) -> Any:
        """Return the value as it is recorded: tracked ones are of this render alone."""
        if isinstance(value, TrackedMessages):
            return Reference(is_list=True, key=self.key_of(value))
        return Reference(is_list=False, key=value.key) if isinstance(value, TrackedNamespace) else value

    def referred(self, value: Any) -> Any:
        """Return what a recorded value is in this render; :data:`MISSING` if it is not made yet."""
        if not isinstance(value, Reference):
            return value
        found: Any = (self.histories if value.is_list else self.spaces).get(value.key, MISSING)
        return found

    def wrote(self, key: Key, value: Any) -> None:
        if self.record is not None:
            self.record.writes[key] = value

    def forget(self) -> None:
        """Mark this turn as not reusable."""
        if self.record is not None:
            self.record.usable = False

    def changes(self, value: object) -> None:
        """Note a change of a list or object. Raises unless it is one that only this turn can have seen."""
        if isinstance(value, TrackedNamespace):
            return
        early = self.record is not None or not self._times
        if not early or not any(made is value for made in self.its_own):
            raise NotLocal

    def made(self, value: Any) -> Any:
        self.its_own.append(value)
        return value

    # Keys that are the same in every render of the same first messages

    def add_history(self, history: TrackedMessages) -> int:
        self._slices += 1
        if self._slices > MANY_SLICES:
            raise NotLocal
        if self.record is not None:  # of this turn alone
            return -1
        key = next(self._keys)
        self.histories[key] = history
        return key

    def space(
        self, given: Mapping[Any, Any], kind: type[TrackedNamespace] = TrackedNamespace
    ) -> dict[Any, Any]:
        if self.record is not None:  # of this turn alone
            made: dict[Any, Any] = self.made(dict(given))
            return made
        key = next(self._keys)
        self.spaces[key] = kind(given, self, key)
        return self.spaces[key]

    def memory(self, node: object) -> LoopMemory:
        times = self._times.get(id(node), 0)
        if times >= MANY_TIMES:  # each time has records of its own
            raise NotLocal
        self._times[id(node)] = times + 1
        return self.memories.setdefault((id(node), times), {})

    def known_names(self, node: object, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values of a loop's outer names: those of the last render if they are the same.

        All turns of the loop have read them, and a record is compared with one object instead of each name.
        """
        now = tuple(map(self.reference, values))
        memory = self.memories.setdefault(("names", id(node)), {})
        known: tuple[Any, ...] = memory.get(0, ())
        if not known or not all(map(same, known, now)):
            known = memory[0] = now
        return known

    def outcomes(self, criteria: list[Any]) -> Outcomes | None:
        """Return the known outcomes of a test of messages; None if its operands are no constants."""
        if not all(isinstance(given, str) for given in criteria):
            return None
        return Outcomes(self.memories.setdefault(("test", *criteria), {}), self.messages)

    # Reuse of recorded turns

    def matches(self, turns: TurnRun, scope: TrackedScope, start: int, items: list[Any]) -> bool:
        end = start + len(turns.items)
        if not turns.usable or end > len(items):
            return False
        for key, value in turns.reads.items():
            if key[0] == "p":
                if not same(value, PLACES[key[1]](start, end, items)):
                    return False
            elif isinstance(value, Within):
                now = self._now(key[1:], scope)
                if type(now) is not int or not value.low <= now - start <= value.high:
                    return False
            elif not same(value, self._now(key, scope, start)):
                return False
        return all(
            (key[0] == "v" or key[1] in self.spaces) and self.referred(value) is not MISSING
            for key, value in turns.writes.items()
        )

    def _now(self, key: Key, scope: TrackedScope, start: int = 0) -> Any:
        kind = key[0]
        if kind == "v":
            return self.reference(dict.get(scope, key[1], MISSING))
        if kind == "n":
            space = self.spaces.get(key[1])
            return MISSING if space is None else self.reference(dict.get(space, key[2], MISSING))
        if kind == NEAR:
            place = start + key[1]
            return self.items[place] if 0 <= place < len(self.items) else MISSING
        history = self.histories.get(key[1])
        if key[1] == THE_LOOPS:
            plain = self.items
        elif history is None:
            return MISSING
        else:
            plain = history.plain
        size = len(plain)
        if kind == "len":
            return size
        if kind == "any":
            return size > 0
        return plain[key[2]] if -size <= key[2] < size else MISSING

    def apply(self, turns: TurnRun, scope: TrackedScope, start: int, out: list[Any]) -> None:
        for key, value in turns.writes.items():
            # Of a place, the number at this one.
            now = start + value.behind if isinstance(value, Placed) else self.referred(value)
            if key[0] == "v":
                dict.__setitem__(scope, key[1], now)
            else:
                dict.__setitem__(self.spaces[key[1]], key[2], now)
        out.append(turns.segment)
        self.certain = self.certain and turns.certain


def apart(record: TurnRun, call: Callable[..., Any], *given: Any) -> tuple[Any, dict[Key, Any]]:
    """Return the result of the call, and what it has read, which is not added to the reads of the turn."""
    reads, record.reads = record.reads, {}
    try:
        return call(*given), record.reads
    finally:
        record.reads = reads


def same(left: Any, right: Any, large: int = LARGE) -> bool:
    """Return True if two values are indistinguishable for a template. ``large``: parts that are compared."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, str | int):
        return bool(left == right)
    if isinstance(left, float):
        return repr(left) == repr(right)  # 0.0 and -0.0 are equal
    if isinstance(left, Undefined):
        return True
    if isinstance(left, Function):
        return left.call is right.call and len(left.bound) == len(right.bound) == 0
    if isinstance(left, list | tuple) and not isinstance(left, TrackedMessages):
        size = len(left)
        return size == len(right) <= large and all(
            same(*both, large // size) for both in zip(left, right, strict=True)
        )
    if type(left) is dict:
        return same([*left, *left.values()], [*right, *right.values()], large)
    return isinstance(left, Reference) and left == right and left.key >= 0
