"""Exact weights: ``grow``, ``shrink`` and similar values are rationals, never floats."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from tokenbox.errors import shown
from tokenbox.integers import plain, whole

# The limit of exponents and digits: a rational has as many digits as the exponent of its decimal form.
_MAX_EXPONENT = 1000
MAX_BITS = 3325
"""The size of the largest weight: slightly more than an integer of 1,000 decimal digits has."""
_MAX_DIGITS = 4_000  # of a decimal form: more than any rational within the limit has
# A decimal number as text, as in layout.schema.json.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def exact_weight(value: object) -> int | Fraction:
    """Return ``value`` as an exact non-negative rational: an int if it is whole, else a Fraction.

    Accepts int, Fraction, Decimal, decimal string, and finite float by its shortest decimal form (so 0.1 is
    one tenth). Raises ``ValueError`` for anything negative, infinite or not a number, ``TypeError``
    for other types.
    """
    value = plain(value)
    number = whole(value)
    if number is not None:
        weight: int | Fraction = number
    elif isinstance(value, bool) or not isinstance(value, Fraction | Decimal | float | str):
        raise TypeError(f"a weight is a number, not {type(value).__name__}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a weight is finite, not {value}")
        weight = Fraction(float.__repr__(value))
    elif isinstance(value, str | Decimal):
        weight = _from_decimal(value)
    else:
        weight = Fraction(value)
    if max(abs(weight.numerator), weight.denominator).bit_length() > MAX_BITS:
        raise ValueError(f"a weight has at most {_MAX_EXPONENT} digits")
    if weight < 0:
        raise ValueError(f"a weight is not negative, but this is {value}")
    return int(weight) if weight.denominator == 1 else weight


def _from_decimal(value: str | Decimal) -> Fraction:
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError(f"{shown(value)} is not a decimal number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{shown(value)} has an exponent beyond {_MAX_EXPONENT}") from None
    if not number.is_finite():
        raise ValueError(f"a weight is finite, not {value}")
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError(f"{shown(value)} has an exponent beyond {_MAX_EXPONENT}")
    # Turning a long one into a fraction takes quadratic time.
    if len(number.as_tuple().digits) > _MAX_DIGITS:
        raise ValueError(f"a weight has at most {_MAX_EXPONENT} digits")
    return Fraction(number)


def weight_text(weight: int | Fraction) -> str:
    """Return the exact weight as a decimal string if that is finite, else as ``p/q``."""
    if weight.denominator == 1:
        return str(int(weight))
    twos = fives = 0
    rest = weight.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{weight.numerator}/{weight.denominator}"
    places = max(twos, fives)
    digits = str(abs(weight.numerator) * 10**places // weight.denominator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
