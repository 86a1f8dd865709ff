"""``trim``, ``squeeze``: white space that costs tokens and says nothing.

White space is what ``str.isspace`` says. A blank that is part of a larger grapheme cluster (a space with a
combining mark on it) is no blank and stays.
"""

from __future__ import annotations

import re

from tokenbox.content.lenses.graphemes import sticks_to_left, sticks_to_right
from tokenbox.content.lenses.lines import split_lines

# Tab and the spaces of Unicode. Form feeds and the separators U+2028, U+2029 are layout, not blanks.
_BLANK = r"[^\S\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]"
_BLANKS = re.compile(_BLANK + "{2,}")
_BLANK_LINE = re.compile(_BLANK + r"*(\r\n|\n|\r)")
# A cluster never spans these (rule GB4): a mark after a tab is a cluster of its own.
_CONTROLS = frozenset("\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029")


def trim(text: str) -> str:
    """The text without white space at its ends."""
    start = len(text) - len(text.lstrip())
    if 0 < start < len(text) and sticks_to_left(text[start]) and text[start - 1] not in _CONTROLS:
        start -= 1
    end = len(text.rstrip())
    if start < end < len(text) and sticks_to_right(text[end - 1]) and text[end] not in _CONTROLS:
        end += 1
    return text[start:end]


def squeeze(text: str) -> str:
    """Each run of blanks as one space, each run of blank lines as one empty line."""
    lines: list[str] = []
    after_blank = False
    for line in split_lines(_BLANKS.sub(_squeezed, text)):
        empty = _BLANK_LINE.fullmatch(line)
        if empty is None:
            lines.append(line)
        elif not after_blank:
            lines.append(empty[1])
        after_blank = empty is not None
    return "".join(lines)


def _squeezed(match: re.Match[str]) -> str:
    run, text = match[0], match.string
    before = text[match.start() - 1 : match.start()]
    after = text[match.end() : match.end() + 1]
    held_left, held_right = sticks_to_right(before), sticks_to_left(after)
    first = run[0] if held_left and run[0] not in _CONTROLS else ""
    last = run[-1] if held_right and run[-1] not in _CONTROLS else ""
    free = run[len(first) : len(run) - len(last)]
    if len(free) > 1:
        # A space would take in the mark that follows the tab; a tab does not.
        free = "\t" if (held_left and not first) or (held_right and not last) else " "
    return first + free + last
