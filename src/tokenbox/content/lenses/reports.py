"""``traceback`` and ``test_report``: what went wrong, in full; what did not, as a count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import left_out, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

# A frame begins with one of these: Python, then JavaScript and Java.
_PYTHON = re.compile(r'(\s*)File "([^"]*)", line ([0-9]+)(?:, in .*)?\s*')
_AT = re.compile(r"\s+at (?:.*?\()?((?:[A-Za-z]:)?[^()\s]+?)(?::([0-9]+))?(?::[0-9]+)?\)?\s*(?:~?\[.*\])?\s*")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python|<frozen |node_modules|node:|internal[/\\]"
    r"|[/\\]\.cargo[/\\]|^[/\\]rustc[/\\]|^(?:java|javax|jdk|sun|scala|kotlin)[./]"
    r"|org\.(?:springframework|apache|hibernate|eclipse|junit)\."
)
_LONGEST_CYCLE = 6

_PASSED = re.compile(
    r"\S*::\S.* PASSED(?:\s+\[ *[0-9]+%\])?\s*"  # pytest -v
    r"|PASSED \S+::\S.*"  # pytest -rA
    r"|\S+\.py [.sxX]+\s*(?:\[ *[0-9]+%\])?\s*"  # pytest
    r"|\S.* \.\.\. ok"  # unittest -v
    r"|\s*=== (?:RUN|PAUSE|CONT) .*|\s*--- PASS: .*|PASS\s*|ok  ?\t?\S+\s+(?:[0-9]|\(cached\)).*"  # go test
    r"|test \S+(?: - \S.*)? \.\.\. ok\s*"  # cargo test
    r"|\s*[✓✔√] .*|PASS \S+.*"  # jest, mocha, vitest
    r"|ok [0-9]+(?: -? .*)?\s*"  # TAP
)


class _Frame(NamedTuple):
    """A frame of a traceback: its lines, and where it is."""

    lines: list[str]
    place: str
    library: bool


@lens(
    "1",
    "tracebacks of Python, Java and JavaScript: own frames, library frames and repeated ones as a count",
    Parameter("own", str, default=""),
    example="traceback",
)
def traceback(text: str, own: str) -> str:
    """Frames of libraries between others are counted; a path that holds ``own`` is never a library's.

    The last frame of each traceback stays, and the first of frames that repeat. Other lines stay.
    """
    result: list[str] = []
    lines = split_lines(text)
    place = 0
    while place < len(lines):
        frames, end = _frames(lines, place, own)
        result += _folded(frames) if frames else [lines[place]]
        place = end if frames else place + 1
    return "".join(result)


def _frames(lines: Sequence[str], place: int, own: str) -> tuple[list[_Frame], int]:
    """The frames that follow one another from a line on, and where they end."""
    frames: list[_Frame] = []
    while place < len(lines):
        match = _PYTHON.fullmatch(lines[place]) or _AT.fullmatch(lines[place])
        if match is None:
            break
        end = place + 1
        python = match.re is _PYTHON
        if python:  # the line of code, and the marks under it
            indent = match[1] + "  "
            while end < len(lines) and lines[end].startswith(indent) and not _PYTHON.fullmatch(lines[end]):
                end += 1
        path = match[2] if python else lines[place].strip()[3:]
        library = bool(_LIBRARY.search(path)) and not (own and own in path)
        frames.append(_Frame(list(lines[place:end]), lines[place].strip(), library))
        place = end
    return frames, place


def _folded(frames: Sequence[_Frame]) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(frames):
        period, times = _cycle(frames, place)
        if times > 1:
            result += [line for frame in frames[place : place + period] for line in frame.lines]
            result.append(_said(frames[place], left_out(period * (times - 1), "repeated frame")))
            place += period * times
            continue
        run = place
        while run < len(frames) - 1 and frames[run].library and _cycle(frames, run)[1] == 1:
            run += 1
        if run > place:
            result.append(_said(frames[place], left_out(run - place, "library frame")))
            place = run
            continue
        result += frames[place].lines
        place += 1
    return result


def _said(frame: _Frame, words: str) -> str:
    first = frame.lines[0]
    return f"{first[: len(first) - len(first.lstrip())]}{words}\n"


def _cycle(frames: Sequence[_Frame], place: int) -> tuple[int, int]:
    """How many frames repeat from a place on, and how often they are there."""
    for period in range(1, _LONGEST_CYCLE + 1):
        first = [frame.place for frame in frames[place : place + period]]
        times = 1
        while [f.place for f in frames[place + period * times : place + period * (times + 1)]] == first:
            times += 1
        if times > 1:
            return period, times
    return 1, 1


@lens("1", "reports of tests: failures in full, passes as a count (pytest, unittest, go, cargo, jest, TAP)")
def test_report(text: str) -> str:
    """Lines that say no more than that tests passed are counted where they stood; all others stay."""
    result: list[str] = []
    passed: list[str] = []
    for line in [*split_lines(text), ""]:
        if line and _PASSED.fullmatch(line.rstrip()):
            passed.append(line)
            continue
        if passed:
            lines = f"{len(passed)} line{'' if len(passed) == 1 else 's'}"
            result.append(f"[... {lines} of passed tests left out ...]\n")
            passed = []
        result.append(line)
    return "".join(result)
