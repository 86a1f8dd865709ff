"""Print the module src/tokenbox/tokenizers/grapheme_classes.py, from the tables of the installed ``regex``.

python tools/grapheme_classes.py > src/tokenbox/tokenizers/grapheme_classes.py
"""

from __future__ import annotations

import sys
from itertools import groupby
from textwrap import wrap

import regex

# A character belongs to the first class that it matches. LV and LVT syllables are told apart by arithmetic.
CLASSES = {
    "r": r"\r",
    "n": r"\n",
    "c": r"\p{GCB=Control}",
    "Z": r"\p{GCB=ZWJ}",
    "k": r"[\p{GCB=Extend}&&\p{InCB=Linker}]",
    "K": r"\p{InCB=Linker}",
    "x": r"[\p{GCB=Extend}&&\p{InCB=Extend}]",
    "X": r"\p{GCB=Extend}",
    "P": r"\p{GCB=Prepend}",
    "S": r"\p{GCB=SpacingMark}",
    "F": r"\p{GCB=RI}",
    "L": r"\p{GCB=L}",
    "V": r"\p{GCB=V}",
    "T": r"\p{GCB=T}",
    "H": r"[\p{GCB=LV}\p{GCB=LVT}]",
    "E": r"\p{ExtPict}",
    "C": r"\p{InCB=Consonant}",
}

HEAD = '''"""The classes of characters that grapheme clusters are made of. Made by tools/grapheme_classes.py.

They are frozen with the package: Python and ``regex`` have tables of different Unicode versions, and a text
must be cut at the same places with any of them. The tables are from regex {version}.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from itertools import accumulate

# Runs of characters of one class from U+0000 on: how many, in hexadecimal, and the class. UAX #29 names them
# (Grapheme_Cluster_Break, with Indic_Conjunct_Break):
#   r CR, n LF, c Control, P Prepend, S SpacingMark, F Regional_Indicator, L V T and H Hangul, Z ZWJ,
#   E Extended_Pictographic, C Consonant, k Extend and Linker, K Linker, x Extend of both, X Extend, o other
_RUNS = (
{lines}
)

_HANGUL = 0xAC00
_MAX_CACHED = 65_536


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


_CLASSES = _Classes()


def classes(text: str) -> str:
    """Return the class of each character, as a letter. ``A`` is Hangul LV, ``B`` Hangul LVT."""
    return text.translate(_CLASSES)


@cache
def _runs() -> tuple[list[int], str]:
    """Return the start of each run of one class, and the classes."""
    runs = _RUNS.split()
    starts = [0, *accumulate(int(run[:-1], 16) for run in runs)]
    return starts[:-1], "".join(run[-1] for run in runs)
'''


def main() -> None:
    patterns = {letter: regex.compile(f"(?V1){pattern}") for letter, pattern in CLASSES.items()}

    def letter_of(code: int) -> str:
        return next((letter for letter, pattern in patterns.items() if pattern.match(chr(code))), "o")

    # Class letters follow hexadecimal digits (and C is one), so a space separates the runs.
    runs = " ".join(
        f"{len(list(run)):x}{letter}" for letter, run in groupby(map(letter_of, range(sys.maxunicode + 1)))
    )
    lines = "\n".join(f'    "{line} "' for line in wrap(runs, 100))
    sys.stdout.write(HEAD.format(version=regex.__version__, lines=lines))


if __name__ == "__main__":
    main()
