"""``diff``: a unified diff with less context, and with a count in place of changes to generated files.

All changed lines are kept, in hunks with correct line numbers. Git's index lines are removed. The header of
a hunk says how many context lines were removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HUNK = re.compile(
    r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@([^\r\n]*)(\r?\n?)"
)
_FILE = re.compile(r"(?:diff --git |Index: )\S")
_OLD = re.compile(r"--- \S")
_NOISE = re.compile(r"index [0-9a-f]+\.\.[0-9a-f]+|similarity index 100%|={20,}")
_PATCH = re.compile(r"(?:literal|delta) [0-9]+|[A-Za-z][!-~]{5,65}|")
_LEFT_OUT = re.compile(r" ?\[([0-9]+) context lines? left out\]")
_GENERATED = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|poetry\.lock|uv\.lock"
    r"|Pipfile\.lock|pdm\.lock|Cargo\.lock|go\.sum|composer\.lock|Gemfile\.lock|mix\.lock|flake\.lock|[^/]+\.min\.(?:js|css)"
    r"|[^/]+\.(?:js|css)\.map|[^/]+\.snap)$"
)


@lens(
    "3",
    "a unified diff with less context, and lock files as a count; changed lines stay",
    Parameter("context", int, default=1),
    example="diff",
)
def diff(text: str, context: int) -> str:
    """Keep at most ``context`` lines around each change. Text without a hunk is returned unchanged."""
    lines = split_lines(text)
    if not any(_HUNK.match(line) for line in lines):
        return text
    result: list[str] = []
    for part in _files(lines):
        header = next((i for i, line in enumerate(part) if _HUNK.match(line)), len(part))
        result += _without_patch([line for line in part[:header] if not _NOISE.match(line)])
        if _is_generated(part[:header]):
            result += _counted(part[header:])
            continue
        place = header
        while place < len(part):
            end = _hunk_end(part, place)
            result += _reduced(part[place:end], context) if end > place else [part[place]]
            place = max(end, place + 1)
    return "".join(result)


def _files(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return the lines of each file with its header. Lines before the first file are a part of their own."""
    starts = [0]
    place = 0
    inside_header = False
    while place < len(lines):
        end = _hunk_end(lines, place)
        if end > place:  # a line inside a hunk never begins a file
            place, inside_header = end, False
            continue
        if _FILE.match(lines[place]):
            inside_header = True
            starts.append(place)
        elif _OLD.match(lines[place]) and not inside_header:
            starts.append(place)
        place += 1
    return (lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True) if a < b)


def _hunk_end(lines: Sequence[str], place: int) -> int:
    """Return the end of the hunk that begins at ``place``, by its stated sizes; ``place`` if none begins."""
    match = _HUNK.match(lines[place])
    if match is None:
        return place
    old, new = (int(size) if size is not None else 1 for size in (match[2], match[4]))
    place += 1
    while place < len(lines) and (old > 0 or new > 0 or lines[place][:1] == "\\"):
        sign = lines[place][:1]
        if sign not in (" ", "-", "+", "\\", "\n", "\r"):
            break
        old -= sign not in "+\\"
        new -= sign not in "-\\"
        place += 1
    return place


def _without_patch(header: Sequence[str]) -> list[str]:
    """Replace the data of a patch of a binary file (git diff --binary) with a count."""
    start = next((i for i, line in enumerate(header) if line.rstrip() == "GIT binary patch"), len(header))
    end = start + 1
    while end < len(header) and _PATCH.fullmatch(header[end].rstrip("\r\n")):
        end += 1
    data = header[start + 1 : end]
    note = f"[{len(data)} lines of a binary patch left out]\n"
    return [*header[: start + 1], *([note] if len(note) < sum(map(len, data)) else data), *header[end:]]


def _is_generated(header: Sequence[str]) -> bool:
    names = [
        line.split()[1:] for line in header if line.startswith(("--- ", "+++ ", "diff --git ", "Index: "))
    ]
    return any(_GENERATED.search(name) for found in names for name in found)


def _counted(lines: Sequence[str]) -> list[str]:
    """Return one line that counts the changes to a generated file."""
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    if not added + removed:
        return list(lines)
    return [f"[generated file: {removed} removed and {added} added lines left out]\n"]


def _reduced(hunk: Sequence[str], context: int) -> list[str]:
    """Split a hunk into hunks with less context around the changes, with correct line numbers."""
    match = _HUNK.match(hunk[0])
    body = list(hunk[1:])
    changed = [i for i, line in enumerate(body) if line[:1] in ("+", "-")]
    if match is None or not changed:
        return list(hunk)
    keep: set[int] = set()
    for i in changed:
        keep.update(range(max(0, i - context), min(len(body), i + context + 1)))
    keep.update(i for i, line in enumerate(body) if line[:1] == "\\" and i - 1 in keep)
    earlier = _LEFT_OUT.search(match[5])
    title = _LEFT_OUT.sub("", match[5])
    left_out = len(body) - len(keep) + (int(earlier[1]) if earlier else 0)
    result: list[str] = []
    old, new = int(match[1]) + (match[2] == "0"), int(match[3]) + (match[4] == "0")
    start = 0
    for i, line in enumerate([*body, ""]):
        if i in keep:
            continue
        if start < i:
            part = body[start:i]
            a, b = (sum(p[:1] not in signs for p in part) for signs in ("+\\", "-\\"))
            note = f" [{left_out} context line{'' if left_out == 1 else 's'} left out]" if left_out else ""
            # A side without lines has the number of the line before it.
            result += [f"@@ -{old - (a == 0)},{a} +{new - (b == 0)},{b} @@{title}{note}{match[6]}", *part]
            old, new, left_out = old + a, new + b, 0
        old, new, start = old + (line[:1] not in "+\\"), new + (line[:1] not in "-\\"), i + 1
    return result
