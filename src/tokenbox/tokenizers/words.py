"""Counting by words: a word has the same count in every text, so the counts of words are cached.

No piece of a published pattern has a space after a character that is not white space: every pattern matches
white space only at the start of a piece, or after other white space. So the place before a space that
follows such a character is a safe cut, and the counts of the words add up in any order. The words that are
not in the cache are counted together as one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, cycle, repeat
from typing import Final

# The maximum number of cached words and of characters per word: 3 MB, 12 MB if all are that long.
_MAX_WORDS: Final = 32_768
_LONGEST: Final = 64
# Shorter texts, in characters, are counted as fast without the cache.
_SHORT: Final = 300
# The number of words at the start of a text by which the cache hits are estimated.
_SAMPLE: Final = 32
# Of the texts with few cache hits, only one in this many is added to the cache: most words never come again.
_LEARN_FROM: Final = 8
# No word counts 0.
_UNKNOWN: Final = repeat(0)


class WordCounts:
    """A cache of the counts of words, each with the space before it.

    ``encode`` returns the tokens of a text, ``token_bytes`` the bytes of a token. A word ends where a token
    ends, so the lengths of a text's tokens give the count of each word. Thread-safe: a word that one thread
    evicts is counted again by another.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]], token_bytes: Callable[[int], bytes]) -> None:
        self._encode = encode
        self._lengths = _Lengths(token_bytes)
        self._known: dict[str, int] = {}
        # Texts without a space before them: names of roles, the first word of a text.
        self._whole: dict[str, int] = {}
        self._learns = cycle([n == 0 for n in range(_LEARN_FROM)])

    def count(self, text: str) -> int | None:
        """Return the count; None if counting the text as a whole is faster, or it has no safe cuts."""
        if str.find(text, "  ") >= 0:  # code or a table; TypeError if it is not a str
            return None
        if len(text) <= _LONGEST:
            return self._count_whole(text)
        return None if len(text) < _SHORT else self._count_words(text.split(" "))

    def _count_words(self, words: list[str]) -> int | None:
        known, sample = self._known.get, words[1:_SAMPLE]
        if 2 * list(map(known, sample, _UNKNOWN)).count(0) > len(sample):
            if next(self._learns):
                self._count_new([word for word in sample if len(word) <= _LONGEST and _is_word(word)])
            return None
        if not _is_word(words[0]):
            return None
        counts = list(map(known, words, _UNKNOWN))
        counts[0] = self._count_whole(words[0])  # it has no space before it
        unknown = [words[place] for place in _places_of(0, counts)]
        # A cached word ends in a safe cut. No space follows the last word.
        if not all(map(_is_word, unknown if counts[-1] else unknown[:-1])):
            return None
        return sum(counts) + self._count_new(unknown)

    def _count_whole(self, text: str) -> int:
        """Return the count of a text with nothing before it, through the cache."""
        count = self._whole.get(text)
        if count is None:
            count = len(self._encode(text))
            if len(text) <= _LONGEST:
                _remember(self._whole, text, count)
        return count

    def _count_new(self, words: list[str]) -> int:
        """Count words, each after a space, and cache them. Only the last may end in white space."""
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
    """The number of bytes of each token, computed on first use."""

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes

    def __missing__(self, token: int) -> int:
        length = self[token] = len(self._token_bytes(token))
        return length


def _remember(known: dict[str, int], word: str, count: int) -> None:
    if len(known) >= _MAX_WORDS:
        known.clear()
    known[word] = count


def _places_of(value: int, counts: list[int]) -> Iterator[int]:
    """Yield the indices of a rare value, by ``list.index`` rather than a loop."""
    place = -1
    for _ in range(counts.count(value)):
        place = counts.index(value, place + 1)
        yield place


def _is_word(word: str) -> bool:
    """Return True if the place before a following space is a safe cut."""
    return bool(word) and not word[-1].isspace()
