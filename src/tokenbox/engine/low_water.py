"""How far to evict so that a prompt cache stays warm: the rules and their reasons (docs/caching.md).

A server with a prompt cache reprocesses everything after the first change. So an eviction costs the tokens
that it keeps, and lasts until the freed tokens are used up again. Let V be the room for evictable tokens, g
the growth per request and s the tokens that one eviction frees. Per request, g V / s - g tokens are then
reprocessed, and s / 2 tokens of context are missing on average. If ``eagerness`` tokens of missing context
are as bad as one reprocessed token, the sum of both is smallest at s = sqrt(2 eagerness g V), the classic
economic lot size. The growth is measured in the window: the tokens that it holds, divided by the requests
that added them.

Eviction frees whole steps of 1/2, 1/4, 1/8 ... of the budget, counted from the first token that was over the
budget for the lowest mark. Every place where a long step ends is also the end of a shorter step, so a lower
mark never keeps more than a higher one, whatever the conversation.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction

FINEST: Final = 12
"""The number of halvings of the budget that gives the shortest step."""
_MARGIN: Final = 6


def to_free(room: int, held: int, requests: int, eagerness: Fraction) -> int:
    """Return the tokens that an eviction is to free, at most half of ``room``.

    ``held``: the evictable tokens, which came with ``requests`` requests.
    """
    square = 2 * eagerness.numerator * room * held // (eagerness.denominator * requests)
    return min(isqrt(square), room // 2)


def halvings(wanted: int, budget: int) -> int:
    """Return the number of halvings of ``budget`` that come nearest, by ratio, to ``wanted`` tokens."""
    times = 0
    while times < FINEST and 2 * (wanted << times) ** 2 < budget * budget:
        times += 1
    return times


def halvings_to_free(wanted: int, budget: int) -> int:
    """As :func:`halvings`, for a step of at least ``wanted`` tokens: shorter ones evict too often."""
    times = halvings(wanted, budget)
    return times if times == 0 or budget >> times >= wanted else times - 1


def freed(whole: int, budget: int, times: int) -> int:
    """Return the tokens to evict from ``whole``, its size without evictions, in steps of ``budget >> times``.

    A 64th of the budget stays free, so that no step ends within its last few tokens.
    """
    return 0 if whole <= budget else in_steps(whole - budget + margin(budget), budget, times)


def in_steps(needed: int, budget: int, times: int) -> int:
    """Round ``needed`` tokens up to whole steps of ``budget >> times``."""
    return (-(-(needed << times) // budget) * budget) >> times if budget else needed


class Epoch(NamedTuple):
    """The bounds of what may be freed until the longest step is over the budget again.

    The longest step frees everything evictable at once. Shorter steps are counted from the start of the
    epoch and never free more than the longest, so a lower mark never keeps more than a higher one.

    ``freed_before``: tokens freed when the epoch began. ``freed_at_most``: tokens freed by its longest step.
    Both are relative to the size that the window would have without any eviction.
    """

    freed_before: int = 0
    freed_at_most: int = 0

    def at(self, whole: int, budget: int, least: int) -> Epoch:
        """Return the epoch of a window of size ``whole`` without evictions; ``least`` tokens must stay."""
        if not self.ends_at(whole, budget):
            return self
        return Epoch(self.freed_at_most, whole - min(least, budget - margin(budget)))

    def ends_at(self, whole: int, budget: int) -> bool:
        """Return True if the longest step is over the budget again."""
        return whole - self.freed_at_most > budget

    def freed(self, whole: int, budget: int, times: int) -> int:
        """Return the tokens to evict, in steps of ``budget >> times``."""
        if times == 0:
            return self.freed_at_most
        needed = whole - budget - self.freed_before + margin(budget)
        return min(self.freed_at_most, self.freed_before + in_steps(needed, budget, times))

    def end_of_step(self, whole: int, budget: int, mark: int) -> int:
        """Return the total to evict down to, in the steps that come nearest to ``mark``."""
        return whole - self.freed(whole, budget, halvings(budget - mark, budget))

    def end_of_plans(self, whole: int, budget: int) -> int:
        """Return the total down to which changes are planned ahead: the end of the longest step but one."""
        return whole - self.freed(whole, budget, 1)


def margin(budget: int) -> int:
    """Return the tokens of the budget that stay free when evicting in steps."""
    return budget >> _MARGIN
