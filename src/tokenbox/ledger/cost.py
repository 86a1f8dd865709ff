"""What a call costs, by dated prices; and what it can cost at most, before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tokenbox.ledger.money import EXACT, ZERO, money_text, per_million

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from tokenbox.ledger.usage import Usage


class Price(Protocol):
    """Dollars per million tokens, as ``tokenbox.catalog.price`` gives them. None: not published."""

    @property
    def input(self) -> Decimal | None: ...
    @property
    def cached_input(self) -> Decimal | None: ...
    @property
    def output(self) -> Decimal | None: ...
    @property
    def source(self) -> str: ...
    @property
    def date(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars, or None where they are not known; ``exact`` is false for an estimate.

    ``priced`` says whether the model has a price. With one, ``dollars`` is None where the usage is unknown.
    """

    dollars: Decimal | None
    exact: bool
    priced: bool
    source: str | None = None
    date: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "dollars": None if self.dollars is None else money_text(self.dollars),
            "exact": self.exact,
            "priced": self.priced,
            "source": self.source,
            "date": self.date,
        }


UNPRICED = Cost(None, exact=False, priced=False)


def cost_of(usage: Usage, price: Price | None, *, exact: bool = True) -> Cost:
    """The cost of ``usage``. ``exact``: the usage is the server's own figure.

    Tokens from a cache, or written to one, whose number or price is not known count as plain input, and the
    cost is an estimate, unless that makes no difference.
    """
    if price is None or price.input is None or price.output is None:
        return UNPRICED
    if usage.input_tokens is None or usage.output_tokens is None:
        return Cost(None, exact=False, priced=True, source=price.source, date=price.date)
    price = price_at(price, usage.input_tokens)
    if price.input is None or price.output is None:
        return UNPRICED
    plain = usage.input_tokens
    total = per_million(usage.output_tokens, price.output)
    for tokens, rate, unknown_matters in (
        (usage.cached_input_tokens, price.cached_input, True),
        # No number of them is how servers say that they do not charge for it.
        (usage.cache_write_tokens, cache_write_price(price), False),
    ):
        if tokens is None:
            exact = exact and not (unknown_matters and plain and rate not in {None, price.input})
        elif rate is None:
            exact = exact and not tokens
        else:
            plain -= tokens
            total = EXACT.add(total, per_million(tokens, rate))
    # A server that counts a token as both read from a cache and written to it.
    if plain < 0:
        plain, exact = 0, False
    return Cost(
        EXACT.add(total, per_million(plain, price.input)),
        exact=exact,
        priced=True,
        source=price.source,
        date=price.date,
    )


def cost_at_most(input_tokens: int, reserved_output: int, price: Price | None) -> Decimal | None:
    """What a call of ``input_tokens`` can cost, all of the reserved output used; None without a price."""
    if price is None or price.input is None or price.output is None:
        return None
    price = price_at(price, input_tokens)
    if price.input is None or price.output is None:
        return None
    dearest = max(
        rate for rate in (price.input, price.cached_input, cache_write_price(price), ZERO) if rate is not None
    )
    return EXACT.add(per_million(input_tokens, dearest), per_million(reserved_output, price.output))


def price_at(price: Price, input_tokens: int) -> Price:
    """The price of a request with that many input tokens: of some models a long one costs more per token."""
    at: Callable[[int], Price] | None = getattr(price, "at", None)
    return price if at is None else at(input_tokens)


def cache_write_price(price: Price) -> Decimal | None:
    """Dollars per million tokens written to a cache, where they are published."""
    rate: Decimal | None = getattr(price, "cache_write", None)
    return rate
