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
_GO_PLACE = re.compile(r"\t(\S+\.(?:go|s):[0-9]+)(?: \+0x[0-9a-f]+)?(?: [fs]p=0x\S+| pc=0x\S+)*\s*")
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
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\](?:python|pypy)[0-9]|[/\\]Python[0-9]+[/\\]Lib[/\\]"
    r"|<frozen |node_modules|node:|(?:^|\()internal[/\\]"
    r"|[/\\]\.cargo[/\\]|^[/\\]rustc[/\\]|[/\\](?:pkg[/\\]mod|gems|lib[/\\]ruby|vendor)[/\\]"
    # Go's own packages. A program may be in /go/src, too.
    r"|[/\\]src[/\\](?:bufio|bytes|cmd|compress|container|context|crypto|database|encoding|errors|fmt|html|internal"
    r"|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|runtime|slices|sort|strconv|strings|sync|syscall"
    r"|testing|text|time|unicode)[/\\](?:[\w/\\]+[/\\])?\w+\.(?:go|s):"
    r"|^(?:java|javax|jdk|sun|scala|kotlinx?|androidx?|reactor)[./]|^(?:System|Microsoft)\."
    r"|(?:^|/)(?:org\.(?:springframework|apache|hibernate|eclipse|junit|opentest4j|gradle|mockito|jetbrains)"
    r"|com\.(?:sun|android|fasterxml|zaxxer|google\.common)|io\.(?:netty|vertx|undertow|reactivex))\."
    r"|^\((?:stdlib|elixir|kernel|mix|ex_unit|phoenix\w*|plug\w*|cowboy|ecto\w*|db_connection) "
    r"|\((?:dart:|package:flutter/)|^\[(?:internal|native) | from /(?:usr/)?lib"
    r"|/(?:libsanitizer|sysdeps|csu)/"
)
# Rust's frames without a path: there is none in a release build, so only the names tell.
_RUST_RUNTIME = re.compile(
    r"<?(?:core|std|alloc|backtrace|panic_unwind|test)::|<[A-Z]\w* as (?:core|std|alloc)::|__?rust|rust_"
    r"|<unknown>|_*(?:main|start|libc_start\w*|GI_\w+|clone\d*|start_thread|pthread\w*|scrt_\w+)$"
    r"|invoke_main|BaseThread|RtlUser"
)
_LONGEST_CYCLE = 6

