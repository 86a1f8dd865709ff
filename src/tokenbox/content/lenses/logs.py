"""``logs``: one line for each pattern of a log, with how often it came; errors with what is around them.

Lines are of one pattern if they differ only in words with a digit (times, ids, sizes, addresses) and in the
names of days and months. A line that begins with white space, or without a time where most lines have one,
belongs to the line before it, as a stack trace does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import counted, split_lines, weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

_VARIABLE = re.compile(
    r"\w*\d[\w.:+-]*|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b",
    re.ASCII,
)
_TIME = re.compile(r"\d{1,2}:\d\d:\d\d|\d{4}-\d\d-\d\d|\d{10,13}(?:\.\d+)?\b|\[ *\d+\.\d+\]", re.ASCII)
_TIME_WITHIN = 40
_ERROR = re.compile(
    r"\b(?:E|F|ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|ALERT|EMERG|PANIC|SEVERE|[Ee]rror|[Ff]atal|[Pp]anic|[Ff]ailed"
    r"|[Ff]ailure|FAIL(?:ED|URE)?|Exception|Traceback|Caused by|segfault|core dumped|OOM|[Oo]ut of memory"
    r"|timed out|refused)\b|\w(?:Error|Exception)\b|\" 5\d\d\b|\bstatus[=: ]+5\d\d\b",
    re.ASCII,
)
# Of errors of one pattern, the first so many are shown whole with what is around them.
SHOWN = 3


class _Record(NamedTuple):
    """A line of a log with those that belong to it."""

    lines: list[str]
    pattern: str
    weight: int
    error: bool


@lens(
    "2",
    "one line for each pattern of a log, with how often it came; errors with the lines around them",
    Parameter("context", int, default=2),
    example="logs",
)
def logs(text: str, context: int) -> str:
    """Each record of a pattern that came before is left out and counted, but for errors and their context."""
    # What is left out may change what most lines look like, so again, until nothing is.
    while len(less := _folded(text, context)) < len(text):
        text = less
    return text


def _folded(text: str, context: int) -> str:
    records = _records(split_lines(text))
    whole = _around_errors(records, context)
    kept: list[_Record] = []
    places: dict[str, int] = {}
    counts: list[int] = []
    for number, record in enumerate(records):
        place = places.get(record.pattern)
        if place is not None and number not in whole:
            counts[place] += record.weight
            continue
        if place is None:
            places[record.pattern] = len(kept)
        kept.append(record)
        counts.append(record.weight)
    return "".join(
        "".join([counted(record.lines[0], count), *record.lines[1:]])
        for record, count in zip(kept, counts, strict=True)
    )


def _records(lines: Sequence[str]) -> list[_Record]:
    timed = [_TIME.search(line, 0, _TIME_WITHIN) is not None for line in lines]
    mostly_timed = 2 * sum(timed) > sum(not line.isspace() for line in lines)
    records: list[_Record] = []
    for line, has_time in zip(lines, timed, strict=True):
        belongs = line[:1] in (" ", "\t") or line.isspace() or (mostly_timed and not has_time)
        if records and belongs:
            records[-1].lines.append(line)
        else:
            words, count = weighed(line)
            records.append(_Record([line], _VARIABLE.sub("0", words), count, error=False))
    return [
        record._replace(
            # What belongs to a line is part of its pattern, so two stack traces are not one.
            pattern="\n".join([record.pattern, *(_VARIABLE.sub("0", line) for line in record.lines[1:])]),
            error=any(_ERROR.search(line) for line in record.lines),
        )
        for record in records
    ]


def _around_errors(records: Sequence[_Record], context: int) -> set[int]:
    """The records that stay whole: the first errors of each pattern, and those around them."""
    seen: dict[str, int] = {}
    whole: set[int] = set()
    for number, record in enumerate(records):
        if record.error:
            seen[record.pattern] = seen.get(record.pattern, 0) + 1
            if seen[record.pattern] <= SHOWN:
                whole.update(range(number - context, number + context + 1))
    return whole
