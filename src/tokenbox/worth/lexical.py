"""BM25F: the match of texts with the words of a query, by field, in fixed-point integers.

There is no index. Each text is split into identifiers once, and each distinct identifier is matched once. The
positions of words are searched only in texts that are cut into pieces. The rarity of a word among texts is
counted in texts; among pieces, in windows of ``WINDOW`` bytes, so that it does not depend on the cuts. Inside
a relevant text a common word is nearly as informative as a rare one, so the rarity among pieces is the
geometric mean of a word's own rarity and the average one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import re2

from tokenbox.characters import lower
from tokenbox.worth.fixed import log2
from tokenbox.worth.words import split, stem

if TYPE_CHECKING:
    from tokenbox.worth.query import Query

WINDOW = 1600
"""The size of a window in bytes: about 40 lines."""


class FieldWeights(NamedTuple):
    """The parameters of BM25F in hundredths: saturation, length normalization, field weights."""

    k1: int = 180
    b: int = 72
    name: int = 220
    path: int = 300
    body: int = 100
    is_whole: bool = False
    """Whether whole texts are scored, not pieces."""


PIECE = FieldWeights()
FILE = FieldWeights(k1=400, b=80, name=0, path=400, body=100, is_whole=True)

# A translation table that replaces every byte between identifiers with a blank.
_SEPARATED = bytes(
    byte if chr(byte).isalnum() or byte == ord("_") or byte > 0x7F else ord(" ")  # beyond ASCII
    for byte in range(256)
)
_SHORT = 3
_LONGEST = 40
_MAX_KNOWN = 100_000
# re2 has not the memory for a long word, searches in another way then, and would say so on stderr.
_QUIET = re2.Options()
_QUIET.log_errors = False
_BEYOND_ASCII = 0x80


@dataclass(frozen=True, slots=True)
class Match:
    """The words of the query in a text: ascending positions in bytes, and the word at each."""

    at: list[int]
    word: list[int]

    def between(self, first: int, last: int) -> Counter[int]:
        """Count each word from ``first`` up to ``last``."""
        return Counter(self.word[bisect_left(self.at, first) : bisect_left(self.at, last)])


def tokens(data: bytes) -> list[bytes]:
    """Return the identifiers and numbers in a text, in order."""
    return data.translate(_SEPARATED).split()


def identifiers(data: bytes) -> Counter[bytes]:
    """Count the identifiers and numbers in a text."""
    return Counter(tokens(data))


class Lexical:
    """The words of a query in a collection of texts.

    ``rarity[w]`` is the inverse frequency of word ``w`` among pieces, ``rarity_of_wholes[w]`` among texts.
    """

    def __init__(self, query: Query) -> None:
        self.words = query.words
        self._stems = {word.text: n for n, word in enumerate(query.words) if not word.whole}
        self._wholes = {word.text.encode(): n for n, word in enumerate(query.words) if word.whole}
        pattern = _pattern(list(self._stems), list(self._wholes))
        self._pattern = re2.compile(pattern, _QUIET) if pattern else None
        self._known: dict[bytes, int | None] = {}
        # The words in each identifier, also none where the pattern matches. It does not match most others,
        # so to search them again in the next text takes less than to remember all.
        self._words_of: dict[bytes, list[int]] = {}
        self._windows: Counter[int] = Counter()
        self._texts: Counter[int] = Counter()
        self._total = self._read = 0
        self.rarity: list[int] = []
        self.rarity_of_wholes: list[int] = []

    def read(self, data: bytes) -> Counter[int]:
        """Count the words of the query in a text, which also counts for their rarity."""
        found = tokens(data)
        return self.read_tokens(found, set(found), len(data))

    def read_tokens(self, found: Sequence[bytes], names: set[bytes], size: int) -> Counter[int]:
        """As ``read``, for a text of ``size`` bytes with these :func:`tokens`, which are the ``names``."""
        self._match_new(names.difference(self._words_of))
        body: Counter[int] = Counter()
        # Few names have a word of the query, so only these are counted.
        known = self._words_of.keys() & names
        for name, times in Counter(filter(known.__contains__, found)).items() if known else ():
            for word in self._words_of[name]:
                body[word] += times
        windows = 1 + size // WINDOW
        self._total += windows
        self._read += 1
        for word, often in body.items():
            self._texts[word] += 1
            self._windows[word] += min(often, windows)
        return body

    def _match_new(self, names: Collection[bytes]) -> None:
        """Match identifiers whose words are not known, and remember these."""
        some = list(names)
        starts: list[int] = []
        for end, found in self._matches(b"\n".join(some)):
            starts = starts or list(accumulate((len(name) + 1 for name in some), initial=0))
            known = self._words_of.setdefault(some[bisect_left(starts, end) - 1], [])
            known += [word for word, _ in found]

    def scan(self, data: bytes) -> Match:
        """Find the words of the query in ``data``."""
        found = [one for _, words in self._matches(data) for one in words]
        return Match([place for _, place in found], [word for word, _ in found])

    def _matches(self, data: bytes) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the end of each match of the pattern, and the words with their places that are in it."""
        begin = 0
        while self._pattern is not None and (match := self._pattern.search(data, begin)) is not None:
            found = self._words_at(data, match.start(), match.end())
            yield match.end(), found
            # A match that is no word may hide one that begins inside of it: ``test`` in ByteString.
            begin = match.end() if found else match.start() + 1
            if found and data[found[-1][1]] >= _BEYOND_ASCII:  # the next pair of letters may overlap it
                begin = found[-1][1] + 1

    def finish(self) -> None:
        """Compute the rarity of each word, after all texts were read."""
        n = self._total
        # A word that no text contains may still be in a path or a name.
        words = range(len(self.words))
        own = [log2(2 * n + 2, 2 * max(1, self._windows[w]) + 1) for w in words]
        usual = sum(own) // max(1, len(own))
        self.rarity = [isqrt(rarity * usual) for rarity in own]
        among = [log2(2 * self._read + 2, 2 * self._texts[w] + 1) for w in words]
        self.rarity_of_wholes = [rarity * sum(own) // max(1, sum(among)) for rarity in among]

    def rare_symbol(self, body: Mapping[int, int], most: int) -> int:
        """Return the weight of the best symbol of these words that at most ``most`` texts contain, or 0."""
        weights = (
            self.words[word].weight for word in body if self.words[word].whole and self._texts[word] <= most
        )
        return max(weights, default=0)

    def in_names(self, names: Iterable[str]) -> Counter[int]:
        """Count the words of the query in names and paths."""
        found: Counter[int] = Counter()
        for name in names:
            if (whole := self._wholes.get(name.encode("utf-8", "surrogatepass"))) is not None:
                found[whole] += 1
            for part in split(name):
                if (word := self._stems.get(stem(part))) is not None:
                    found[word] += 1
        return found

    def score(
        self,
        body: Mapping[int, int],
        names: Mapping[int, int],
        path: Mapping[int, int],
        size: int,
        average: int,
        by: FieldWeights,
    ) -> int:
        """Return the BM25F score of a text of ``size`` bytes; ``average`` is the average size."""
        norm = 100 - by.b + by.b * size // max(1, average)
        rarity = self.rarity_of_wholes if by.is_whole else self.rarity
        total = 0
        for word in body.keys() | names.keys() | path.keys():
            # In hundredths of an occurrence.
            often = (
                by.body * 100 * body.get(word, 0) // max(1, norm)
                + by.name * names.get(word, 0)
                + by.path * path.get(word, 0)
            )
            total += self.words[word].weight * rarity[word] * often // (by.k1 + often)
        return total

    def _words_at(self, data: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Return the words at a match of the pattern: an identifier as a whole, or a stem."""
        # The pattern of a whole identifier or of a short word includes the character before it.
        for begin in (start, _after_character(data, start)):
            matched = data[begin:end]
            if (whole := self._wholes.get(matched)) is not None and not _in_identifier(data, begin, end):
                # The words inside the identifier count as well.
                parts = (self._stems.get(stem(part)) for part in split(matched.decode()))
                return [(whole, begin), *((word, begin) for word in parts if word is not None)]
            if begin < end and _is_letter_or_digit(data, begin):
                word = self._stem_at(data, begin, end)
                if word is not None:
                    return [(word, begin)]
        return []

    def _stem_at(self, data: bytes, start: int, end: int) -> int | None:
        """Return the query's word that begins at ``start``, if one does."""
        key = _word_at(data, start, end)
        if key is None:
            return None
        if key not in self._known:
            if len(self._known) > _MAX_KNOWN:
                self._known.clear()
            self._known[key] = self._stems.get(stem(lower(key.decode("utf-8", "replace"))))
        return self._known[key]


def _word_at(data: bytes, start: int, end: int) -> bytes | None:
    """Return the full word whose beginning, up to ``end``, was matched; None if no word begins there."""
    if not _starts_word(data, start):
        return None
    first = data[start : start + 1]
    stop, at = min(len(data), start + _LONGEST), end
    if first.isdigit():
        while at < stop and data[at : at + 1].isdigit():
            at += 1
        return data[start:at]
    if not first.isalpha():  # beyond ASCII
        return data[start:end]
    if data[start:end].isupper():
        while at < stop and data[at : at + 1].isupper():
            at += 1
        if data[at : at + 1].islower() and at - start > 1:
            at -= 1  # the capital letter of the next word
        return data[start:at] if at >= end else None
    while at < stop and data[at : at + 1].islower():
        at += 1
    return data[start:at]


def _after_character(data: bytes, at: int) -> int:
    """Return where the UTF-8 character at ``at`` ends."""
    at += 1
    while data[at : at + 1] and data[at] & 0xC0 == _BEYOND_ASCII:
        at += 1
    return at


def _is_letter_or_digit(data: bytes, at: int) -> bool:
    return data[at : at + 1].isalnum() or data[at] >= _BEYOND_ASCII


def _pattern(stems: Sequence[str], wholes: Sequence[bytes]) -> bytes:
    """Return a pattern that matches every position where one of the words may begin."""
    long: list[bytes] = []
    short: list[bytes] = []
    for text in stems:
        part = re2.escape(text.encode())
        if text.isascii() and text.endswith("i") and text.isalpha():
            part = part[:-1] + b"[iy]"
        (short if len(text) <= _SHORT and text.isascii() and not text.isdigit() else long).append(part)
    escaped = sorted((re2.escape(text) for text in wholes), key=lambda part: (-len(part), part))
    # With the character before it, because the match of a short word at its beginning would come first.
    parts = [b"(?:^|[^A-Za-z0-9_])(?:" + b"|".join(escaped) + rb")\b"] if escaped else []
    long.sort(key=lambda part: (-len(part), part))
    short.sort(key=lambda part: (-len(part), part))
    if long:
        parts.append(b"(?i:" + b"|".join(long) + b")")
    if short:
        # A short word would match inside many words, so match it only where a word can begin.
        parts.append(b"(?:^|[^A-Za-z])(?i:" + b"|".join(short) + b")")
        parts += [part[:1].upper() + part[1:] for part in short]
        parts += [part.upper() for part in short]
    return b"|".join(parts)


def _starts_word(data: bytes, start: int) -> bool:
    if start == 0:
        return True
    before, here = data[start - 1 : start], data[start : start + 1]
    if not before.isalpha():
        return not (here.isdigit() and before.isdigit())
    if here.islower():
        return False
    if here.isupper():
        return before.islower() or data[start + 1 : start + 2].islower()
    return True


_IDENTIFIER = re.compile(rb"\w")


def _in_identifier(data: bytes, start: int, end: int) -> bool:
    before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
    return bool(_IDENTIFIER.match(before) or _IDENTIFIER.match(after))
