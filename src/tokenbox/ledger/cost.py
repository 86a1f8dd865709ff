"""The cost of a call by dated prices, and its highest cost before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.ledger.money import EXACT, ZERO, money_text, per_million
from tokenbox.records import to_record

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price
    from tokenbox.ledger.usage import Usage


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost in dollars, None if unknown. ``exact`` is false for an estimate.

    ``priced`` tells whether the model has a price. With one, ``dollars`` is None if the usage is unknown.
    """

    dollars: Decimal | None
    exact: bool
    priced: bool
    source: str | None = None
    date: str | None = None

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "dollars exact priced source date",
            dollars=None if self.dollars is None else money_text(self.dollars),
        )


UNPRICED = Cost(None, exact=False, priced=False)


def cost_of(usage: Usage, price: Price | None, *, exact: bool = True) -> Cost:
    """Return the cost of ``usage``. ``exact`` means that the usage is the server's own figure.

    Tokens read from a cache or written to one are charged as plain input if their number or price is unknown.
    The cost is then an estimate, unless that makes no difference.
    """
    if price is None or price.input is None or _output_rate(price, usage.output_tokens) is None:
        return UNPRICED
    if usage.input_tokens is None or usage.output_tokens is None:
        return Cost(None, exact=False, priced=True, source=price.source, date=price.date)
    # Long requests of some models cost more per token.
    price = price.at(usage.input_tokens)
    output = _output_rate(price, usage.output_tokens)
    if price.input is None or output is None:
        return UNPRICED
    plain = usage.input_tokens
    total = per_million(usage.output_tokens, output)
    for tokens, rate, unknown_matters in (
        (usage.cached_input_tokens, price.cached_input, True),
        # Servers that do not charge for writing report no number.
        (usage.cache_write_tokens, price.cache_write, False),
    ):
        if tokens is None:
            exact = exact and not (unknown_matters and plain and rate not in {None, price.input})
        elif rate is None:
            exact = exact and not tokens
        else:
            plain -= tokens
            total = EXACT.add(total, per_million(tokens, rate))
    # Some servers count a token both as read from a cache and as written to it.
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
    """Return the cost of a call if all of the reserved output is used; None without a price."""
    price = None if price is None else price.at(input_tokens)
    output = None if price is None else _output_rate(price, reserved_output)
    if price is None or price.input is None or output is None:
        return None
    rates = (price.input, price.cached_input, price.cache_write, ZERO)
    highest = max(rate for rate in rates if rate is not None)
    return EXACT.add(per_million(input_tokens, highest), per_million(reserved_output, output))


def _output_rate(price: Price, tokens: int | None) -> Decimal | None:
    """Return the price of the output, which is 0 for embedding models: they generate no tokens."""
    return ZERO if tokens == 0 and price.output is None else price.output
