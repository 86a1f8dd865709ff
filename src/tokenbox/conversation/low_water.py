"""The low-water mark: how far a conversation is reduced once it is over its limits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from tokenbox.content.weight import exact_weight
from tokenbox.errors import InvalidBudget

Number = int | float | str | Decimal | Fraction


@dataclass(frozen=True, slots=True)
class AutoLowWater:
    """A low-water mark that minimizes the cost, estimated from the messages themselves (docs/caching.md).

    ``eagerness``: the tokens of context, for one request, that you give up to save reprocessing one token.
    1 is the default and the meaning of ``low_water="auto"``; a larger value evicts more and less often. The
    mark depends only on the messages: a restart or another replica makes the same evictions.
    """

    eagerness: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "eagerness", _number("eagerness", self.eagerness))

    @classmethod
    def by_price(
        cls, uncached: Number, cached: Number, *, written: Number | None = None, worth: Number | None = None
    ) -> AutoLowWater:
        """Derive the eagerness from prices of input tokens, all in the same unit.

        ``written``: the price of a token written to the cache, by default the uncached price. ``worth``: the
        value to you of one more token of context in a request, by default the uncached price. If cached
        tokens are not cheaper, there is nothing to save, and the eagerness is 0.

        Raises :class:`InvalidBudget`.
        """
        per_read = _number("cached", cached)
        full = _number("uncached", uncached)
        per_write = full if written is None else _number("written", written)
        value = full if worth is None else _number("worth", worth)
        if per_write <= per_read:
            return cls(Fraction(0))
        if value <= per_read:
            raise InvalidBudget(
                f"a token of context worth {value} that costs {per_read} to read is not worth keeping. "
                "Give worth=..., more than the price of a cached token.",
                worth=str(value),
            )
        return cls((per_write - per_read) / (value - per_read))


AUTO: Final = "auto"
LowWater = int | float | str | Decimal | Fraction | AutoLowWater
"""A share of the budget, from 0 to 1, ``"auto"``, or an :class:`AutoLowWater`."""


def eagerness_of(low_water: object) -> Fraction | None:
    """Return the eagerness of an automatic mark; None for a fixed share."""
    if isinstance(low_water, AutoLowWater):
        return low_water.eagerness
    return Fraction(1) if isinstance(low_water, str) and low_water == AUTO else None


def _number(name: str, value: object) -> Fraction:
    try:
        return Fraction(exact_weight(value))
    except (TypeError, ValueError) as error:
        raise InvalidBudget(f"{name}: {error}.", given=repr(value)) from None
