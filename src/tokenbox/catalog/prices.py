"""What models cost: dollars per million tokens, as Decimal, on a date.

Prices are data: those of the package genai-prices, with the days from which they hold, corrected by what the
user configures. A model without a price is unpriced: None, and never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from tokenbox.catalog.names import first_party, provider_of, spellings, undated
from tokenbox.catalog.published import genai_edition, published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genai_prices import types

# genai-prices' name of a provider, by ours; the same where it is not here.
_PROVIDERS = {
    "gemini": "google",
    "vertex_ai": "google",
    "xai": "x-ai",
    "bedrock": "aws",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "moonshot": "moonshotai",
    "meta_llama": "meta",
    "github_copilot": "github-copilot",
    "voyage": "voyageai",
    "azure_ai": "azure",
}

# genai-prices' name of each rate.
_FIELDS = {
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
    ``date`` is the day from which this price holds, or else the day of the source.
    """

    input: Decimal | None
    output: Decimal | None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    source: str = ""
    date: str | None = None
    tiers: tuple[PriceTier, ...] = ()
    note: str | None = None

    def at(self, input_tokens: int) -> Price:
        """The price of a request with that many input tokens, which has no tiers any more."""
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        rates = max(reached, key=lambda tier: tier.above) if reached else self
        return Price(
            rates.input,
            rates.output,
            rates.cached_input,
            rates.cache_write,
            self.source,
            self.date,
            (),
            self.note,
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
        }


def _rates_text(rates: Price | PriceTier) -> dict[str, object]:
    """Decimals as text, so that no reader makes floats of them."""
    amounts = {field: getattr(rates, field) for field in _FIELDS}
    return {field: None if amount is None else format(amount, "f") for field, amount in amounts.items()}


def price(model_id: str, on: date, *, configured: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model on a day, or None if it is unpriced.

    ``configured`` is by id and comes first. ``on`` may be a datetime, in UTC,
    for the models that cost more at some hours. The first use imports genai-prices: half a second.
    """
    wanted = model_id.strip()
    for name in spellings(wanted) if configured else ():
        if configured is not None and name in configured:
            return configured[name]
    for provider, name in _offers(wanted):
        found = _published_price(provider, name, on)
        if found is not None:
            return found
    return None


def _offers(wanted: str) -> list[tuple[str, str]]:
    """(provider, name) under which the model may be priced, nearest first: also without its date."""
    offers: list[tuple[str, str]] = []
    for name in (wanted, undated(wanted)):
        if name is None:
            continue
        prefix, slash, rest = name.partition("/")
        if slash:
            offers.append((provider_of(prefix.lower()) or prefix, rest))
            continue
        known = [key for spelling in spellings(name) if (key := published().key(spelling)) is not None]
        if known:  # a name of open weights alone is priced by whoever runs it
            served_by = published().rows[known[0]].provider
            offers += [
                (provider, name) for provider in (first_party(name), served_by) if provider is not None
            ]
    return list(dict.fromkeys(offers))


@cache
def _providers() -> Mapping[str, types.Provider]:
    from genai_prices.data import providers  # noqa: PLC0415  # half a second; no network

    return {provider.id: provider for provider in providers}


@lru_cache(maxsize=4096)
def _offered(provider: str, name: str) -> types.ModelInfo | None:
    offered = _providers().get(_PROVIDERS.get(provider, provider))
    return None if offered is None else offered.find_model(name.lower())


def _published_price(provider: str, name: str, on: date) -> Price | None:
    offered = _offered(provider, name)
    if offered is None:
        return None
    version, edition = genai_edition()
    prices, since, note = _effective(offered, on)
    if prices is None:
        return None
    source = f"genai-prices {version}"
    base, tiers = _rates(prices)
    if not any(rate is not None for rate in base.values()):
        return None  # a model of images, or one that is paid by the hour
    return Price(
        **base, source=source, date=edition if since is None else since.isoformat(), tiers=tiers, note=note
    )


def _effective(offered: types.ModelInfo, on: date) -> tuple[types.ModelPrice | None, date | None, str | None]:
    """The prices that hold on a day, the day they began, and what a reader should know.

    Some providers have other prices at some hours (UTC). Of a day without a time the dearest count, so that
    nothing costs more than was said.
    """
    from genai_prices.types import TimeOfDateConstraint  # noqa: PLC0415

    if not isinstance(offered.prices, list):
        return offered.prices, None, None
    hourly: list[types.ModelPrice] = []
    for conditional in reversed(offered.prices):
        when = conditional.constraint
        if isinstance(when, TimeOfDateConstraint):
            if isinstance(on, datetime) and when.active(on):
                return conditional.prices, None, "the price at this hour"
            hourly.append(conditional.prices)
        elif when is None or when.start_date <= _day(on):
            since = None if when is None else when.start_date
            if isinstance(on, datetime) or not hourly:
                return conditional.prices, since, None
            dearest = max([conditional.prices, *hourly], key=_dearness)
            return dearest, since, "the dearest hours of the day (UTC): ask with a time for others"
    return None, None, None


def _day(on: date) -> date:
    if isinstance(on, datetime):
        return (on if on.tzinfo is None else on.astimezone(UTC)).date()
    return on


def _dearness(prices: types.ModelPrice) -> tuple[Decimal, ...]:
    """By output, then by input."""
    base, _ = _rates(prices)
    rates = (base["output"], base["input"])
    return tuple(Decimal(-1) if rate is None else rate for rate in rates)


def _rates(prices: types.ModelPrice) -> tuple[dict[str, Decimal | None], tuple[PriceTier, ...]]:
    from genai_prices.types import TieredPrices  # noqa: PLC0415

    stated = {field: getattr(prices, theirs) for field, theirs in _FIELDS.items()}
    starts = sorted(
        {tier.start for value in stated.values() if isinstance(value, TieredPrices) for tier in value.tiers}
    )

    def rates(tokens: int) -> dict[str, Decimal | None]:
        found: dict[str, Decimal | None] = {}
        for field, value in stated.items():
            if isinstance(value, TieredPrices):
                reached = [tier.price for tier in value.tiers if tokens > tier.start]
                found[field] = reached[-1] if reached else value.base
            else:
                found[field] = value
        return found

    return rates(0), tuple(PriceTier(start, **rates(start + 1)) for start in starts)
