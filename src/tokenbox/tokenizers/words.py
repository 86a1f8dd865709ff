"""Counting by words: a word counts the same in every text, and most words of a text were counted before.

No piece of a published pattern has a space after a character that is no white space: every pattern takes
white space in only at the start of a piece, or after other white space. So a text may be cut before each
space that follows such a character, and the counts of the parts add up to its own.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Words that are remembered, and the characters of the longest of them: some 6 MB at most.
_MOST_KNOWN: Final = 32_768
_LONGEST: Final = 64
# Where more than one word in so many is new, and more than a few, counting the text whole takes less time.
_NEW_OF: Final = 4
_FEW: Final = 8
# Of such a text so many words are looked at, to be known in the next.
_LEARNED: Final = 32
# No word counts 0.
_UNKNOWN: Final = repeat(0)
# Characters that show what kind of text it is.
_BEGIN: Final = 256


class WordCounts:
    """The counts of words, each with the space before it. ``count`` gives the count of any text.

    Several threads may use it: what one of them forgets, another counts again.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: dict[str, int] = {}
        # Texts as they are, with no space before them: names of roles, the first word of a text.
        self._whole: dict[str, int] = {}

    def count(self, text: str) -> int | None:
        """The count of the text; None where it has white space before a space, or too many new words."""
        begin = text[:_BEGIN]
        if "  " in begin or "\n " in begin:  # code, or a table: a look that costs next to nothing
            return None
        words = str.split(text, " ")  # what is no text raises TypeError here
        first = self._count_first(words[0])
        last = len(words) - 1
        if not last:
            return first
        if not _is_word(words[0]):
            return None
        counts = list(map(self._known.get, words, _UNKNOWN))
        counts[0] = first  # it has no space before it
        new = counts.count(0)
        if new * _NEW_OF > len(words) + _FEW:
            self._learn(words[1:_LEARNED])
            return None
        place = 0
        for _ in range(new):
            place = counts.index(0, place + 1)
            if place < last and not _is_word(words[place]):
                return None
            counts[place] = self._count_word(words[place])
        return sum(counts)

    def _count_first(self, word: str) -> int:
        """The count of a word with nothing before it, remembered."""
        count = self._whole.get(word)
        if count is None:
            count = self._count(word)
            if len(word) <= _LONGEST:
                _remember(self._whole, word, count)
        return count

    def _count_word(self, word: str) -> int:
        """The count of a word with the space before it, remembered."""
        count = self._count(f" {word}")
        if len(word) <= _LONGEST and _is_word(word):
            _remember(self._known, word, count)
        return count

    def _learn(self, words: list[str]) -> None:
        for word in words:
            if word not in self._known:
                self._count_word(word)


def _remember(known: dict[str, int], word: str, count: int) -> None:
    if len(known) >= _MOST_KNOWN:  # words of long ago
        known.clear()
    known[word] = count


def _is_word(word: str) -> bool:
    """Whether a space after it is a safe cut."""
    return bool(word) and not word[-1].isspace()
