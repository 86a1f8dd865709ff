"""``trim``, ``squeeze``, ``lowercase``, ``uppercase``, ``first_sentences``.

White space is defined by ``str.isspace``. A space that is part of a larger grapheme cluster (a space with a
combining mark) is kept. A sentence ends with ``. ! ? …`` before white space, with their CJK counterparts
anywhere, and at an empty line. A full stop after a common abbreviation or an initial, or before a lowercase
letter, does not end a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokenbox.characters import category, known, lower, upper
from tokenbox.content.lenses.lens import Parameter, lens
from tokenbox.content.lenses.lines import split_lines
from tokenbox.tokenizers.graphemes import sticks_to_left, sticks_to_right

# Tab and the Unicode spaces. Form feeds and the separators U+2028, U+2029 are layout, not blanks.
_BLANK = r"[^\S\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]"
_BLANKS = re.compile(_BLANK + "{2,}")
_BLANK_LINE = re.compile(_BLANK + r"*(\r\n|\n|\r)")
# A grapheme cluster never spans these (rule GB4): a combining mark after a tab is a separate cluster.
_CONTROLS = frozenset("\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029")


@lens("1", "remove white space at both ends")
def trim(text: str) -> str:
    """Remove white space at both ends of the text."""
    start = len(text) - len(text.lstrip())
    if 0 < start < len(text) and sticks_to_left(text[start]) and text[start - 1] not in _CONTROLS:
        start -= 1
    end = len(text.rstrip())
    if start < end < len(text) and sticks_to_right(text[end - 1]) and text[end] not in _CONTROLS:
        end += 1
    return text[start:end]


@lens("1", "replace each run of blanks with one, and each run of blank lines with one")
def squeeze(text: str) -> str:
    """Replace each run of blanks with one space, and each run of blank lines with one empty line."""
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
        # A space would form a cluster with the mark after the tab; a tab does not.
        free = "\t" if (held_left and not first) or (held_right and not last) else " "
    return first + free + last


_CLOSERS = r"""[)\]}"'”’»」』）】]"""
# A run of sentence ends is matched only from its start, so a megabyte of full stops takes linear time.
_END = re.compile(
    rf"(?<![.!?…])(?P<end>[.!?…]++{_CLOSERS}*+)(?=\s)"
    rf"|(?P<cjk>[。！？｡]++{_CLOSERS}*+)"
    r"|(?P<gap>(?:\r\n?+|\n)[^\S\r\n]*+(?:\r\n|\n|\r))"
)
_ABBREVIATION = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]|e\.g|i\.e|mr|mrs|ms|dr|prof|st|vs|cf|al|fig|eq|no|vol|pp|approx|ca|inc|ltd|jr|sr)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8
_NEXT = re.compile(r"\S")


@lens("2", "the first sentences of prose", Parameter("n", int), example="first_sentences(3)")
def first_sentences(text: str, n: int) -> str:
    """Return the text up to the end of its ``n``-th sentence, or all of it if it has no more."""
    if n == 0:
        return ""
    for found, (end, before_gap) in enumerate(_sentences(text), 1):
        if found == n:
            # Remove blanks before the empty line: a second pass, without the empty line, would remove them.
            return text[:end].rstrip() if before_gap else text[:end]
    return text


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the end of each sentence that is followed by more text."""
    return (end for end, _ in _sentences(text))


def _sentences(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the end of each sentence, and whether an empty line ends it."""
    start = 0  # of the current sentence
    for match in _END.finditer(text):
        if match["gap"]:
            end = match.start()
        elif sticks_to_left(text[match.end() : match.end() + 1]) or _goes_on(text, match):
            continue
        else:
            end = match.end()
        if _NEXT.search(text, start, end) is not None:
            yield end, match["gap"] is not None
        start = end


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Return whether a full stop does not end the sentence."""
    if match["end"] != ".":
        return False
    before = known(text[max(0, match.start() - _LONGEST_ABBREVIATION) : match.start()])
    if before[-1:].isalpha() and _ABBREVIATION.search(before):
        return True
    following = _NEXT.search(text, match.end())
    return following is not None and category(following[0]) == "Ll"


@lens("1", "lower case (Unicode full mapping)")
def lowercase(text: str) -> str:
    return lower(text)


@lens("1", "upper case (Unicode full mapping)")
def uppercase(text: str) -> str:
    return upper(text)
