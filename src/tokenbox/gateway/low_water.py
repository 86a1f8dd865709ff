"""How far the mode ``fit`` evicts, so that the next, longer request keeps the same beginning.

A client sends its whole conversation each time, and the gateway remembers none of it. Following the
conversation from its beginning, as :func:`tokenbox.fit` does, would take a count of the upstream for every
earlier request. So tokens are evicted in whole steps, and the cut stays where it is until the conversation
has grown by a step.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from tokenbox.conversation.low_water import eagerness_of
from tokenbox.engine.low_water import freed, halvings, halvings_to_free, to_free

if TYPE_CHECKING:
    from tokenbox.conversation.low_water import LowWater
    from tokenbox.engine.window import Window


def mark(low_water: LowWater, window: Window, whole: int, budget: int, least: Callable[[], int]) -> int:
    """Return the total to evict down to: the largest within the budget that is whole steps below ``whole``.

    ``least`` counts what stays if everything leaves that may. It is called for ``auto`` only.
    """
    eagerness = eagerness_of(low_water)
    if eagerness is None:
        wanted = int(budget * (1 - Fraction(low_water)))  # type: ignore[arg-type]  # no eagerness: a number
        if not wanted:
            return budget
        times = halvings(wanted, budget)
    else:
        kept = least()
        wanted = to_free(max(0, budget - kept), max(0, whole - kept), window.answers + 1, eagerness)
        times = halvings_to_free(wanted, budget)
    return whole - freed(whole, budget, times)
