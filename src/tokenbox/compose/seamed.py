"""Exact pricing of a whole: the sizes of the parts plus the joins, measured between safe cuts.

Every part has a head (up to its first safe cut) and a tail (from its last one). Between the tail of one
part and the head of the next is a *seam*: ``tail + separator + head``. Counts are additive at the cuts, so

    total = sum of sizes + sum over seams of (count(seam) - count(tail) - count(head))

is the count of the whole. A part without a safe cut is *solid*: the whole part is inside a seam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import add, gt
from typing import TYPE_CHECKING

from tokenbox.compose.columns import SectionColumns, contents_of
from tokenbox.compose.counting import Counter
from tokenbox.compose.parts import AdditiveWhole, Parts
from tokenbox.compose.reuse import MEASUREMENTS
from tokenbox.tokenizers.cache import is_worth_remembering
from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer

if TYPE_CHECKING:
    from tokenbox.content.section import Section
    from tokenbox.engine.box import Ranked
    from tokenbox.tokenizers.patterns import CutRules

# The maximum characters of a head or tail, and solid parts of a layout: beyond these, seams are too slow.
MAX_SEAM = 4096
MAX_SOLID = 256
# The number of tails to cache between layouts, for each tokenizer and separator.
MAX_TAILS = 8_192
# An emitted whole of up to this many characters (about 2,000 tokens) is always counted again, as a check.
RECOUNTED = 8_192


class NotSeamable(Exception):
    """The texts have too few safe cuts to measure seams. Callers fall back to conservative pricing."""


@lru_cache(maxsize=2)
def _costs(_fingerprint: str, _separator: str) -> dict[str, int]:
    return {}


def tail_costs(tokenizer: Tokenizer, separator: str) -> dict[str, int]:
    """Return the cached costs of tails: the tokens that each adds before a separator."""
    costs = _costs(tokenizer.identity.fingerprint, separator) if is_worth_remembering(tokenizer) else {}
    if len(costs) > MAX_TAILS:
        _costs.cache_clear()  # a layout in another thread keeps its own reference
    return costs


class SeamedWhole(Parts):
    """A running total, updated by measuring the seams around each change. Raises :class:`NotSeamable`.

    Parts with text form a doubly linked list in declared order; index ``n`` is both its ends.
    """

    pricing = "exact"

    def __init__(
        self,
        sections: Sequence[Section],
        separator: str,
        counter: Counter,
        rules: CutRules,
        sizes: Sequence[int] | None = None,
        ranked: Ranked | None = None,
    ) -> None:
        sizes = counter.sizes(sections) if sizes is None else sizes
        super().__init__(sections, separator, sizes, counter, ranked)
        self._rules = rules
        self._proven = bool(getattr(counter.tokenizer, "cuts_proven", False))
        self._end = len(sections)
        # Whether there is a cut between a separator and a text, by the first or last character of the text.
        self._starts: dict[str, bool] = {"": True}
        self._ends: dict[str, bool] = {"": True}
        self._seam_costs: dict[tuple[str, str], int] = {}
        live = [i for i, text in enumerate(self.texts) if text]
        contents = contents_of(sections)
        cuts = MEASUREMENTS.of(
            ("cuts", rules, separator), contents, lambda some: self._cuts([contents[i] for i in some])
        ).at(live)
        self._heads, self._tails = [""] * (self._end + 1), [""] * (self._end + 1)
        for i, (head, tail) in zip(live, cuts, strict=True):
            self._heads[i], self._tails[i] = head, tail
        # A solid text has no safe cut, not even at its start or end, so its head and its tail overlap.
        lengths = map(add, map(len, self._heads), map(len, self._tails))
        self._solid = [*map(gt, lengths, map(len, self.texts)), False]
        self._solids = sum(self._solid)
        self._check_worth(max(map(len, self._heads)), max(map(len, self._tails)))
        # The cost of a tail before a separator if the next part has no head, as with most texts.
        self._tail_costs = tail_costs(counter.tokenizer, separator)
        self._link_all(live)
        self._total = sum(sizes) + self._seams_of(live)

    @property
    def total(self) -> int:
        return self._total

    @property
    def at_least(self) -> int:
        """The minimum of every whole of these and more sections that all begin at cuts after a separator.

        Another section adds its own tokens, and after the last of these, a separator.
        """
        tail = self._tails[self._previous[self._end]]
        return self._total + min(0, self._priced_tails([tail])[tail])

    def total_of(self, indices: Iterable[int]) -> int:
        live = [i for i in indices if self.texts[i]]
        if not self._proven:
            # This decides on the overflow error, so it does not rely on cuts that are not proven.
            return self.counter.count(self.separator.join(self.texts[i] for i in live))
        return sum(self.sizes[i] for i in live) + self._seams_of(live)

    def drop_while_over(self, order: Sequence[int], budget: int) -> tuple[int, Callable[[], Iterable[int]]]:
        totals: list[int] = []
        texts, sizes = self.texts, self.sizes
        for i in order:
            share = self._share(i) if texts[i] else 0
            if self._total - share <= budget:
                break
            totals.append(self._total)
            if texts[i]:
                self._unlink(i, share)
                texts[i], sizes[i] = "", 0
        return len(totals), lambda: totals

    def put(self, i: int, text: str, size: int) -> None:
        if self.texts[i]:
            self._unlink(i, self._share(i))
        self.texts[i], self.sizes[i] = text, size
        if text:
            self._find_cuts(i, text)
            self._link(i)

    def _append(self, i: int, item: str) -> None:
        own, size = self.texts[i], self.counter.count(item)
        if own:
            head = self._cuts([item])[0][0]
            if self._solid[i] or head == item:
                size = self.counter.count(own + self.separator + item)
            else:
                size += self.sizes[i] + self._measured(self._tails[i], head)
            item = own + self.separator + item
        self.put(i, item, size)

    # The linked list.

    def _link_all(self, live: Sequence[int]) -> None:
        n = self._end
        self._next, self._previous = [n] * (n + 1), [n] * (n + 1)
        for i, k in zip([n, *live], [*live, n], strict=True):
            self._next[i], self._previous[k] = k, i
        # Which parts have text, to skip 100,000 empty parts quickly.
        self._live = bytearray(map(bool, self.texts))

    def _unlink(self, i: int, share: int) -> None:
        before, after = self._previous[i], self._next[i]
        self._next[before], self._previous[after] = after, before
        self._live[i] = False
        self._total -= share
        self._solids -= self._solid[i]

    def _link(self, i: int) -> None:
        before = self._live.rfind(1, 0, i)
        if before < 0:
            before = self._end
        after = self._next[before]
        self._live[i] = True
        self._previous[i], self._next[i] = before, after
        self._next[before] = self._previous[after] = i
        self._total += self._share(i)

    def _share(self, i: int) -> int:
        """Return the tokens that removing this part saves: its size, and two seams replaced by one."""
        before, after = self._previous[i], self._next[i]
        if not self._solids:
            return self.sizes[i] + self._seam(before, i) + self._seam(i, after) - self._seam(before, after)
        around = self._run_of(before, after, i)
        return self.sizes[i] + self._seams_along(around) - self._seams_along([k for k in around if k != i])

    # Cuts and seams.

    def _find_cuts(self, i: int, text: str) -> None:
        ((head, tail),) = self._cuts([text])
        self._heads[i], self._tails[i] = head, tail
        self._solid[i] = len(head) + len(tail) > len(text)
        self._solids += self._solid[i]
        self._check_worth(len(head), len(tail))

    def _check_worth(self, longest_head: int, longest_tail: int) -> None:
        if longest_head > MAX_SEAM or longest_tail > MAX_SEAM or self._solids > MAX_SOLID:
            raise NotSeamable

    def _cuts(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return each text up to its first safe cut, and from its last one; the whole text twice without one.

        The borders to the separators before and after the text are cuts too if the rules allow it.
        """
        rules, separator, starts, ends = self._rules, self.separator, self._starts, self._ends
        for first in {text[:1] for text in texts} - starts.keys():
            starts[first] = rules.is_cut(separator[-1:], first)
        for last in {text[-1:] for text in texts} - ends.keys():
            ends[last] = rules.is_cut(last, separator[:1])
        return [
            ("" if starts[text[:1]] else rules.head(text), "" if ends[text[-1:]] else rules.tail(text))
            for text in texts
        ]

    def _seam(self, before: int, after: int) -> int:
        """Return the cost of the seam between two parts that are not solid; 0 at the ends."""
        if self._end in (before, after):
            return 0
        tail, head = pair = self._tails[before], self._heads[after]
        if not head:
            cost = self._tail_costs.get(tail)
            return self._priced_tails([tail])[tail] if cost is None else cost
        cost = self._seam_costs.get(pair)
        if cost is None:
            cost = self._seam_costs[pair] = self._measured(tail, head)
        return cost

    def _measured(self, tail: str, head: str) -> int:
        """Return the cost of a seam: the tokens that it has more than its tail and its head alone."""
        small = self.counter.small
        return small(tail + self.separator + head) - small(tail) - small(head)

    def _priced_tails(self, tails: Iterable[str]) -> Mapping[str, int]:
        """Return the cost of each tail before a separator if the next part has no head."""
        costs, separator = self._tail_costs, self.separator
        new = {tail for tail in tails if tail not in costs}
        if new:
            self.counter.count_small([text for tail in new for text in (tail, tail + separator)])
            costs.update((tail, self._measured(tail, "")) for tail in new)
        return costs

    def _seams_of(self, live: Sequence[int]) -> int:
        """Return the cost of all seams of a whole with only these parts."""
        if self._solids:
            return self._seams_along([self._end, *live, self._end])
        tails, heads, separator = self._tails, self._heads, self.separator
        if not any(heads):
            before = [tails[i] for i in live[:-1]]
            return sum(map(self._priced_tails(before).__getitem__, before))
        pairs = list(zip([tails[i] for i in live], [heads[i] for i in live[1:]], strict=False))
        new = {pair for pair in pairs if pair not in self._seam_costs}
        self.counter.count_small(
            [text for tail, head in new for text in (tail, head, tail + separator + head)]
        )
        self._seam_costs.update((pair, self._measured(*pair)) for pair in new)
        return sum(map(self._seam_costs.__getitem__, pairs))

    # Seams through solid parts.

    def _run_of(self, before: int, after: int, i: int) -> list[int]:
        """Return a part and its neighbours, on each side up to the first that is not solid."""
        run = [before, i, after]
        while self._solid[run[0]]:
            run.insert(0, self._previous[run[0]])
        while self._solid[run[-1]]:
            run.append(self._next[run[-1]])
        return run

    def _seams_along(self, parts: Sequence[int]) -> int:
        """Return the cost of all seams from the first to the last of these parts. Those two are not solid."""
        seams, run = 0, [parts[0]]
        for i in parts[1:]:
            run.append(i)
            if not self._solid[i]:
                seams += self._long_seam(run) if run[1:-1] else self._seam(*run)
                run = [i]
        return seams

    def _long_seam(self, run: Sequence[int]) -> int:
        """Return the cost of a seam from a tail (or the start) through solid parts to a head (or the end)."""
        first, *solid, last = run
        small = self.counter.small
        texts = [self.texts[i] for i in solid]
        alone = sum(self.sizes[i] for i in solid)
        if first != self._end:
            texts.insert(0, self._tails[first])
            alone += small(self._tails[first])
        if last != self._end:
            texts.append(self._heads[last])
            alone += small(self._heads[last])
        return small(self.separator.join(texts)) - alone


