"""What a call costs, by dated prices; and what it can cost at most, before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.ledger.money import EXACT, ZERO, money_text, per_million

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price
    from tokenbox.ledger.usage import Usage


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
        # No number of them is how servers say that they do not charge for it.
        (usage.cache_write_tokens, price.cache_write, False),
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
    price = None if price is None else price.at(input_tokens)
    output = None if price is None else _output_rate(price, reserved_output)
    if price is None or price.input is None or output is None:
        return None
    dearest = max(
        rate for rate in (price.input, price.cached_input, price.cache_write, ZERO) if rate is not None
    )
    return EXACT.add(per_million(input_tokens, dearest), per_million(reserved_output, output))


def _output_rate(price: Price, tokens: int | None) -> Decimal | None:
    """The price of the output. Models of embeddings have none and need none: they give no tokens."""
    return ZERO if tokens == 0 and price.output is None else price.output
