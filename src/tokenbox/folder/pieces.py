"""A file as pieces: its definitions, merged and split to about 40 lines; without a grammar its paragraphs.

The pieces of a file follow each other and are all of it. Each ends with a line break (but the last may
not), and the blank lines after it belong to it, so that what pieces count adds up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.content.lenses.definitions import DefinitionRole, definitions, works
from tokenbox.content.lenses.languages import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.content.lenses.definitions import Definition

LINES = 40
"""Lines that pieces are merged to, and longer ones split to."""
LONGEST = 60
_MAX_PARSED = 2 << 20
_FENCE = re.compile(rb" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines ``first`` up to ``last`` (from 0, ``last`` excluded), bytes ``start`` up to ``end``.

    ``names``: what is defined there. ``within``: the names of what encloses it, outermost first.
    """

    first: int
    last: int
    start: int
    end: int
    names: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A file's pieces, and its definitions where its language has a grammar."""

    pieces: tuple[Piece, ...]
    definitions: tuple[Definition, ...] = ()


Named = tuple[int, str]
"""The line that a definition begins at, without its comment, and its name."""


class _Unit:
    """Lines that stay together if they can."""

    __slots__ = ("first", "names", "within")

    def __init__(self, first: int, names: tuple[Named, ...] = (), within: tuple[str, ...] = ()) -> None:
        self.first = first
        self.names = names
        self.within = within


def shape(data: bytes, language: str | None) -> Shape:
    """The pieces of a file.

    ``language``: a name of ``content.lenses.languages``; None where there is no grammar.
    """
    starts = _line_starts(data)
    found: tuple[Definition, ...] = ()
    if language is not None and len(data) <= _MAX_PARSED and works(language):
        found = definitions(data, BY_NAME[language])
    units = list(_units(starts, found)) if found else _paragraphs(data, starts)
    return Shape(tuple(_pieces(data, starts, units)), found)


def _line_starts(data: bytes) -> list[int]:
    starts = [0]
    at = data.find(b"\n")
    while at != -1:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    if len(starts) > 1 and starts[-1] == len(data):
        starts.pop()
    return starts


def _units(starts: Sequence[int], found: Sequence[Definition]) -> Iterator[_Unit]:
    """The file's definitions, and what is between them, by the line they begin at."""
    walk = _Walk(starts)
    yield from walk.visit(found, ())
    if walk.line < len(starts):
        yield _Unit(walk.line)


class _Walk:
    """Where a walk over definitions is: ``line`` is the first line that belongs to no unit yet."""

    def __init__(self, starts: Sequence[int]) -> None:
        self._starts = starts
        self.line = 0

    def visit(self, some: Sequence[Definition], within: tuple[str, ...]) -> Iterator[_Unit]:
        for one in some:
            first, last = self._lines(one)
            if last <= self.line:
                continue
            if one.role is DefinitionRole.CONTAINER and last - first > LINES and one.inside:
                own = (*within, one.name) if one.name else within
                inner = max(first + 1, self._lines(one.inside[0])[0])
                yield from self._unit(
                    first, inner, ((self._line(one.start), one.name),) if one.name else (), within
                )
                yield from self.visit(one.inside, own)
                if last > self.line:
                    yield _Unit(self.line, (), own)
                    self.line = last
            else:
                yield from self._unit(first, last, tuple(self._names(one)), within)

    def _lines(self, one: Definition) -> tuple[int, int]:
        return self._line(one.first), self._line(max(one.first, one.last - 1)) + 1

    def _line(self, byte: int) -> int:
        return bisect_right(self._starts, byte) - 1

    def _names(self, definition: Definition) -> Iterator[Named]:
        if definition.name:
            yield self._line(definition.start), definition.name
        for inner in definition.inside:
            yield from self._names(inner)

    def _unit(
        self, first: int, last: int, names: tuple[Named, ...], within: tuple[str, ...]
    ) -> Iterator[_Unit]:
        """The lines before ``first``, then the unit itself."""
        first = max(first, self.line)
        if first > self.line:
            yield _Unit(self.line, (), within)
        if last > first:
            yield _Unit(first, names, within)
        self.line = max(self.line, last)


def _paragraphs(data: bytes, starts: Sequence[int]) -> list[_Unit]:
    """Runs of lines up to blank ones; of prose, up to its headings, which are not those of code in it."""
    units: list[_Unit] = []
    blank, fenced = True, False
    for n, start in enumerate(starts):
        end = starts[n + 1] if n + 1 < len(starts) else len(data)
        content = data[start:end]
        empty = not content.strip()
        fence = _FENCE.match(content) is not None
        heads = content.startswith(b"#") and not fenced
        if not empty and (blank or heads):
            heading = content[:80].strip(b"#= \n\t").decode("utf-8", "replace")
            units.append(_Unit(n, ((n, heading),) if heads else ()))
        fenced ^= fence
        blank = empty
    return units


def _pieces(data: bytes, starts: Sequence[int], units: Sequence[_Unit]) -> Iterator[Piece]:
    """The units merged up to ``LINES``, and split where they are longer than ``LONGEST``."""
    total = len(starts)
    if not data:
        return
    merged: list[tuple[int, list[Named], tuple[str, ...]]] = []
    for n, unit in enumerate(units):
        last = units[n + 1].first if n + 1 < len(units) else total
        if last <= unit.first:
            continue
        if merged:
            first, names, within = merged[-1]
            if last - first <= LINES and _kin(within, unit.within):
                names += unit.names
                continue
        begin = unit.first
        while (
            begin < last
            and not data[starts[begin] : starts[begin + 1] if begin + 1 < total else len(data)].strip()
        ):
            begin += 1  # blank lines belong to what is before them
        if begin == last and merged:
            continue
        merged.append((begin if merged else 0, list(unit.names), unit.within))
    for n, (first, names, within) in enumerate(merged or [(0, [], ())]):
        last = merged[n + 1][0] if n + 1 < len(merged) else total
        for a, b in _split(data, starts, first, last):
            end = starts[b] if b < total else len(data)
            before = [name for line, name in names if line < a]
            own = tuple(name for line, name in names if a <= line < b)
            yield Piece(a, b, starts[a], end, own, (*within, before[-1]) if before else within)


def _kin(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one == other or one == other[: len(one)] or other == one[: len(other)]


def _split(data: bytes, starts: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Runs of about ``LINES`` lines, cut where a blank line or a small indent begins a statement."""
    while last - first > LONGEST:
        best, cut = -1, first + LINES
        for n in range(first + LINES // 2, min(first + LONGEST, last - 8)):
            content = data[starts[n] : starts[n] + 200]
            if not content.strip():
                continue
            indent = len(content) - len(content.lstrip(b" \t"))
            after_blank = not data[starts[n - 1] : starts[n]].strip()
            closing = content.lstrip()[:1] in (b"}", b")", b"]", b"e")
            value = 40 * after_blank - 2 * min(indent, 16) - 12 * closing - abs(n - first - LINES) // 2 + 100
            if value > best:
                best, cut = value, n
        yield first, cut
        first = cut
    yield first, last
