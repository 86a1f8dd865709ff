"""File names as text that cannot be mistaken for anything else.

A name on a POSIX system is any bytes but ``/`` and NUL. What a model or a terminal is told is one line of
visible characters; two different names never look the same.
"""

from __future__ import annotations

import os

from tokenbox.characters import category

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_UNDECODED = range(0xDC80, 0xDD00)  # how os.fsdecode keeps a byte that is not UTF-8


def shown(name: str) -> str:
    r"""``name`` (from the file system) as visible text.

    ``\n``, ``\xff`` (a byte) and ``\u202e`` (a character) stand for what cannot be shown, and then ``\\`` for
    a backslash.
    """
    if name.isascii() and name.isprintable() and "\\" not in name:
        return name
    return "".join(map(_shown_character, name))


def order(path: str) -> tuple[bytes, ...]:
    """The key by which paths are sorted: folder by folder, by bytes, whatever the file system or locale."""
    return tuple(os.fsencode(part) for part in path.split("/"))


def _shown_character(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    number = ord(c)
    if number in _UNDECODED:
        return f"\\x{number - 0xDC00:02x}"
    if category(c) not in _INVISIBLE:
        return c
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004  # the width of \u
