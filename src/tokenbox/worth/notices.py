"""The license at the top of a file: it tells nothing of the file, and its words are in every other one."""

from __future__ import annotations

import re

# A comment at the top of a file, in the languages with such marks, and how it is known as a license.
_TOP_COMMENT = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:<\?php\s++|\s++|(?!))?+"
    rb"(/\*.*?\*/[ \t\r]*\n|<!--.*?-->[ \t\r]*\n|\(\*.*?\*\)[ \t\r]*\n|\{-.*?-\}[ \t\r]*\n"
    rb"|(?:[ \t]*+(?://|#|--|;|%)[^\n]*\n)+)\s*+(?=\S)",
    re.DOTALL,
)
_LICENSE = re.compile(rb"licen[sc]ed? |all rights reserved|SPDX-License|without warranty", re.IGNORECASE)
_COPYRIGHT = re.compile(rb"copyright|licen[sc]e", re.IGNORECASE)
# A shorter license is no piece of its own.
_MIN_LINES = 4


def notice_end(data: bytes) -> int:
    """Return where the license at the top of a file ends, with the blank lines after it; 0 without one."""
    found = _TOP_COMMENT.match(data)
    if found is None or _LICENSE.search(found[1]) is None or found[1].count(b"\n") < _MIN_LINES:
        return 0
    return found.end()


def after_copyright(data: bytes) -> bytes:
    """Return the text without a comment at its top about copyright, however short: it mentions no names."""
    found = _TOP_COMMENT.match(data)
    return data if found is None or _COPYRIGHT.search(found[1]) is None else data[found.end() :]
