"""Cut a file into pieces: definitions, merged and split to about 40 lines; paragraphs without a grammar.

The pieces of a file are consecutive and cover it. Each ends with a line break (except perhaps the last), and
includes the blank lines after it, so that the token counts of pieces add up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses.definition import DefinitionRole
from tokenbox.content.lenses.definitions import definitions
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.syntax import works
from tokenbox.worth.documents import PieceSpan
from tokenbox.worth.notices import notice_end

if TYPE_CHECKING:
    from tokenbox.content.lenses.definition import Definition

# The length in lines that pieces are merged and split to, and the length from which they are split.
_TARGET_LINES, _MAX_LINES = 40, 60
MAX_PARSED = 2 << 20
"""The size in bytes of the largest file whose definitions are read."""
_LINE_END = re.compile(rb"\n")
_FENCE = re.compile(rb" {0,3}```")
# Lines that only close what is before them.
_CLOSING = re.compile(rb"(?:[\s)\]};,]|end\b|(?!))*+\Z")


@dataclass(frozen=True, slots=True)
class Shape:
    """The pieces of a file, and its definitions if its language has a grammar."""

    pieces: tuple[PieceSpan, ...]
    definitions: tuple[Definition, ...] = ()


class _Name(NamedTuple):
    """The name of a definition, and the line at which it begins (after its comment)."""

    line: int
    name: str


class _Unit(NamedTuple):
    """Lines to keep together if possible."""

    first: int
    names: tuple[_Name, ...] = ()
    within: tuple[str, ...] = ()


def shape(data: bytes, language: str | None) -> Shape:
    """Return the pieces of a file.

    ``language``: a name of ``content.lenses.languages``; None for a file without a grammar.
    """
    starts = _line_starts(data)
    found: tuple[Definition, ...] = ()
    if language is not None and len(data) <= MAX_PARSED and works(language):
        found = definitions(data, BY_NAME[language])
    units = list(_units(starts, found)) if found else _paragraphs(data, starts)
    top = data.count(b"\n", 0, notice_end(data))
    if top:
        units = [_Unit(0), *(unit._replace(first=max(unit.first, top)) for unit in units)]
    return Shape(tuple(_pieces(data, starts, units, top)), found)


def _line_starts(data: bytes) -> list[int]:
    starts = [0, *(match.end() for match in _LINE_END.finditer(data))]
    if len(starts) > 1 and starts[-1] == len(data):
        starts.pop()
    return starts


def _units(starts: Sequence[int], found: Sequence[Definition]) -> Iterator[_Unit]:
    """Yield the definitions of a file and the lines between them, in order."""
    walk = _Walk(starts)
    yield from walk.visit(found, ())
    if walk.line < len(starts):
        yield _Unit(walk.line)


class _Walk:
    """A walk over definitions. ``line`` is the first line that belongs to no unit yet."""

    def __init__(self, starts: Sequence[int]) -> None:
        self._starts = starts
        self.line = 0

    def visit(self, found: Sequence[Definition], within: tuple[str, ...]) -> Iterator[_Unit]:
        """Yield the units of definitions; those of a long container are its own definitions."""
        for definition in found:
            first, last = self._lines(definition)
            if last <= self.line:
                continue
            is_container = definition.role is DefinitionRole.CONTAINER and definition.inside
            if is_container and last - first > _TARGET_LINES:
                inner = max(first + 1, self._lines(definition.inside[0])[0])
                yield from self._unit(first, inner, tuple(self._own_name(definition)), within)
                inside = (*within, definition.name) if definition.name else within
                yield from self.visit(definition.inside, inside)
                if last > self.line:
                    yield _Unit(self.line, (), inside)
                    self.line = last
            else:
                yield from self._unit(first, last, tuple(self._names(definition)), within)

    def _lines(self, definition: Definition) -> tuple[int, int]:
        last = max(definition.first, definition.last - 1)
        return self._line(definition.first), self._line(last) + 1

    def _line(self, byte: int) -> int:
        return bisect_right(self._starts, byte) - 1

    def _own_name(self, definition: Definition) -> Iterator[_Name]:
        if definition.name:
            yield _Name(self._line(definition.start), definition.name)

    def _names(self, definition: Definition) -> Iterator[_Name]:
        yield from self._own_name(definition)
        for inner in definition.inside:
            yield from self._names(inner)

    def _unit(
        self, first: int, last: int, names: tuple[_Name, ...], within: tuple[str, ...]
    ) -> Iterator[_Unit]:
        """Yield the lines before ``first``, then the unit itself."""
        first = max(first, self.line)
        if first > self.line:
            yield _Unit(self.line, (), within)
        if last > first:
            yield _Unit(first, names, within)
        self.line = max(self.line, last)


def _paragraphs(data: bytes, starts: Sequence[int]) -> list[_Unit]:
    """Return the paragraphs. A heading of Markdown begins one too, and names it; fenced code is not cut."""
    units: list[_Unit] = []
    after_blank, is_fenced = True, False
    for n, (start, end) in enumerate(pairwise([*starts, len(data)])):
        content = data[start:end]
        is_blank = not content.strip()
        is_heading = content.startswith(b"#") and not content.startswith(b"#!") and not is_fenced
        if is_heading:
            heading = content[:80].strip(b"#= \n\t").decode("utf-8", "replace")
            units.append(_Unit(n, (_Name(n, heading),)))
        elif after_blank and not is_blank and not is_fenced:
            units.append(_Unit(n))
        is_fenced ^= _FENCE.match(content) is not None
        after_blank = is_blank
    return units


def _pieces(data: bytes, starts: Sequence[int], units: Sequence[_Unit], top: int) -> Iterator[PieceSpan]:
    """Yield the units merged up to ``_TARGET_LINES``, split where they are longer than ``_MAX_LINES``.

    The first ``top`` lines, a license, are a piece of their own.
    """
    total, bounds = len(starts), [*starts, len(data)]
    if not data:
        return
    merged: list[tuple[int, list[_Name], tuple[str, ...]]] = []
    for n, unit in enumerate(units):
        last = units[n + 1].first if n + 1 < len(units) else total
        if last <= unit.first:
            continue
        if merged:
            first, names, within = merged[-1]
            fits = last - first <= _TARGET_LINES and _are_nested(within, unit.within)
            if first >= top and (fits or _CLOSING.match(data, bounds[unit.first], bounds[last])):
                names += unit.names
                continue
        begin = unit.first
        while begin < last and not data[bounds[begin] : bounds[begin + 1]].strip():
            begin += 1  # blank lines belong to what is before them
        if begin == last and merged:
            continue
        merged.append((begin if merged else 0, list(unit.names), unit.within))
    for n, (first, names, within) in enumerate(merged or [(0, [], ())]):
        last = merged[n + 1][0] if n + 1 < len(merged) else total
        for a, b in _split(data, starts, first, last):
            before = [name for line, name in names if line < a]
            own = tuple(name for line, name in names if a <= line < b)
            around = (*within, before[-1]) if before else within
            yield PieceSpan(bounds[a], bounds[b], a, b, own, around, b <= top)


def _are_nested(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one of the two scopes is inside the other, or is the same."""
    return one == other[: len(one)] or other == one[: len(other)]


def _split(data: bytes, starts: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield runs of about ``_TARGET_LINES`` lines, preferring cuts after blank lines and at small indents."""
    while last - first > _MAX_LINES:
        best, cut = -1, first + _TARGET_LINES
        for n in range(first + _TARGET_LINES // 2, min(first + _MAX_LINES, last - 8)):
            content = data[starts[n] : starts[n] + 200]
            if not content.strip():
                continue
            indent = len(content) - len(content.lstrip(b" \t"))
            after_blank = not data[starts[n - 1] : starts[n]].strip()
            closing = content.lstrip()[:1] in (b"}", b")", b"]", b"e")
            distance = abs(n - first - _TARGET_LINES)
            value = 100 + 40 * after_blank - 2 * min(indent, 16) - 12 * closing - distance // 2
            if value > best:
                best, cut = value, n
        if best < 0:  # blank lines belong to what is before them
            rest = range(first + _MAX_LINES, last)
            cut = next((n for n in rest if data[starts[n] : starts[n] + 200].strip()), last)
        yield first, cut
        first = cut
    if first < last:
        yield first, last
