"""The sections that decide a layout: the others are dropped whatever their size.

The Token Box Model drops flexible sections in a fixed order while the rest is over the budget. If every text
begins at a safe cut after the separator, the counts of texts with their separators add up, so a whole with
more sections has more tokens. Then the sections at the end of the order that are over the budget together
decide everything: all before them are dropped, and are counted only for the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.seamed import SeamedWhole
from tokenbox.engine.box import compression_order
from tokenbox.engine.result import Policy

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.layout import LayoutOptions
    from tokenbox.content.section import Section

# Fewer sections are counted as quickly as chosen.
_MIN_SECTIONS: Final = 16
# The first guess counts this many characters for each token of the budget, about half of what is needed.
_FIRST_CHARACTERS: Final = 2


def deciding_sections(
    sections: Sequence[Section], budget: int, options: LayoutOptions, counter: Counter
) -> tuple[list[int], SeamedWhole] | None:
    """Return the indices of the sections that decide the layout, and their whole; None if all may.

    Raises ``NotSeamable`` as :class:`SeamedWhole` does.
    """
    rules = getattr(counter.tokenizer, "cuts", None)
    if (
        rules is None
        or not getattr(counter.tokenizer, "cuts_proven", False)
        or options.policy is not Policy.FACET
        or options.reclaim
        or len(sections) < _MIN_SECTIONS
    ):
        return None
    before = options.separator[-1:]
    if not all(rules.is_cut(before, first) for first in {section.content[:1] for section in sections} - {""}):
        return None
    order = compression_order(sections)
    flexible = set(order)
    chosen = new = [i for i in range(len(sections)) if i not in flexible]
    sizes: dict[int, int] = {}
    tokens = characters = 0
    wanted = budget * _FIRST_CHARACTERS
    while True:
        sizes.update(zip(new, counter.sizes_of([sections[i] for i in new]), strict=True))
        tokens += sum(sizes[i] for i in new)
        characters += sum(len(sections[i].content) for i in new)
        if tokens > budget:
            indices = sorted(chosen)
            some, counts = [sections[i] for i in indices], [sizes[i] for i in indices]
            whole = SeamedWhole(some, options.separator, counter, rules, counts)
            if whole.at_least > budget:
                return indices, whole
            wanted = characters // 8
        elif tokens:  # 1 % more than the mean so far suggests
            wanted = (budget - tokens) * characters * 101 // (tokens * 100)
        if not order:
            return None
        new, taken = [], 0
        while order and (not new or taken < wanted):
            new.append(order.pop())
            taken += len(sections[new[-1]].content)
        chosen += new
