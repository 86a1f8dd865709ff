"""How far to evict so that a prompt cache stays warm: the rule, and why it is that one (docs/caching.md).

A server with a prompt cache processes again all that follows the first change, so a cut costs what it keeps,
and lasts until what it freed is full again. Let V tokens be the room for what may leave, g the growth per
request and s what a cut frees. Per request, g V / s tokens are then processed again, less g, and s / 2 tokens
of context are missing on average. If ``eagerness`` tokens of missing context are as bad as one processed
again, the sum of both is least at s = sqrt(2 eagerness g V): the lot size of every stock that costs
something to fill and something to hold. The growth is what the window shows of it: the tokens it holds, by
the requests that brought them.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


def to_free(room: int, held: int, requests: int, eagerness: Fraction) -> int:
    """Tokens that a cut is to free, never more than half of ``room``.

    ``held`` tokens of what may leave came with ``requests`` requests.
    """
    square = 2 * eagerness.numerator * room * held // (eagerness.denominator * requests)
    return min(isqrt(square), room // 2)
