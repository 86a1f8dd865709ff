"""Dividing whole tokens in proportion to exact weights."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


def largest_remainder(amount: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Shares of ``amount`` in proportion to ``weights``; they add up to ``amount`` exactly.

    Each gets the floor of its quota; what is left over goes, one each, to the largest remainders
    (ties: the earlier). Weights are non-negative rationals; all zero gives all zeros.
    """
    scale = lcm(*(weight.denominator for weight in weights))
    whole_weights = [int(weight * scale) for weight in weights]
    sum_of_weights = sum(whole_weights)
    if not sum_of_weights:
        return [0] * len(weights)
    quotas = [divmod(amount * weight, sum_of_weights) for weight in whole_weights]
    shares = [share for share, _ in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda i: (-quotas[i][1], i))
    for i in by_remainder[: amount - sum(shares)]:
        shares[i] += 1
    return shares
