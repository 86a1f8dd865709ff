"""Counts of cuts for truncation, each computed as cheaply as the tokenizer allows.

A measure returns the count of a cut and a floor: no longer cut has fewer tokens than the floor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from tokenbox.errors import UnsupportedOperation
from tokenbox.tokenizers.graphemes import floor_boundary

if TYPE_CHECKING:
    from tokenbox.tokenizers.patterns import CutRules
    from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer

    Spans = tuple[tuple[int, int], ...]

AHEAD: Final = 512
AHEAD_UNKNOWN: Final = 3
LONG: Final = 2_048

_MARK_EVERY = 1_024  # characters between the token boundaries that are kept of a long segment
_UNSETTLED = 16  # tokens at the open end of a segment that a longer text may change


def cut_text(text: str, spans: Spans) -> str:
    return "".join([text[start:end] for start, end in spans])


class CutMeasure(Protocol):
    ahead: int

    def of(self, spans: Spans) -> tuple[int, int]: ...


class ByCounting:
    """The measure for any tokenizer: it counts each cut in full."""

    ahead = AHEAD_UNKNOWN

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self.text, self.tokenizer = text, tokenizer

    def of(self, spans: Spans) -> tuple[int, int]:
        return self.tokenizer.count(cut_text(self.text, spans)), 0


class _Range:
    """The size of ``text[start:end]``, updated as the two places move."""

    def __init__(self, text: str, measure: Callable[[str], int], place: int) -> None:
        self.text, self.measure = text, measure
        self.start = self.end = place
        self.total = 0

    def to(self, start: int, end: int) -> int:
        if abs(start - self.start) + abs(end - self.end) >= end - start:
            self.start = self.end = start
            self.total = 0
        if start < self.start:
            self.total += self.measure(self.text[start : self.start])
        self.start = min(self.start, start)
        if end > self.end:
            self.total += self.measure(self.text[self.end : end])
        elif end < self.end:
            self.total -= self.measure(self.text[end : self.end])
        self.end = end
        if start > self.start:
            self.total -= self.measure(self.text[self.start : start])
            self.start = start
        return self.total


class ByWeight:
    """The measure for additive tokenizers. The count itself is the floor."""

    ahead = AHEAD

    def __init__(self, text: str, tokenizer: AdditiveTokenizer) -> None:
        self.tokenizer = tokenizer
        self.ranges = (_Range(text, tokenizer.weigh, 0), _Range(text, tokenizer.weigh, len(text)))

    def of(self, spans: Spans) -> tuple[int, int]:
        weight = sum(kept.to(*span) for kept, span in zip(self.ranges, spans, strict=False))
        count = self.tokenizer.count_of(weight)
        return count, count


class ByCuts:
    """The measure for tokenizers with safe cuts: only the split segments at the edges are counted again.

    ``estimated`` becomes True once token boundaries inside a segment were relied on. ``bias`` corrects them.
    """

    ahead = AHEAD

    def __init__(self, text: str, tokenizer: Tokenizer, rules: CutRules, size: int | None) -> None:
        self.text, self.tokenizer, self.rules = text, tokenizer, rules
        self.front = _Range(text, tokenizer.count, 0)
        self.back = _Range(text, tokenizer.count, len(text))
        if size is not None:
            self.front.end, self.front.total = len(text), size
            self.back.start, self.back.total = 0, size
        self.marks: dict[tuple[int, bool], _Marks] = {}
        self.last = (0, 0)  # a place, and the last cut before it
        self.first = (len(text), len(text))  # a place, and the first cut after it
        self.anchor = -1
        self.estimated = False
        self.bias = 0

    def of(self, spans: Spans) -> tuple[int, int]:
        text, n = self.text, len(self.text)
        (a, b), *rest = spans
        if rest:
            c = rest[0][0]
            left, right = self.last_cut(b), self.first_cut(c)
            inner = self.front.to(0, left) + self.back.to(right, n)
            if b - left <= LONG and right - c <= LONG:
                seam = self.tokenizer.count(text[left:b] + text[c:right])
            else:
                seam = self.edge(left, b) + self.edge(right, c)
                self.estimated = True
            return inner + seam + self.bias, inner
        left = a if a == 0 else self.first_cut(a)
        right = b if b == n else self.last_cut(b)
        if left > right or (left == right and a > 0 and b < n):
            if b - a <= LONG:
                return self.tokenizer.count(text[a:b]) + self.bias, 0
            if not a < self.anchor < b:
                self.anchor = (a + b) // 2
            left = right = self.anchor
            self.estimated = True
        inner = self.back.to(left, right) if b == n and a > 0 else self.front.to(left, right)
        return self.edge(left, a) + inner + self.edge(right, b) + self.bias, inner

    def last_cut(self, b: int) -> int:
        """Return the last safe cut before ``b``, or 0. Searches no stretch twice."""
        place, cut = self.last
        if not cut < b <= place:
            if b > place and b - place < LONG:
                for match in self.rules.pattern.finditer(self.text, max(0, place - 1), b):
                    cut = match.end()
            else:
                cut = max(0, self.rules.last(self.text, b))
            self.last = (b, cut)
        return cut

    def first_cut(self, a: int) -> int:
        """Return the first safe cut after ``a``, or the end of the text."""
        place, cut = self.first
        if not place <= a < cut:
            if a < place and place - a < LONG:
                match = self.rules.pattern.search(self.text, a, place + 1)
                cut = match.end() if match else cut
            else:
                cut = self.rules.first(self.text, a)
                cut = cut if cut >= 0 else len(self.text)
            self.first = (a, cut)
        return cut

    def edge(self, cut: int, place: int) -> int:
        """Return the tokens between a safe cut and ``place``, in the split segment at an end of the text."""
        if abs(place - cut) <= LONG:
            return _count(self.text, cut, place, self.tokenizer)
        self.estimated = True
        marks = self.marks.setdefault((cut, place > cut), _Marks(self.text, self.tokenizer, cut))
        return marks.to(place)


def _count(text: str, one: int, other: int, tokenizer: Tokenizer) -> int:
    """Return the tokens between two places in any order."""
    return tokenizer.count(text[min(one, other) : max(one, other)]) if one != other else 0


class _Marks:
    """Token boundaries inside a long segment, with the tokens between them and the segment's cut.

    Consecutive tokens of a text are also the tokens of their own text (byte-pair encoding within one piece of
    the pattern). So the text on the far side of a boundary is not counted again.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, cut: int) -> None:
        self.text, self.tokenizer, self.cut = text, tokenizer, cut
        self.places = [cut]  # distances from the cut grow along the list
        self.tokens = [0]

    def to(self, place: int) -> int:
        """Return the tokens between the cut and ``place``. All places are on one side of the cut."""
        last, total = self.places[-1], self.tokens[-1]
        forward = place > self.cut
        if (place - last if forward else last - place) > LONG:
            start, end = (last, place) if forward else (place, last)
            found, tokens = _token_boundaries(self.text, start, end, self.tokenizer)
            for at, before in found if forward else reversed(found):
                between = before if forward else tokens - before
                if between <= tokens - _UNSETTLED:
                    self.places.append(at)
                    self.tokens.append(total + between)
        i = bisect_right(self.places, abs(place - self.cut), key=lambda at: abs(at - self.cut)) - 1
        return self.tokens[i] + _count(self.text, self.places[i], place, self.tokenizer)


def _token_boundaries(
    text: str, start: int, end: int, tokenizer: Tokenizer
) -> tuple[list[tuple[int, int]], int]:
    """Return some token ends in ``text[start:end]``, each with the tokens before it, and the total tokens."""
    found: list[tuple[int, int]] = []
    place = start
    try:
        tokens = tokenizer.encode(text[start:end])
    except UnsupportedOperation:
        # No access to tokens: clusters of text stand in for them, and the final recount decides.
        total = 0
        while place < end:
            stop = max(floor_boundary(text, min(end, place + _MARK_EVERY)), place + 1)
            total += tokenizer.count(text[place:stop])
            place = stop
            found.append((place, total))
        return found, total
    i, marked = 0, start
    while i < len(tokens):
        j = i + 16
        piece = tokenizer.decode(tokens[i:j])
        while not text.startswith(piece, place) and j < min(len(tokens), i + 32):
            j += 1  # a token may end inside a character
            piece = tokenizer.decode(tokens[i:j])
        if not text.startswith(piece, place):
            break
        place, i = place + len(piece), j
        if place - marked >= _MARK_EVERY and i < len(tokens):
            found.append((place, i))
            marked = place
    return found, len(tokens)
