"""``logs``: one line for each pattern of a log, with a count; errors with the lines around them.

Lines have the same pattern if they differ only in words with a digit (times, ids, sizes, addresses), in the
names of days and months, and in the random ends of Kubernetes' names (``web-kgmmb``: no vowels). An error
never has the pattern of another line: status 503 or 404 is not merged with 200, nor exit code 1 with 0. A
line that begins with white space, or without a time if most lines have one, belongs to the preceding line,
as in a stack trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import split_count, split_lines, with_count, without_styles

# The letter of a level stays (klog: "E1123 14:00:01"), and a level that is a number (pino: "level":50,
# journalctl -o json: "PRIORITY":"3").
_VARIABLE = re.compile(
    r"(?<=^[IWEF])\d{4}(?= \d\d:)|(?!^[IWEF]\d{4} \d\d:)(?<!\w)(?<!\"level\":)(?<!\"level\": )"
    r"(?<!\"PRIORITY\":\")\w*\d[\w.:+-]*"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
    r"|(?<=-)[bcdfghjklmnpqrstvwxz]{5}\b",
    re.ASCII,
)
_TIME = re.compile(r"\d{1,2}:\d\d:\d\d|\d{4}-\d\d-\d\d|\d{10,13}(?:\.\d+)?\b|\[ *\d+\.\d+\]", re.ASCII)
_TIME_WITHIN = 40
# What is before the status of a request: "GET /x HTTP/1.1" 503, HTTP 503, statusCode=503, "code":"503".
_STATUS = r"(?:\" |\bHTTP(?:/[0-9.]+)? |(?i:status|code)\"?[=: ]+\"?)"
_ERROR = re.compile(
    r"\b(?:E|F|ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|ALERT|EMERG|PANIC|SEVERE|[Ee]rror|[Ff]atal|[Pp]anic|[Ff]ailed"
    r"|[Ff]ailure|FAIL(?:ED|URE)?|Exception|Traceback|Caused by|segfault|core dumped|OOM|[Oo]ut of memory"
    r"|timed out|refused)\b|\w(?:Error|Exception)\b"
    rf"|{_STATUS}5\d\d\b"
    r"|^[EF]\d{4} \d\d:|\"level\": ?[56]0\b|\"PRIORITY\":\"[0-3]\""  # klog; pino; journalctl
    rf"|^<(?:{'|'.join(str(n) for n in range(192) if n % 8 <= 3)})>"  # syslog: error or worse
    r"|\b[Ee]xit(?:ed)?(?:[ _]?(?:with|[Ss]tatus|[Cc]ode))*\"?[=: ]+-?[1-9]\d*\b"
    r"|\b(?:rc|return ?_?[Cc]ode)\"?[=: ]+-?[1-9]\d*\b",
    re.ASCII,
)
# Requests that were refused are no errors of the server, but not merged with those that were answered.
_REFUSED = re.compile(rf"{_STATUS}4\d\d\b", re.ASCII)
# In a line with the method of a request, its status may be a word of its own: GET /x 503 12 ms.
_METHOD = re.compile(r"\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\b", re.ASCII)
_BARE_ERROR = re.compile(r"[ |]50[0-4](?=[ |])", re.ASCII)
_BARE_REFUSED = re.compile(r"[ |]4(?:[01]\d|2[29])(?=[ |])", re.ASCII)
# A number of failures that is not 0 has a pattern of its own: failed=1, 3 errors.
_FAILURES = re.compile(
    r"\b(?:errors?|fail(?:ed|ures?)?|unreachable)\"?[=: ]+[1-9]"
    r"|(?<![\w.,:+-])[1-9]\d*(?:,\d{3})* (?:errors?|failed|failures?)\b",
    re.ASCII | re.IGNORECASE,
)
# The number of errors of each pattern that are shown in full, with the lines around them.
SHOWN = 3


class _Record(NamedTuple):
    """A line of a log with the lines that belong to it."""

    lines: list[str]
    pattern: str
    weight: int
    error: bool


@lens(
    "6",
    "one line for each pattern of a log, with a count; errors with the lines around them",
    Parameter("context", int, default=2),
    example="logs",
)
def logs(text: str, context: int) -> str:
    """Merge records of the same pattern into a count, except errors and the records around them."""
    # Removing records may change whether most lines have a time, so repeat until nothing is removed.
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
        "".join([with_count(record.lines[0], count), *record.lines[1:]])
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
            words, count = split_count(line)
            records.append(_Record([line], _VARIABLE.sub("0", words), count, error=False))
    return [_completed(record) for record in records]


def _completed(record: _Record) -> _Record:
    """Return the record with the pattern of all of its lines: different stack traces are not merged."""
    first = without_styles(record.lines[0])
    is_request = _METHOD.search(first) is not None
    failures = _FAILURES.search(first) is not None
    error = (
        failures
        or any(_ERROR.search(without_styles(line)) for line in record.lines)
        or (is_request and _BARE_ERROR.search(first) is not None)
    )
    refused = _REFUSED.search(first) or (is_request and _BARE_REFUSED.search(first))
    kind = ("!" if error else "?" if refused else "") + ("+" if failures else "")
    rest = [_VARIABLE.sub("0", line) for line in record.lines[1:]]
    return record._replace(pattern="\n".join([kind + record.pattern, *rest]), error=error)


def _around_errors(records: Sequence[_Record], context: int) -> set[int]:
    """Return the records to show in full: the first errors of each pattern, and the records around them."""
    seen: dict[str, int] = {}
    whole: set[int] = set()
    for number, record in enumerate(records):
        if record.error:
            seen[record.pattern] = seen.get(record.pattern, 0) + 1
            if seen[record.pattern] <= SHOWN:
                whole.update(range(number - context, number + context + 1))
    return whole
