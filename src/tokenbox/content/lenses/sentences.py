"""``first_sentences(n)``: the first sentences of prose.

A sentence ends with ``. ! ? …`` before white space, with its CJK counterparts anywhere, and at an empty line.
A full stop after a usual abbreviation or an initial, or before a small letter, ends nothing.
"""

from __future__ import annotations

import re

from tokenbox.content.lenses.graphemes import sticks_to_left

_CLOSERS = r"""[)\]}"'”’»」』）】]"""
# Each run of ends is looked at once, from its start, so a megabyte of full stops is linear.
_END = re.compile(
    rf"(?<![.!?…])(?P<end>[.!?…]++{_CLOSERS}*+)(?=\s)"
    rf"|(?P<cjk>[。！？｡]++{_CLOSERS}*+)"
    r"|(?P<gap>(?:\r\n|\n|\r)[^\S\r\n]*+(?:\r\n|\n|\r))"
)
_ABBREVIATION = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]|e\.g|i\.e|mr|mrs|ms|dr|prof|st|vs|cf|al|fig|eq|no|vol|pp|approx|ca|inc|ltd|jr|sr)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8
_NEXT = re.compile(r"\S")


def first_sentences(text: str, count: int) -> str:
    """The text up to the end of its ``count``-th sentence; all of it if it has no more."""
    if count == 0:
        return ""
    found = 0
    start = 0  # where the current sentence begins
    for match in _END.finditer(text):
        if match["gap"]:
            end = match.start()
        elif sticks_to_left(text[match.end() : match.end() + 1]) or _goes_on(text, match):
            continue
        else:
            end = match.end()
        found += _NEXT.search(text, start, end) is not None
        start = end
        if found == count:
            # Blanks before an empty line would be gone the second time, when no empty line follows.
            return text[:end].rstrip() if match["gap"] else text[:end]
    return text


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether a full stop is not the end of a sentence."""
    if match["end"] != ".":
        return False
    before = text[max(0, match.start() - _LONGEST_ABBREVIATION) : match.start()]
    if before[-1:].isalpha() and _ABBREVIATION.search(before):
        return True
    following = _NEXT.search(text, match.end())
    return following is not None and following[0].islower()
