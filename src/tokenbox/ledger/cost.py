"""Dollars as exact decimals, the cost of a call by dated prices, and its highest cost before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

from tokenbox.ledger.errors import InvalidMoney
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.catalog import Price
    from tokenbox.ledger.usage import Usage


ZERO = Decimal(0)
TOKENS_PER_PRICE = 6  # prices are per million tokens, 10^6
SHOWN = Decimal("0.000001")

# Enough digits for any sum of 10^12 tokens at any published price.
EXACT = Context(prec=100)
# A price or a limit with more digits before or behind the point is an error or an attack.
MOST_DIGITS = 30
# The cost of 10^12 tokens at such a price has more digits before the point, that of one token behind it.
MOST_COST_DIGITS = 40


def money(value: object, most: int = MOST_DIGITS) -> Decimal:
    """Return the amount of a Decimal, an int or a decimal text. Raises :class:`InvalidMoney`.

    ``most``: the most digits before and behind the point.
    """
    if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
        raise InvalidMoney(f"{value!r} is not an amount of money: give a Decimal or a text such as '0.25'.")
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise InvalidMoney(
            f"{str(value)[:40]!r} is not an amount of money: give one such as '0.25'."
        ) from None
    if not amount.is_finite() or amount < 0:
        raise InvalidMoney(f"{amount} is not an amount of money: it must be a finite number from 0.")
    if not has_digits(amount, most):
        raise InvalidMoney(
            f"{amount:.3E} is not an amount of money: it has more than {most} digits before or behind the "
            "point."
        )
    return amount


def has_digits(amount: Decimal, most: int = MOST_DIGITS) -> bool:
    """Return True if a finite amount has at most ``most`` digits before the point, and behind it."""
    return amount.adjusted() <= most and int(amount.as_tuple().exponent) >= -most


def money_text(amount: Decimal) -> str:
    """Return the amount without an exponent and trailing zeros, so that equal amounts have equal texts."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def per_million(tokens: int, price: Decimal) -> Decimal:
    """Return the cost of ``tokens`` at ``price`` dollars per million. Raises :class:`InvalidMoney`."""
    return EXACT.scaleb(EXACT.multiply(tokens, money(price)), -TOKENS_PER_PRICE)


def dollars(amount: Decimal) -> str:
    """Format an amount for people: six digits behind the point, and ``<$0.000001`` for less."""
    if ZERO < amount < SHOWN:
        return f"<${SHOWN}"
    return f"${EXACT.quantize(amount, SHOWN):,f}"


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

    Tokens read from a cache or written to one are charged as plain input if their number or price is unknown,
    and those written for an hour as the others that are written.
    The cost is then an estimate, unless that makes no difference. So is one by the highest price of a day, or
    by the price of another provider. Audio has rates of its own, so its cost is unknown.
    """
    if (
        usage.audio
        or price is None
        or price.input is None
        or _output_rate(price, usage.output_tokens) is None
    ):
        return UNPRICED
    if usage.input_tokens is None or usage.output_tokens is None:
        return Cost(None, exact=False, priced=True, source=price.source, date=price.date)
    exact = exact and not price.is_estimate
    # Long requests of some models cost more per token.
    price = price.at(usage.input_tokens)
    output = _output_rate(price, usage.output_tokens)
    if price.input is None or output is None:
        return UNPRICED
    written, hour, writes_exact = _writes(usage, price)
    exact = exact and writes_exact
    plain = usage.input_tokens
    total = per_million(usage.output_tokens, output)
    for tokens, rate, unknown_matters in (
        (usage.cached_input_tokens, price.cached_input, True),
        # Servers that do not charge for writing report no number.
        (written, price.cache_write, False),
        (hour, price.cache_write_1h, False),
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


def _writes(usage: Usage, price: Price) -> tuple[int | None, int | None, bool]:
    """Return the tokens written at the usual price, those at the price of an hour, and if that is exact."""
    written, hour = usage.cache_write_tokens, usage.cache_write_1h_tokens
    if hour is None:
        return written, None, not written or price.cache_write_1h in {None, price.cache_write}
    if price.cache_write_1h is None:
        return written, None, not hour
    if written is None:  # the input may lack the tokens written, too
        return None, hour, not hour
    return written - hour, hour, True


def cost_at_most(
    input_tokens: int, reserved_output: int, price: Price | None, *, input_at_most: int | None = None
) -> Decimal | None:
    """Return the cost of a call if all of the reserved output is used; None without a price.

    ``input_at_most`` is the upper bound of an estimate of the input: the dearest tier up to it applies.
    """
    if price is None:
        return None
    most = input_tokens if input_at_most is None else input_at_most
    reached = [tier.above + 1 for tier in price.tiers if input_tokens <= tier.above < most]
    costs = []
    for rates in map(price.at, (input_tokens, *reached)):
        output = _output_rate(rates, reserved_output)
        if rates.input is None or output is None:
            return None
        cached = (rates.cached_input, rates.cache_write, rates.cache_write_1h)
        highest = max(rates.input, *(rate for rate in cached if rate is not None), ZERO)
        costs.append(EXACT.add(per_million(input_tokens, highest), per_million(reserved_output, output)))
    return max(costs)


def _output_rate(price: Price, tokens: int | None) -> Decimal | None:
    """Return the price of the output, which is 0 for embedding models: they generate no tokens."""
    return ZERO if tokens == 0 and price.output is None else price.output
