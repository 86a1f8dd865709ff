r"""The boundaries of extended grapheme clusters (UAX #29), where a text may be cut.

The clusters are those of ``\X`` of the ``regex`` module (which joins a consonant to any virama before it,
slightly more than rule GB9c requires; it never splits a cluster), by the table ``data/graphemes.txt``. It
is frozen with the package: Python and ``regex`` have tables of different Unicode versions, and a text must be
cut at the same places with any of them. All functions are local: they read the clusters around a place, never
the whole text. A boundary depends on the text on its left and on one character on its right.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

# Every character up to this one is a cluster of its own, except CR LF. But U+00A9 and U+00AE are pictographs,
# which may continue a cluster that is not simple.
_SIMPLE: Final = "\u02ff"
_NOT_SIMPLE: Final = re.compile("[^\0-\u02ff]+(?:[\u00a9\u00ae][^\0-\u02ff]+)*")

# The patterns below match strings of character classes, one letter per character.

# One cluster. Possessive and disjoint parts: no backtracking, so matching is linear.
# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_CLUSTER: Final = re.compile(
    r"""(?x)
    rn | [rnc]
  | P* (?: L* (?: V+ | AV* | B ) T* | L+ | T+ | FF | E (?:[Xxk]*+ZE|(?!))*+ | [kK][xkZ]*+C | [^rncP] )
    (?: (?:[xkZ]*+[XS]|(?!))*+ [xZ]*+ k [xkZ]*+ C | (?!) )*+   # a consonant joins to any virama before it
    [XxkZS]*+
  | P+
    """
)

# The second of two characters between which there is always a boundary, whatever the context. Spacing marks,
# extenders, U+200D and V/T jamo may continue a cluster, so they are never the second.
_SURE: Final = re.compile(
    r"""(?x)
    (?: (?<=[^P])[ocrPK] | (?<=[^PXxkZSK])[EC] | (?<=[^PL])[LAB] | (?<=[^PF])F | (?<=[^r])n )
    """
)

_FLAGS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
# The first window, in characters, of a backward search; it grows fourfold while it is too short.
_FIRST_WINDOW: Final = 16

_HANGUL: Final = 0xAC00
_MAX_CACHED: Final = 65_536


class _Classes(dict[int, str]):
    """The class of each character by its code point, computed on first use."""

    def __missing__(self, code: int) -> str:
        starts, letters = _runs()
        letter = letters[bisect_right(starts, code) - 1]
        if letter == "H":
            letter = "B" if (code - _HANGUL) % 28 else "A"  # with and without a final consonant
        if len(self) >= _MAX_CACHED:
            self.clear()
        self[code] = letter
        return letter


_CLASSES: Final = _Classes()


def classes(text: str) -> str:
    """Return the class of each character, as a letter: UAX #29's, with Indic_Conjunct_Break.

    ``r`` CR, ``n`` LF, ``c`` Control, ``P`` Prepend, ``S`` SpacingMark, ``F`` Regional_Indicator, ``L V T``
    Hangul, ``A`` Hangul LV, ``B`` Hangul LVT, ``Z`` ZWJ, ``E`` Extended_Pictographic, ``C`` Consonant, ``k``
    Extend and Linker, ``K`` Linker, ``x`` Extend of both, ``X`` Extend, ``o`` other.
    """
    return text.translate(_CLASSES)


@cache
def _runs() -> tuple[list[int], str]:
    """Return the start of each run of one class, and the classes.

    The table has the runs of characters from U+0000 on: how many, in hexadecimal, and the class.
    """
    runs = Path(__file__).with_name("data").joinpath("graphemes.txt").read_text("ascii").split()
    starts = [0, *accumulate(int(run[:-1], 16) for run in runs)]
    return starts[:-1], "".join(run[-1] for run in runs)


def _is_simple(text: str) -> bool:
    return text.isascii() or max(text, default="") <= _SIMPLE


def boundaries(text: str, start: int = 0, end: int | None = None) -> Sequence[int]:
    """Return every boundary b with ``start <= b <= end``, ascending. ``start`` must be a boundary."""
    stop = len(text) if end is None else min(end, len(text))
    if start >= stop:
        return [start] if start == stop else []
    # One character more, because it decides whether ``stop`` is a boundary.
    piece = text[start : stop + 1]
    if _is_simple(piece):
        if "\r\n" not in piece:
            return range(start, stop + 1)
        return [i for i in range(start, stop + 1) if text[i - 1 : i + 1] != "\r\n" or i == start]
    return _mixed(text, start, stop)


def _mixed(text: str, start: int, stop: int) -> list[int]:
    """Return the boundaries of a text that is not simple, looking up classes only around such characters."""
    end = min(len(text), stop + 1)
    places = [start]
    for run in _NOT_SIMPLE.finditer(text, start, end):
        if run.end() <= places[-1]:
            continue  # part of the cluster before
        _add_simple(text, places, run.start() - 1)
        first, piece = places[-1], min(run.end() + 1, end)
        for match in _CLUSTER.finditer(classes(text[first:piece])):
            places.append(first + match.end())
            if places[-1] >= run.end():
                break
        if places[-1] == piece < end:
            # The cluster includes, or may include, the character after the run, and may continue there.
            places[-1] = next_boundary(text, places[-2])
    _add_simple(text, places, stop)
    while places[-1] > stop:
        places.pop()
    return places


def _add_simple(text: str, places: list[int], end: int) -> None:
    """Add the boundaries after the last one up to ``end``, a stretch of simple characters."""
    last = places[-1]
    if text.find("\r\n", last, end + 1) < 0:
        places.extend(range(last + 1, end + 1))
    else:
        places.extend(i for i in range(last + 1, end + 1) if text[i - 1 : i + 1] != "\r\n")


def floor_boundary(text: str, i: int) -> int:
    """Return the last boundary b with ``b <= i``, in time linear in the cluster or run of flags."""
    if i <= 0:
        return 0
    if i >= len(text):
        return len(text)
    if text[i - 1] <= _SIMPLE and text[i] <= _SIMPLE:
        return i - (text[i - 1 : i + 1] == "\r\n")
    if text[i - 1] in _FLAGS and text[i] in _FLAGS:
        first = _start_of_flags(text, i)
        place = i - (i - first) % 2
        return place if place > first else floor_boundary(text, first)
    begin, letters = _from_sure_boundary(text, i)
    place = 0
    for match in _CLUSTER.finditer(letters):
        if match.end() > i - begin:
            break
        place = match.end()
    return begin + place


def _from_sure_boundary(text: str, i: int) -> tuple[int, str]:
    """Return a boundary at or before ``i`` that needs no context, and the classes from there to ``i``."""
    window = _FIRST_WINDOW
    while True:
        start = max(0, i - window)
        letters = classes(text[start : i + 1])
        sure = max((match.start() for match in _SURE.finditer(letters)), default=0)
        if sure or start == 0:
            return start + sure, letters[sure:]
        window *= 4


def _start_of_flags(text: str, i: int) -> int:
    """Return the start of the run of regional indicators that ends at ``i``."""
    window = _FIRST_WINDOW
    while True:
        start = max(0, i - window)
        others = text[start:i].rstrip(_FLAGS)
        if others or start == 0:
            return start + len(others)
        window *= 4


def next_boundary(text: str, i: int) -> int:
    """Return the first boundary after the boundary ``i``, or the end of the text."""
    after = text[i + 1 : i + 2]
    if not after:
        return len(text)
    if text[i] <= _SIMPLE and after <= _SIMPLE:
        return i + 1 + (text[i] == "\r" and after == "\n")
    window = _FIRST_WINDOW
    while True:
        match = _CLUSTER.match(classes(text[i : i + window]))
        end = match.end() if match else 1  # the pattern matches any text
        if end < window or i + window >= len(text):
            return i + end
        window *= 4


def ceil_boundary(text: str, i: int) -> int:
    """Return the first boundary b with ``b >= i``."""
    place = floor_boundary(text, i)
    return place if place >= i else next_boundary(text, place)


# No character below the first combining mark extends a cluster, and most text is below.
_FIRST_EXTENDER: Final = "\u0300"
_CONTINUE: Final = frozenset("XxkZS")


def sticks_to_left(character: str) -> bool:
    """Return True if the character continues a cluster (rules GB9, GB9a); False for the empty text."""
    return character >= _FIRST_EXTENDER and classes(character) in _CONTINUE


def sticks_to_right(character: str) -> bool:
    """Return True if a cluster continues after the character (rule GB9b); False for the empty text."""
    return character >= _FIRST_EXTENDER and classes(character) == "P"