def exact_whole(
    sections: Sequence[Section], separator: str, counter: Counter, sizes: Sequence[int] | None = None
) -> AdditiveWhole | SeamedWhole | None:
    """Return an exact pricing for this tokenizer; None for an unknown tokenizer.

    ``sizes``: the counts of the sections, if they are known.
    """
    tokenizer = counter.tokenizer
    if isinstance(tokenizer, AdditiveTokenizer):
        return AdditiveWhole(sections, separator, counter, tokenizer)
    rules = getattr(tokenizer, "cuts", None)
    return None if rules is None else SeamedWhole(sections, separator, counter, rules, sizes)


def checked_total(whole: Parts, pieces: Sequence[str]) -> int:
    """Return the count of the emitted whole for a check.

    If the vocabulary's pattern proves the cuts, a long text is summed from parts and seams: the sum then
    equals the count. Any other text is counted again.
    """
    if sum(map(len, pieces)) > RECOUNTED and getattr(whole.counter.tokenizer, "cuts_proven", False):
        return whole.total_of(range(len(whole.sections)))
    return whole.counter.whole("".join(pieces))


def joined_total(
    texts: Sequence[str], separator: str, tokenizer: Tokenizer, sizes: Sequence[int] | None
) -> int:
    """Return the count of ``separator.join(texts)``. No text is empty; ``sizes`` are their counts, if known.

    If the cuts are proven and the sizes known, only the joins are counted.
    """
    proven = sizes is not None and getattr(tokenizer, "cuts_proven", False)
    if isinstance(tokenizer, AdditiveTokenizer) or proven:
        contents = list(texts)
        parts = SectionColumns({"id": contents, "content": contents})
        try:
            whole = exact_whole(parts, separator, Counter(tokenizer), sizes)
        except NotSeamable:
            whole = None
        if whole is not None:
            return whole.total
    return tokenizer.count(separator.join(texts))
