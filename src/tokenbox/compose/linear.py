"""A whole with linear pricing: a weight for each part, and a constant weight for each join."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tokenbox.compose.columns import contents_of
from tokenbox.compose.parts import Parts, chosen_contents

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.content.section import Section
    from tokenbox.engine.box import Ranked
    from tokenbox.tokenizers.protocol import AdditiveTokenizer


def _weight(text: str, size: int) -> int:
    """Return the size, at least 1 for a text: dropping a text must always reduce the whole."""
    return max(1, size) if text else 0


class LinearWhole(Parts):
    """Total = count_of(sum of the weights + one join weight between neighbours). O(1) for every change."""

    def __init__(
        self,
        sections: Sequence[Section],
        separator: str,
        sizes: Sequence[int],
        counter: Counter,
        *,
        weights: Sequence[int],
        join: int,
        count_of: Callable[[int], int],
        ranked: Ranked | None = None,
    ) -> None:
        super().__init__(sections, separator, sizes, counter, ranked)
        self._weights = list(weights)
        self._join = join
        self._count_of = count_of
        self._sum = sum(weights)
        self._live = len(sections) - self._weights.count(0)

    @property
    def total(self) -> int:
        return self._price(self._sum, self._live)

    def total_of(self, indices: Iterable[int]) -> int:
        weights = [self._weights[i] for i in indices]
        return self._price(sum(weights), len(weights) - weights.count(0))

    def drop_while_over(self, order: Sequence[int], budget: int) -> tuple[int, Callable[[], Iterable[int]]]:
        weights, join, price = self._weights, self._join, self._count_of
        whole = self._sum + join * (self._live - 1)
        # What the drops take away so far. The last drop removes no join.
        lost = list(accumulate([weights[i] + join if weights[i] else 0 for i in order], initial=0))
        fits = bisect_left(lost, x=True, lo=1, key=lambda less: price(max(0, whole - less)) <= budget)
        pivot = fits - 1
        self._live -= pivot - [weights[i] for i in order[:pivot]].count(0)
        sizes, texts = self.sizes, self.texts
        for i in order[:pivot]:
            self._sum -= weights[i]
            weights[i] = sizes[i] = 0
            texts[i] = ""
        return pivot, lambda: (price(whole - less) for less in lost[:pivot])

    def _append(self, i: int, item: str) -> None:
        if item:
            text = self.texts[i] + self.separator + item if self.texts[i] else item
            self.put(i, text, self.counter.count(text))

    def _price(self, weight: int, live: int) -> int:
        return self._count_of(weight + self._join * (live - 1)) if live else 0

    def _set_weight(self, i: int, weight: int) -> None:
        self._live += (weight > 0) - (self._weights[i] > 0)
        self._sum += weight - self._weights[i]
        self._weights[i] = weight


class AdditiveWhole(LinearWhole):
    """The exact pricing for an additive tokenizer."""

    pricing = "exact"

    def __init__(
        self, sections: Sequence[Section], separator: str, counter: Counter, tokenizer: AdditiveTokenizer
    ) -> None:
        self._weigh, count_of = tokenizer.weigh, tokenizer.count_of
        weights = list(map(self._weigh, contents_of(sections)))
        super().__init__(
            sections,
            separator,
            list(map(count_of, weights)),
            counter,
            weights=weights,
            join=self._weigh(separator),
            count_of=count_of,
        )

    def put(self, i: int, text: str, size: int) -> None:
        self.texts[i], self.sizes[i] = text, size
        self._set_weight(i, self._weigh(text))


class PricedWhole(LinearWhole):
    """The conservative pricing for an unknown tokenizer.

    A join is priced as the separator alone plus one token. ``correction``: the difference found by counting
    an emitted whole; it is added to every total.
    """

    pricing = "conservative"

    def __init__(
        self,
        sections: Sequence[Section],
        separator: str,
        counter: Counter,
        correction: int,
        sizes: Sequence[int] | None = None,
        ranked: Ranked | None = None,
    ) -> None:
        self.correction = correction
        sizes = counter.sizes(sections) if sizes is None else sizes
        join = counter.small(separator) + 1
        weights = sizes
        left_out = 0 if ranked is None else len(sections) - sum(map(len, ranked))
        if sizes.count(0) > left_out:
            weights = list(map(_weight, chosen_contents(sections, ranked), sizes))
        super().__init__(
            sections,
            separator,
            sizes,
            counter,
            weights=weights,
            join=join,
            count_of=self._corrected,
            ranked=ranked,
        )

    def total_of(self, indices: Iterable[int]) -> int:
        contents = contents_of(self.sections)
        return self.counter.count(self.separator.join(contents[i] for i in indices if contents[i]))

    def _corrected(self, weight: int) -> int:
        return max(0, weight + self.correction) if weight else 0

    def put(self, i: int, text: str, size: int) -> None:
        self.texts[i], self.sizes[i] = text, size
        self._set_weight(i, _weight(text, size))
