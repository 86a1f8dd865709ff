"""``traceback`` and ``test_report``: failures in full, with a count of everything else."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NamedTuple

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import omission, split_lines, without_styles

# The first line of a frame: Python (after a bar in an exception group), Rust, Go.
_PYTHON = re.compile(r'([\s|]*)File "([^"]*)", line ([0-9]+)(?:, in .*)?\s*')
_RUST = re.compile(r"\s*[0-9]+:\s+(?:0x[0-9a-f]+ - )?(\S.*)\s*")
_RUST_PLACE = re.compile(r"\s+at (\S.*)\s*")
_GO = re.compile(r"((?:created by )?[^\s()][^\s]*(?:\(.*\)|(?: in goroutine [0-9]+)?))\s*")
_GO_PLACE = re.compile(r"\t(\S+\.(?:go|s):[0-9]+)(?: \+0x[0-9a-f]+)?\s*")
# Frames of one line. The group says where: a path, a name, or both.
_ONE_LINE = tuple(
    map(
        re.compile,
        (
            r"\s+at ((?:[^(]*\()?(?:[A-Za-z]:)?[^()\s]++\)?(?:\s*~?\[.*\])?)\s*",  # Java, JavaScript
            r"\s+at ([^\s(]+\(.*\S)\s*",  # .NET
            r"[^\s@]*@(\S+:[0-9]+:[0-9]+|\[native code\])\s*",  # Firefox, Safari
            r"\s+(?:from|#) (\S+:[0-9]+(?::in .*)?)\s*",  # Ruby
            r"\s+(\([a-z]\w* [0-9][^\s()]*\) \S.*)\s*",  # Elixir
            r"#[0-9]+ (\S+\([0-9]+\): .*|\[internal function\]: .*)\s*",  # PHP
            r"\s*#[0-9]+\s+0x[0-9a-f]+ in (\S.*)\s*",  # gdb, sanitizers
            r"\s*#[0-9]+\s+(\S.* (?:at \S+:[0-9]+|from \S+|\(\S+:[0-9]+\)))\s*",  # gdb, Dart
        ),
    )
)
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python|<frozen |node_modules|node:|(?:^|\()internal[/\\]"
    r"|[/\\]\.cargo[/\\]|^[/\\]rustc[/\\]|[/\\](?:go[/\\]src|pkg[/\\]mod|gems|lib[/\\]ruby|vendor)[/\\]"
    r"|^(?:java|javax|jdk|sun|scala|kotlinx?|androidx?|reactor)[./]|^(?:System|Microsoft)\."
    r"|(?:^|/)(?:org\.(?:springframework|apache|hibernate|eclipse|junit|opentest4j|gradle|mockito|jetbrains)"
    r"|com\.(?:sun|android|fasterxml|zaxxer|google\.common)|io\.(?:netty|vertx|undertow|reactivex))\."
    r"|^\((?:stdlib|elixir|kernel|mix|ex_unit|phoenix\w*|plug\w*|cowboy|ecto\w*|db_connection) "
    r"|\((?:dart:|package:flutter/)|^\[(?:internal|native) | from /(?:usr/)?lib"
    r"|/(?:libsanitizer|sysdeps|csu)/"
)
_LONGEST_CYCLE = 6

_PASSED = re.compile(
    r"(?=\S*?::\S).* PASSED(?:\s+\[ *[0-9]+%\])?\s*"  # pytest -v
    r"|PASSED \S+::\S.*"  # pytest -rA
    r"|\[gw[0-9]+\] \[ *[0-9]+%\] PASSED \S.*"  # pytest -v -n
    r"|\S+\.py [.sxX]+\s*(?:\[ *[0-9]+%\])?\s*|[.sxX]+\s+\[ *[0-9]+%\]"  # pytest, pytest -q
    r"|\S.* \.\.\. ok"  # unittest -v
    r"|\s*--- PASS: .*|PASS\s*|ok  ?\t?\S+\s+(?:[0-9]|\(cached\)).*"  # go test
    r"|test \S+(?: - \S.*)? \.\.\. ok\s*"  # cargo test
    r"|\s*[✓✔√] .*|PASS \S+.*"  # jest, mocha, vitest
    r"|\s*ok [0-9]+(?!.*#\s*(?i:skip|todo))(?: -? .*)?\s*"  # TAP
    r"|\[INFO\] Tests run: [0-9]+, Failures: 0, Errors: 0, Skipped: 0, .*|\s*<testcase [^<>]*/>"  # JUnit
    r"|(?=\S.* > ).* PASSED|\s+Passed \S.* \[[^\[\]]*\]"  # Gradle, dotnet test
    r"|\s*[0-9]+/[0-9]+ Test +#[0-9]+: \S.* Passed +[0-9.]+ sec"  # ctest
    r"|\[ +OK \] \S.*|\s+PASS \[ *[0-9.]+s\] \S.*"  # GoogleTest, cargo nextest
    r"|Test Case '.*' passed \([0-9.]+ seconds\)\."  # XCTest
    r"|\.{2,}(?: +[0-9]+ / [0-9]+ \( *[0-9]+%\))?"  # RSpec, PHPUnit
)
# Lines that announce a test, or tell of it (go test -json). They are left out if the test passes.
_ANNOUNCED = re.compile(
    r"\s*=== (?:RUN|PAUSE|CONT|NAME) +(\S+)"  # go test
    r"|(\S+::\S.*)"  # pytest -n
    r'|\{"Time":"[^"]*","Action":"\w+",("Package":"[^"]*","Test":"[^"]*").*\}'  # go test -json
    r"|\[ RUN      \] (\S.*)"  # GoogleTest
    r"| +Start +[0-9]+: (\S.*)"  # ctest
    r"|Test Case '(.*)' started\."  # XCTest
)
_PASSED_NAME = re.compile(
    r"^(?: *--- PASS: (\S+)|\[gw[0-9]+\] \[ *[0-9]+%\] PASSED (\S.*)"
    r'|\{"Time":"[^"]*","Action":"pass",("Package":"[^"]*","Test":"[^"]*").*'
    r"|\[       OK \] (\S.*) \(.*| *[0-9]+/[0-9]+ Test +#[0-9]+: (\S.*?) \.+ +Passed .*"
    r"|Test Case '(.*)' passed .*)",
    re.MULTILINE,
)

_SUBTEST = re.compile(r"\s*# Subtest: .*\s*")


class _Frame(NamedTuple):
    """A frame of a traceback: its lines and its location."""

    lines: list[str]
    place: str
    library: bool


@lens(
    "4",
    "tracebacks of eleven languages: own frames, with a count of library and repeated ones",
    Parameter("own", str, default=""),
    example="traceback",
)
def traceback(text: str, own: str) -> str:
    """Replace library frames and repeated frames with counts. A path with ``own`` in it is never a library's.

    The last frame of each traceback, the first of repeated frames, and all other lines are kept.
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
    """Return the consecutive frames from a line on, and the line after them."""
    frames: list[_Frame] = []
    while place < len(lines):
        found = _frame(lines, place)
        if found is None:
            break
        end, path, name = found
        # A frame without a path is of the language runtime: the program's entry, a closure of the library.
        library = (not path or bool(_LIBRARY.search(path))) and not (own and own in (path or name))
        frames.append(_Frame(list(lines[place:end]), name, library))
        place = end
    return frames, place


