"""``select`` and ``markdown_sections``: the requested parts of a text, with a count of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from tokenbox.characters import casefold
from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import count_omitted, omission, split_lines
from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.query import read_query
from tokenbox.worth.relevance import Relevance

if TYPE_CHECKING:
    from tokenbox.worth.query import Query

# A part is a run of lines without an empty line, with at most this many lines, and at most this share of the
# selected lines: otherwise the part with the best line may not fit.
LONGEST_PART = 12
_SHARE = 4
_LEFT_OUT = re.compile(r"\[\.\.\. [0-9]{1,15} lines? left out \.\.\.\]\s*")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)\n?")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


@lens(
    "3",
    "the parts of a text that match a query best, in order, with a count of the other lines",
    Parameter("query", str),
    Parameter("lines", int, default=60),
    example='select("the error of the parser", lines=60)',
)
def select(text: str, query: str, lines: int) -> str:
    """Select whole parts (paragraphs, hits, entries) by relevance to the query, up to ``lines`` lines."""
    every = split_lines(text)
    if sum(not _LEFT_OUT.fullmatch(line) for line in every) <= lines:
        return text
    parts = list(_parts(every, max(1, min(LONGEST_PART, lines // _SHARE))))
    chosen: set[int] = set()
    room = lines
    for i in _by_worth(parts, query):
        size = sum(not _LEFT_OUT.fullmatch(line) for line in parts[i])
        if size <= room:
            chosen.add(i)
            room -= size
    less = "".join(_shown(parts, chosen))
    return less if len(less) < len(text) else text


def _parts(lines: Sequence[str], longest: int) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        alone = _LEFT_OUT.fullmatch(line) is not None
        if part and (alone or len(part) >= longest or (part[-1].isspace() and not line.isspace())):
            yield part
            part = []
        part.append(line)
        if alone:
            yield part
            part = []
    if part:
        yield part


def _by_worth(parts: Sequence[Sequence[str]], query: str) -> list[int]:
    """Return the indexes of the parts, best first; parts without a match come last, in order."""
    data = ["".join(part).encode("utf-8", "surrogatepass") for part in parts]
    relevance = Relevance([Document("", b"".join(data))], _read(query))
    ends = list(accumulate(map(len, data)))
    spans = [PieceSpan(end - len(part), end) for end, part in zip(ends, data, strict=True)]
    worth = [relevance.piece(0, span) for span in spans]
    return sorted(range(len(parts)), key=lambda i: (-worth[i], i))


@lru_cache(maxsize=16)
def _read(query: str) -> Query:
    return read_query(query)


def _shown(parts: Sequence[Sequence[str]], chosen: set[int]) -> Iterator[str]:
    """Yield the lines of the chosen parts, and a counting line for each run of other parts."""
    omitted: list[str] = []
    for i, part in enumerate(parts):
        if i in chosen:
            yield from _counted(omitted)
            yield from part
            omitted = []
        else:
            omitted += part
    yield from _counted(omitted)


def _counted(lines: Sequence[str]) -> Iterable[str]:
    return [f"{omission(count_omitted(lines), 'line')}\n"] if lines else []


@lens(
    "2",
    "Markdown sections: the named ones in full, the others by heading and first paragraph",
    Parameter("names", str, default=""),
    example='markdown_sections("Install, Usage")',
)
def markdown_sections(text: str, names: str) -> str:
    """Keep the sections whose heading contains one of the ``names``, with subsections; shorten the others."""
    wanted = [casefold(name.strip()) for name in names.split(",") if name.strip()]
    result: list[str] = []
    whole_above = 0  # the level of the named section that contains the current one
    for level, title, lines in _sections(split_lines(text)):
        if whole_above and 0 < level <= whole_above:
            whole_above = 0
        if not whole_above and level and any(name in casefold(title) for name in wanted):
            whole_above = level
        result += lines if whole_above else _first_paragraph(lines, heading=level > 0)
    return "".join(result)


def _sections(lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the level, title and lines of each section; level 0 for text before the first heading."""
    level, title, fenced = 0, "", False
    section: list[str] = []
    for line in lines:
        fenced ^= _FENCE.match(line) is not None
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading:
            if section:
                yield level, title, section
            level, title, section = len(heading[1]), heading[2].rstrip(" \t\r#"), []
        section.append(line)
    if section:
        yield level, title, section


def _first_paragraph(lines: Sequence[str], *, heading: bool) -> list[str]:
    """Return the heading, the first paragraph and a line that counts the rest."""
    start = int(heading)
    while start < len(lines) and lines[start].isspace():
        start += 1
    end = start
    while end < len(lines) and not lines[end].isspace():
        end += 1
    rest = [line for line in lines[end:] if not line.isspace()]
    if not rest or (len(rest) == 1 and _LEFT_OUT.fullmatch(rest[0])):
        return list(lines)
    kept = list(lines[:end])
    if kept and not kept[-1].endswith(("\n", "\r")):
        kept[-1] += "\n"
    note = ["\n", f"{omission(count_omitted(rest), 'line')}\n", "\n"]
    return [*kept, *note] if sum(map(len, note)) < sum(map(len, lines[end:])) else list(lines)
