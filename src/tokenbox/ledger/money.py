"""Dollars as exact decimals. No float is used, and no sum is rounded."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation

from tokenbox.ledger.errors import InvalidMoney

ZERO = Decimal(0)
TOKENS_PER_PRICE = 6  # prices are per million tokens, 10^6
SHOWN = Decimal("0.000001")

# Enough digits for any sum of 10^12 tokens at any published price.
EXACT = Context(prec=100)
# An amount with more digits before or behind the point is an error or an attack.
MOST_DIGITS = 30


def money(value: object) -> Decimal:
    """Return the amount of a Decimal, an int or a decimal text. Raises :class:`InvalidMoney`."""
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
    exponent = int(amount.as_tuple().exponent)
    if amount.adjusted() > MOST_DIGITS or exponent < -MOST_DIGITS:
        raise InvalidMoney(
            f"{amount:.3E} is not an amount of money: it has more than {MOST_DIGITS} digits before or behind "
            "the point."
        )
    return amount


def money_text(amount: Decimal) -> str:
    """Return the amount without an exponent and trailing zeros, so that equal amounts have equal texts."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def per_million(tokens: int, price: Decimal) -> Decimal:
    """Return the cost of ``tokens`` at ``price`` dollars per million."""
    return EXACT.scaleb(EXACT.multiply(tokens, price), -TOKENS_PER_PRICE)


def dollars(amount: Decimal) -> str:
    """Format an amount for people: six digits behind the point, and ``<$0.000001`` for less."""
    if ZERO < amount < SHOWN:
        return f"<${SHOWN}"
    return f"${EXACT.quantize(amount, SHOWN):,f}"
