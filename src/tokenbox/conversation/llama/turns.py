"""Recorded turns of loops over messages: what they read, what they write, and their text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.run import MISSING

if TYPE_CHECKING:
    from tokenbox.conversation.llama.segments import Segment, Segments

_NOTHING: Final = object()  # no message before or after


class NotLocal(Exception):
    """The template does something that cannot be tracked: the entire prompt must be rendered."""


class Opaque:
    """A placeholder for a value that was written and cannot be used by another render."""


OPAQUE: Final = Opaque()


@dataclass(frozen=True, slots=True)
class Within:
    """The bounds of a number that was only compared with a place in the loop.

    Every comparison has the same result while the number minus the place of the first of these turns is
    within the bounds.
    """

    low: float
    high: float

    def both(self, other: Within, shift: int = 0) -> Within:
        return Within(max(self.low, other.low + shift), min(self.high, other.high + shift))


ANY: Final = Within(-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Placed:
    """A number that is a place in the loop, stored as its distance from the first of these turns."""

    behind: int


class LoopPlace:
    """The attributes of ``loop`` that a run of turns has read; None if it has not read them."""

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
        """Add the attributes that another record has read at the same place."""
        for name in LoopPlace.__slots__:
            value = getattr(other, name)
            if value is not None:
                setattr(self, name, value)


class TurnRun:
    """The record of a run of turns: its reads, its writes and its text.

    ``compared_at``: how many messages had been replaced when ``items`` were last compared.
    """

    __slots__ = (
        "certain", "compared_at", "ended", "halves", "items", "place", "reads", "segment", "usable", "writes",
    )  # fmt: skip

    def __init__(self, items: list[Any], segment: Segment, compared_at: int) -> None:
        self.items = items
        self.segment = segment
        self.compared_at = compared_at
        self.place = LoopPlace()
        self.reads: dict[tuple[Any, ...], Any] = {}
        self.writes: dict[tuple[Any, ...], Any] = {}
        self.usable = self.certain = True
        self.ended = False
        self.halves: tuple[TurnRun, TurnRun] | None = None

    def then(self, other: TurnRun, segments: Segments) -> TurnRun:
        segment = segments.join(self.segment, other.segment)
        compared_at = min(self.compared_at, other.compared_at)
        made = TurnRun(self.items + other.items, segment, compared_at)
        made.halves = self, other
        made._join(self, other, len(self.items))
        return made

    def _join(self, first: TurnRun, second: TurnRun, size: int) -> None:
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
                self.usable = self.usable and same_start and first.writes[written] is not OPAQUE
                continue
            found = value
            if bounds is not None:
                known = self.reads.get(key, ANY)
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
        # A run that reads it is the last turn cannot be followed by another, nor the first preceded.
        if one.last or other.first:
            self.usable = False


class LoopMemory:
    """The recorded turns of one loop of a template, by the identity of their first message.

    The run at index ``k`` has ``2 ** k`` turns, so a loop of n turns is composed of O(log n) runs.
    """

    def __init__(self) -> None:
        self.runs: dict[int, list[TurnRun]] = {}
