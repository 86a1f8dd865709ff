"""How far to evict so that a prompt cache stays warm: the rules, and why they are those (docs/caching.md).

A server with a prompt cache processes again all that follows the first change, so a cut costs what it keeps,
and lasts until what it freed is full again. Let V tokens be the room for what may leave, g the growth per
request and s what a cut frees. Per request, g V / s tokens are then processed again, less g, and s / 2 tokens
of context are missing on average. If ``eagerness`` tokens of missing context are as bad as one processed
again, the sum of both is least at s = sqrt(2 eagerness g V): the lot size of every stock that costs
something to fill and something to hold. The growth is what the window shows of it: the tokens it holds, by
the requests that brought them.

What leaves does so in whole steps of all that may leave, 1/2, 1/4, 1/8 ... of the budget, counted from the
first token that was too many for who keeps least. A place where a long step ends is one where every shorter
step ends, so who keeps less never keeps more, whatever the conversation.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction

FINEST: Final = 12
"""The shortest step is the budget halved so often."""
_MARGIN: Final = 6


def to_free(room: int, held: int, requests: int, eagerness: Fraction) -> int:
    """Tokens that a cut is to free, never more than half of ``room``.

    ``held`` tokens of what may leave came with ``requests`` requests.
    """
    square = 2 * eagerness.numerator * room * held // (eagerness.denominator * requests)
    return min(isqrt(square), room // 2)


def halvings(wanted: int, budget: int) -> int:
    """How often ``budget`` is halved to give the step that is nearest, by ratio, to ``wanted`` tokens."""
    times = 0
    while times < FINEST and 2 * (wanted << times) ** 2 < budget * budget:
        times += 1
    return times


def halvings_to_free(wanted: int, budget: int) -> int:
    """The same for a step of at least ``wanted`` tokens: one too short is paid for again and again."""
    times = halvings(wanted, budget)
    return times if times == 0 or budget >> times >= wanted else times - 1


def freed(whole: int, budget: int, times: int) -> int:
    """Tokens that are to be gone of a whole that was never cut, in steps of ``budget`` halved ``times``.

    A 64th of the budget is left free, so that no step ends in the last few tokens of it.
    """
    return 0 if whole <= budget else in_steps(whole - budget + margin(budget), budget, times)


def in_steps(needed: int, budget: int, times: int) -> int:
    """The fewest whole steps, of ``budget`` halved ``times``, that are at least ``needed`` tokens."""
    return (-(-(needed << times) // budget) * budget) >> times if budget else needed


class Epoch(NamedTuple):
    """What the longest step frees, once it is over the budget: all that may leave, until it is over again.

    Every shorter step is counted from where an epoch began, and is held by what the longest has freed: so
    who keeps less never keeps more. Tokens that were freed of a whole that was never cut, before and since.
    """

    before: int = 0
    most: int = 0

    def at(self, whole: int, budget: int, least: int) -> Epoch:
        """The epoch of a whole of that size, of which ``least`` must stay."""
        over = whole - self.most > budget
        return Epoch(self.most, whole - min(least, budget - margin(budget))) if over else self

    def freed(self, whole: int, budget: int, times: int) -> int:
        """Tokens that are to be gone, in steps of ``budget`` halved ``times``."""
        needed = whole - budget - self.before + margin(budget)
        return self.most if times == 0 else min(self.most, self.before + in_steps(needed, budget, times))


def margin(budget: int) -> int:
    """What a window that is cut in steps leaves free of its budget, in tokens."""
    return budget >> _MARGIN
