"""Truncation: the longest cut of a text that fits a number of tokens.

Prefixes of a text are not ordered by their counts: one character more may be a token less. So "longest"
is searched for in two steps: close in on a place that fits, counting little more than the result; then try
every longer cut until a *floor* shows that no longer one can fit. The floor is the count of the whole
segments (between safe cuts) inside the cut, which only grows.

How exact is "longest"?
* Additive tokenizers, and proven safe cuts whose segments are no longer than ``AHEAD``: exact, by that proof.
* Longer segments (a megabyte of one letter, Chinese without punctuation): nothing that fits is overlooked
  within ``AHEAD`` characters after the result. With tokens of at most 128 bytes (o200k, cl100k) that is four
  tokens: a longer cut could only fit where cutting one token short costs more than three others. That is
  a bound on the search, not a proof. Segments over ``LONG`` are measured from token boundaries inside
  them, which holds up to a token or so for suffixes and centred runs.
* No safe cuts known: the next ``AHEAD_UNKNOWN`` places after the result are over, by real counts.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

from tokenbox.errors import TokenizerError, UnsupportedOperation
from tokenbox.integers import whole
from tokenbox.tokenizers.graphemes import boundaries, ceil_boundary, floor_boundary, next_boundary
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tokenbox.tokenizers.cuts import CutRules
    from tokenbox.tokenizers.protocol import Tokenizer

    Spans = tuple[tuple[int, int], ...]

KEEP: Final = ("head", "tail", "middle", "ends")
AHEAD: Final = 512
AHEAD_UNKNOWN: Final = 3
LONG: Final = 2_048

_NEAR = 8  # so close together places are tried one by one
_CHARS_PER_TOKEN = 4  # the first guess
_MARK_EVERY = 1_024  # characters between token boundaries remembered in a long segment
_UNSETTLED = 16  # tokens at the open end of a segment that a longer text may change
_RECOUNT_ALWAYS = 65_536  # characters; above, the identity of proven cuts stands for the recount
_CALIBRATIONS = 3


def truncate(
    text: str, max_tokens: int, tokenizer: Tokenizer, keep: str = "head", *, size: int | None = None
) -> str:
    """The longest cut of ``text`` at grapheme cluster boundaries whose own count is at most ``max_tokens``.

    ``keep``: ``"head"`` the longest prefix; ``"tail"`` the longest suffix; of the n clusters of the text,
    ``"middle"`` keeps m in a row, removing floor((n-m)/2) in front and the rest behind; ``"ends"`` keeps
    ceil(m/2) at the head and floor(m/2) at the tail, joined without a marker; m the largest that fits.
    ``size``: the count of the whole text, if known. A text that fits is returned itself.
    Raises :class:`TokenizerError` for a budget that is not a whole number >= 0, or an unknown ``keep``.
    """
    whole: object = text
    if not isinstance(whole, str):
        raise TokenizerError(f"only text can be cut, not {type(whole).__name__}.")
    max_tokens = checked_size(max_tokens)
    family = _FAMILIES.get(keep)
    if family is None:
        raise TokenizerError(f"keep is {keep!r}. It is one of: {', '.join(KEEP)}.")
    if not text or (size is not None and size <= max_tokens):
        return text
    return _cut(text, family(text).spans(longest(text, max_tokens, tokenizer, keep, size=size)))


def checked_size(max_tokens: object) -> int:
    """``max_tokens`` as a number of tokens. Raises :class:`TokenizerError`."""
    number = whole(max_tokens)
    if number is None or number < 0:
        raise TokenizerError(f"max_tokens is {max_tokens!r}. Give a whole number of tokens, 0 or more.")
    return number


def longest(text: str, max_tokens: int, tokenizer: Tokenizer, keep: str, *, size: int | None = None) -> int:
    """How much :func:`truncate` keeps: characters for ``head`` and ``tail``, clusters for the others."""
    return Cuts(text, tokenizer, keep, size=size).longest(max_tokens)


class Cuts:
    """The cuts of one text, each by a size: characters or clusters, as in :func:`longest`, or ``places``.

    ``places``: where a cut may fall instead of between any two clusters, ascending, 0 and the end of the text
    among them. A size is then how many of the pieces between them are kept.
    """

    def __init__(
        self,
        text: str,
        tokenizer: Tokenizer,
        keep: str,
        *,
        size: int | None = None,
        places: Sequence[int] | None = None,
    ) -> None:
        self.text, self.tokenizer, self.size = text, tokenizer, size
        self.family = _FAMILIES[keep](text) if places is None else _AT_PLACES[keep](places)

    def longest(self, max_tokens: int) -> int:
        """The size of the longest cut of at most ``max_tokens``."""
        return _longest(self.family, self.text, max_tokens, self.tokenizer, self.size)

    def after(self, m: int) -> Iterator[int]:
        """The sizes after ``m``, ascending; the last is the whole text."""
        return self.family.following(m)

    def spans(self, m: int) -> Spans:
        """What the cut of that size keeps."""
        return self.family.spans(m)


def _longest(family: _Family, text: str, max_tokens: int, tokenizer: Tokenizer, size: int | None) -> int:
    guess = max_tokens * _CHARS_PER_TOKEN
    if size:
        guess = family.limit * max_tokens // size
    rules: CutRules | None = getattr(tokenizer, "cuts", None)
    if isinstance(tokenizer, AdditiveTokenizer):
        return _search(family, _ByWeight(text, tokenizer), max_tokens, guess)
    if rules is not None:
        proven = bool(getattr(tokenizer, "cuts_proven", False))
        found = _search_verified(family, _ByCuts(text, tokenizer, rules, size), max_tokens, guess, proven)
        if found is not None:
            return found
    return _search(family, _ByCounting(text, tokenizer), max_tokens, guess)


def _cut(text: str, spans: Spans) -> str:
    return "".join(text[start:end] for start, end in spans)


# The families of cuts. Sizes m are ordered: what m keeps, a larger m keeps too.


class _Family(Protocol):
    @property
    def limit(self) -> int: ...
    def spans(self, m: int) -> Spans: ...
    def snap(self, m: int) -> int:
        """The largest allowed size up to ``m``."""

    def following(self, m: int) -> Iterator[int]:
        """The allowed sizes after ``m``, which is one, ascending."""


class _Head:
    def __init__(self, text: str) -> None:
        self.text, self.limit = text, len(text)

    def spans(self, m: int) -> Spans:
        return ((0, m),)

    def snap(self, m: int) -> int:
        return floor_boundary(self.text, m)

    def following(self, m: int) -> Iterator[int]:
        while m < self.limit:
            m = next_boundary(self.text, m)
            yield m


class _Tail:
    def __init__(self, text: str) -> None:
        self.text, self.limit = text, len(text)

    def spans(self, m: int) -> Spans:
        return ((self.limit - m, self.limit),)

    def snap(self, m: int) -> int:
        return self.limit - ceil_boundary(self.text, self.limit - m)

    def following(self, m: int) -> Iterator[int]:
        place = self.limit - m
        while place > 0:
            # A stretch at a time: to find one boundary may take a walk through a whole run of flags.
            start = floor_boundary(self.text, max(0, place - 2 * _NEAR))
            for b in reversed(boundaries(self.text, start, place)[:-1]):
                yield self.limit - b
            place = start


class _Pieces:
    """Cuts at given places: ``m`` pieces between them are kept."""

    def __init__(self, places: Sequence[int]) -> None:
        self.places = places
        self.limit = len(places) - 1

    def snap(self, m: int) -> int:
        return max(0, min(m, self.limit))

    def following(self, m: int) -> Iterator[int]:
        return iter(range(m + 1, self.limit + 1))


class _First(_Pieces):
    def spans(self, m: int) -> Spans:
        return ((0, self.places[m]),)


class _Last(_Pieces):
    def spans(self, m: int) -> Spans:
        return ((self.places[self.limit - m], self.places[-1]),)


class _Middle(_Pieces):
    def spans(self, m: int) -> Spans:
        front = (self.limit - m) // 2
        return ((self.places[front], self.places[front + m]),)


class _Ends(_Pieces):
    def spans(self, m: int) -> Spans:
        if m == self.limit:
            return ((0, self.places[-1]),)
        return (0, self.places[(m + 1) // 2]), (self.places[self.limit - m // 2], self.places[-1])


_FAMILIES: Final[dict[str, Callable[[str], _Family]]] = {
    "head": _Head,
    "tail": _Tail,
    "middle": lambda text: _Middle(boundaries(text)),
    "ends": lambda text: _Ends(boundaries(text)),
}
_AT_PLACES: Final[dict[str, Callable[[Sequence[int]], _Family]]] = {
    "head": _First,
    "tail": _Last,
    "middle": _Middle,
    "ends": _Ends,
}


# The measures. Each gives the count of a cut and a floor: no longer cut has fewer tokens than that.


class _Measure(Protocol):
    ahead: int

    def of(self, spans: Spans) -> tuple[int, int]: ...


class _ByCounting:
    """Nothing is known: every cut is counted as a whole."""

    ahead = AHEAD_UNKNOWN

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self.text, self.tokenizer = text, tokenizer

    def of(self, spans: Spans) -> tuple[int, int]:
        return self.tokenizer.count(_cut(self.text, spans)), 0


class _Range:
    """The measure of ``text[start:end]``, kept up to date as the two places move."""

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


class _ByWeight:
    """Weights add up anywhere, and counts follow them: the count itself is the floor."""

    ahead = AHEAD

    def __init__(self, text: str, tokenizer: AdditiveTokenizer) -> None:
        self.tokenizer = tokenizer
        self.ranges = (_Range(text, tokenizer.weigh, 0), _Range(text, tokenizer.weigh, len(text)))

    def of(self, spans: Spans) -> tuple[int, int]:
        weight = sum(kept.to(*span) for kept, span in zip(self.ranges, spans, strict=False))
        count = self.tokenizer.count_of(weight)
        return count, count


class _ByCuts:
    """Between safe cuts counts add up: only the torn segments at the edges are counted again."""

    ahead = AHEAD

    def __init__(self, text: str, tokenizer: Tokenizer, rules: CutRules, size: int | None) -> None:
        self.text, self.tokenizer, self.rules = text, tokenizer, rules
        self.front = _Range(text, tokenizer.count, 0)
        self.back = _Range(text, tokenizer.count, len(text))
        if size is not None:
            self.front.end, self.front.total = len(text), size
            self.back.start, self.back.total = 0, size
        self.marks: dict[tuple[str, int], _Marks] = {}
        self.last = (0, 0)  # a place, and the last cut before it
        self.first = (len(text), len(text))  # a place, and the first cut after it
        self.anchor = -1
        self.estimated = False  # whether token boundaries inside a segment were relied on
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
                seam = self.right_edge(left, b) + self.left_edge(c, right)
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
        return self.left_edge(a, left) + inner + self.right_edge(right, b) + self.bias, inner

    def last_cut(self, b: int) -> int:
        """The last safe cut before ``b``; 0 if there is none. Does not look twice at the same stretch."""
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
        """The first safe cut after ``a``; the end of the text if there is none."""
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

    def right_edge(self, cut: int, b: int) -> int:
        """Tokens of ``text[cut:b]``, the torn segment at the end of a cut."""
        if b - cut <= LONG:
            return self.tokenizer.count(self.text[cut:b]) if b > cut else 0
        self.estimated = True
        marks = self.marks.setdefault(("right", cut), _Marks(self.text, self.tokenizer, cut))
        return marks.up_to(b)

    def left_edge(self, a: int, cut: int) -> int:
        """Tokens of ``text[a:cut]``, the torn segment at the start of a cut."""
        if cut - a <= LONG:
            return self.tokenizer.count(self.text[a:cut]) if cut > a else 0
        self.estimated = True
        marks = self.marks.setdefault(("left", cut), _Marks(self.text, self.tokenizer, cut))
        return marks.from_(a)


class _Marks:
    """Token boundaries inside a long segment, with the tokens between them and the segment's cut.

    Part of the tokens of a text, in a row, are the tokens of their own text (byte-pair encoding within
    one piece of the pattern). So what lies on the far side of a boundary need not be counted again.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, cut: int) -> None:
        self.text, self.tokenizer = text, tokenizer
        self.places = [cut]  # distances from the cut grow along the list
        self.tokens = [0]

    def up_to(self, b: int) -> int:
        if b - self.places[-1] > LONG:
            last, total = self.places[-1], self.tokens[-1]
            found, tokens = _token_boundaries(self.text, last, b, self.tokenizer)
            for place, before in found:
                if before <= tokens - _UNSETTLED:
                    self.places.append(place)
                    self.tokens.append(total + before)
        i = bisect_right(self.places, b) - 1
        return self.tokens[i] + self.tokenizer.count(self.text[self.places[i] : b])

    def from_(self, a: int) -> int:
        if self.places[-1] - a > LONG:
            last, total = self.places[-1], self.tokens[-1]
            found, tokens = _token_boundaries(self.text, a, last, self.tokenizer)
            for place, before in reversed(found):
                if before >= _UNSETTLED:
                    self.places.append(place)
                    self.tokens.append(total + tokens - before)
        i = bisect_right(self.places, -a, key=int.__neg__) - 1
        return self.tokens[i] + self.tokenizer.count(self.text[a : self.places[i]])


