"""Down to where a request is cut, so that the longer one that comes next keeps the same beginning.

A client sends its whole list each time, and the gateway remembers none of it. To follow the list from its
beginning, as :func:`tokenbox.fit` does, would take a count of the upstream for every request that was ever
made of it. So tokens leave in whole steps, and the cut stays where it is until the list has grown by a step.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tokenbox.conversation.low_water import eagerness_of
from tokenbox.engine.low_water import freed, halvings, halvings_to_free, to_free

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.conversation.low_water import LowWater
    from tokenbox.engine.window import Window


def mark(low_water: LowWater, window: Window, whole: int, budget: int, least: Callable[[], int]) -> int:
    """The total to evict down to: the largest within the budget that is whole steps below ``whole``.

    ``least``: counts what stays if all leaves that may. It is asked for ``auto`` only.
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
