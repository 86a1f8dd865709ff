"""Truncation: the longest cut of a text that fits a number of tokens.

The counts of prefixes are not monotonic: one more character may be one token less. So the search has two
steps: close in on a place that fits, counting little more than the result; then try every longer cut until a
*floor* shows that no longer one can fit. The floor is the count of the complete segments (between safe cuts)
inside the cut, which only grows.

How exact is "longest"?
* Additive tokenizers, and proven safe cuts whose segments are no longer than ``AHEAD``: exact, by that proof.
* Longer segments (a megabyte of one letter, Chinese without punctuation): no fitting cut is missed within
  ``AHEAD`` characters after the result. With tokens of at most 128 bytes (o200k, cl100k) that is four tokens:
  a longer cut could fit only if splitting one token cost more than three others. That is a bound of the
  search, not a proof. Segments over ``LONG`` are measured from token boundaries inside them, which is
  accurate to about one token for suffixes and centred runs.
* No safe cuts known: the next ``AHEAD_UNKNOWN`` places after the result do not fit, by real counts, and nor
  does the text, unless it has more than 64 characters per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from tokenbox.errors import TokenizerError, shown
from tokenbox.integers import whole
from tokenbox.tokenizers.graphemes import boundaries, ceil_boundary, floor_boundary, next_boundary
from tokenbox.tokenizers.measures import ByCounting, ByCuts, ByWeight, cut_text

if TYPE_CHECKING:
    from tokenbox.tokenizers.measures import CutMeasure, Spans
    from tokenbox.tokenizers.patterns import CutRules
    from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer

_NEAR = 8  # places within this distance are tried one by one
_CHARS_PER_TOKEN = 4  # the first guess
_RECOUNT_UP_TO = 4_096  # characters; longer results of proven cuts are not counted again
_CALIBRATIONS = 3
# Without safe cuts, texts up to this length are first counted in full; a longer one would need such tokens.
_WHOLE_UP_TO = 4_096
_LONG_TOKEN = 64


def truncate(
    text: str, max_tokens: int, tokenizer: Tokenizer, keep: str = "head", *, size: int | None = None
) -> str:
    """Return the longest cut of ``text`` at grapheme cluster boundaries of at most ``max_tokens`` tokens.

    ``keep``: ``"head"`` the longest prefix; ``"tail"`` the longest suffix; of the n clusters of the text,
    ``"middle"`` keeps m in a row, removing floor((n-m)/2) in front and the rest behind; ``"ends"`` keeps
    ceil(m/2) at the head and floor(m/2) at the tail, joined without a marker; m the largest that fits.
    ``size``: the count of the whole text, if known. A text that fits is returned unchanged.
    Raises :class:`TokenizerError` for a budget that is not a whole number >= 0, an unknown ``keep``, or a
    name or function in place of a tokenizer.
    """
    value: object = text
    if not isinstance(value, str):
        raise TokenizerError(f"only text can be cut, not {type(value).__name__}.")
    given: object = tokenizer
    if isinstance(given, str) or not hasattr(given, "count"):  # a string has another `count`
        raise TokenizerError(
            f"{shown(given)} is not a tokenizer. Give one, such as tokenizers.get('o200k_base')."
        )
    max_tokens = checked_size(max_tokens)
    if keep not in KEEP:
        raise TokenizerError(f"keep is {keep!r}. It is one of: {', '.join(KEEP)}.")
    if not text or (size is not None and size <= max_tokens):
        return text
    cuts = Cuts(text, tokenizer, keep, size=size)
    return cut_text(text, cuts.spans(cuts.longest(max_tokens)))


def checked_size(max_tokens: object) -> int:
    """Return ``max_tokens`` as an integer. Raises :class:`TokenizerError` if it is not a number of tokens."""
    number = whole(max_tokens)
    if number is None or number < 0:
        raise TokenizerError(f"max_tokens is {shown(max_tokens)}. Give a whole number of tokens, 0 or more.")
    return number


class Cuts:
    """The cuts of one text, each by a size: characters for ``head`` and ``tail``, clusters, or pieces.

    ``places``: the only offsets at which the text may be cut, ascending, with 0 and the end of the text. A
    size is then the number of the pieces between them that are kept.
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
        if places is None and keep in _OF_TEXT:
            self.family = _OF_TEXT[keep](text)
        else:
            self.family = _Family(keep, boundaries(text) if places is None else places)

    def longest(self, max_tokens: int) -> int:
        """Return the size of the longest cut of at most ``max_tokens``."""
        text, tokenizer, size, family = self.text, self.tokenizer, self.size, self.family
        guess = family.limit * max_tokens // size if size else max_tokens * _CHARS_PER_TOKEN
        rules: CutRules | None = getattr(tokenizer, "cuts", None)
        if hasattr(tokenizer, "weigh"):
            return _search(family, ByWeight(text, cast("AdditiveTokenizer", tokenizer)), max_tokens, guess)
        if rules is not None:
            measure = ByCuts(text, tokenizer, rules, size)
            proven = bool(getattr(tokenizer, "cuts_proven", False))
            found = _search_verified(family, measure, max_tokens, guess, proven=proven)
            if found is not None:
                return found
        is_counted = size is None and len(text) <= max(_WHOLE_UP_TO, _LONG_TOKEN * max_tokens)
        if is_counted and tokenizer.count(text) <= max_tokens:
            return family.limit
        return _search(family, ByCounting(text, tokenizer), max_tokens, guess)

    def after(self, m: int) -> Iterator[int]:
        """Yield the sizes after ``m``, ascending; the last is the whole text."""
        return self.family.following(m)

    def spans(self, m: int) -> Spans:
        """Return the ranges of the text that the cut of that size keeps."""
        return self.family.spans(m)


