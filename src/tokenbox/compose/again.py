"""What was measured of the last sections, for those that come again: most of a prompt stays as it was.

Sections are values, so a section that is the same object has the same figures. They come again in front of
what changed and behind it; only what lies between is measured.
"""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, chain
from operator import indexOf, is_
from types import MethodType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tokenbox.content.section import Section

    Column = list[object]

T = TypeVar("T")

# Layouts that are remembered, and of how many sections: fewer are measured as quickly, and more would hold
# much memory.
_LAYOUTS = 4
_LEAST = 32
_MOST = 200_000


class _Measured(NamedTuple):
    by: tuple[object, ...]
    sections: Sequence[Section]
    columns: Sequence[Column]


class LastMeasured:
    """The figures of the sections that were measured last, in columns. Any thread may ask."""

    def __init__(self) -> None:
        self._kept: Sequence[_Measured] = ()

    def columns(
        self,
        by: tuple[object, ...],
        sections: Sequence[Section],
        measure: Callable[[Sequence[Section]], Sequence[list[T]]],
        holds: Callable[[Section, Sequence[T]], bool] = lambda _section, _figures: True,
    ) -> Sequence[list[T]]:
        """``measure(sections)``, of those alone that were not measured by the same means just before.

        ``measure`` gives columns with a figure for each section. ``holds`` is asked of one section whose
        figures were remembered; where it says no, all are measured.
        """
        if not _LEAST <= len(sections) <= _MOST:
            return measure(sections)
        last = next((kept for kept in self._kept if _alike(kept.by, by)), None)
        columns = None if last is None else _patched(last, sections, measure, holds)
        if columns is None:
            columns = measure(sections)
        kept = _Measured(by, list(sections), [list(column) for column in columns])
        self._kept = (kept, *(other for other in self._kept if other is not last))[:_LAYOUTS]
        return columns


def _patched(
    last: _Measured,
    sections: Sequence[Section],
    measure: Callable[[Sequence[Section]], Sequence[list[T]]],
    holds: Callable[[Section, Sequence[T]], bool],
) -> Sequence[list[T]] | None:
    """The columns with what is new measured and the rest remembered; None where nothing can be."""
    before, after = _common_ends(last.sections, sections)
    after = min(after, len(sections) - before, len(last.sections) - before)
    if not before + after:
        return None
    end = len(sections) - after
    old_end = len(last.sections) - after
    known: Sequence[list[T]] = last.columns  # type: ignore[assignment]  # what this measure gave
    made = measure(sections[before:end]) if end > before else [[] for _ in known]
    columns = [old[:before] + new + old[old_end:] for old, new in zip(known, made, strict=True)]
    i = before // 2 if before >= after else end + after // 2
    return columns if holds(sections[i], [column[i] for column in columns]) else None


def _common_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """How many objects both begin with, and with how many both end: the same ones where all are alike."""
    first = _alike_until(map(is_, old, new), old, new)
    if first == len(old) == len(new):
        return first, first
    return first, _alike_until(map(is_, reversed(old), reversed(new)), old, new)


def _alike_until(same: Iterable[bool], old: Sequence[object], new: Sequence[object]) -> int:
    try:
        return indexOf(same, False)  # noqa: FBT003  # the operator has no name for it
    except ValueError:
        return min(len(old), len(new))


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether these are the same objects; a method of an object is made when it is looked up."""
    return len(one) == len(other) and all(
        a is b
        or (type(a) is type(b) is str and a == b)
        or (
            isinstance(a, MethodType)
            and isinstance(b, MethodType)
            and a.__self__ is b.__self__
            and a.__func__ is b.__func__
        )
        for a, b in zip(one, other, strict=True)
    )


LAST = LastMeasured()


class _Made(NamedTuple):
    lengths: Sequence[int] = ()
    names: Sequence[object] = ()
    values: Sequence[object] = ()
    sections: Sequence[Section] = ()


class LastMade:
    """The sections that were made last, each of a mapping. Any thread may ask."""

    def __init__(self) -> None:
        self._kept = _Made()

    def sections(self, given: Sequence[object], make: Callable[[object, int], Section]) -> list[Section]:
        """``make(given[i], i)`` for each, but not for mappings that are as they were just before.

        Those have the same objects as names and values, in the same order, and none that could have changed.
        """
        if not _LEAST <= len(given) <= _MOST or set(map(type, given)) != {dict}:
            return [make(one, i) for i, one in enumerate(given)]
        mappings: Sequence[dict[object, object]] = given  # type: ignore[assignment]  # as was just seen
        lengths = list(map(len, mappings))
        names = list(chain.from_iterable(mappings))
        values = list(chain.from_iterable(map(dict.values, mappings)))
        last = self._kept
        ends = [_common_ends(last.values, values)]
        if any(ends[0]):
            ends = [_in_wholes(some, lengths) for some in (ends[0], _common_ends(last.names, names))]
            ends.append(_common_ends(last.lengths, lengths))
        before = min(first for first, _ in ends)
        after = min(len(given) - before, len(last.sections) - before, *(end for _, end in ends))
        end = len(given) - after
        made = [make(given[i], i) for i in range(before, end)]
        sections = [*last.sections[:before], *made, *last.sections[len(last.sections) - after :]]
        changed = chain.from_iterable(map(dict.values, mappings[before:end]))
        if set(map(type, changed)) <= _UNCHANGING:
            self._kept = _Made(lengths, names, values, sections)
        return sections


# Types whose objects cannot change. What a mapping holds else may be another value at the next call.
_UNCHANGING = frozenset({str, int, float, bool, type(None), Decimal, Fraction})


def _in_wholes(ends: tuple[int, int], lengths: Sequence[int]) -> tuple[int, int]:
    """How many whole mappings are within so many of all their names or values, from either end."""
    before, after = ends
    first = bisect_right(list(accumulate(lengths)), before)
    return first, bisect_right(list(accumulate(reversed(lengths))), after)


MADE = LastMade()
