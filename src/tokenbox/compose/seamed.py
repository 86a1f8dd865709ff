"""A whole priced exactly: the sizes of the parts plus the joins, measured between safe cuts.

Every part has a head (up to its first safe cut) and a tail (from its last one). Between the tail of one part and
the head of the next lies a *seam*: ``tail + separator + head``. Counts are additive at the cuts, so

    total = sum of sizes + sum over seams of (count(seam) - count(tail) - count(head))

is the count of the whole. A part without any safe cut is *solid*: it lies inside a seam, whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.cuts import CutRules

# Characters in one head or tail, and solid parts in one layout, beyond which seams would cost more than they tell.
MAX_SEAM = 4096
MAX_SOLID = 256


class NotSeamable(Exception):  # noqa: N818  # never leaves compose: it asks for the other pricing
    """The texts have too few safe cuts for seams to be worth measuring."""


class SeamedWhole(Parts):
    """Keeps the total up to date by measuring the seams around each change. Raises :class:`NotSeamable`.

    Parts with text are a doubly linked list in declared order; index ``n`` is both its ends.
    """

    pricing = "exact"

    def __init__(
        self, sections: Sequence[Section], separator: str, counter: Counter, rules: CutRules
    ) -> None:
        sizes = counter.sizes(sections)
        super().__init__(sections, separator, sizes, counter)
        self._rules = rules
        self._proven = bool(getattr(counter.tokenizer, "cuts_proven", False))
        n = self._end = len(sections)
        self._heads = [""] * (n + 1)
        self._tails = [""] * (n + 1)
        self._solid = [False] * (n + 1)
        self._solids = 0
        for i, text in enumerate(self.texts):
            self._find_cuts(i, text)
        live = [i for i, text in enumerate(self.texts) if text]
        self._next, self._previous = [n] * (n + 1), [n] * (n + 1)
        for i, k in zip([n, *live], [*live, n], strict=True):
            self._next[i], self._previous[k] = k, i
        self._total = sum(sizes) + self._seams_of(live)

    @property
    def total(self) -> int:
        return self._total

    def total_of(self, indices: Iterable[int]) -> int:
        live = [i for i in indices if self.texts[i]]
        if not self._proven:
            # An overflow error is final, so it is not left to a rule that may not hold.
            return self.counter.count(self.separator.join(self.texts[i] for i in live))
        return sum(self.sizes[i] for i in live) + self._seams_of(live)

    def drop_while_over(self, order: Sequence[int], budget: int) -> list[int]:
        totals: list[int] = []
        for i in order:
            before = self._total
            state = self.texts[i], self.sizes[i]
            self._put(i, "", 0)
            if self._total <= budget:
                self._put(i, *state)
                break
            totals.append(before)
        return totals

    def _put(self, i: int, text: str, size: int) -> None:
        if self.texts[i]:
            self._unlink(i)
        self.texts[i], self.sizes[i] = text, size
        if text:
            self._find_cuts(i, text)
            self._link(i)

    def _append(self, i: int, item: str) -> None:
        if not item:
            return
        own = self.texts[i]
        size = self.counter.count(item)
        if own:
            tail, solid = self._tails[i], self._solid[i]
            head = self._cuts(item)[0]
            if solid or head is None:
                size = self.counter.count(own + self.separator + item)
            else:
                small = self.counter.small
                seam = small(tail + self.separator + head) - small(tail) - small(head)
                size += self.sizes[i] + seam
            item = own + self.separator + item
        self._put(i, item, size)

    # The linked list.

    def _unlink(self, i: int) -> None:
        before, after = self._previous[i], self._next[i]
        seams = self._seams_around(i)
        self._next[before], self._previous[after] = after, before
        self._total -= self.sizes[i] + seams - self._seam_between(before, after)
        self._solids -= self._solid[i]

    def _link(self, i: int) -> None:
        before = i - 1 if i else self._end
        while before != self._end and not self.texts[before]:
            before = before - 1 if before else self._end
        after = self._next[before]
        seams = self._seam_between(before, after)
        self._previous[i], self._next[i] = before, after
        self._next[before] = self._previous[after] = i
        self._total += self.sizes[i] + self._seams_around(i) - seams

    # Cuts and seams.

    def _find_cuts(self, i: int, text: str) -> None:
        head, tail = self._cuts(text) if text else ("", "")
        self._solid[i] = head is None
        self._heads[i], self._tails[i] = head or "", tail or ""
        self._solids += head is None
        if len(self._heads[i]) > MAX_SEAM or len(self._tails[i]) > MAX_SEAM or self._solids > MAX_SOLID:
            raise NotSeamable
        if head is None and len(text) > MAX_SEAM:
            raise NotSeamable

    def _cuts(self, text: str) -> tuple[str | None, str | None]:
        """The text up to its first safe cut and from its last one; (None, None) where there is none.

        The places where the separator begins and ends are cuts too where the rules say so.
        """
        rules, separator = self._rules, self.separator
        starts = bool(separator) and rules.is_cut(separator[-1], text[0])
        ends = bool(separator) and rules.is_cut(text[-1], separator[0])
        if starts and ends:
            return "", ""
        first = 0 if starts else rules.first(text)
        last = len(text) if ends else rules.last(text)
        if first < 0:
            first = last
        if last < 0:
            last = first
        return (text[:first], text[last:]) if first >= 0 else (None, None)

    def _seams_of(self, live: Sequence[int]) -> int:
        """All seams of a whole that has just these parts."""
        if any(self._solid[i] for i in live):
            ends, seams = self._end, 0
            run = [ends]
            for i in [*live, ends]:
                run.append(i)
                if not self._solid[i]:
                    seams += self._seam(run)
                    run = [i]
            return seams
        tails, heads, separator = self._tails, self._heads, self.separator
        pairs = list(zip(live, live[1:], strict=False))
        windows = [f"{tails[i]}{separator}{heads[k]}" for i, k in pairs]
        self.counter.count_small([*windows, *(tails[i] for i in live), *(heads[i] for i in live)])
        small = self.counter.small
        return sum(map(small, windows)) - sum(small(tails[i]) + small(heads[k]) for i, k in pairs)

    def _seam_between(self, before: int, after: int) -> int:
        """The seam that holds the place between two neighbours."""
        run = [before, after]
        while self._solid[run[0]]:
            run.insert(0, self._previous[run[0]])
        while self._solid[run[-1]]:
            run.append(self._next[run[-1]])
        return self._seam(run)

    def _seams_around(self, i: int) -> int:
        """The one or two seams that a part touches: one if it is solid."""
        left = self._seam_between(self._previous[i], i)
        return left if self._solid[i] else left + self._seam_between(i, self._next[i])

    def _seam(self, run: Sequence[int]) -> int:
        """What the seam through ``run`` adds: its ends are cut (or the ends of the list), what is between is solid."""
        end, small = self._end, self.counter.small
        first, last = run[0], run[-1]
        if len(run) == 2:
            if first == end or last == end:
                return 0
            tail, head = self._tails[first], self._heads[last]
            return small(tail + self.separator + head) - small(tail) - small(head)
        tail, head = self._tails[first], self._heads[last]
        texts = [self.texts[i] for i in run[1:-1]]
        if first != end:
            texts.insert(0, tail)
        if last != end:
            texts.append(head)
        alone = small(tail) + small(head) + sum(self.sizes[i] for i in run[1:-1])
        return small(self.separator.join(texts)) - alone