def _frame(lines: Sequence[str], place: int) -> tuple[int, str, str] | None:
    """Return the end of the frame that begins on a line, its path, and a text that identifies it."""
    line, following = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
    if match := _PYTHON.fullmatch(line):
        end, indent = place + 1, match[1] + "  "  # the line of code, and the marks under it
        while end < len(lines) and lines[end].startswith(indent) and not _PYTHON.fullmatch(lines[end]):
            end += 1
        return end, match[2], line.strip()
    for pattern in _ONE_LINE:
        if match := pattern.fullmatch(line):
            return place + 1, match[1], match[1]
    if match := _RUST.fullmatch(line):
        at = _RUST_PLACE.fullmatch(following)
        path = at[1].rstrip() if at else ""
        return place + 1 + bool(at), path, f"{match[1].rstrip()} {path}"
    if (at := _GO_PLACE.fullmatch(following)) and (match := _GO.fullmatch(line)):
        return place + 2, at[1], f"{match[1].partition('(')[0]} {at[1]}"
    return None


def _folded(frames: Sequence[_Frame]) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(frames):
        period, times = _cycle(frames, place)
        if times > 1:
            result += _lines_of(frames[place : place + period])
            result += _instead(frames[place + period : place + period * times], "repeated frame")
            place += period * times
            continue
        run = place
        while run < len(frames) - 1 and frames[run].library and _cycle(frames, run)[1] == 1:
            run += 1
        if run > place:
            result += _instead(frames[place:run], "library frame")
            place = run
            continue
        result += frames[place].lines
        place += 1
    return result


