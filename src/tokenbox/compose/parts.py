"""The texts of a layout in progress: what each section holds now, and what it could take in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose.cutting import SectionCuts
from tokenbox.errors import ContextCriticalOverflow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.content.section import Section


# Critical sections tried one by one for the smallest change that makes them fit.
MEASURED = 256


class Parts:
    """The state that both pricings of a whole share. Fulfils ``engine.box.Whole`` but for its totals.

    A subclass keeps the total: it is told of every change by ``put`` (a section has a new text) and
    ``_append`` (a section took in an extra item).
    """

    def __init__(
        self, sections: Sequence[Section], separator: str, sizes: Sequence[int], counter: Counter
    ) -> None:
        self.sections = sections
        self.separator = separator
        self.counter = counter
        self.base_sizes = sizes
        self.texts = [section.content for section in sections]
        self.taken: dict[int, int] = {}  # how many extra items a section has taken in
        self.sizes = list(sizes)
        # Which of its forms a section is (0: its content), where that is not the content.
        self.form: dict[int, int] = {}

    # What a subclass prices.

    pricing: str

    @property
    def total(self) -> int:
        raise NotImplementedError

    def total_of(self, indices: Iterable[int]) -> int:
        raise NotImplementedError

    def drop_while_over(self, order: Sequence[int], budget: int) -> list[int]:
        raise NotImplementedError

    def put(self, i: int, text: str, size: int) -> None:
        """Put a text of that size in the place of what is there."""
        raise NotImplementedError

    def _append(self, i: int, item: str) -> None:
        raise NotImplementedError

    # What the engine asks for.

    def size(self, i: int) -> int:
        return self.sizes[i]

    def drop(self, i: int) -> None:
        self.put(i, "", 0)

    def compress(self, i: int, at_least: int) -> bool:
        for number in range(self.form.get(i, 0) + 1, len(self.sections[i].alternatives) + 1):
            text, size = self._form(i, number)
            if max(at_least, 1) <= size < self.sizes[i]:
                self.form[i] = number
                self.put(i, text, size)
                return True
        return False

    def truncate(self, i: int, at_most: int, at_least: int = 0) -> None:
        text, size = self._form(i, self.form.get(i, 0))
        cut = SectionCuts(self.sections[i], text, size, self.counter)
        result = cut.longest(at_most)
        count = self.counter.count(result)
        if count < at_least:
            result = cut.shortest(at_least)
            count = self.counter.count(result)
            if count >= self.sizes[i]:
                return
        self.put(i, result, count)

    def restore(self, i: int) -> None:
        self.form.pop(i, None)
        self.put(i, self.sections[i].content, self.base_sizes[i])

    def has_more(self, i: int) -> bool:
        return self.taken.get(i, 0) < len(self.sections[i].extra)

    def extend(self, i: int, at_most: int, ceiling: int | None = None) -> int:
        start, items, goal = self.taken.get(i, 0), self.sections[i].extra, self.total + at_most
        for item in items[start:]:
            before = self.state(i)
            self._append(i, item)
            if self.total > goal or (ceiling is not None and self.sizes[i] > ceiling):
                self.revert(i, before)
                break
            self.taken[i] = self.taken.get(i, 0) + 1
        return self.taken.get(i, 0) - start

    def state(self, i: int) -> tuple[str, int, int]:
        return self.texts[i], self.sizes[i], self.form.get(i, 0)

    def revert(self, i: int, state: tuple[str, int, int]) -> None:
        text, size, self.form[i] = state
        self.put(i, text, size)

    def overflow(self, critical: Sequence[int], fixed_load: int, budget: int) -> ContextCriticalOverflow:
        sizes = [(self.sections[i].id, self.base_sizes[i]) for i in critical]
        return ContextCriticalOverflow(
            fixed_load=fixed_load,
            budget=budget,
            critical=sizes,
            smallest_change=self._smallest_change(critical, fixed_load, budget),
            estimate=not self.counter.tokenizer.identity.exact,
        )

    # Steps of the above.

    def _form(self, i: int, number: int) -> tuple[str, int]:
        """A form of the section and its size: 0 its content, then its alternatives."""
        if not number:
            return self.sections[i].content, self.base_sizes[i]
        return self.counter.form(self.sections[i], number - 1)

    def enough_alone(
        self, critical: Sequence[int], fixed_load: int, budget: int, always: Sequence[int] = ()
    ) -> int | None:
        """The smallest critical section without which the rest fits, if there is one.

        ``always`` are parts that are there in any case. ``fixed_load`` is the count of both.
        """
        deficit = fixed_load - budget
        # Without a section up to two separators go as well, and a seam merges differently by a few tokens; so
        # only sizes about the deficit need measuring, and of very many such sizes only some.
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
        """Let the smallest critical section shrink whose absence is enough; if none is, raise the budget."""
        deficit = fixed_load - budget
        raise_budget = f"raise the budget by {deficit:,} to {fixed_load:,}"
        # One that goes with another cannot become flexible alone.
        together = {name for s in self.sections if s.with_ is not None for name in (s.id, s.with_)}
        alone = [i for i in critical if self.sections[i].id not in together]
        bound = [i for i in critical if self.sections[i].id in together]
        i = self.enough_alone(alone, fixed_load, budget, bound)
        if i is None:
            return {
                "change": "raise_budget",
                "by": deficit,
                "minimum_budget": fixed_load,
                "say": raise_budget,
            }
        section = self.sections[i]
        return {
            "change": "make_flexible",
            "id": section.id,
            "size": self.base_sizes[i],
            "lose_at_least": deficit,
            "minimum_budget": fixed_load,
            "say": (
                f"give section {section.id!r} ({self.base_sizes[i]:,} tokens) a shrink above 0, "
                f"so that it may lose {deficit:,}, or {raise_budget}"
            ),
        }
