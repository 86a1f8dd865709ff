"""``diff``: a unified diff with less context, and with a count in place of changes to generated files.

All changed lines are kept, in hunks with correct line numbers. Git's index lines are removed. The header of
a hunk says how many context lines were removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import split_lines

# A combined diff, that of a merge, has a sign and a range for each parent: "@@@ -1,4 -1,3 +1,4 @@@".
_RANGE = r"[0-9]{1,9}(?:,[0-9]{1,9})?"
_HUNK = re.compile(rf"@(@{{1,99}})((?: -{_RANGE})+) \+({_RANGE}) @\1([^\r\n]*)(\r?\n?)")
_FILE = re.compile(r"(?:diff --(?:git|combined|cc) |Index: )\S")
_OLD = re.compile(r"--- \S")
_NOISE = re.compile(r"(?:index [0-9a-f,]+\.\.[0-9a-f]+(?: [0-7]+)?|similarity index 100%|={67})\s*")
_PATCH = re.compile(r"(?:literal|delta) [0-9]+|[A-Za-z][!-~]{5,65}|")
_LEFT_OUT = re.compile(r" ?\[([0-9]{1,15}) context lines? left out\]")
_GENERATED = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|poetry\.lock|uv\.lock"
    r"|Pipfile\.lock|pdm\.lock|Cargo\.lock|go\.sum|composer\.lock|Gemfile\.lock|mix\.lock|flake\.lock|[^/]+\.min\.(?:js|css)"
    r"|[^/]+\.(?:js|css)\.map|[^/]+\.snap)$"
)


@lens(
    "6",
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
        result += _without_patch([line for line in part[:header] if not _NOISE.fullmatch(line)])
        is_generated = _is_generated(part[:header])
        hunks: list[Sequence[str]] = []  # of a generated file
        place = header
        while place < len(part):
            end = _hunk_end(part, place)
            if end > place and is_generated:
                hunks.append(part[place:end])
            else:
                result += _counted(hunks)
                hunks.clear()
                result += _reduced(part[place:end], context) if end > place else [part[place]]
            place = max(end, place + 1)
        result += _counted(hunks)
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


class _Ranges(NamedTuple):
    """The ranges of a hunk: first line and number of lines in each parent, and last in the new file."""

    starts: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, hunk: re.Match[str]) -> _Ranges | None:
        """Read the header of a hunk; None if it does not have a range for each sign."""
        parts = [part.partition(",") for part in (*hunk[2].replace("-", "").split(), hunk[3])]
        if len(parts) != len(hunk[1]) + 1:
            return None
        return cls([int(start) for start, _, _ in parts], [int(size or 1) for _, _, size in parts])


@lru_cache(64)
def _sides(signs: str) -> Sequence[bool]:
    """Return whether a line is in each parent, and last whether it is in the new file, by its signs."""
    if signs[:1] == "\\":
        return [False] * (len(signs) + 1)
    removed = "-" in signs
    return [*((sign == "-") if removed else (sign != "+") for sign in signs), not removed]


def _hunk_end(lines: Sequence[str], place: int) -> int:
    """Return the end of the hunk that begins at ``place``, by its stated sizes; ``place`` if none begins."""
    match = _HUNK.match(lines[place])
    ranges = None if match is None else _Ranges.of(match)
    if match is None or ranges is None:
        return place
    width, left = len(match[1]), ranges.sizes
    place += 1
    while place < len(lines) and (any(size > 0 for size in left) or lines[place][:1] == "\\"):
        signs = _signs(lines[place], width)
        if signs is None:
            break
        left = [size - inside for size, inside in zip(left, _sides(signs), strict=True)]
        place += 1
    return place


def _signs(line: str, width: int) -> str | None:
    """Return the signs at the beginning of a line of a hunk; None for any other line."""
    if line[:1] == "\\":
        return "\\" * width
    signs = line[:width]
    if not signs.strip("\r\n"):  # an empty line, without the blanks at its end
        return " " * width
    return signs if len(signs) == width and not signs.strip(" +-") else None


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
    names = [line.split()[1:] for line in header if line.startswith(("--- ", "+++ ", "diff --", "Index: "))]
    return any(_GENERATED.search(name) for found in names for name in found)


def _counted(hunks: Sequence[Sequence[str]]) -> list[str]:
    """Return one line that counts the changes to a generated file, or its lines if those are shorter."""
    lines = [line for hunk in hunks for line in hunk]
    widths = [len(hunk[0]) - len(hunk[0].lstrip("@")) - 1 for hunk in hunks]
    signs = [line[:width] for hunk, width in zip(hunks, widths, strict=True) for line in hunk[1:]]
    added, removed = sum("+" in each for each in signs), sum("-" in each for each in signs)
    note = f"[generated file: {removed} removed and {added} added lines left out]\n"
    return [note] if added + removed and len(note) < sum(map(len, lines)) else lines


def _ranges_line(marks: str, starts: Sequence[int], sizes: Sequence[int]) -> str:
    """Return a line such as ``@@ -3,2 +3,3 @@``; of a merge, it has a range for each parent."""
    *old, new = [f"{start - (size == 0)},{size}" for start, size in zip(starts, sizes, strict=True)]
    return " ".join([f"@{marks}", *(f"-{part}" for part in old), f"+{new} @{marks}"])


def _reduced(hunk: Sequence[str], context: int) -> list[str]:
    """Split a hunk into hunks with less context around the changes, with correct line numbers.

    A hunk that is not as its header says stays: it may be cut, or a diff of words.
    """
    match = _HUNK.match(hunk[0])
    ranges = None if match is None else _Ranges.of(match)
    body = list(hunk[1:])
    if match is None or ranges is None:
        return list(hunk)
    signs = [_signs(line, len(match[1])) or " " * len(match[1]) for line in body]
    sides = [_sides(each) for each in signs]
    changed = [i for i, each in enumerate(signs) if "+" in each or "-" in each]
    if not changed or [sum(side) for side in zip(*sides, strict=True)] != ranges.sizes:
        return list(hunk)
    keep = _around(changed, body, context)
    earlier = _LEFT_OUT.search(match[4])
    title = _LEFT_OUT.sub("", match[4])
    left_out = len(body) - len(keep) + (int(earlier[1]) if earlier else 0)
    result: list[str] = []
    # The next line of each side. A side without lines has the number of the line before it.
    following = [start + (size == 0) for start, size in zip(*ranges, strict=True)]
    start = 0
    for i in range(len(body) + 1):
        if i in keep:
            continue
        if start < i:
            sizes = [sum(side) for side in zip(*sides[start:i], strict=True)]
            note = f" [{left_out} context line{'' if left_out == 1 else 's'} left out]" if left_out else ""
            ranges_line = _ranges_line(match[1], following, sizes)
            result += [f"{ranges_line}{title}{note}{match[5]}", *body[start:i]]
            following, left_out = [n + size for n, size in zip(following, sizes, strict=True)], 0
        if i < len(body):
            following = [n + inside for n, inside in zip(following, sides[i], strict=True)]
        start = i + 1
    # The note may be longer than the context that it counts.
    return result if sum(map(len, result)) < sum(map(len, hunk)) else list(hunk)


def _around(changed: Sequence[int], body: Sequence[str], context: int) -> set[int]:
    """Return the lines that stay: the changed ones, ``context`` lines around each, and their notes."""
    keep: set[int] = set()
    for i in changed:
        keep.update(range(max(0, i - context), min(len(body), i + context + 1)))
    keep.update(i for i, line in enumerate(body) if line[:1] == "\\" and i - 1 in keep)
    return keep
