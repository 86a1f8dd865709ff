"""Print the table src/tokenbox/tokenizers/data/graphemes.txt, from the tables of the installed ``regex``.

The table in the package is that of regex 2026.11.15.

python tools/grapheme_classes.py > src/tokenbox/tokenizers/data/graphemes.txt
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


def main() -> None:
    patterns = {letter: regex.compile(f"(?V1){pattern}") for letter, pattern in CLASSES.items()}

    def letter_of(code: int) -> str:
        return next((letter for letter, pattern in patterns.items() if pattern.match(chr(code))), "o")

    # Class letters follow hexadecimal digits (and C is one), so a space separates the runs.
    runs = " ".join(
        f"{len(list(run)):x}{letter}" for letter, run in groupby(map(letter_of, range(sys.maxunicode + 1)))
    )
    print("\n".join(wrap(runs, 100)))


if __name__ == "__main__":
    main()
