r"""``head``, ``tail``, ``middle``, ``ends`` in lines, ``dedup_lines``.

A line ends after ``\n``, ``\r\n`` or ``\r`` and keeps its end, so the lines of a text joined are the
text.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_LEFT_OUT = re.compile(r"\[\.\.\. ([0-9]{1,15}) lines? left out \.\.\.\](?:\r\n|\n|\r)?")


def split_lines(text: str) -> list[str]:
    """The lines of ``text``, each with its line end; none for the empty text."""
    return _LINE.findall(text)


def head_lines(text: str, count: int) -> str:
    """The first ``count`` lines."""
    return "".join(split_lines(text)[:count])


def tail_lines(text: str, count: int) -> str:
    """The last ``count`` lines."""
    lines = split_lines(text)
    return "".join(lines[max(0, len(lines) - count) :])


def middle_lines(text: str, count: int) -> str:
    """``count`` lines from the middle; of an odd rest, the larger half is cut at the end."""
    lines = split_lines(text)
    start = max(0, len(lines) - count) // 2
    return "".join(lines[start : start + count])


def ends_lines(text: str, count: int) -> str:
    """The first and last lines, ``count`` in all, and between them a line that says how many are left out.

    Such a line among those left out counts for the lines it stands for, so the result of this is left as it
    is.
    """
    lines = split_lines(text)
    if len(lines) <= count:
        return text
    first, last = (count + 1) // 2, count // 2
    out = lines[first : len(lines) - last]
    missing = 0
    for line in out:
        stands_for = _LEFT_OUT.fullmatch(line)
        missing += int(stands_for[1]) if stands_for else 1
    end = _LINE_END.search(out[-1])
    marker = left_out(missing, "line") + (end[0] if end else "")
    return "".join([*lines[:first], marker, *lines[len(lines) - last :]])


def left_out(count: int, unit: str, *, about: bool = False) -> str:
    """The words in place of what ``ends`` leaves out."""
    return f"[... {'~' if about else ''}{count} {unit}{'' if count == 1 else 's'} left out ...]"


def dedup_lines(text: str) -> str:
    """Each line only where it comes first; line ends do not count, and blank lines all stay."""
    seen: set[str] = set()
    kept: list[str] = []
    for line in split_lines(text):
        words = line.rstrip("\r\n")
        if words in seen:
            continue
        if words and not words.isspace():
            seen.add(words)
        kept.append(line)
    return "".join(kept)
