"""The classes of characters that grapheme clusters are made of. Made by tools/grapheme_classes.py.

They are frozen with the package: Python and ``regex`` have tables of different Unicode versions, and a text
must be cut at the same places with any of them. The tables are from regex 2026.11.15.
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
    "ac 1n 2c 1r 12c 5fo 21c 9o 1E 3o 1c 1E 251o 70x 113o 7x 107o 2dx 1o 1x 1o 2x 1o 2x 1o 3x 36o 6P ao "
    "bx 1o 1c 2eo 15x 10o 1x 65o 7x 1P 1o 6x 2o 2x 1o 4x 21o 1P 1o 1x 1eo 1bx 5bo bx 3ao 9x 9o 1x 18o 4x "
    "1o 9x 1o 3x 1o 5x 2bo 3x 34o 2P 5o 9x 2ao 18x 1P 20x 1S 11o 25C 1x 1S 1x 1o 3S 8x 4S 1k 2S 1o 7x 8C "
    "2o 2x 14o 8C 1o 1x 2S 11o 14C 1o 7C 1o 1C 3o 4C 2o 1x 1o 1x 2S 4x 2o 2S 2o 2S 1k 9o 1x 4o 2C 1o 1C "
    "2o 2x co 2C co 1x 2o 2x 1S 38o 1x 1o 3S 2x 4o 2x 2o 3x 3o 1x 1eo 2x 3o 1x bo 2x 1S 11o 14C 1o 7C 1o "
    "2C 1o 5C 2o 1x 1o 3S 5x 1o 2x 1S 1o 2S 1k 14o 2x 15o 1C 6x 1o 1x 2S 11o 14C 1o 7C 1o 2C 1o 5C 2o 1x "
    "1o 2x 1S 4x 2o 2S 2o 2S 1k 5o 5x 4o 2C 1o 1C 2o 2x do 1C 10o 1x 3bo 1x 1S 1x 2S 3o 3S 1o 3S 1x 9o 1x "
    "28o 1x 3S 1x 10o 14C 1o 10C 2o 1x 1o 3x 4S 1o 3x 1o 3x 1k 7o 2x 1o 3C 7o 2x 1do 1x 2S 38o 1x 1o 1S "
    "2x 1S 1x 2S 1o 3x 1o 4x 7o 2x bo 2x fo 1S co 2x 2S 11o 26C 2x 1o 1x 2S 4x 1o 3S 1o 3S 1k 1P 8o 1x ao "
    "2x 1do 1x 2S 46o 1x 4o 1x 2S 3x 1o 1x 1o 7S 1x 12o 2S 3do 1x 1o 1S 7x co 8x 62o 1x 1o 1S 9x bo 7x "
    "49o 2x 1bo 1x 1o 1x 1o 1x 4o 2S 31o ex 1S 5x 1o 2x 5o bx 1o 24x 9o 1x 39o 2bC 2o 4x 1S 6x 1o 1k 1x "
    "2S 2x 1C 10o 6C 2S 2x 4C 3x 1C 3o 2C 7o 3C 4x dC 1x 1o 1S 2x 6o 1x 1C eo 1x 62o 60L 48V 58T 15do 3x "
    "3b2o 4x 1co 3x 1do 2x 1eo 2x co 34C 2x 1S 7x 8S 1x 2S 9x 1k 1x 9o 1x 2do 3x 1c 1x 75o 2x 22o 1x 76o "
    "3x 4S 2x 3S 4o 2S 1x 6S 3x dbo 2x 2S 1x 4o 35C 1S 1x 1S 7x 1o 1k 1o 1x 2o 8x 6S ax 2o 1x 30o 41x fo "
    "4x 1S 6o 2C 6o 21C ax 4S 2x 1k 8C 1eo 9x co 2x 1S 1eC 1S 4x 2S 3x 1k 2x 2C bo 3C 28o 1x 1S 2x 3S 1x "
    "1S 5x 30o 8S 8x 2S 2x 98o 3x 1o dx 1S 7x 4o 1x 6o 1x 2K 1S 2x c6o 40x 20bo 1c 1X 1Z 2c 18o 7c do 1E "
    "co 1E 16o 10c 60o 21x 31o 1E 16o 1E 5ao 6E fo 2E 16fo 2E co 1E a6o 1E 19o bE 4o 3E c7o 1E e7o 2E ao "
    "1E 9o 1E 3ao 4E 1o 5E 9o 1E 2o 1E 2o 2E 2o 1E 4o 1E 2o 1E 1o 2E 2o 1E 3o 1E 3o 2E 8o 3E 5o 1E 1o 1E "
    "5o cE bo 2E 2o 1E 1o 2E 1o 1E 12o 1E 2o 2E 12o 6E 1o 1E 1o 2E 3o 2E 5o 1E 2o 2E 4o 2E bo 2E 5o 2E 2o "
    "1E 5o 2E 1o 1E 1o 2E 14o 2E 5o 6E 1o 4E 2o 1E 4o 1E 2o 1E 2o 6E 1o 1E 2o 1E 1o 1E 1o 1E 6o 1E 3o 1E "
    "6o 1E ao 2E fo 1E 2o 1E 4o 1E 1o 1E 4o 3E 1o 1E bo 2E 30o 3E 9o 1E eo 1E eo 1E 174o 2E 1cfo 3E 13o "
    "2E 33o 1E 4o 1E 199o 3x 8do 1x 60o 20x 22ao 6x 1E co 1E 5bo 2x 1fco 1E 1o 1E 73d5o 4x 1o ax 20o 2x "
    "50o 2x 110o 1x 3o 1x 4o 1x 17o 2S 2x 1S 4o 1x 53o 2S 32o 10S 2x 1ao 12x do 1x 26o 8x 19o bx 1S 1x co "
    "1dL 3o 3x 1S 5o 3C 3o 24C 1x 2S 4x 2S 2x 2S 1k 1fo 5C 1x 1o 9C ao 5C 2ao 6x 2S 2x 2S 2x co 1x 8o 1x "
    "1S 12o 10C 1o 3C 6o 1C 1o 1x 1o 2C 30o 1x 1o 3x 2o 2x 5o 2x 1o 1x 1eo bC 1S 2x 2S 5o 1S 1k c9o 1bC "
    "8o 2S 1x 2S 1x 2S 1o 1S 1x 12o 2ba4H co 17V 4o 31T 2322o 1x 2e1o 10x 10o 10x cfo 1c 9eo 2x 50o cc "
    "201o 1x e2o 1x 95o 5x 685o 1C 3x 1o 2x 5o 4x 4C 1o 3C 1o 1dC 2o 3x 4o 1k a5o 2x 23do 4x 41o 5x 13do "
    "2x 1eo 5x 20o 10x 46o bx 31o 4x 7ao 1S 1x 1S 35o fx 29o 1x 2o 2x ao 3x 1S 2do 3S 4x 2S 2x 2o 1P 4o "
    "1x ao 1P 32o 3x 24C 5x 1S 6x 1k 1x fo 1C 2S 1C 2bo 1x co 2x 1S 30o 3S 9x 1S 1x 1o 2P 5o 4x 1o 1S 1x "
    "5co 3S 3x 2S 4x 6o 1x 2o 1x 9do 1x 3S 8x 15o 2x 2S 37o 2x 1o 1x 1S 1x 4S 2o 2S 2o 2S 1x 9o 1x ao 2S "
    "2o 7x 3o 5x bo aC 1o 1C 2o 1C 1o 26C 2o 1x 2S 6x 1o 1x 2o 1x 1o 3x 1S 1o 2S 2x 1k 1P 1x eo 2x 52o 3S "
    "8x 2S 3x 1S 1x 17o 1x 51o 1x 2S 6x 1S 1x 2S 1x 1S 2x 1S 2x ebo 1x 2S 4x 2o 4S 2x 1S 2x 1bo 2x 52o 3S "
    "8x 2S 1x 1S 2x 6ao 1x 1S 1x 2S 8x 65o 1x 1S 1x 2o 4x 1S 5x 100o 3S 9x 1S 2x c5o 7C 2o 1C 2o 8C 1o 2C "
    "1o 18C 1x 5S 1o 2S 2o 3x 1k 1P 1S 1P 1S 1x 8do 3S 4x 2o 2x 4S 1x 3o 1S 1bo 1C ax 28C 6x 1S 1K 4x 8o "
    "1k 8o 1C 6x 2S 3x 28C 6P dx 1S 1x 1k 70o 1C 55o 1x 1S 3x 1S 1x 1S c7o 1S 7x 1o 6x 1S 1x 52o 16x 1o "
    "1S 7x 1S 2x 1S 2x 7ao 6x 3o 1x 1o 2x 1o 7x 1P 1x 42o 5S 1o 2x 1o 2S 1x 1S 1x 58o 1x 1C 101o 2x 2S 9o "
    "2x 1P 1S dC 1o 22C 2S 5x 3o 2S 2x 1k 17o 1x 14d5o 10c 1x 6o fx 2cc8o cx 3S 3x 9c0o 5x 3bo 7x 22co 1V "
    "3o 4V 1e4o 1x 1o 37S 7o 4x 51o 1x bo 2x 4cabo 2x 1o 4c 125co 2ex 2o 17x 1e0o 2x 3co 5x 3o 6x 8c 8x "
    "2o 7x 1eo 4x 94o 3x bo 3x 8o 2x 2o 1x 20o 2x 77eo 37x 4o 32x 8o 1x eo 1x 16o 5x 1o fx 550o 7x 1o 11x "
    "2o 7x 1o 2x 1o 5x 64o 1x a0o 7x 177o 1x 3do 4x 1fco 4x feo 2x f3o 1x 2o 1x 7o 2x 5o 1x 1dao 7x 6do "
    "7x 6b9o 1E 27o 4E 64o cE fo 2E fo 1E eo 2E 25o aE 70o 2E co 2E eo 1E 2o aE 14o 37E 1aF 1o fE ao 1E "
    "14o 1E 2o 9E 1o 4E 9o 17E 6o bcE 2o 70E 2o 2E 1o 3E 2o 53E 2o 3E 1o 4E 5x feE 1o 3fE bo 6E 1o 18E 7o "
    "2E 2o 8E co 1E 2o 4E 2o 1E 4o 2E do 2E 2o 1E 8o 2E 9o 1E 5o 3E co 3E 8o 3E 2o 1E 1o 1E 4o 1E 6o 1E "
    "3o 1E 6o 56E 30o 46E 5o 8E 2o 11E 3o 1E 1o 6E 2o dE dco 15E 1bo 4E 38o 8E ao 6E 28o 8E 1eo 2E co 4E "
    "2o eE 9o 27E co 2fE 1o aE 1o b9E 58o 8E eo 92E 100o 3feE c0002o 20c 60x 80c f0x e10c 2f000o "
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
