"""Fixed-point arithmetic, so that a worth is the same integer on every machine."""

from __future__ import annotations

BITS = 16
SCALE = 1 << BITS
"""The fixed-point representation of 1."""


def log2(numerator: int, denominator: int) -> int:
    """Return the binary logarithm of a fraction of at least 1, in units of ``SCALE``; 0 for a smaller one."""
    if numerator <= denominator:
        return 0
    whole = numerator.bit_length() - denominator.bit_length()
    if (denominator << whole) > numerator:
        whole -= 1
    # The mantissa, 1 <= x < 2, with 32 bits. Each squaring yields one bit of its logarithm.
    x = (numerator << 32) // (denominator << whole)
    result = whole
    for _ in range(BITS):
        x = x * x >> 32
        result <<= 1
        if x >> 33:
            result |= 1
            x >>= 1
    return result
