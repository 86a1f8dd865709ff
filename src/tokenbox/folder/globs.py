"""The patterns of ``.gitignore``, matched as git matches them (its dir.c and wildmatch.c), byte by byte.

They become regular expressions that cannot backtrack for long, whatever a hostile pattern asks for: of all
places where what stands between two stars could be, the first is as good as any, so it is never tried again.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The characters of git's named classes; it knows ASCII only.
_CLASSES = {
    b"alnum": rb"[0-9A-Za-z]",
    b"alpha": rb"[A-Za-z]",
    b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]",
    b"digit": rb"[0-9]",
    b"graph": rb"[!-~]",
    b"lower": rb"[a-z]",
    b"print": rb"[ -~]",
    b"punct": rb"[!-/:-@\[-`{-~]",
    b"space": rb"[ \t\n\r]",
    b"upper": rb"[A-Z]",
    b"xdigit": rb"[0-9A-Fa-f]",
}
_BYTES = [bytes([byte]) for byte in range(256)]
_WILD = re.compile(rb"[*?\[\\]")
# What a path may hold in place of a star, of ``**/`` and of a last ``**``.
_STAR, _FOLDERS, _ANYTHING = rb"[^/]*?", rb"(?:.*?/)??", rb".*?"


class _NeverMatchesError(ValueError):
    """Git reads the pattern, and no path matches it: a bracket that does not end, an unknown class."""


@dataclass(frozen=True, slots=True)
class Glob:
    """One pattern. ``name_only``: it is about the last step of a path. ``source``: as an expression."""

    negative: bool
    folders_only: bool
    name_only: bool
    source: bytes

    @classmethod
    def of(cls, line: str) -> Glob | None:
        """The pattern in a line of rules; None for a comment, an empty line, and what never matches."""
        text = _without_trailing_spaces(os.fsencode(line.removesuffix("\r")))
        if not text or text.startswith(b"#"):
            return None
        negative = text.startswith(b"!")
        pattern = text[negative:]
        folders_only = pattern.endswith(b"/")
        pattern = pattern[: len(pattern) - folders_only]
        name_only = b"/" not in pattern
        try:
            source = _source(pattern.removeprefix(b"/"), name_only=name_only)
        except _NeverMatchesError:
            return None
        return cls(negative, folders_only, name_only, source)


def files_in(globs: Iterable[Glob]) -> re.Pattern[bytes]:
    """Matches, whole, the path of a file that one of the patterns is about, or a folder above it."""
    sources = [
        (rb"(?:.*/)?" if glob.name_only else b"")
        + glob.source
        + (rb"/.*" if glob.folders_only else rb"(?:/.*)?")
        for glob in globs
    ]
    return re.compile(b"|".join(sources) or rb"(?!)", re.DOTALL)


def _without_trailing_spaces(text: bytes) -> bytes:
    """Without the spaces at the end, unless a backslash is before them."""
    kept = text.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and len(kept) < len(text) else kept


def _source(pattern: bytes, *, name_only: bool) -> bytes:
    wild = _WILD.search(pattern)
    start = len(pattern) if wild is None else wild.start()
    # What git compares as it is; only the rest is a pattern to it, as if that were all.
    stretches, stretch = [], [re.escape(pattern[:start])]
    rest, at = pattern[start:], 0
    while at < len(rest):
        if rest[at : at + 1] == b"*":
            end = at + len(rest[at:]) - len(rest[at:].lstrip(b"*"))
            step, at = _stars(rest, at, end, name_only=name_only)
            if step is not _STAR:
                stretches.append(stretch)
                stretch = []
            stretch.append(step)
        else:
            one, at = _one(rest, at)
            stretch.append(one)
    stretches.append(stretch)
    *between, last = stretches
    return b"".join([*(b"(?>" + _joined(steps) + b")" for steps in between), _joined(last)])


def _joined(steps: list[bytes]) -> bytes:
    """Steps without ``**`` but at their start; each star but the last takes as little as it can, for good."""
    stars = [i for i, step in enumerate(steps) if step is _STAR]
    if len(stars) < 2:  # noqa: PLR2004  # the last one
        return b"".join(steps)
    parts = [b"".join(steps[: stars[0]])]
    for this, following in pairwise(stars):
        parts.append(b"(?>" + b"".join(steps[this:following]) + b")")
    return b"".join([*parts, *steps[stars[-1] :]])


def _stars(rest: bytes, at: int, end: int, *, name_only: bool) -> tuple[bytes, int]:
    """What the stars from ``at`` to ``end`` stand for, and where the pattern goes on."""
    alone = (at == 0 or rest[at - 1 : at] == b"/") and (
        end == len(rest) or rest[end : end + 1] == b"/" or rest[end : end + 2] == rb"\/"
    )
    if name_only or end - at == 1 or not alone:
        return _STAR, end
    return (_FOLDERS, end + 1) if rest[end : end + 1] == b"/" else (_ANYTHING, end)


def _one(rest: bytes, at: int) -> tuple[bytes, int]:
    """What the character, bracket or escape at ``at`` stands for, and where the pattern goes on."""
    character = rest[at : at + 1]
    if character == b"?":
        return b"[^/]", at + 1
    if character == b"[":
        return _bracket(rest, at + 1)
    if character == b"\\":
        at += 1
        if at == len(rest):
            raise _NeverMatchesError
    return re.escape(rest[at : at + 1]), at + 1


def _bracket(rest: bytes, at: int) -> tuple[bytes, int]:
    """The bytes that a bracket, whose inside begins at ``at``, stands for, and where the pattern goes on."""
    negated = rest[at : at + 1] in (b"!", b"^")
    first = at = at + negated
    members: set[bytes] = set()
    previous = b""  # what a range would begin with
    while at == first or rest[at : at + 1] != b"]":
        named = _named_class(rest, at)
        if named is not None:
            members.update(byte for byte in _BYTES if re.match(named[0], byte))
            previous, at = b"", named[1]
        elif rest[at : at + 1] == b"-" and previous and rest[at + 1 : at + 2] not in (b"", b"]"):
            end, at = _member(rest, at + 1)
            members.update(_BYTES[previous[0] : end[0] + 1])
            previous = b""
        else:
            previous, at = _member(rest, at)
            members.add(previous)
    chosen = [byte for byte in _BYTES if (byte in members) is not negated and byte != b"/"]
    return (b"[" + b"".join(map(re.escape, chosen)) + b"]" if chosen else b"(?!)"), at + 1


def _member(rest: bytes, at: int) -> tuple[bytes, int]:
    at += rest[at : at + 1] == b"\\"
    if at >= len(rest):
        raise _NeverMatchesError
    return rest[at : at + 1], at + 1


def _named_class(rest: bytes, at: int) -> tuple[bytes, int] | None:
    """Such as ``[:alpha:]``, and where the bracket goes on; None where there is none."""
    if rest[at : at + 2] != b"[:":
        return None
    end = rest.find(b"]", at + 2)
    if end < 0:
        raise _NeverMatchesError
    if rest[end - 1 : end] != b":" or end - 1 < at + 2:
        return None
    if (name := rest[at + 2 : end - 1]) not in _CLASSES:
        raise _NeverMatchesError
    return _CLASSES[name], end + 1