def _token_boundaries(
    text: str, start: int, end: int, tokenizer: Tokenizer
) -> tuple[list[tuple[int, int]], int]:
    """Some places in ``text[start:end]`` where a token ends, with the tokens before, and all its tokens."""
    found: list[tuple[int, int]] = []
    place = start
    try:
        tokens = tokenizer.encode(text[start:end])
    except UnsupportedOperation:
        # No tokens to see: clusters of text stand in for them, and the final recount decides.
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


# The search.


def _search(family: _Family, measure: _Measure, k: int, guess: int) -> int:
    """The largest size of the family whose count is at most ``k``, as far as the measure can tell."""
    low = _close_in(family, measure, k, guess)
    for m in family.following(low):
        count, floor = measure.of(family.spans(m))
        if count <= k:
            low = m
        elif floor > k or m - low >= measure.ahead:
            break
    return low


def _close_in(family: _Family, measure: _Measure, k: int, guess: int) -> int:
    """A size that fits, with one that does not close above. Secants, and every third step a bisection."""
    low, low_count = 0, 0
    high, high_count = family.limit + 1, -1
    m, turn = guess, 0
    while True:
        m = family.snap(max(low + 1, min(m, high - 1)))
        if m <= low:
            m = next(family.following(low), high)
            if m >= high:
                return low
        count, _ = measure.of(family.spans(m))
        if count <= k:
            low, low_count = m, count
        else:
            high, high_count = m, count
        if low == family.limit or high - low <= _NEAR:
            return low
        turn += 1
        if high_count < 0:
            m = low + (2 * (k - low_count) + 1) * low // max(1, 2 * low_count) + 1
        elif turn % 3 == 0:
            m = (low + high) // 2
        else:  # half a token beyond what fits
            m = low + (high - low) * (2 * (k - low_count) + 1) // (2 * max(1, high_count - low_count))


def _search_verified(family: _Family, measure: _ByCuts, k: int, guess: int, proven: bool) -> int | None:  # noqa: FBT001
    """As :func:`_search`, and the result recounted; None if the cuts cannot be relied on in this text."""
    best: int | None = None
    for _ in range(_CALIBRATIONS):
        m = _search(family, measure, k, guess)
        spans = family.spans(m)
        if proven and not measure.estimated and sum(end - start for start, end in spans) > _RECOUNT_ALWAYS:
            return m
        measured, _floor = measure.of(spans)
        counted = measure.tokenizer.count(_cut(measure.text, spans))
        if counted <= k:
            best = m if best is None else max(best, m)
        if counted == measured:
            return best
        if not measure.estimated:
            return None
        # Token boundaries were off by a few tokens, and will be by as many nearby.
        measure.bias += counted - measured
        guess = m
    return best