# The families of cuts, by size m: a larger m keeps everything that a smaller m keeps.


def _head(places: Sequence[int], m: int) -> Spans:
    return ((0, places[m]),)


def _tail(places: Sequence[int], m: int) -> Spans:
    return ((places[len(places) - 1 - m], places[-1]),)


def _middle(places: Sequence[int], m: int) -> Spans:
    front = (len(places) - 1 - m) // 2
    return ((places[front], places[front + m]),)


def _ends(places: Sequence[int], m: int) -> Spans:
    if m == len(places) - 1:
        return ((0, places[-1]),)
    return (0, places[(m + 1) // 2]), (places[len(places) - 1 - m // 2], places[-1])


_SPANS: Final[Mapping[str, Callable[[Sequence[int], int], Spans]]] = {
    "head": _head,
    "tail": _tail,
    "middle": _middle,
    "ends": _ends,
}
KEEP: Final = tuple(_SPANS)


class _Family:
    """The cuts at given places that keep ``m`` of the pieces between them."""

    def __init__(self, keep: str, places: Sequence[int]) -> None:
        self.limit = len(places) - 1
        self.spans = partial(_SPANS[keep], places)

    def snap(self, m: int) -> int:
        """Return the largest allowed size up to ``m``."""
        return max(0, min(m, self.limit))

    def following(self, m: int) -> Iterator[int]:
        """Yield the allowed sizes after the allowed size ``m``, ascending."""
        return iter(range(m + 1, self.limit + 1))


class _Prefixes(_Family):
    """The prefixes of a text by their characters, at cluster boundaries, which are found when needed."""

    def __init__(self, text: str) -> None:
        super().__init__("head", range(len(text) + 1))
        self.text = text

    def snap(self, m: int) -> int:
        return floor_boundary(self.text, m)

    def following(self, m: int) -> Iterator[int]:
        while m < self.limit:
            m = next_boundary(self.text, m)
            yield m


class _Suffixes(_Family):
    """The suffixes of a text by their characters, at cluster boundaries, which are found when needed."""

    def __init__(self, text: str) -> None:
        super().__init__("tail", range(len(text) + 1))
        self.text = text

    def snap(self, m: int) -> int:
        return self.limit - ceil_boundary(self.text, self.limit - m)

    def following(self, m: int) -> Iterator[int]:
        place = self.limit - m
        while place > 0:
            # A stretch at a time: finding one boundary may take a walk through a long run of flags.
            start = floor_boundary(self.text, max(0, place - 2 * _NEAR))
            for b in reversed(boundaries(self.text, start, place)[:-1]):
                yield self.limit - b
            place = start


_OF_TEXT: Final[Mapping[str, Callable[[str], _Family]]] = {"head": _Prefixes, "tail": _Suffixes}


# The search.


def _search(family: _Family, measure: CutMeasure, k: int, guess: int) -> int:
    """Return the largest size whose count is at most ``k``, as far as the measure can tell."""
    low = _close_in(family, measure, k, guess)
    for m in family.following(low):
        count, floor = measure.of(family.spans(m))
        if count <= k:
            low = m
        elif floor > k or m - low >= measure.ahead:
            break
    return low


def _close_in(family: _Family, measure: CutMeasure, k: int, guess: int) -> int:
    """Return a size that fits just below one that does not, by secants and, every third step, bisection."""
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
        else:  # aim half a token above the limit
            m = low + (high - low) * (2 * (k - low_count) + 1) // (2 * max(1, high_count - low_count))


def _search_verified(family: _Family, measure: ByCuts, k: int, guess: int, *, proven: bool) -> int | None:
    """As :func:`_search`, with the result recounted; None if the cuts are not safe in this text."""
    best: int | None = None
    for _ in range(_CALIBRATIONS):
        m = _search(family, measure, k, guess)
        spans = family.spans(m)
        if proven and not measure.estimated and sum(end - start for start, end in spans) > _RECOUNT_UP_TO:
            return m
        measured, _floor = measure.of(spans)
        counted = measure.tokenizer.count(cut_text(measure.text, spans))
        if counted <= k:
            best = m if best is None else max(best, m)
        if counted == measured:
            return best
        if not measure.estimated:
            return None
        # The estimate is off by a few tokens, and by about as many nearby.
        measure.bias += counted - measured
        guess = m
    return best
