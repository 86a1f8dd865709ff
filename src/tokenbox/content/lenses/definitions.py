"""The definitions in a source file: names, signatures, bodies and nested definitions.

Source in a language with a grammar is read from its syntax tree (``parsed``), other source by the beginnings
of its lines (``headed``). Where the parser met a syntax error, such as syntax that is newer than its grammar,
the definitions that it missed are read by lines too. Positions are byte offsets in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from tokenbox.content.lenses.definition import Definition, DefinitionRole
from tokenbox.content.lenses.headed import headed_definitions, indent_of
from tokenbox.content.lenses.parsed import parsed_definitions

if TYPE_CHECKING:
    from tokenbox.content.lenses.languages import Language

# The definitions by lines replace those of a syntax tree with errors if they cover this many times as much.
_MUCH_MORE = 2
# The beginning of a line is read no further: a line may be all of a file.
MAX_INDENT = 400


def definitions(source: bytes, language: Language) -> tuple[Definition, ...]:
    """Return the definitions in ``source``, in order, members inside their containers."""
    if language.heads is not None:
        return headed_definitions(source, language.heads)
    found, broken = parsed_definitions(source, language)
    if not found and language.otherwise is not None:
        return headed_definitions(source, language.otherwise)
    if not broken or language.on_errors is None:
        return found
    by_lines = headed_definitions(source, language.on_errors)
    if _covered(found) * 2 < len(source) and _number(by_lines) >= _number(found):
        outer = [one for one in by_lines if source[one.start - 1 : one.start] in (b"\n", b"")]
        if _covered(outer) > _MUCH_MORE * _covered(found):
            return by_lines
    return _restored(source, found, by_lines, broken)


def _covered(found: Iterable[Definition]) -> int:
    """Return the number of bytes that are part of a definition."""
    return sum(one.last - one.first for one in found)


def _number(found: Iterable[Definition]) -> int:
    """Return the number of definitions, with those inside of others."""
    return sum(1 for _ in _flat(found))


def _flat(found: Iterable[Definition]) -> Iterator[Definition]:
    """Yield the definitions, each before those inside it."""
    for one in found:
        yield one
        yield from _flat(one.inside)


@dataclass(slots=True)
class _Open:
    """A definition whose end and members may still change. ``row``: of its start, ``indent``: of this row."""

    one: Definition
    is_by_lines: bool
    row: int
    indent: int
    last: int
    inside: list[_Open] = field(default_factory=list)

    def holds(self, other: _Open) -> bool:
        """Return whether a definition that begins in this one is a member of it."""
        least = min(self.indent + 1, self.inside[0].indent) if self.inside else self.indent + 1
        is_container = self.one.role is DefinitionRole.CONTAINER
        return is_container and (other.indent >= least or other.row == self.row)

    def hides(self, new: _Open) -> bool:
        """Return whether ``new``, which begins after this one, is the same definition, or a local one."""
        one, is_function = self.one, self.one.role is not DefinitionRole.CONTAINER
        if self.is_by_lines:
            return is_function and new.row == self.row
        is_same = one.start == new.one.start or (
            new.one.start < one.body and one.name.endswith(new.one.name)  # as below ``template <T>``
        )
        return new.is_by_lines and (is_same or (is_function and new.indent > self.indent))

    def closed(self) -> Definition:
        inside = tuple(member.closed() for member in self.inside)
        is_signature = self.one.is_signature and all(member.row == self.row for member in self.inside)
        body = min(self.one.body, self.last, *(member.first for member in inside))
        return replace(self.one, body=body, last=self.last, inside=inside, is_signature=is_signature)


def _restored(
    source: bytes,
    found: Sequence[Definition],
    by_lines: Sequence[Definition],
    broken: Sequence[tuple[int, int]],
) -> tuple[Definition, ...]:
    """Return ``found`` with the definitions by lines that it misses where the syntax is ``broken``.

    To a parser, the function with the error may go on to the end of the file. So a definition ends where
    another begins that was read by lines and is no member of it.
    """
    rows = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def opened(one: Definition, *, is_by_lines: bool) -> _Open:
        row = bisect_right(rows, one.start) - 1
        line = source[rows[row] : min(one.start, rows[row] + MAX_INDENT)]
        if is_by_lines and source[one.start : one.body].rstrip().endswith(b","):
            one = replace(one, role=DefinitionRole.MEMBER, body=one.last)  # a macro in a list
        return _Open(one, is_by_lines, row, indent_of(line), one.last)

    # Keywords that the parser took for members, as after an enum that nothing closes.
    starts = {one.start for one in _flat(by_lines)}
    words = {
        one.start: one.last
        for one in _flat(found)
        if one.start in starts and source[one.start : one.last].isalpha()
    }
    missed = [opened(one, is_by_lines=True) for one in _within(_flat(by_lines), [*broken, *words.items()])]
    known = [opened(one, is_by_lines=False) for one in _flat(found) if words.get(one.start) != one.last]
    top: list[_Open] = []
    stack: list[_Open] = []
    floor = 0  # nothing begins before it any more
    for new in sorted([*known, *missed], key=lambda one: (one.one.start, one.is_by_lines)):
        start = new.one.start
        while stack and stack[-1].last <= start:
            floor = max(floor, stack.pop().last)
        siblings = stack[-1].inside if stack else top
        if any(one.hides(new) for one in (*stack[-1:], *siblings[-1:])):
            continue
        first = new.one.first if new.one.first >= floor else start
        floor = start + 1
        new.one = replace(new.one, first=first)
        while stack and (new.is_by_lines or stack[-1].is_by_lines) and not stack[-1].holds(new):
            stack.pop().last = first
        if stack and new.is_by_lines:
            new.last = min(new.last, stack[-1].last)
        for one in stack:
            one.last = max(one.last, new.last)
        (stack[-1].inside if stack else top).append(new)
        stack.append(new)
    return tuple(one.closed() for one in top)


def _within(found: Iterable[Definition], ranges: Sequence[tuple[int, int]]) -> Iterator[Definition]:
    """Yield the definitions that begin in one of the ``ranges``."""
    starts = sorted(start for start, _ in ranges)
    ends = list(accumulate((end for _, end in sorted(ranges)), max))
    for one in found:
        n = bisect_right(starts, one.start)
        if n and one.start < ends[n - 1]:
            yield one
