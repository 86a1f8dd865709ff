"""The patterns of ``.gitignore``, matched byte by byte as git matches them (its dir.c and wildmatch.c).

They become expressions for google-re2, which matches in linear time, even hostile patterns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import re2

V = TypeVar("V")

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
# The maximum length of a pattern, four times that of a path.
_MAX_BYTES = 1 << 14
# The bytes for the states of an expression. The default is too little for a rule file of a megabyte.
_MAX_MEMORY = 64 << 20
_BYTES = [bytes([byte]) for byte in range(256)]
_WILD = re.compile(rb"[*?\[\\]")
_STARS = re.compile(rb"\*+")
# The expressions for a star, ``**/`` and a final ``**``.
_STAR, _FOLDERS, _ANYTHING = rb"[^/]*", rb"(?:.*/)?", rb".*"
# The expression that matches nothing.
_NOTHING = rb"[^\x00-\xff]"


class _NeverMatchesError(ValueError):
    """A pattern that git accepts but that matches nothing: an open bracket, an unknown character class."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern. ``name_only``: it matches the last step of a path. ``source``: its regular expression.

    ``only``: the one text that it matches; None for a pattern with a wildcard. ``parts``: what is around
    the stars in the pattern of a name that has no other wildcard, as in ``*.log``. A pattern such as
    ``**/a/b`` has both: it matches ``a/b``, and what ends with ``/a/b``.
    """

    negative: bool
    folders_only: bool
    name_only: bool
    source: bytes
    only: bytes | None
    parts: Sequence[bytes] | None

    @classmethod
    def of(cls, line: str) -> Glob | None:
        """Parse a line of rules; None for a comment, an empty line, and a pattern that never matches."""
        text = _without_trailing_spaces(os.fsencode(line.removesuffix("\r")))
        if not text or text.startswith(b"#") or len(text) > _MAX_BYTES:
            return None
        negative = text.startswith(b"!")
        pattern = text[negative:]
        folders_only = pattern.endswith(b"/")
        pattern = pattern[: len(pattern) - folders_only]
        name_only = b"/" not in pattern
        pattern = pattern.removeprefix(b"/")
        try:
            source = _source(pattern, name_only=name_only)
        except _NeverMatchesError:
            return None
        only, parts = _literals(pattern, name_only=name_only)
        return cls(negative, folders_only, name_only, source, only, parts)


def is_for_files(text: str) -> bool:
    """Return whether it is a pattern that can choose files: not a comment, nor an exception (``!``)."""
    return not text.startswith("!") and Glob.of(text) is not None


def files_in(lines: Iterable[str]) -> bytes:
    """Return an expression for the paths of files that match a pattern, or are in a folder that does."""
    globs = [glob for line in lines if (glob := Glob.of(line)) is not None]
    sources = [
        (rb"(?:.*/)?" if glob.name_only else b"")
        + glob.source
        + (rb"/.*" if glob.folders_only else rb"(?:/.*)?")
        for glob in globs
    ]
    return b"|".join(sources) or _NOTHING


def matcher(globs: Iterable[str]) -> re.Pattern[bytes]:
    """Return an expression for the files that match any of ``globs``."""
    return re2.compile(files_in(globs), _options())  # type: ignore[no-any-return]


def matching(sources: Iterable[bytes]) -> Callable[[bytes], list[int]]:
    """Return a function of a path: the numbers of the expressions that match it, in order."""
    found = re2.Set.FullMatchSet(_options())
    for source in sources:
        found.Add(source)
    found.Compile()
    return lambda path: sorted(found.Match(path) or ())


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # each byte is a character
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return options


def last_match(rules: Sequence[tuple[str, V]]) -> Callable[[str], V | None]:
    """Return a function of a path: the value of the last rule whose pattern matches it; None without one."""
    numbers = matching(files_in([glob]) for glob, _ in rules)

    def value_of(path: str) -> V | None:
        found = numbers(os.fsencode(path)) if rules else []
        return rules[found[-1]][1] if found else None

    return value_of


def _without_trailing_spaces(text: bytes) -> bytes:
    """Return the text without trailing spaces; a space after a backslash stays."""
    kept = text.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and len(kept) < len(text) else kept


def _literals(pattern: bytes, *, name_only: bool) -> tuple[bytes | None, Sequence[bytes] | None]:
    """Return the one text that a pattern matches, and the parts of all others, if that is all of it."""
    if not _WILD.search(pattern):
        return pattern, None
    if name_only:
        parts = _STARS.split(pattern)
        return None, None if any(map(_WILD.search, parts)) else parts
    anywhere = pattern.removeprefix(b"**/")
    return (None, None) if _WILD.search(anywhere) or not anywhere else (anywhere, (b"", b"/" + anywhere))


def _source(pattern: bytes, *, name_only: bool) -> bytes:
    wild = _WILD.search(pattern)
    start = len(pattern) if wild is None else wild.start()
    # As in git before 2.53, the literal prefix is compared first, and the rest is a pattern of its own.
    steps = [re.escape(pattern[:start])]
    rest, at = pattern[start:], 0
    while at < len(rest):
        is_star = rest[at : at + 1] == b"*"
        step, at = _stars(rest, at, name_only=name_only) if is_star else _characters(rest, at)
        steps.append(step)
    return b"".join(steps)


def _stars(rest: bytes, at: int, *, name_only: bool) -> tuple[bytes, int]:
    """Return the expression for the stars from ``at`` on, and the position after them."""
    end = len(rest) - len(rest[at:].lstrip(b"*"))
    alone = (at == 0 or rest[at - 1 : at] == b"/") and (
        end == len(rest) or rest[end : end + 1] == b"/" or rest[end : end + 2] == rb"\/"
    )
    if name_only or end - at == 1 or not alone:
        return _STAR, end
    return (_FOLDERS, end + 1) if rest[end : end + 1] == b"/" else (_ANYTHING, end)


def _characters(rest: bytes, at: int) -> tuple[bytes, int]:
    """Return the expression for the text, bracket or escape at ``at``, and the position after it."""
    character = rest[at : at + 1]
    if character == b"?":
        return b"[^/]", at + 1
    if character == b"[":
        return _bracket(rest, at + 1)
    if character == b"\\":
        at += 1
        if at == len(rest):
            raise _NeverMatchesError
    wild = _WILD.search(rest, at + 1)
    end = len(rest) if wild is None else wild.start()
    return re.escape(rest[at:end]), end


def _bracket(rest: bytes, at: int) -> tuple[bytes, int]:
    """Return the expression for a bracket whose content begins at ``at``, and the position after it."""
    negated = rest[at : at + 1] in (b"!", b"^")
    first = at = at + negated
    members: set[bytes] = set()
    previous = b""  # the possible start of a range
    while at == first or rest[at : at + 1] != b"]":
        named = _named_class(rest, at)
        if named is not None:
            members |= _members(named[0])
            previous, at = b"", named[1]
        elif rest[at : at + 1] == b"-" and previous and rest[at + 1 : at + 2] not in (b"", b"]"):
            end, at = _member(rest, at + 1)
            members.update(_BYTES[previous[0] : end[0] + 1])
            previous = b""
        else:
            previous, at = _member(rest, at)
            members.add(previous)
    chosen = [byte for byte in _BYTES if (byte in members) is not negated and byte != b"/"]
    return (b"[" + b"".join(map(re.escape, chosen)) + b"]" if chosen else _NOTHING), at + 1


@cache
def _members(named: bytes) -> frozenset[bytes]:
    return frozenset(byte for byte in _BYTES if re.match(named, byte))


def _member(rest: bytes, at: int) -> tuple[bytes, int]:
    at += rest[at : at + 1] == b"\\"
    if at >= len(rest):
        raise _NeverMatchesError
    return rest[at : at + 1], at + 1


def _named_class(rest: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the expression for a class such as ``[:alpha:]``, and the position after it; None if absent."""
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
