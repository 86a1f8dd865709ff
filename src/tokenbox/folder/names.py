"""File names as unambiguous visible text.

A name on a POSIX system is any bytes except ``/`` and NUL. Models and terminals get one line of visible
characters; the escapes of two different names always differ.
"""

from __future__ import annotations

import os

from tokenbox.characters import category

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_UNDECODED = range(0xDC80, 0xDD00)  # os.fsdecode's code points for bytes that are not UTF-8


def shown(name: str) -> str:
    r"""Return ``name`` (from the file system) as visible text.

    Invisible characters become ``\n``, ``\xff`` (a byte) or ``\u202e``, and a backslash becomes ``\\``.
    """
    if name.isascii() and name.isprintable() and "\\" not in name:
        return name
    return "".join(map(_shown_character, name))


def order(path: str) -> bytes:
    """Return the sort key of a path: folder by folder, by bytes, independent of file system and locale."""
    return os.fsencode(path).replace(b"/", b"\0")  # which no name has


def _shown_character(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    number = ord(c)
    if number in _UNDECODED:
        return f"\\x{number - 0xDC00:02x}"
    if category(c) not in _INVISIBLE:
        return c
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # the width of \u
