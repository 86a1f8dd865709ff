"""Counting by words: a word counts the same in every text, and most words of a text were counted before.

No piece of a published pattern has a space after a character that is not white space: every pattern takes
white space in only at the start of a piece, or after other white space. So a text may be cut before each
space that follows such a character, and the counts of the parts add up to its own. They do so in any order,
so that the words that are not known are counted as one text.
"""

from __future__ import annotations

from itertools import accumulate, cycle, repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Words that are remembered, and the characters of the longest of them: 3 MB, 12 MB of the longest.
_MOST_KNOWN: Final = 32_768
_LONGEST: Final = 64
# Texts of fewer characters are counted whole in the same time.
_SHORT: Final = 300
# Words at the beginning that show whether most of a text is known.
_BEGIN: Final = 32
# Of texts of which little is known, the beginning of one in so many is learned from: most come never again.
_LEARN_FROM: Final = 8
# No word counts 0.
_UNKNOWN: Final = repeat(0)


class WordCounts:
    """The counts of words, each with the space before it. ``encode`` gives the tokens of any text.

    ``token_bytes`` gives the bytes of a token. A word ends where a token ends, so that the tokens of a text
    tell the count of each of its words. Several threads may use it: what one of them forgets, another counts
    again.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]], token_bytes: Callable[[int], bytes]) -> None:
        self._encode = encode
        self._lengths = _Lengths(token_bytes)
        self._known: dict[str, int] = {}
        # Texts as they are, with no space before them: names of roles, the first word of a text.
        self._whole: dict[str, int] = {}
        self._learns = cycle([n == 0 for n in range(_LEARN_FROM)])

    def count(self, text: str) -> int | None:
        """The count of the text; None where counting it whole takes less time, or it has no safe cuts."""
        if str.find(text, "  ") >= 0:  # code, or a table; what is not text raises TypeError here
            return None
        if len(text) <= _LONGEST:
            return self._count_whole(text)
        return None if len(text) < _SHORT else self._count_words(text.split(" "))

    def _count_words(self, words: list[str]) -> int | None:
        known, begin = self._known.get, words[1:_BEGIN]
        if 2 * list(map(known, begin, _UNKNOWN)).count(0) > len(begin):
            if next(self._learns):
                self._count_new([word for word in begin if len(word) <= _LONGEST and _is_word(word)])
            return None
        if not _is_word(words[0]):
            return None
        counts = list(map(known, words, _UNKNOWN))
        counts[0] = self._count_whole(words[0])  # it has no space before it
        unknown = [words[place] for place in _places_of(0, counts)]
        # What is known is a word. After the last one comes no space.
        if not all(map(_is_word, unknown if counts[-1] else unknown[:-1])):
            return None
        return sum(counts) + self._count_new(unknown)

    def _count_whole(self, text: str) -> int:
        """The count of a text with nothing before it, remembered."""
        count = self._whole.get(text)
        if count is None:
            count = len(self._encode(text))
            if len(text) <= _LONGEST:
                _remember(self._whole, text, count)
        return count

    def _count_new(self, words: list[str]) -> int:
        """The count of words, each after a space, which are remembered. Only the last may end in space."""
        if not words:
            return 0
        tokens = self._encode(f" {' '.join(words)}")
        count_at = dict(zip(accumulate(map(self._lengths.__getitem__, tokens)), range(1, len(tokens) + 1)))  # noqa: B905  # as many
        at = before = 0
        for word in words:
            at += 1 + (len(word) if word.isascii() else len(word.encode()))
            count = count_at[at]
            if len(word) <= _LONGEST and _is_word(word):
                _remember(self._known, word, count - before)
            before = count
        return len(tokens)


class _Lengths(dict[int, int]):
    """The bytes of each token that came."""

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes

    def __missing__(self, token: int) -> int:
        length = self[token] = len(self._token_bytes(token))
        return length


def _remember(known: dict[str, int], word: str, count: int) -> None:
    if len(known) >= _MOST_KNOWN:  # words of long ago
        known.clear()
    known[word] = count


def _places_of(value: int, counts: list[int]) -> Iterator[int]:
    """Where the value stands: few places, so that they are looked for and not all looked at."""
    place = -1
    for _ in range(counts.count(value)):
        place = counts.index(value, place + 1)
        yield place


def _is_word(word: str) -> bool:
    """Whether a space after it is a safe cut."""
    return bool(word) and not word[-1].isspace()
