"""The sections that decide a layout: the others are dropped whatever their size.

The Token Box Model drops flexible sections in a fixed order while the rest is over the budget. If a whole
with more sections never has fewer tokens, the sections at the end of the order that are over the budget
together decide everything: all before them are dropped, and are counted only for the record. That holds for
prices that add up, and for counts of texts that all begin at a safe cut after the separator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from tokenbox.compose.columns import is_short
from tokenbox.compose.parts import PricedWhole, spread
from tokenbox.compose.seamed import SeamedWhole
from tokenbox.engine.box import Ranked
from tokenbox.engine.result import Policy
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from tokenbox.compose.columns import SectionColumns
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.layout import LayoutOptions

# Fewer sections are counted as quickly as chosen.
_MIN_SECTIONS: Final = 16
# The first guess counts this many characters for each token of the budget, about half of what is needed.
_FIRST_CHARACTERS: Final = 2


def deciding_sections(
    sections: SectionColumns, options: LayoutOptions, counter: Counter
) -> DecidingSections | None:
    """Return the choice of the sections that decide the layout; None if all may."""
    tokenizer = counter.tokenizer
    if (
        counter.requests is not None
        or isinstance(tokenizer, AdditiveTokenizer)
        or options.policy is not Policy.FACET
        or options.reclaim
        or len(sections) < _MIN_SECTIONS
    ):
        return None
    rules = getattr(tokenizer, "cuts", None)
    if rules is None:
        if getattr(tokenizer, "cheap", False) or is_short(sections.contents):
            return None  # the whole is worth counting
    else:
        before = options.separator[-1:]
        firsts = set(map(itemgetter(slice(1)), sections.contents)) - {""}
        proven = getattr(tokenizer, "cuts_proven", False)
        if not proven or not all(rules.is_cut(before, first) for first in firsts):
            return None
    return DecidingSections(sections, options.separator, counter)


class DecidingSections:
    """The critical sections and the last of the others, as many as are over a number of tokens."""

    def __init__(self, sections: SectionColumns, separator: str, counter: Counter) -> None:
        self._sections, self._separator, self._counter = sections, separator, counter
        self._sizes = counter.sizes_when_read(sections)
        self._critical, self._order = sections.ranked
        self._first = len(self._order)
        self._known = [0] * len(sections)
        self.have_empty = False
        """Whether one of them has no text. A function may count that as more than nothing."""
        self._added = self._tokens = self._characters = 0
        self._add(self._critical, [len(sections.contents[i]) for i in self._critical])

    def are_over(self, tokens: int) -> bool:
        """Add sections until they have more than ``tokens`` together. Return False if all have not."""
        while self._tokens <= tokens and self._first:
            wanted, most = (tokens + 1) * _FIRST_CHARACTERS, self._first // 2 + 1
            if self._tokens:  # 1 % more than the mean so far suggests
                missing = tokens - self._tokens
                wanted = missing * self._characters * 101 // (self._tokens * 100)
                most = missing * self._added * 5 // (self._tokens * 4) + 1
            contents = self._sections.contents
            added = self._order[max(0, self._first - most) : self._first]
            lengths = list(map(len, map(contents.__getitem__, reversed(added))))
            taken = min(bisect_left(list(accumulate(lengths)), wanted) + 1, len(added))
            self._first -= taken
            self._add(added[-taken:], lengths[:taken])
        return self._tokens > tokens

    def seamed(self, budget: int) -> SeamedWhole | None:
        """Return their whole with exact prices; None if all sections are needed.

        Raises ``NotSeamable`` as :class:`SeamedWhole` does.
        """
        rules = self._counter.tokenizer.cuts  # type: ignore[attr-defined]  # `deciding_sections` checked it
        tokens = budget
        while self.are_over(tokens):
            whole = SeamedWhole(
                self._sections, self._separator, self._counter, rules, list(self._known), self._ranked
            )
            if whole.at_least > budget:
                return whole
            tokens = self._tokens + self._tokens // 8
        return None

    def priced(self, budget: int, correction: int) -> PricedWhole:
        """Return their whole with conservative prices."""
        self.are_over(budget - correction)
        if self.have_empty:
            rest, self._first = self._order[: self._first], 0
            self._add(rest, [len(self._sections.contents[i]) for i in rest])
        return PricedWhole(
            self._sections, self._separator, self._counter, correction, list(self._known), self._ranked
        )

    @property
    def _ranked(self) -> Ranked:
        return Ranked(self._critical, self._order[self._first :])

    def _add(self, indices: Sequence[int], lengths: Sequence[int]) -> None:
        sizes = self._sizes.at(indices)
        spread(indices, sizes, self._known)
        self._added += len(indices)
        self._tokens += sum(sizes)
        self._characters += sum(lengths)
        self.have_empty = self.have_empty or 0 in lengths
