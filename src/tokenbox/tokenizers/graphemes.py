r"""Where a text may be cut: the boundaries of extended grapheme clusters (UAX #29).

The authority is ``\X`` of the ``regex`` module (which joins a consonant to any virama before it, a little
more than rule GB9c asks; it never tears a cluster). Everything here is local: it looks at the clusters
around a place, never at the whole text. A boundary depends on what is on its left and on one character on
its right.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Up to here every character is a cluster of its own; only CR LF belongs together.
_SIMPLE = "\u02ff"
_NOT_SIMPLE = re.compile("[^\0-\u02ff]+")

# In pairs (left, right): a boundary whatever else is around. Right of these it starts afresh.
# Spacing marks, extenders, U+200D and V/T jamo may continue a cluster, so they are never on the right.
_SURE = r"""(?xr)
    [^\p{GCB=Prepend}] [^\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=RI}\p{ExtPict}\p{InCB=Consonant}
                        \p{GCB=L}\p{GCB=V}\p{GCB=T}\p{GCB=LV}\p{GCB=LVT}\n]
  | [^\p{GCB=Prepend}\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{InCB=Extend}\p{InCB=Linker}]
    [\p{ExtPict}\p{InCB=Consonant}]
  | [^\p{GCB=Prepend}\p{GCB=L}] [\p{GCB=L}\p{GCB=LV}\p{GCB=LVT}]
  | [^\p{GCB=Prepend}\p{GCB=RI}] \p{GCB=RI}
  | [^\r] \n
"""

# A bare flag is spelled out because regex's own \X counts back to the start of a run of flags each time.
_CLUSTER = r"\p{GCB=RI}{2}(?![\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}])|\X"


@cache
def _patterns() -> tuple[Any, Any, Any]:
    """(one cluster, the last sure boundary, the last run of regional indicators); on first use only."""
    import regex  # noqa: PLC0415  # costs 30 ms, and ASCII needs none of it

    return regex.compile(_CLUSTER), regex.compile(_SURE), regex.compile(r"(?r)\p{GCB=RI}+")


def _is_simple(text: str) -> bool:
    return text.isascii() or max(text, default="") <= _SIMPLE


def boundaries(text: str, start: int = 0, end: int | None = None) -> Sequence[int]:
    """Every boundary b with ``start <= b <= end``, ascending. ``start`` must be a boundary itself."""
    stop = len(text) if end is None else min(end, len(text))
    if start >= stop:
        return [start] if start == stop else []
    # One character further, because it decides whether ``stop`` is a boundary.
    piece = text[start : stop + 1]
    if _is_simple(piece):
        if "\r\n" not in piece:
            return range(start, stop + 1)
        return [i for i in range(start, stop + 1) if text[i - 1 : i + 1] != "\r\n" or i == start]
    return _mixed(text, start, stop)


def _mixed(text: str, start: int, stop: int) -> list[int]:
    """The boundaries where some characters are not simple: only around those the patterns are asked."""
    cluster = _patterns()[0]
    places = [start]
    for run in _NOT_SIMPLE.finditer(text, start, min(len(text), stop + 1)):
        if run.end() <= places[-1]:
            continue  # taken in by the cluster before
        _add_simple(text, places, run.start() - 1)
        for match in cluster.finditer(text, places[-1]):
            places.append(match.end())
            if match.end() >= run.end():
                break
    _add_simple(text, places, stop)
    while places[-1] > stop:
        places.pop()
    return places


def _add_simple(text: str, places: list[int], end: int) -> None:
    """Every place after the last up to ``end``, all in simple characters, but for those inside CR LF."""
    last = places[-1]
    if text.find("\r\n", last, end + 1) < 0:
        places.extend(range(last + 1, end + 1))
    else:
        places.extend(i for i in range(last + 1, end + 1) if text[i - 1 : i + 1] != "\r\n")


def floor_boundary(text: str, i: int) -> int:
    """The last boundary b with ``b <= i``. Linear in the length of the cluster (or run of flags) at ``i``."""
    if i <= 0:
        return 0
    if i >= len(text):
        return len(text)
    if text[i - 1] <= _SIMPLE and text[i] <= _SIMPLE:
        return i - (text[i - 1 : i + 1] == "\r\n")
    cluster, sure, flags = _patterns()
    run = flags.search(text, max(0, i - 1), i + 1)
    if run is not None and run.span() == (i - 1, i + 1):
        first: int = flags.search(text, 0, i).start()
        place = i - (i - first) % 2
        return place if place > first else floor_boundary(text, first)
    match = sure.search(text, 0, i + 1)
    begin: int = match.start() + 1 if match else 0
    place = begin
    while place < i:
        end: int = cluster.match(text, place, i + 1).end()
        if end > i:
            return place
        place = end
    return place


def next_boundary(text: str, i: int) -> int:
    """The first boundary after ``i``, which must be a boundary itself; the end of the text at its end."""
    after = text[i + 1 : i + 2]
    if not after:
        return len(text)
    if text[i] <= _SIMPLE and after <= _SIMPLE:
        return i + 1 + (text[i] == "\r" and after == "\n")
    end: int = _patterns()[0].match(text, i).end()
    return end


def ceil_boundary(text: str, i: int) -> int:
    """The first boundary b with ``b >= i``."""
    place = floor_boundary(text, i)
    return place if place >= i else next_boundary(text, place)


# Below the first combining mark nothing sticks, and most text is below.
_FIRST_EXTENDER = "\u0300"


def sticks_to_left(character: str) -> bool:
    """Whether a cluster goes on with this character (rules GB9, GB9a). False for the empty text."""
    return character >= _FIRST_EXTENDER and _is_extender(character)


def sticks_to_right(character: str) -> bool:
    """Whether a cluster goes on after this character (rule GB9b). False for the empty text."""
    return character >= _FIRST_EXTENDER and _is_prepend(character)


@lru_cache(maxsize=4096)
def _is_extender(character: str) -> bool:
    import regex  # noqa: PLC0415  # only text with such characters pays for it

    return regex.match(r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]", character) is not None


@lru_cache(maxsize=4096)
def _is_prepend(character: str) -> bool:
    import regex  # noqa: PLC0415  # only text with such characters pays for it

    return regex.match(r"\p{GCB=Prepend}", character) is not None
