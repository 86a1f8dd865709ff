"""Near-copies: pieces that say nearly the same as one that is worth more, such as vendored or moved code.

A piece is a near-copy if at least nine tenths of its runs of three lines are in the other. Blanks do not
count, and neither do names: a copy often has other ones. Candidates share one of the smallest hashes of their
runs, so the comparison is linear in the text.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Sequence

# The worth of a near-copy is divided by this: what is left over of a budget may still show it.
_LESS = 8
# Shorter texts repeat by chance.
_MIN_RUNS = 6
_RUN = 3  # lines
_SHARE = 90  # percent
# The number of hashes that find candidates, and of candidates for each.
_KEYS, _CANDIDATES = 4, 4
_NAME = re.compile(rb"[A-Za-z_]\w*")


def counted_once(texts: Sequence[Sequence[int]], worths: Sequence[int]) -> list[int]:
    """Return the worth of each text: less for a near-copy of one that is worth more, or as much and first.

    ``texts``: the :func:`runs` of each.
    """
    found = list(worths)
    known: dict[int, list[Sequence[int]]] = {}
    for n in sorted(range(len(worths)), key=lambda n: (-worths[n], n)):
        keys = texts[n][:_KEYS]
        alike = [other for key in keys for other in known.get(key, ())]
        own = frozenset(texts[n]) if alike else frozenset()
        if any(_is_copy(own, other) for other in alike):
            found[n] //= _LESS
            continue
        for key in keys:
            others = known.setdefault(key, [])
            if len(others) < _CANDIDATES:
                others.append(texts[n])
    return found


def _is_copy(runs: frozenset[int], other: Iterable[int]) -> bool:
    return len(runs.intersection(other)) * 100 >= len(runs) * _SHARE


def runs(text: bytes) -> array[int]:
    """Return the hashes of all runs of lines, without blanks and names, in order; none of a short text."""
    if text.count(b"\n") + 1 < _MIN_RUNS + _RUN - 1:
        return array("I")
    lines = [line for line in _NAME.sub(b"a", text).translate(None, b" \t\r\f\v").split(b"\n") if line]
    together = zip(*(lines[n:] for n in range(_RUN)), strict=False)  # as long as the shortest
    hashes = sorted(set(map(zlib.crc32, map(b"\n".join, together))))
    # A list of numbers takes ten times the memory.
    return array("I", hashes if len(hashes) >= _MIN_RUNS else ())
