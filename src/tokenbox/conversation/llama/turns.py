"""Recorded turns of loops over messages: what they read, what they write, and their text."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.run import MISSING

if TYPE_CHECKING:
    from tokenbox.conversation.llama.segments import Segment, Segments

Key = tuple[Any, ...]
"""A place that is read or written: its kind, and its names."""
LoopMemory = dict[int, list["TurnRun"]]
"""The recorded turns of one loop of a template, by the identity of their first message.

The run at index ``k`` has ``2 ** k`` turns, so a loop of n turns is composed of O(log n) runs.
"""
Memories = dict[tuple[Any, ...], dict[int, Any]]
"""What earlier renders know of messages: the :data:`LoopMemory` of each loop, and the outcomes of tests."""
OPAQUE: Final = object()
"""A placeholder for a value that was written and cannot be used by another render."""


class NotLocal(Exception):
    """The template does something that cannot be tracked: the entire prompt must be rendered."""


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


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
TURNED: Final[Mapping[str, str]] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
"""What a comparison is with its sides changed."""


def with_bounds(compare: Callable[[int, int], bool], at: int, number: int) -> tuple[bool, Within]:
    """Return the result of a comparison of a place, and the bounds of the numbers with that result."""
    results = [compare(at, other) for other in (at - 1, at, at + 1)]  # for all less, equal, all greater
    low = high = here = 1 + (number > at) - (number < at)
    while low > 0 and results[low - 1] is results[here]:
        low -= 1
    while high < 2 and results[high + 1] is results[here]:
        high += 1
    return results[here], Within((-math.inf, at, at + 1)[low], (at - 1, at, math.inf)[high])


@dataclass(frozen=True, slots=True)
class Reference:
    """A namespace or a list of messages, by its key: every render makes its own."""

    is_list: bool
    key: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A number that is a place in the loop, stored as its distance from the first of these turns."""

    behind: int


# The attributes of ``loop`` of a run of turns, by its first place, the place after it, and all messages.
PLACES: Final[Mapping[str, Callable[[int, int, list[Any]], Any]]] = {
    "start": lambda start, end, items: start,
    "left": lambda start, end, items: len(items) - start,
    "length": lambda start, end, items: len(items),
    "first": lambda start, end, items: start == 0,
    "last": lambda start, end, items: end == len(items),
}
START, _LEFT, _FIRST, _LAST = (("p", name) for name in ("start", "left", "first", "last"))
THE_LOOPS: Final = 0
"""The key of the list of messages that the loop is over, which has other keys in other renders."""
MANY: Final = 64
"""The messages beside a turn above which it is executed each time."""
NEAR: Final = "near"
"""The kind of the read of a message of the loop, by its distance from the first of these turns."""


class TurnRun:
    """The record of a run of turns: its reads, its writes and its text.

    ``compared_at``: how many messages had been replaced when ``items`` were last compared. ``spent``: of each
    number that the template has a limit of, what these turns added.
    """

    __slots__ = (
        "certain", "compared_at", "ended", "halves", "items", "reads", "segment", "spent", "usable", "writes",
    )  # fmt: skip

    def __init__(self, items: list[Any], segment: Segment, compared_at: int) -> None:
        self.items = items
        self.segment = segment
        self.compared_at = compared_at
        self.reads: dict[Key, Any] = {}
        self.writes: dict[Key, Any] = {}
        self.usable = self.certain = True
        self.ended = False
        self.spent: tuple[int, ...] = ()
        self.halves: tuple[TurnRun, TurnRun] | None = None

    def then(self, other: TurnRun, segments: Segments) -> TurnRun:
        segment = segments.join(self.segment, other.segment)
        compared_at = min(self.compared_at, other.compared_at)
        made = TurnRun(self.items + other.items, segment, compared_at)
        made.halves = self, other
        made._join(self, other, len(self.items))
        return made

    def _join(self, first: TurnRun, second: TurnRun, size: int) -> None:
        # If a run has read that it is the last, no run can follow it; if the first, none can precede it.
        alone = first.reads.get(_LAST) or second.reads.get(_FIRST)
        self.usable = first.usable and second.usable and not alone
        self.certain = first.certain and second.certain
        self.ended = first.ended or second.ended
        self.spent = tuple(map(sum, zip(first.spent, second.spent, strict=True)))
        own = range(len(self.items))  # the messages of these turns are known
        reads = {
            key: value
            for key, value in first.reads.items()
            if key != _LAST and not (key[0] == NEAR and key[1] in own)
        }
        shifts = {START: -size, _LEFT: size}
        for key, value in second.reads.items():
            if key == _FIRST:
                continue
            if key[0] == NEAR:
                if key[1] + size not in own:
                    reads.setdefault((NEAR, key[1] + size), value)
                continue
            is_bound = isinstance(value, Within)
            written = key[1:] if is_bound else key
            if written in first.writes:
                known_place = isinstance(first.writes[written], Placed) == is_bound
                same_start = known_place or START in first.reads
                self.usable = self.usable and same_start and first.writes[written] is not OPAQUE
            elif is_bound:
                reads[key] = reads.get(key, ANY).both(value, size)
            else:
                found = value + shifts[key] if key in shifts else value
                known = reads.setdefault(key, found)
                self.usable = self.usable and (key[0] != "p" or known == found)
        self.reads = first.reads if reads == first.reads else reads
        self.writes = first.writes
        if second.writes and any(first.writes.get(k, MISSING) is not v for k, v in second.writes.items()):
            later = {
                k: Placed(v.behind + size) if isinstance(v, Placed) else v for k, v in second.writes.items()
            }
            self.writes = {**first.writes, **later}
