"""How far a conversation is cut once it is over its limits: a fixed share of the budget, or as pays best."""

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
    """Cut as far as pays best, by what the messages themselves show (docs/caching.md).

    ``eagerness``: how many tokens of context, for one request, you give up to save processing one token
    again. 1 is the default, and what ``low_water="auto"`` means; more cuts further and less often. It is a
    function of the messages and nothing else: a restart or another replica makes the same cuts.
    """

    eagerness: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "eagerness", _number("eagerness", self.eagerness))

    @classmethod
    def by_price(
        cls, uncached: Number, cached: Number, *, written: Number | None = None, worth: Number | None = None
    ) -> AutoLowWater:
        """As prices of input tokens ask for it, all in the same unit.

        ``written``: what a token costs that is put into the cache, if that is not the price of an uncached
        one. ``worth``: what having one more token of context in a request is worth to you; by default what
        it would cost without a cache. Where cached tokens are not cheaper there is nothing to save.

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
    """None for a fixed share."""
    if isinstance(low_water, AutoLowWater):
        return low_water.eagerness
    return Fraction(1) if low_water == AUTO and isinstance(low_water, str) else None


def _number(name: str, value: object) -> Fraction:
    try:
        return Fraction(exact_weight(value))
    except (TypeError, ValueError) as error:
        raise InvalidBudget(f"{name}: {error}.", given=repr(value)) from None
