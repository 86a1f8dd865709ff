"""Reuse of the work for the previous layouts: most of a prompt stays the same from one layout to the next.

Equal texts have the same measurements. Unchanged texts are found at the beginning and at the end of the list;
only the texts between them are measured again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, chain
from operator import eq, indexOf, is_
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from tokenbox.content.section import Section

T = TypeVar("T")

# The number of measurements to remember.
_LAYOUTS = 4
# The number of sections: fewer are measured as quickly, and more would need much memory.
_MIN_SECTIONS = 32
_MAX_SECTIONS = 200_000


class Measured(Generic[T]):
    """A value for each text of a layout, such as its count, computed when it is read.

    ``measure`` returns the values of the texts at some indices.
    """

    def __init__(self, values: list[T | None], measure: Callable[[Sequence[int]], Sequence[T]]) -> None:
        self._values, self._measure = values, measure

    def at(self, indices: Sequence[int]) -> list[T]:
        """Return the values of the texts at ``indices``."""
        values: list[Any] = self._values
        missing = [i for i in indices if values[i] is None]
        if missing:
            for i, value in zip(missing, self._measure(missing), strict=True):
                values[i] = value
        return [values[i] for i in indices]

    def all(self) -> list[T]:
        values = self._values
        return self.at(range(len(values))) if None in values else cast("list[T]", list(values))


class _Kept(NamedTuple):
    by: tuple[object, ...]
    texts: Sequence[str]
    values: Sequence[object]


class Measurements:
    """The measurements of the last layouts. Thread-safe: two threads may both measure a missing text."""

    def __init__(self) -> None:
        self._kept: Sequence[_Kept] = ()

    def of(
        self,
        by: tuple[object, ...],
        texts: Sequence[str],
        measure: Callable[[Sequence[int]], Sequence[T]],
        holds: Callable[[str, T], bool] = lambda _text, _value: True,
    ) -> Measured[T]:
        """Return a measurement with the values of texts that did not change since the last layout.

        ``by``: the objects that identify the measurement. ``holds`` checks a reused value; if it returns
        False, none is reused. The list of texts must not change later.
        """
        values: list[T | None] = [None] * len(texts)
        if not _MIN_SECTIONS <= len(texts) <= _MAX_SECTIONS:
            return Measured(values, measure)
        last = next((kept for kept in self._kept if _alike(kept.by, by)), None)
        if last is not None:
            before, after = _common_ends(last.texts, texts, eq)
            after = min(after, len(texts) - before, len(last.texts) - before)
            known = cast("Sequence[T | None]", last.values)
            values[:before] = known[:before]
            values[len(values) - after :] = known[len(known) - after :]
            if before + after and not _one_holds(texts, values, holds):
                values = [None] * len(texts)
        kept = _Kept(by, texts, values)
        self._kept = (kept, *(other for other in self._kept if other is not last))[:_LAYOUTS]
        return Measured(values, measure)


def _one_holds(texts: Sequence[str], values: Sequence[T | None], holds: Callable[[str, T], bool]) -> bool:
    """Check a known value from the middle of the list."""
    middle = len(values) // 2
    for i in chain(range(middle, len(values)), range(middle)):
        value = values[i]
        if value is not None:
            return holds(texts[i], value)
    return True


class LastResult(Generic[T]):
    """The result for the last columns, for columns that are equal to them. Thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Sequence[object], ...], T] | None = None

    def of(self, columns: tuple[Sequence[object], ...], make: Callable[[], T]) -> T:
        """Return ``make()``, or its last result for equal columns. The columns must not change later."""
        kept = self._kept
        if kept is not None and kept[0] == columns:
            return kept[1]
        made = make()
        if len(columns[0]) <= _MAX_SECTIONS:
            self._kept = columns, made
        return made


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return whether these are the same objects. A bound method is a new object at each access."""
    return len(one) == len(other) and all(
        a is b or (type(a) is type(b) and isinstance(a, str | MethodType) and a == b)
        for a, b in zip(one, other, strict=True)
    )


MEASUREMENTS = Measurements()


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
        ends = [_common_ends(last.values, values, is_)]
        if any(ends[0]) and not set(map(type, last.values)) <= _IMMUTABLE:
            ends = [(0, 0)]
        if any(ends[0]):
            ends = [
                _whole_mappings(some, lengths) for some in (ends[0], _common_ends(last.names, names, is_))
            ]
            ends.append(_common_ends(last.lengths, lengths, eq))
        before = min(first for first, _ in ends)
        after = min(len(given) - before, len(last.sections) - before, *(end for _, end in ends))
        end = len(given) - after
        made = [make(given[i], i) for i in range(before, end)]
        sections = [*last.sections[:before], *made, *last.sections[len(last.sections) - after :]]
        self._kept = _Parsed(lengths, names, values, sections)
        return sections


def _common_ends(
    old: Sequence[object], new: Sequence[object], are_alike: Callable[[object, object], bool]
) -> tuple[int, int]:
    """Return the lengths of the common prefix and suffix. They overlap for equal lists."""
    first = _alike_until(map(are_alike, old, new), old, new)
    if first == len(old) == len(new):
        return first, first
    return first, _alike_until(map(are_alike, reversed(old), reversed(new)), old, new)


def _alike_until(same: Iterable[bool], old: Sequence[object], new: Sequence[object]) -> int:
    try:
        return indexOf(same, False)  # noqa: FBT003  # the parameter is positional-only
    except ValueError:
        return min(len(old), len(new))


# Immutable types. An object of any other type may have changed at the next call.
_IMMUTABLE = frozenset({str, int, float, bool, type(None), Decimal, Fraction})


def _whole_mappings(ends: tuple[int, int], lengths: Sequence[int]) -> tuple[int, int]:
    """Convert numbers of equal keys or values at both ends to numbers of complete mappings."""
    before, after = ends
    first = bisect_right(list(accumulate(lengths)), before)
    return first, bisect_right(list(accumulate(reversed(lengths))), after)


PARSED = ParsedSections()
