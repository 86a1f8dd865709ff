"""The license at the top of a file: it tells nothing of the file, and its words are in every other one."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What stands before the comments at the top of a file.
_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:<\?php\s)?\s*+")
# A comment, in the languages with such marks, and how it is known as a license.
_COMMENT = re.compile(
    rb"((?:(?:/\*[^\n]*\*/|\(\*[^\n]*\*\))[ \t\r]*\n)+"  # a box, each line of it closed
    rb"|(?:/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|<!--.*?-->|\(\*.*?\*\)|\{-.*?-\})[ \t\r]*\n"
    rb"|[ \t]*+(//|#|--|;|%|!)[^\n]*\n(?:[ \t]*+\2[^\n]*\n)*"  # the same mark before each line
    rb"|(?:[ \t]*+\"(?![\w\"])[^\n]*\n)+)\s*+(?=\S)",  # of Vim, not a text of Python or a row of a table
    re.DOTALL,
)
_LICENSE = re.compile(
    rb"licen[sc]ed? |all rights reserved|SPDX-License|without warranty|redistribution and use in source"
    rb"|(?:under|subject to) the terms of",
    re.IGNORECASE,
)
_COPYRIGHT = re.compile(rb"copyright|licen[sc]e", re.IGNORECASE)
# A shorter license is no piece of its own.
_MIN_LINES = 4


def notice_end(data: bytes) -> int:
    """Return where the license at the top of a file ends, with the blank lines after it; 0 without one."""
    for comment, end in _comments(data):
        if comment.count(b"\n") >= _MIN_LINES:
            return end if _LICENSE.search(comment) else 0
    return 0


def after_copyright(data: bytes) -> bytes:
    """Return the text without a comment at its top about copyright, however short: it mentions no names."""
    for comment, end in _comments(data):
        if _COPYRIGHT.search(comment):
            return data[end:]
    return data


def _comments(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the comments at the top of a file, each with where it ends, up to the first that is not short."""
    found = _START.match(data)
    while found is not None and (found := _COMMENT.match(data, found.end())) is not None:
        yield found[1], found.end()
        if found[1].count(b"\n") >= _MIN_LINES:
            return
