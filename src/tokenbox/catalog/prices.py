"""What models cost: dollars per million tokens, as Decimal, on a date.

Prices are data: those of genai-prices, with the days from which they hold, and those of models.dev, in a
vendored table (:mod:`tokenbox.catalog.offers`), corrected by what the user configures. Where the two do not
agree, both are shown. A model without a price is unpriced: None, and never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tokenbox.catalog.names import checked_name, spellings
from tokenbox.catalog.offers import offered, offered_as, offers
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The rates, with genai-prices' names of them; the table has them in this order.
RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Other rates, for all tokens of a request that has more than ``above`` input tokens."""

    above: int
    input: Decimal | None = None
    output: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def to_dict(self) -> dict[str, object]:
        return {"above_input_tokens": self.above, **_rates_text(self)}


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in dollars per million tokens. None: no such price is known.

    ``cached_input`` is for tokens read from the provider's prompt cache, ``cache_write`` for those put there.
    ``date`` is the day from which this price holds, or else the day of the source. ``others``: what sources
    say that do not agree with it.
    """

    input: Decimal | None
    output: Decimal | None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    source: str = ""
    date: str | None = None
    tiers: tuple[PriceTier, ...] = ()
    note: str | None = None
    others: tuple[Price, ...] = ()

    def at(self, input_tokens: int) -> Price:
        """The price of a request with that many input tokens, which has no tiers any more."""
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        rates = max(reached, key=lambda tier: tier.above) if reached else self
        return replace(
            self,
            input=rates.input,
            output=rates.output,
            cached_input=rates.cached_input,
            cache_write=rates.cache_write,
            tiers=(),
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "currency": "USD",
            "per_tokens": 1_000_000,
            **_rates_text(self),
            "tiers": [tier.to_dict() for tier in self.tiers],
            "source": self.source,
            "date": self.date,
            "note": self.note,
            "others": [
                {**_rates_text(other), "source": other.source, "date": other.date} for other in self.others
            ],
        }


def _rates_text(rates: Price | PriceTier) -> dict[str, object]:
    """Decimals as text, so that no reader makes floats of them."""
    amounts = {field: getattr(rates, field) for field in RATES}
    return {field: None if amount is None else format(amount, "f") for field, amount in amounts.items()}


class InvalidDay(TokenboxError):
    """What was given as the day of a price is none."""

    code = "invalid_day"


def price(model_id: str, on: date, *, configured: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model on a day, or None if it is unpriced.

    ``configured`` is by id and comes first. ``on`` may be a datetime, in UTC,
    for the models that cost more at some hours.
    """
    wanted = checked_name(model_id)
    if not isinstance(on, date):
        raise InvalidDay(f"a price is of a day, a datetime.date, not of {on!r:.60}.")
    for name in spellings(wanted) if configured else ():
        if configured is not None and name in configured:
            return configured[name]
    places = offered_as(wanted)
    found = next((price for place in places if (price := _published(*place, on)) is not None), None)
    other = next((price for place in places if (price := _second(*place)) is not None), None)
    if found is None or other is None:
        return other if found is None else found
    return found if _agree(found, other) else replace(found, others=(other,))


def _agree(price: Price, other: Price) -> bool:
    """Whether no rate that both have differs."""
    pairs = [(getattr(price, name), getattr(other, name)) for name in RATES]
    return all(ours is None or theirs is None or ours == theirs for ours, theirs in pairs)


def _second(provider: str, name: str) -> Price | None:
    """What models.dev says."""
    table = offers()
    rates = table.second.get(f"{provider}/{name.lower()}")
    if rates is None:
        return None
    into, out, read, write = (None if rate is None else Decimal(rate) for rate in rates)
    return Price(into, out, read, write, *table.second_edition)


def _published(provider: str, name: str, on: date) -> Price | None:
    """What genai-prices says."""
    offer = offered(provider, name)
    if offer is None:
        return None
    rates, since, note = _effective(offer.prices, on)
    if rates is None or all(rate is None for rate in rates):
        return None  # a model of images, or one that is paid by the hour
    source, edition = offers().edition
    base, tiers = _tiers(rates)
    day = edition if since is None else since
    into, out, read, write = base.values()
    return Price(into, out, read, write, source, day, tiers, note)


def _effective(
    prices: Sequence[Sequence[Any]], on: date
) -> tuple[Sequence[Any] | None, str | None, str | None]:
    """The rates that hold on a day, the day they began, and what a reader should know.

    Some providers have other prices at some hours (UTC). Of a day without a time the dearest count, so that
    nothing costs more than was said.
    """
    hourly: list[Sequence[Any]] = []
    day = _day(on).isoformat()
    for when, rates in reversed(prices):
        if isinstance(when, list):
            if isinstance(on, datetime) and _is_between(on, *when):
                return rates, None, "the price at this hour"
            hourly.append(rates)
        elif when is None or when <= day:
            if isinstance(on, datetime) or not hourly:
                return rates, when, None
            dearest = max([rates, *hourly], key=_dearness)
            return dearest, when, "the dearest hours of the day (UTC): ask with a time for others"
    return None, None, None


def _day(on: date) -> date:
    return _utc(on).date() if isinstance(on, datetime) else on


def _utc(on: datetime) -> datetime:
    """A time without a zone is UTC."""
    return on.replace(tzinfo=UTC) if on.tzinfo is None else on.astimezone(UTC)


def _is_between(on: datetime, start: str, end: str) -> bool:
    """Whether the hour is in the interval, which may go over midnight."""
    now, first, last = _utc(on).time(), _time(start), _time(end)
    return now >= first or now < last if last < first else first <= now < last


def _time(text: str) -> time:
    found = time.fromisoformat(text)
    if found.tzinfo is None:
        return found
    return datetime.combine(date(1970, 1, 2), found).astimezone(UTC).time()


def _dearness(rates: Sequence[Any]) -> tuple[Decimal, ...]:
    """By output, then by input."""
    base, _ = _tiers(rates)
    return tuple(Decimal(-1) if rate is None else rate for rate in (base["output"], base["input"]))


def _tiers(stated: Sequence[Any]) -> tuple[dict[str, Decimal | None], tuple[PriceTier, ...]]:
    """The rates of a short request, and those above each number of input tokens."""
    starts = sorted({above for rate in stated if isinstance(rate, list) for above, _ in rate[1:]})

    def rates(tokens: int) -> dict[str, Decimal | None]:
        return {name: _rate(rate, tokens) for name, rate in zip(RATES, stated, strict=True)}

    return rates(0), tuple(PriceTier(start, **rates(start + 1)) for start in starts)


def _rate(rate: Any, tokens: int) -> Decimal | None:  # noqa: ANN401  # JSON
    if isinstance(rate, list):
        base, *tiers = rate
        return Decimal(next((price for above, price in reversed(tiers) if tokens > above), base))
    return None if rate is None else Decimal(rate)
