"""Renders that do again only what has changed: loops over messages whose turns are remembered.

A template is rendered as always, with one difference: of each turn of a loop over messages it is noted what
the turn reads (variables, fields of namespaces, its place in the loop) and what it leaves behind (variables,
fields, text). A turn, or a run of turns, whose message and whose readings are the same as before has the same
effect, which is then put down without the turn. Nothing is assumed of a template: what it reads decides.

What cannot be followed is never remembered (:meth:`Track.forget`), or ends the attempt (:class:`NotLocal`);
the caller then renders the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.conversation.llama.run import (
    MISSING,
    Broken,
    Compiler,
    Continued,
    LoopNames,
    Run,
    loop_facts,
)
from tokenbox.conversation.llama.values import BUILTINS, Function, Loop, Undefined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tokenbox.conversation.llama.run import Expression, Scope, Statement
    from tokenbox.conversation.llama.segments import Segment, Segments
    from tokenbox.conversation.llama.syntax import Node

_LARGE: Final = 200  # parts of a value that is compared by what is in it
_NOTHING: Final = object()  # no message before or after


class NotLocal(Exception):
    """This template does what cannot be followed: it has to be rendered whole."""


class _Opaque:
    """In place of a value that was left behind and cannot be handed to another render."""


_OPAQUE: Final = _Opaque()


@dataclass(frozen=True, slots=True)
class Within:
    """In place of a number that was only compared with a place in the loop.

    Every comparison ends the same as long as the number, less the place of the first of these turns, is
    within these bounds.
    """

    low: float
    high: float

    def both(self, other: Within, shift: int = 0) -> Within:
        return Within(max(self.low, other.low + shift), min(self.high, other.high + shift))


_ANY: Final = Within(-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Placed:
    """In place of a number that was set to a place in the loop: how far behind the first of these turns."""

    behind: int


class LoopPlace:
    """What a run of turns has read of its place in the loop; None where it has read nothing of it."""

    __slots__ = ("after", "before", "first", "last", "left", "size", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self.left: int | None = None
        self.size: int | None = None
        self.first: bool | None = None
        self.last: bool | None = None
        self.before: object = None
        self.after: object = None

    def fits(self, start: int, length: int, items: list[Any]) -> bool:
        end, size = start + length, len(items)
        return (
            (self.start is None or self.start == start)
            and (self.left is None or self.left == size - start)
            and (self.size is None or self.size == size)
            and (self.first is None or self.first == (start == 0))
            and (self.last is None or self.last == (end == size))
            and (self.before is None or self.before is (items[start - 1] if start else _NOTHING))
            and (self.after is None or self.after is (items[end] if end < size else _NOTHING))
        )

    def read(self, name: str, items: list[Any], at: int) -> None:
        size = len(items)
        if name in {"index", "index0"}:
            self.start = at
        elif name in {"revindex", "revindex0"}:
            self.left = size - at
        elif name == "length":
            self.size = size
        elif name == "first":
            self.first = at == 0
        elif name == "last":
            self.last = at == size - 1
        elif name == "previtem":
            self.before = items[at - 1] if at else _NOTHING
        elif name == "nextitem":
            self.after = items[at + 1] if at < size - 1 else _NOTHING

    def is_read(self) -> bool:
        return any(getattr(self, name) is not None for name in LoopPlace.__slots__)

    def take(self, other: LoopPlace) -> None:
        """Add what another reading at the same place has read."""
        for name in LoopPlace.__slots__:
            value = getattr(other, name)
            if value is not None:
                setattr(self, name, value)


class TurnRun:
    """A run of turns: what it read, what it left behind, and its text."""

    __slots__ = ("certain", "ended", "halves", "items", "place", "reads", "segment", "usable", "writes")

    def __init__(self, items: list[Any], segment: Segment) -> None:
        self.items = items
        self.segment = segment
        self.place = LoopPlace()
        self.reads: dict[tuple[Any, ...], Any] = {}
        self.writes: dict[tuple[Any, ...], Any] = {}
        self.usable = self.certain = True
        self.ended = False
        self.halves: tuple[TurnRun, TurnRun] | None = None

    def then(self, other: TurnRun, size: int, segments: Segments) -> TurnRun:
        """This run of ``size`` turns and the one right after it, as one; the caller sets ``items``."""
        made = TurnRun([], segments.join(self.segment, other.segment))
        made._put_together(self, other, size)
        return made

    def _put_together(self, first: TurnRun, second: TurnRun, size: int) -> None:
        self.usable = first.usable and second.usable
        self.certain = first.certain and second.certain
        self.ended = first.ended or second.ended
        self.reads = first.reads
        for key, value in second.reads.items():
            bounds = value if isinstance(value, Within) else None
            written = key[1:] if bounds else key
            if written in first.writes:
                known_place = isinstance(first.writes[written], Placed) == (bounds is not None)
                same_start = known_place or first.place.start is not None
                self.usable = self.usable and same_start and first.writes[written] is not _OPAQUE
                continue
            found = value
            if bounds is not None:
                known = self.reads.get(key, _ANY)
                found = known.both(bounds, size)
                if found == known:
                    continue
            elif key in self.reads:
                continue
            if self.reads is first.reads:
                self.reads = dict(first.reads)
            self.reads[key] = found
        self.writes = first.writes
        if second.writes and any(first.writes.get(k, MISSING) is not v for k, v in second.writes.items()):
            later = {
                k: Placed(v.behind + size) if isinstance(v, Placed) else v for k, v in second.writes.items()
            }
            self.writes = {**first.writes, **later}
        self._find_place(first, second, size)

    def _find_place(self, first: TurnRun, second: TurnRun, shift: int) -> None:
        one, other, place = first.place, second.place, self.place
        for name, moved in (
            ("start", None if other.start is None else other.start - shift),
            ("left", None if other.left is None else other.left + shift),
            ("size", other.size),
        ):
            mine = getattr(one, name)
            if mine is not None and moved is not None and mine != moved:
                self.usable = False
            setattr(place, name, moved if mine is None else mine)
        place.first, place.last = one.first, other.last
        place.before, place.after = one.before, other.after
        # Turns in the middle know that they are neither the first nor the last.
        if one.last or other.first:
            self.usable = False


class LoopMemory:
    """What is remembered of one loop of a template: runs of turns by the identity of their first message.

    At place ``k`` stands the run of ``2 ** k`` turns, so a loop of n turns is put together from O(log n).
    """

    def __init__(self) -> None:
        self.runs: dict[int, list[TurnRun]] = {}


class Followed(dict[str, Any]):
    """The variables of a loop whose turns are followed, or of a scope within it."""

    def __init__(self, given: Mapping[str, Any], track: Track, parent: Followed | None = None) -> None:
        super().__init__(given)
        self.track = track
        self.parent = parent
        self.own: set[str] = set()
        self.pending: dict[str, tuple[dict[tuple[Any, ...], Any], LoopPlace]] = {}

    def get(self, name: str, default: Any = None) -> Any:
        value = dict.get(self, name, default)
        if value is _OPAQUE:
            raise NotLocal
        self.note(name, value)
        return value

    def note(self, name: str, value: Any) -> None:
        if name in self.pending:
            reads, place = self.pending[name]
            self.track.noted(reads, place)
        elif name not in self.own:
            if self.parent is None:
                self.track.note(("v", name), value)
            else:
                self.parent.note(name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        self.own.add(name)
        self.pending.pop(name, None)
        dict.__setitem__(self, name, value)

    def fork(self) -> Followed:
        return Followed(self, self.track, self)


class Space(dict[Any, Any]):
    """A namespace, whose fields are followed."""

    def __init__(self, given: Mapping[Any, Any], track: Track, key: int) -> None:
        super().__init__(given)
        self.track = track
        self.key = key

    def get(self, name: Any, default: Any = None) -> Any:
        value = dict.get(self, name, default)
        if value is _OPAQUE:
            raise NotLocal
        self.track.note(("n", self.key, name), value)
        return value

    def __setitem__(self, name: Any, value: Any) -> None:
        dict.__setitem__(self, name, value)
        self.track.wrote(("n", self.key, name), value)

    def __contains__(self, name: object) -> bool:
        self.get(name)
        return dict.__contains__(self, name)

    def __len__(self) -> int:
        self.track.forget()
        return dict.__len__(self)

    def __iter__(self) -> Iterator[Any]:
        self.track.forget()
        return dict.__iter__(self)

    def items(self) -> Any:
        self.track.forget()
        return dict.items(self)

    def values(self) -> Any:
        self.track.forget()
        return dict.values(self)


class History(list[Any]):
    """A list of messages, of which is followed what is read of it."""

    def __init__(self, given: list[Any], track: Track) -> None:
        super().__init__(given)
        self.plain = given
        self.track = track
        self.key = track.add_history(self)

    def __len__(self) -> int:
        size = list.__len__(self)
        self.track.note(("len", self.key), size)
        return size

    def __bool__(self) -> bool:
        full = list.__len__(self) > 0
        self.track.note(("any", self.key), full)
        return full

    def __iter__(self) -> Iterator[Any]:
        self.track.forget()
        return list.__iter__(self)

    def __getitem__(self, place: Any) -> Any:
        found = list.__getitem__(self, place)
        if isinstance(place, slice):
            self.track.forget()
            return History(found, self.track)
        self.track.note(("at", self.key, place), found)
        return found

    def at(self, place: int) -> Any:
        """The message at a place, which may be none; None for none."""
        if place < 0:
            place += len(self)
        there = 0 <= place < list.__len__(self)
        found = list.__getitem__(self, place) if there else None
        self.track.note(("at", self.key, place), found if there else MISSING)
        return found


class _Loop(Loop):
    """The variable ``loop`` of a loop that is followed."""

    def __init__(self, items: list[Any], at: int, track: Track) -> None:
        super().__init__(loop_facts(items, at))
        self.track = track
        self.its = items
        self.at = at

    def get(self, name: Any, default: Any = None) -> Any:
        self.track.placed(name, self.its, self.at)
        return dict.get(self, name, default)


class Track:
    """What one render follows. ``memories`` outlasts it; ``messages`` has a number for each, by its identity.

    Messages that follow each other have numbers that do.
    """

    def __init__(
        self, memories: dict[tuple[int, int], LoopMemory], segments: Segments, messages: Mapping[int, int]
    ) -> None:
        self.memories = memories
        self.segments = segments
        self.messages = messages
        self.record: TurnRun | None = None
        self.caught = 0
        self.certain = True
        self.its_own: list[Any] = []
        self.items: list[Any] | None = None
        self._keys = 0
        self._times: dict[int, int] = {}
        self.spaces: dict[int, Space] = {}
        self.histories: dict[int, History] = {}

    # What a turn does

    def note(self, key: tuple[Any, ...], value: Any) -> None:
        record = self.record
        if record is None:
            return
        own = record.writes.get(key[1:] if isinstance(value, Within) else key, MISSING)
        if own is not MISSING:
            if isinstance(own, Placed):  # what the turn does goes by its place
                record.usable = False
            return
        if isinstance(value, Within):
            record.reads[key] = record.reads.get(key, _ANY).both(value)
        else:
            record.reads.setdefault(key, value)

    def noted(self, reads: dict[tuple[Any, ...], Any], place: LoopPlace) -> None:
        for key, value in reads.items():
            self.note(key, value)
        if self.record is not None:
            self.record.place.take(place)

    def wrote(self, key: tuple[Any, ...], value: Any) -> None:
        if self.record is not None:
            self.record.writes[key] = value

    def placed(self, name: str, items: list[Any], at: int) -> None:
        if self.record is not None:
            self.record.place.read(name, items, at)

    def forget(self) -> None:
        """What this turn does cannot be remembered."""
        if self.record is not None:
            self.record.usable = False

    def changes(self, value: object) -> None:
        """A list or object changes: one that the turn has made, or one that others may have seen."""
        if isinstance(value, Space):
            return
        early = self.record is not None or not self._times
        if not early or not any(made is value for made in self.its_own):
            raise NotLocal

    def made(self, value: Any) -> Any:
        self.its_own.append(value)
        return value

    # Keys that are the same in every render of the same messages' beginning

    def next_key(self) -> int:
        self._keys += 1
        return self._keys

    def add_history(self, history: History) -> int:
        key = -1 if self.record is not None else self.next_key()
        self.histories[key] = history
        return key

    def space(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        if self.record is not None:  # of this turn alone
            made: dict[Any, Any] = self.made(dict(given))
            return made
        key = self.next_key()
        self.spaces[key] = Space(given, self, key)
        return self.spaces[key]

    def memory(self, node: Node) -> LoopMemory:
        times = self._times.get(id(node), 0)
        self._times[id(node)] = times + 1
        return self.memories.setdefault((id(node), times), LoopMemory())

    # Whether a run of turns would do the same

    def matches(self, turns: TurnRun, scope: Followed, start: int, items: list[Any]) -> bool:
        length = len(turns.items)
        if not turns.usable or start + length > len(items) or not turns.place.fits(start, length, items):
            return False
        for key, value in turns.reads.items():
            if isinstance(value, Within):
                now = self._now(key[1:], scope)
                if type(now) is not int or not value.low <= now - start <= value.high:
                    return False
            elif not same(value, self._now(key, scope)):
                return False
        return all(key[0] == "v" or key[1] in self.spaces for key in turns.writes)

    def _now(self, key: tuple[Any, ...], scope: Followed) -> Any:
        kind = key[0]
        if kind == "v":
            return dict.get(scope, key[1], MISSING)
        if kind == "n":
            space = self.spaces.get(key[1])
            return MISSING if space is None else dict.get(space, key[2], MISSING)
        history = self.histories.get(key[1])
        if history is None or key[1] < 0:
            return MISSING
        size = list.__len__(history)
        if kind == "len":
            return size
        if kind == "any":
            return size > 0
        if kind == "loop":
            return history.plain is self.items
        return list.__getitem__(history, key[2]) if -size <= key[2] < size else MISSING

    def apply(self, turns: TurnRun, scope: Followed, start: int, out: list[Any]) -> None:
        for key, value in turns.writes.items():
            if isinstance(value, Placed):
                value = start + value.behind  # noqa: PLW2901  # as it was set
            if key[0] == "v":
                dict.__setitem__(scope, key[1], value)
            else:
                dict.__setitem__(self.spaces[key[1]], key[2], value)
        out.append(turns.segment)
        self.certain = self.certain and turns.certain


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same to a template."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, str | int | float):
        return bool(left == right)
    if isinstance(left, Undefined):
        return True
    if isinstance(left, Function):
        return left.call is right.call and len(left.bound) == len(right.bound) == 0
    if isinstance(left, list | tuple) and not isinstance(left, History):
        return len(left) == len(right) <= _LARGE and all(map(same, left, right))
    if type(left) is dict:
        return (
            len(left) == len(right) <= _LARGE
            and list(left) == list(right)
            and all(map(same, left.values(), right.values()))
        )
    # Namespaces and histories are read by their parts, which are noted for themselves.
    return isinstance(left, Space | History) and left.key == right.key >= 0


class Following(Compiler):
    """As :class:`Compiler`, with loops over messages followed."""

    def _turns(
        self, node: Node, bind: LoopNames, turn: Statement
    ) -> Callable[[Run, Scope, list[Any], list[Any]], bool]:
        plain = super()._turns(node, bind, turn)
        selects = node.parts[1].kind == "select"  # type: ignore[attr-defined]

        def turns(run: Run, scope: Scope, out: list[Any], chosen: list[Any]) -> bool:
            track = run.track
            if track is None or track.record is not None or track.caught or selects or not chosen:
                return plain(run, scope, out, chosen)
            if id(chosen[0]) not in track.messages or id(chosen[-1]) not in track.messages:
                return plain(run, scope, out, chosen)
            return Fold(run, track, track.memory(node), bind, turn).run(scope, out, chosen)

        return turns

    def _caught(self, nodes: Any) -> Expression:
        caught = super()._caught(nodes)

        def counted(run: Run, env: Scope) -> Any:
            track = run.track
            if track is None:
                return caught(run, env)
            track.caught += 1
            try:
                return caught(run, env)
            finally:
                track.caught -= 1

        return counted

    def _name(self, node: Node) -> Expression:
        load = super()._name(node)
        if node.name not in {"namespace", "dict"}:
            return load

        def make(run: Run, env: Scope) -> Any:
            found = load(run, env)
            if run.track is None or not isinstance(found, Function):
                return found
            handler = found.call
            space = run.track.space
            return Function(found.name, lambda run, env, args: space(handler(run, env, args)))

        return make

    def _binary(self, node: Node) -> Expression:
        """A place in the loop compared with a number: only how that ends is read of the number."""
        compare = super()._binary(node)
        left, right = node.nodes()
        if node.name not in _OUTCOMES or not (_is_place(left) and _is_field(right)):
            if node.name not in _OUTCOMES or not (_is_place(right) and _is_field(left)):
                return compare
            left, right = right, left
            name = _TURNED.get(node.name, node.name)
        else:
            name = node.name
        place, field = self.expression(left), self.expression(right)

        def outcome(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            if track is None or record is None:
                return compare(run, env)
            reads, its_place = record.reads, record.place
            record.reads, record.place = {}, LoopPlace()
            try:
                at = place(run, env)
                start, record.place = record.place.start, LoopPlace()
                number = field(run, env)
                noted, placed = record.reads, record.place
            finally:
                record.reads, record.place = reads, its_place
            key = next(reversed(noted), None)
            known = type(at) is int and type(number) is int and not placed.is_read()
            if not known or start is None or key is None or noted.pop(key) is not number:
                return compare(run, env)
            found, numbers = _OUTCOMES[name](at, number)
            for one, value in noted.items():
                track.note(one, value)
            track.note(("w", *key), _ANY.both(numbers, -start))
            return found

        return outcome

    def _place_statement(self, node: Node, assign: Statement) -> Statement:
        """A field of a namespace set to a place in the loop: from another place on, the turns set another."""
        field, key = cast("Node", node.parts[0]).nodes()
        owner, name = self.expression(field), key.name

        def place_it(run: Run, env: Scope, out: list[Any]) -> None:
            record = None if run.track is None else run.track.record
            if record is None:
                assign(run, env, out)
                return
            space, place = owner(run, env), record.place
            record.place = LoopPlace()
            try:
                assign(run, env, out)
                start = record.place.start
            finally:
                place, record.place = record.place, place
            key = ("n", space.key, name) if isinstance(space, Space) else None
            if key is None or start is None or type(record.writes.get(key)) is not int:
                record.place.take(place)
            else:
                record.writes[key] = Placed(record.writes[key] - start)

        return place_it

    def _item(self, node: Node) -> Expression:
        """The message before or after, by its place in the list that the loop goes through."""
        load = super()._item(node)
        owner, key = node.nodes()
        if owner.kind != "name" or not _is_place(key):
            return load
        given, place = self.expression(owner), self.expression(key)

        def beside(run: Run, env: Scope) -> Any:
            track = run.track
            record = None if track is None else track.record
            found = None if record is None else given(run, env)
            if track is None or record is None or not isinstance(found, History):
                return load(run, env)
            read, record.place = record.place, LoopPlace()
            try:
                at, start = place(run, env), record.place.start
            finally:
                record.place = read
            items = found.plain
            near = start is not None and at - start in {-1, 1} and 0 <= at < len(items)
            if not near or start is None or items is not track.items:
                return load(run, env)
            track.note(("loop", found.key), True)  # noqa: FBT003  # that it is the list of the loop
            read.read("previtem" if at < start else "nextitem", items, start)
            return items[at]

        return beside

    def _list(self, node: Node) -> Expression:
        return _making(super()._list(node))

    def _object(self, node: Node) -> Expression:
        return _making(super()._object(node))

    def _set_statement(self, node: Node) -> Statement:
        assign = super()._set_statement(node)
        target, given, _ = node.parts
        is_member = target.kind == "member"  # type: ignore[attr-defined]
        if is_member and given is not None and _is_place(given):  # type: ignore[arg-type]
            return self._place_statement(node, assign)
        if target.kind != "name" or given is None or not _is_index(given):  # type: ignore[attr-defined, arg-type]
            return assign
        name, value = target.name, self.expression(given)  # type: ignore[attr-defined, arg-type]

        def defer(run: Run, env: Scope, out: list[Any]) -> None:
            """What an index was computed from is read when the index is."""
            record = None if run.track is None else run.track.record
            if record is None or not isinstance(env, Followed):
                assign(run, env, out)
                return
            reads, place = record.reads, record.place
            record.reads, record.place = {}, LoopPlace()
            try:
                found = value(run, env)
                pending = record.reads, record.place
            finally:
                record.reads, record.place = reads, place
            env[name] = found
            env.pending[name] = pending

        return defer


def _making(make: Expression) -> Expression:
    def made(run: Run, env: Scope) -> Any:
        found = make(run, env)
        return found if run.track is None else run.track.made(found)

    return made


def _greater(at: int, number: int) -> tuple[bool, Within]:
    return (True, Within(-math.inf, at - 1)) if at > number else (False, Within(at, math.inf))


def _not_less(at: int, number: int) -> tuple[bool, Within]:
    return (True, Within(-math.inf, at)) if at >= number else (False, Within(at + 1, math.inf))


def _equal(at: int, number: int) -> tuple[bool, Within]:
    if at == number:
        return True, Within(at, at)
    return False, Within(at + 1, math.inf) if number > at else Within(-math.inf, at - 1)


def _opposite(
    compare: Callable[[int, int], tuple[bool, Within]],
) -> Callable[[int, int], tuple[bool, Within]]:
    def opposite(at: int, number: int) -> tuple[bool, Within]:
        found, numbers = compare(at, number)
        return not found, numbers

    return opposite


# How a place compares with a number, and with which other numbers it would compare so too.
_OUTCOMES: Final = {
    ">": _greater, ">=": _not_less, "<": _opposite(_not_less), "<=": _opposite(_greater),
    "==": _equal, "!=": _opposite(_equal),
}  # fmt: skip
_TURNED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def _is_place(node: Node) -> bool:
    """Whether an expression is a sum of constants and of a place in the loop, from its beginning."""
    if node.kind == "member":
        owner, key = node.nodes()
        return owner.name == "loop" and key.name in {"index", "index0"}
    if node.kind == "binary":
        left, right = node.nodes()
        return node.name in {"+", "-"} and _is_place(left) and right.kind == "constant" and _is_index(right)
    return False


def _is_field(node: Node) -> bool:
    """Whether an expression is a variable, or a field of one."""
    if node.kind == "member":
        return all(part.kind == "name" for part in node.nodes()) and node.nodes()[0].name != "loop"
    return node.kind == "name"


def _is_index(node: Node) -> bool:
    """Whether an expression is a sum of places in a loop and lengths, which cannot fail."""
    if node.kind == "constant":
        return type(node.value) is int
    if node.kind == "binary":
        return node.name in {"+", "-"} and all(_is_index(part) for part in node.nodes())
    if node.kind == "member":
        owner, key = node.nodes()
        return owner.name == "loop" and key.name in {"index", "index0", "revindex", "revindex0", "length"}
    if node.kind == "filter":
        owner, how = node.nodes()
        return (
            owner.kind == how.kind == "name" and owner.name == "messages" and how.name in {"length", "count"}
        )
    return False


class Fold:
    """One run of a loop over messages."""

    def __init__(self, run: Run, track: Track, memory: LoopMemory, bind: LoopNames, turn: Statement) -> None:
        self._run, self._track, self._memory = run, track, memory
        self._bind, self._turn = bind, turn

    def run(self, given: Scope, out: list[Any], items: list[Any]) -> bool:
        scope = Followed(given, self._track)
        self._track.items = items
        at, ended = 0, False
        done: list[TurnRun] = []
        try:
            while at < len(items):
                turns = self._known(scope, at, items)
                if turns is None:
                    turns = self.take(scope, at, items, out)
                else:
                    self._track.apply(turns, scope, at, out)
                done.append(turns)
                at += len(turns.items)
                ended = ended or turns.ended
        except Broken:
            pass
        self._remember(done)
        return ended

    def _known(self, scope: Followed, at: int, items: list[Any]) -> TurnRun | None:
        """The longest run of turns from here on that would do what it did before."""
        for turns in reversed(self._memory.runs.get(id(items[at]), ())):
            if (
                self._track.matches(turns, scope, at, items)
                and turns.items == items[at : at + len(turns.items)]
            ):
                return turns
        return None

    def take(self, scope: Followed, at: int, items: list[Any], out: list[Any]) -> TurnRun:
        """Take one turn, and note what it does."""
        track, run = self._track, self._run
        record = TurnRun([items[at]], track.segments.empty)
        uncertain, run.uncertain = run.uncertain, False
        scope.own, scope.pending = set(), {}
        others, track.its_own = track.its_own, []
        track.record = record
        texts: list[Any] = []
        run.steps()
        try:
            scope["loop"] = _Loop(items, at, track)
            self._bind(items[at], scope)
            try:
                self._turn(run, scope, texts)
                record.ended = True
            except Continued:
                pass
        except Broken:
            out.append("".join(texts))
            raise
        finally:
            track.record, track.its_own = None, others
            record.certain = not run.uncertain
            run.uncertain = run.uncertain or uncertain
        for name in scope.own:
            record.writes["v", name] = _OPAQUE if name in scope.pending else dict.__getitem__(scope, name)
        record.writes = {key: _handed_on(value, record, track) for key, value in record.writes.items()}
        text = "".join(texts)
        record.segment = replace(track.segments.of(text), text=text)
        out.append(record.segment)
        track.certain = track.certain and record.certain
        self._memory.runs[id(items[at])] = [record]
        return record

    def _remember(self, done: Sequence[TurnRun]) -> None:
        """Two runs side by side become one of twice as many turns, as digits carry when one counts up."""
        carried: list[TurnRun] = []
        for turns in done:
            carried.append(turns)
            while len(carried) > 1 and (both := self._both(carried[-2], carried[-1])) is not None:
                carried[-2:] = [both]

    def _both(self, left: TurnRun, right: TurnRun) -> TurnRun | None:
        """The run of both; None where the two are no halves of one."""
        size = len(left.items)
        if size != len(right.items) or not left.usable or not right.usable:
            return None
        number = self._track.messages
        one, other = number.get(id(left.items[0]), -1), number.get(id(right.items[0]), -1)
        forward = other - one == size and one % (2 * size) == 0
        backward = one - other == size and (one + 1) % (2 * size) == 0  # a loop from the last message back
        if not forward and not backward:
            return None
        runs = self._memory.runs[id(left.items[0])]
        level = size.bit_length()
        if len(runs) > level and runs[level].halves == (left, right):
            return runs[level]
        both = left.then(right, size, self._track.segments)
        both.items = left.items + right.items
        both.halves = left, right
        runs[level:] = [both]
        return both


def _handed_on(value: Any, record: TurnRun, track: Track) -> Any:
    """The value as a later turn may read it: lists and objects of the template's own are not handed on."""
    if isinstance(value, list | dict | Function) and not (
        id(value) in track.messages or isinstance(value, Space | History | _Opaque)
    ):
        return _OPAQUE
    return value


# What a template may call of these is what it may call of lists and objects.
BUILTINS.update({_Loop: {}, Space: BUILTINS[dict], History: BUILTINS[list]})
