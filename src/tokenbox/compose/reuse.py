"""Reuse of the work for the previous layouts: most of a prompt stays the same from one layout to the next.

Sections are immutable, so the same object has the same measurements. Unchanged sections are found at the
beginning and at the end of the list; only the sections between them are measured again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, chain
from operator import indexOf, is_
from types import MethodType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from tokenbox.content.section import Section

    Column = list[object]

T = TypeVar("T")

# The number of layouts to remember.
_LAYOUTS = 4
# The number of sections: fewer are measured as quickly, and more would need much memory.
_MIN_SECTIONS = 32
_MAX_SECTIONS = 200_000


class _Measured(NamedTuple):
    by: tuple[object, ...]
    sections: Sequence[Section]
    columns: Sequence[Column]


class MeasuredColumns:
    """The measurements of the last layouts, in columns. Thread-safe."""

    def __init__(self) -> None:
        self._kept: Sequence[_Measured] = ()

    def columns(
        self,
        by: tuple[object, ...],
        sections: Sequence[Section],
        measure: Callable[[Sequence[Section]], Sequence[list[T]]],
        holds: Callable[[Section, Sequence[T]], bool] = lambda _section, _figures: True,
    ) -> Sequence[list[T]]:
        """Return ``measure(sections)``, measuring only sections that the last layouts did not measure.

        ``by``: the objects that identify the measurement. ``measure`` returns columns with a value for each
        section. ``holds`` checks one section with reused values; if it returns False, all are measured.
        """
        if not _MIN_SECTIONS <= len(sections) <= _MAX_SECTIONS:
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
    """Return the columns with only the changed sections measured; None if nothing can be reused."""
    before, after = _common_ends(last.sections, sections)
    after = min(after, len(sections) - before, len(last.sections) - before)
    if not before + after:
        return None
    end = len(sections) - after
    old_end = len(last.sections) - after
    known: Sequence[list[T]] = last.columns  # type: ignore[assignment]  # from the same measure
    made = measure(sections[before:end]) if end > before else [[] for _ in known]
    columns = [old[:before] + new + old[old_end:] for old, new in zip(known, made, strict=True)]
    i = before // 2 if before >= after else end + after // 2
    return columns if holds(sections[i], [column[i] for column in columns]) else None


def _common_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return the lengths of the common prefix and suffix, by identity. They overlap for equal lists."""
    first = _alike_until(map(is_, old, new), old, new)
    if first == len(old) == len(new):
        return first, first
    return first, _alike_until(map(is_, reversed(old), reversed(new)), old, new)


def _alike_until(same: Iterable[bool], old: Sequence[object], new: Sequence[object]) -> int:
    try:
        return indexOf(same, False)  # noqa: FBT003  # the parameter is positional-only
    except ValueError:
        return min(len(old), len(new))


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return whether these are the same objects. A bound method is a new object at each access."""
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


MEASUREMENTS = MeasuredColumns()


class _Parsed(NamedTuple):
    lengths: Sequence[int] = ()
    names: Sequence[object] = ()
    values: Sequence[object] = ()
    sections: Sequence[Section] = ()


class ParsedSections:
    """The sections parsed from mappings for the last layout. Thread-safe."""

    def __init__(self) -> None:
        self._kept = _Parsed()

    def sections(self, given: Sequence[object], make: Callable[[object, int], Section]) -> list[Section]:
        """Return ``make(given[i], i)`` for each, reusing the sections of unchanged mappings.

        An unchanged mapping has the same objects as keys and values, in the same order, all of immutable
        types.
        """
        if not _MIN_SECTIONS <= len(given) <= _MAX_SECTIONS or set(map(type, given)) != {dict}:
            return [make(one, i) for i, one in enumerate(given)]
        mappings: Sequence[dict[object, object]] = given  # type: ignore[assignment]  # checked above
        lengths = list(map(len, mappings))
        names = list(chain.from_iterable(mappings))
        values = list(chain.from_iterable(map(dict.values, mappings)))
        last = self._kept
        ends = [_common_ends(last.values, values)]
        if any(ends[0]) and not set(map(type, last.values)) <= _IMMUTABLE:
            ends = [(0, 0)]
        if any(ends[0]):
            ends = [_whole_mappings(some, lengths) for some in (ends[0], _common_ends(last.names, names))]
            ends.append(_common_ends(last.lengths, lengths))
        before = min(first for first, _ in ends)
        after = min(len(given) - before, len(last.sections) - before, *(end for _, end in ends))
        end = len(given) - after
        made = [make(given[i], i) for i in range(before, end)]
        sections = [*last.sections[:before], *made, *last.sections[len(last.sections) - after :]]
        self._kept = _Parsed(lengths, names, values, sections)
        return sections


# Immutable types. An object of any other type may have changed at the next call.
_IMMUTABLE = frozenset({str, int, float, bool, type(None), Decimal, Fraction})


def _whole_mappings(ends: tuple[int, int], lengths: Sequence[int]) -> tuple[int, int]:
    """Convert numbers of equal keys or values at both ends to numbers of complete mappings."""
    before, after = ends
    first = bisect_right(list(accumulate(lengths)), before)
    return first, bisect_right(list(accumulate(reversed(lengths))), after)


PARSED = ParsedSections()