def _lines_of(frames: Sequence[_Frame]) -> list[str]:
    return [line for frame in frames for line in frame.lines]


def _instead(frames: Sequence[_Frame], what: str) -> list[str]:
    """Return a line that counts the frames, or their lines if those are shorter."""
    first, lines = frames[0].lines[0], _lines_of(frames)
    indent = first[: len(first) - len(first.lstrip(" \t|"))]
    note = f"{indent}{omission(len(frames), what)}\n"
    return [note] if len(note) < sum(map(len, lines)) else lines


def _cycle(frames: Sequence[_Frame], place: int) -> tuple[int, int]:
    """Return the length of the cycle of frames that begins at ``place``, and its number of repetitions."""
    for period in range(1, _LONGEST_CYCLE + 1):
        first = [frame.place for frame in frames[place : place + period]]
        times = 1
        while [f.place for f in frames[place + period * times : place + period * (times + 1)]] == first:
            times += 1
        if times > 1:
            return period, times
    return 1, 1


@lens("4", "test reports of many tools: failures in full, a count of passes")
def test_report(text: str) -> str:
    """Replace runs of lines that only report passed tests with counts. All other lines are kept."""
    result: list[str] = []
    passed: list[str] = []
    lines = split_lines(text)
    plain = [without_styles(line) for line in lines]
    names = {match[match.lastindex or 0].rstrip() for match in _PASSED_NAME.finditer("".join(plain))}
    place = 0
    while place <= len(lines):
        end = _passed(plain, place, names)
        passed += lines[place:end]
        if end == place:
            note = f"[... {len(passed)} line{'' if len(passed) == 1 else 's'} of passed tests left out ...]\n"
            result += [note] if len(note) < sum(map(len, passed)) else passed
            passed = []
            result += lines[place : place + 1]
            end += 1
        place = end
    return "".join(result)


def _passed(lines: Sequence[str], place: int, names: Container[str]) -> int:
    """Return the end of the lines that report one passed test; ``place`` if no such line follows.

    ``names``: the passed tests, whose announcements are such lines too.
    """
    start = place
    announced = _ANNOUNCED.fullmatch(lines[place].rstrip()) if place < len(lines) else None
    if announced and announced[announced.lastindex or 0].rstrip() in names:
        return place + 1
    if place + 1 < len(lines) and _SUBTEST.fullmatch(lines[place]):
        place += 1
    if place == len(lines) or not _PASSED.fullmatch(lines[place].rstrip()):
        return start
    place += 1
    if place < len(lines) and lines[place].strip() == "---":  # the details of a test in TAP
        indent = _indent(lines[place - 1])
        end = place
        while end < len(lines) and lines[end].strip() != "..." and _indent(lines[end]) > indent:
            end += 1
        if end < len(lines) and lines[end].strip() == "...":
            place = end + 1
    return place


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
