"""The whole of a layout in progress: the current text of each section, and prices that add up.

With linear pricing, each part has a weight, and each join a constant weight. :mod:`tokenbox.compose.seamed`
measures the joins instead.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeVar

from tokenbox.compose.columns import contents_of
from tokenbox.engine.box import LayoutWhole, Ranked
from tokenbox.errors import ContextCriticalOverflow, plural, raise_budget, shown

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.protocol import AdditiveTokenizer

T = TypeVar("T")

# The number of critical sections to try for the smallest change that makes them fit.
MEASURED = 256


def chosen_contents(sections: Sequence[Section], ranked: Ranked | None) -> list[str]:
    """Return the contents, empty for sections that are not ranked."""
    contents = contents_of(sections)
    if ranked is None:
        return list(contents)
    return spread(chain(*ranked), map(contents.__getitem__, chain(*ranked)), [""] * len(contents))


def spread(indices: Iterable[int], values: Iterable[T], column: list[T]) -> list[T]:
    """Set the values at these indices of a column, and return it."""
    for i, value in zip(indices, values, strict=True):
        column[i] = value
    return column


class Parts(LayoutWhole):
    """The whole without pricing, the base class of all pricings.

    A subclass computes the total. It handles every change in ``put`` (a section gets a new text) and
    ``_append`` (a section gets extra items). ``ranked``: the sections to lay out, if the others are dropped
    whatever happens; these have no text and the size 0.
    """

    def __init__(
        self,
        sections: Sequence[Section],
        separator: str,
        sizes: Sequence[int],
        counter: Counter,
        ranked: Ranked | None = None,
    ) -> None:
        self.sections = sections
        self.separator = separator
        self.counter = counter
        self.base_sizes = sizes
        self.ranked = ranked
        self.texts = chosen_contents(sections, ranked)
        self.taken: dict[int, int] = {}  # the number of extra items appended to a section
        self.sizes = list(sizes)
        # The number of a section's current form; a missing key or 0 is its content.
        self.form: dict[int, int] = {}
        # The number and size of a section's best form that its own minimum keeps out.
        self.too_small: dict[int, tuple[int, int]] = {}

    # A subclass implements these.

    pricing: str
    priced = "sections"
    """What is priced, as an error names it."""
    gallops = False
    """Whether extra items are tried 1, 2, 4 ... at once: each count reads the section from its start."""

    def put(self, i: int, text: str, size: int) -> None:
        """Replace the text of a section with one of this size."""
        raise NotImplementedError

    def _append(self, i: int, text: str) -> None:
        raise NotImplementedError

    @property
    def is_partial(self) -> bool:
        """Whether sections were left out."""
        return self.ranked is not None and sum(map(len, self.ranked)) < len(self.sections)

    # The engine calls these.

    def minimum(self, i: int) -> int:
        return self.sections[i].min

    def has_text(self, i: int) -> bool:
        return bool(self.texts[i])

    def drop(self, i: int) -> None:
        self.put(i, "", 0)

    def compress(self, i: int, at_least: int) -> bool:
        for number in range(self.form.get(i, 0) + 1, len(self.sections[i].alternatives) + 1):
            text, size = self._form(i, number)
            if max(at_least, 1) <= size < self.sizes[i]:
                self.form[i] = number
                self.put(i, text, size)
                return True
            if 0 < size < self.sections[i].min:
                self.too_small.setdefault(i, (number, size))
        return False

    def truncate(self, i: int, at_most: int, at_least: int = 0) -> None:
        text, size = self._form(i, self.form.get(i, 0))
        cut, count = self.counter.cut(self.sections[i], text, size, at_most, at_least)
        if count < self.sizes[i]:
            self.put(i, cut, count)

    def restore(self, i: int) -> None:
        self.form.pop(i, None)
        self.put(i, self.sections[i].content, self.base_sizes[i])

    def has_more(self, i: int) -> bool:
        return self.taken.get(i, 0) < len(self.sections[i].extra)

    def extend(self, i: int, at_most: int, ceiling: int | None = None, at_least: int = 0) -> int:
        start, items, goal = self.taken.get(i, 0), self.sections[i].extra, self.total + at_most
        unextended, taken = self.state(i), start
        step, growing = 1, self.gallops
        while step and taken < len(items):
            before, tried = self.state(i), items[taken : taken + step]
            if text := self.separator.join(filter(None, tried)):
                self._append(i, text)
            if self.total > goal or (ceiling is not None and self.sizes[i] > ceiling):
                self.revert(i, before)
                step, growing = step // 2, False
            else:
                taken += len(tried)
                step = 2 * step if growing else step // 2 if self.gallops else 1
        if self.sizes[i] < at_least:
            self.revert(i, unextended)
            return 0
        self.taken[i] = taken
        return taken - start

    def state(self, i: int) -> tuple[str, int, int]:
        return self.texts[i], self.sizes[i], self.form.get(i, 0)

    def revert(self, i: int, state: tuple[str, int, int]) -> None:
        text, size, self.form[i] = state
        self.put(i, text, size)

    def is_exact(self, indices: Iterable[int]) -> bool:
        """Return whether the total of these sections alone is exact."""
        return self.counter.tokenizer.identity.exact

    def overflow(self, critical: Sequence[int], fixed_load: int, budget: int) -> ContextCriticalOverflow:
        return ContextCriticalOverflow(
            fixed_load=fixed_load,
            budget=budget,
            critical=[(self.sections[i].id, self.base_sizes[i]) for i in critical],
            smallest_change=self._smallest_change(critical, fixed_load, budget),
            estimate=not self.is_exact(critical),
            what=self.priced,
        )

    # Internal steps.

    def _form(self, i: int, number: int) -> tuple[str, int]:
        """Return a form of the section and its size. 0 is its content, 1 the first alternative."""
        if not number:
            return self.sections[i].content, self.base_sizes[i]
        return self.counter.form(self.sections[i], number - 1)

    def enough_alone(
        self, critical: Sequence[int], fixed_load: int, budget: int, always: Sequence[int] = ()
    ) -> int | None:
        """Return the smallest critical section without which the rest fits, or None.

        ``always``: parts that are never removed. ``fixed_load``: the count of both.
        """
        deficit = fixed_load - budget
        # Removing a section also removes up to two separators, and changes a seam by a few tokens. So only
        # sizes near the deficit need measuring, and only some of them if there are many.
        slack = 2 * self.counter.small(self.separator) + 16
        by_size = sorted(critical, key=lambda i: (self.base_sizes[i], i))
        about = [i for i in by_size if abs(self.base_sizes[i] - deficit) <= slack]
        larger = [i for i in by_size if self.base_sizes[i] > deficit + slack]
        parts = sorted([*always, *critical])
        for i in [*about[:MEASURED], *larger[:1]]:
            if self.total_of(k for k in parts if k != i) <= budget:
                return i
        return None

    def _smallest_change(self, critical: Sequence[int], fixed_load: int, budget: int) -> dict[str, object]:
        """Suggest shrinking the smallest critical section that is large enough, or raising the budget."""
        raised = raise_budget(budget, fixed_load)
        # A section with a `with` partner cannot become flexible alone.
        together = {name for s in self.sections if s.with_ is not None for name in (s.id, s.with_)}
        alone = [i for i in critical if self.sections[i].id not in together]
        bound = [i for i in critical if self.sections[i].id in together]
        i = self.enough_alone(alone, fixed_load, budget, bound)
        if i is None:
            return raised
        name, size, deficit = self.sections[i].id, self.base_sizes[i], fixed_load - budget
        loss = f"lose {deficit:,}" if deficit <= size else "be dropped"
        return {
            "change": "make_flexible",
            "id": name,
            "size": size,
            "lose_at_least": deficit,
            "minimum_budget": fixed_load,
            "say": (
                f"give section {shown(name)} ({plural(size, 'token')}) a shrink above 0, "
                f"so that it may {loss}, or {raised['say']}"
            ),
        }


def _weight(text: str, size: int) -> int:
    """Return the size, at least 1 for a text: dropping a text must always reduce the whole."""
    return max(1, size) if text else 0


class LinearWhole(Parts):
    """Total = count_of(sum of the weights + one join weight between neighbours). O(1) for every change.

    A subclass defines the weight of a text, and the count of a weight.
    """

    gallops = True

    @abstractmethod
    def _weigh(self, i: int, text: str, size: int) -> int:
        """Return the weight of a section with this text of this size."""

    @abstractmethod
    def _count_of(self, weight: int) -> int:
        """Return the number of tokens of a weight."""

    def _set_weights(self, weights: Sequence[int], join: int) -> None:
        self._weights, self._join = list(weights), join
        self._sum = sum(weights)
        self._live = len(self._weights) - self._weights.count(0)

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

    def put(self, i: int, text: str, size: int) -> None:
        weight = self._weigh(i, text, size)
        self._live += (weight > 0) - (self._weights[i] > 0)
        self._sum += weight - self._weights[i]
        self.texts[i], self.sizes[i], self._weights[i] = text, size, weight

    def _append(self, i: int, text: str) -> None:
        text = self.texts[i] + self.separator + text if self.texts[i] else text
        self.put(i, text, self.counter.count(text))

    def _price(self, weight: int, live: int) -> int:
        return self._count_of(weight + self._join * (live - 1)) if live else 0


class AdditiveWhole(LinearWhole):
    """The exact pricing for an additive tokenizer."""

    pricing = "exact"

    def __init__(
        self, sections: Sequence[Section], separator: str, counter: Counter, tokenizer: AdditiveTokenizer
    ) -> None:
        self._tokenizer = tokenizer
        weights = list(map(tokenizer.weigh, contents_of(sections)))
        super().__init__(sections, separator, list(map(tokenizer.count_of, weights)), counter)
        self._set_weights(weights, tokenizer.weigh(separator))

    def _weigh(self, i: int, text: str, size: int) -> int:
        return self._tokenizer.weigh(text)

    def _count_of(self, weight: int) -> int:
        return self._tokenizer.count_of(weight)


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
        weights = sizes = counter.sizes(sections) if sizes is None else sizes
        left_out = 0 if ranked is None else len(sections) - sum(map(len, ranked))
        if sizes.count(0) > left_out:
            weights = list(map(_weight, chosen_contents(sections, ranked), sizes))
        super().__init__(sections, separator, sizes, counter, ranked)
        self._set_weights(weights, counter.small(separator) + 1)

    def total_of(self, indices: Iterable[int]) -> int:
        contents = contents_of(self.sections)
        return self.counter.count(self.separator.join(contents[i] for i in indices if contents[i]))

    def _count_of(self, weight: int) -> int:
        return max(0, weight + self.correction) if weight else 0

    def _weigh(self, i: int, text: str, size: int) -> int:
        return _weight(text, size)