_PASSED = re.compile(
    r"(?=\S*?::\S).* PASSED(?:\s+\[ *[0-9]+%\])?\s*"  # pytest -v
    r"|PASSED \S+::\S.*"  # pytest -rA
    r"|\[gw[0-9]+\] \[ *[0-9]+%\] PASSED \S.*"  # pytest -v -n
    r"|\S+\.py [.sxX]+\s*(?:\[ *[0-9]+%\])?\s*|[.sxX]+\s+\[ *[0-9]+%\]"  # pytest, pytest -q
    r"|\S.* \.\.\. ok(?: \([0-9.]+m?s\))?"  # unittest -v, deno
    r"|\s*--- PASS: .*|PASS\s*|ok  ?\t?\S+\s+(?:[0-9]|\(cached\)).*"  # go test
    r"|test \S+(?: - \S.*)? \.\.\. ok\s*"  # cargo test
    r"|\s*[✓✔√] .*|PASS \S+.*"  # jest, mocha, vitest
    r"|\s*ok [0-9]+(?!.*#\s*(?i:skip|todo))(?: -? .*)?\s*"  # TAP
    r"|\[INFO\] Tests run: [0-9]+, Failures: 0, Errors: 0, Skipped: 0, .*"  # JUnit
    r"|\s*<testcase [^<>]*(?:/|></testcase)>"  # JUnit as XML
    r"|(?=\S.* > ).* PASSED|\s+Passed \S.* \[[^\[\]]*\]"  # Gradle, dotnet test
    r"|\s*[0-9]+/[0-9]+ Test +#[0-9]+: \S.* Passed +[0-9.]+ sec"  # ctest
    r"|\[ +OK \] \S.*|\s+PASS \[ *[0-9.]+s\] \S.*"  # GoogleTest, cargo nextest
    r"|Test Case '.*' passed \([0-9.]+ seconds\)\."  # XCTest
    r"|\.{2,}(?: +[0-9]+ / [0-9]+ \( *[0-9]+%\))?"  # RSpec, PHPUnit
    r"|//\S+ +(?:\(cached\) )?PASSED in [0-9.]+s|[^\s#]++#\S+ = [0-9.]+ s = \."  # Bazel, minitest
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

# A test that failed in another run keeps all of its lines.
_FAILED_NAME = re.compile(
    r"^(?: *--- FAIL: (\S+)|\[gw[0-9]+\] \[ *[0-9]+%\] FAILED (\S.*)"
    r'|\{"Time":"[^"]*","Action":"fail",("Package":"[^"]*","Test":"[^"]*").*'
    r"|\[  FAILED  \] (\S.*) \(.*|Test Case '(.*)' failed .*)",
    re.MULTILINE,
)

# The line before that of the result: in TAP, and the name of a test with a description (unittest -v).
_SUBTEST = re.compile(r"\s*# Subtest: .*\s*|\w+ \([\w.]+\)\s*")
_CHECKED = re.compile(r"\s*[✓✔√] .*")
# The title of a group of tests (jest, mocha, vitest): words without a mark.
_TITLE = re.compile(r"\s+(?![0-9]+\) )[^\W_].*")


class _Frame(NamedTuple):
    """A frame of a traceback: its lines and its location."""

    lines: list[str]
    place: str
    library: bool


@lens(
    "7",
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
        runtime = _RUST_RUNTIME.match(name) if not path else _LIBRARY.search(path)
        library = runtime is not None and not (own and own in (path or name))
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
            return place + 1, match[1], _without_arguments(match[1])
    if match := _RUST.fullmatch(line):
        at = _RUST_PLACE.fullmatch(following)
        path = at[1].rstrip() if at else ""
        return place + 1 + bool(at), path, f"{match[1].rstrip()} {path}"
    if (at := _GO_PLACE.fullmatch(following)) and (match := _GO.fullmatch(line)):
        return place + 2, at[1], f"{match[1].partition('(')[0]} {at[1]}"
    return None


def _without_arguments(frame: str) -> str:
    """Return a frame of one line without the values of a call's arguments (PHP, gdb)."""
    path, is_php, call = frame.partition("): ")
    if is_php:
        return f"{path} {call.partition('(')[0]}"
    name, opens, rest = frame.partition(" (")
    _, closes, path = rest.rpartition(") ")
    return f"{name} {path}" if opens and closes else frame


def _folded(frames: Sequence[_Frame]) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(frames):
        period, times = _cycle(frames, place)
        if times > 1:
            result += _folded(frames[place : place + period])
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


@lens("6", "test reports of many tools: failures in full, a count of passes")
def test_report(text: str) -> str:
    """Replace runs of lines that only report passed tests with counts. All other lines are kept."""
    result: list[str] = []
    passed: list[str] = []
    lines = split_lines(text)
    plain = [without_styles(line) for line in lines]
    names = _names(_PASSED_NAME, plain) - _names(_FAILED_NAME, plain)
    place = 0
    while place <= len(lines):
        end = _passed(plain, place, names)
        if end == place:
            end = _passed_group(plain, place) or place
        if end == place and passed:
            end = _passed_after_blank(plain, place, names)
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


def _names(pattern: re.Pattern[str], lines: Sequence[str]) -> set[str]:
    return {match[match.lastindex or 0].rstrip() for match in pattern.finditer("".join(lines))}


def _passed_group(lines: Sequence[str], place: int) -> int:
    """Return the end of the group of passed tests whose title is a line; 0 if anything else is in it."""
    end = place
    while end < len(lines) and (end == place or _indent(lines[end]) > _indent(lines[place])):
        if not (end > place and _CHECKED.fullmatch(lines[end].rstrip())) and not _is_title(lines, end):
            return 0
        end += 1
    return end


def _is_title(lines: Sequence[str], place: int) -> bool:
    """Return True for words whose next line is indented deeper."""
    following = lines[place + 1] if place + 1 < len(lines) else ""
    return (
        _TITLE.fullmatch(lines[place].rstrip()) is not None
        and bool(following.strip())
        and _indent(following) > _indent(lines[place])
    )


def _passed_after_blank(lines: Sequence[str], place: int, names: Container[str]) -> int:
    """Return the end of the blank lines between passed tests; ``place`` if they are not between such."""
    end = place
    while end < len(lines) and lines[end].isspace():
        end += 1
    is_next = end > place and (_passed(lines, end, names) > end or _passed_group(lines, end))
    return end if is_next else place


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
