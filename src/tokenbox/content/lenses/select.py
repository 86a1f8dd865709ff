"""``select`` and ``markdown_sections``: the requested parts of a text, with a count of the others."""

from __future__ import annotations

import re
from bisect import bisect_left
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

# A part is a run of lines without an empty line. A run that is longer than this, or than the selected lines,
# is split into parts of at most this share of the selected lines: otherwise its best line may not fit.
LONGEST_PART = 12
_SHARE = 4
_LEFT_OUT = re.compile(r"\[\.\.\. [0-9]{1,15} lines? left out \.\.\.\]\s*")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)\n?")
# A heading of one line may be underlined instead.
_UNDERLINED = re.compile(r" {0,3}(?!#|>|\||```|~~~|[*+-][ \t]|[0-9]{1,9}[.)][ \t])\S.*", re.DOTALL)
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)\s*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\r\n]*)")


@lens(
    "4",
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
    parts = list(_parts(every, lines))
    chosen: set[int] = set()
    room = lines
    for i in _by_worth(parts, query):
        size = sum(not _LEFT_OUT.fullmatch(line) for line in parts[i])
        if size <= room:
            chosen.add(i)
            room -= size
    less = "".join(_shown(parts, chosen))
    return less if len(less) < len(text) else text


def _parts(every: Sequence[str], lines: int) -> Iterator[list[str]]:
    whole, share = min(LONGEST_PART, lines), max(1, min(LONGEST_PART, lines // _SHARE))
    for run in _runs(every):
        size = len(run) if len(run) <= whole else share
        yield from (run[start : start + size] for start in range(0, len(run), size))


def _runs(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the paragraphs with the empty lines after them; a counting line is a run of its own."""
    run: list[str] = []
    for line in lines:
        alone = _LEFT_OUT.fullmatch(line) is not None
        if run and (alone or (run[-1].isspace() and not line.isspace())):
            yield run
            run = []
        run.append(line)
        if alone:
            yield run
            run = []
    if run:
        yield run


def _by_worth(parts: Sequence[Sequence[str]], query: str) -> list[int]:
    """Return the indexes of the parts, best first; parts without a match last, the nearest to one first."""
    data = ["".join(part).encode("utf-8", "surrogatepass") for part in parts]
    relevance = Relevance([Document("", b"".join(data))], _read(query))
    ends = list(accumulate(map(len, data)))
    spans = [PieceSpan(end - len(part), end) for end, part in zip(ends, data, strict=True)]
    worth = [relevance.piece(0, span) for span in spans]
    least = min(worth, default=0)  # of a part without a match
    matches = [i for i, value in enumerate(worth) if value > least]

    def distance(i: int) -> int:
        place = bisect_left(matches, i)
        return min((abs(i - match) for match in matches[max(0, place - 1) : place + 1]), default=0)

    return sorted(range(len(parts)), key=lambda i: (-worth[i], distance(i), i))


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
    "3",
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
    level, title = 0, ""
    section: list[str] = []
    for line, in_code in zip(lines, _in_code(lines), strict=True):
        heading = None if in_code else _HEADING.fullmatch(line)
        underline = None if in_code or not _ends_in_title(section) else _UNDERLINE.fullmatch(line)
        begin = [section.pop()] if underline else []
        if heading or underline:
            if section:
                yield level, title, section
            level = len(heading[1]) if heading else 1 if underline and underline[1] else 2
            title = heading[2].rstrip(" \t\r#") if heading else begin[0].strip()
            section = begin
        section.append(line)
    if section:
        yield level, title, section


def _ends_in_title(section: Sequence[str]) -> bool:
    """Return whether the last line may be a heading if it is underlined: a paragraph of one line."""
    is_alone = len(section) == 1 or (len(section) > 1 and section[-2].isspace())
    return is_alone and _UNDERLINED.fullmatch(section[-1]) is not None


def _in_code(lines: Sequence[str]) -> Iterator[bool]:
    """Return for each line whether it is in fenced code, or a fence."""
    mark = ""  # the fence that opened the code
    for line in lines:
        fence = _FENCE.match(line)
        if mark:
            yield True
            if fence and fence[1].startswith(mark) and not fence[2].strip():
                mark = ""
        else:
            mark = fence[1] if fence and (fence[1][0] == "~" or "`" not in fence[2]) else ""
            yield bool(mark)


def _first_paragraph(lines: Sequence[str], *, heading: bool) -> list[str]:
    """Return the heading, the first paragraph and a line that counts the rest."""
    start = int(heading)
    if heading and not _HEADING.fullmatch(lines[0]):
        start += 1  # its underline
    while start < len(lines) and lines[start].isspace():
        start += 1
    end = start
    in_code = list(_in_code(lines))
    while end < len(lines) and (in_code[end] or not lines[end].isspace()):
        end += 1
    rest = [line for line in lines[end:] if not line.isspace()]
    if not rest or (len(rest) == 1 and _LEFT_OUT.fullmatch(rest[0])):
        return list(lines)
    kept = list(lines[:end])
    if kept and not kept[-1].endswith(("\n", "\r")):
        kept[-1] += "\n"
    note = ["\n", f"{omission(count_omitted(rest), 'line')}\n", "\n"]
    return [*kept, *note] if sum(map(len, note)) < sum(map(len, lines[end:])) else list(lines)
