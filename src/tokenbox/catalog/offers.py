"""Models offered by providers, with their rates: the vendored table ``data/prices.json`` and its lookup.

The lookup follows the rules of genai-prices: the first model of the provider whose clause matches the name,
else a match among the makers whose models the provider also offers (Azure offers OpenAI's, ...).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.catalog.names import first_party, provider_of, spellings, undated
from tokenbox.catalog.published import Edition, published, read_table

if TYPE_CHECKING:
    from tokenbox.catalog.figures import Figure

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

    id: str
    window: int | None
    clause: object
    prices: list[list[Any]]


@dataclass(frozen=True, slots=True)
class CatalogProvider:
    """The models of a provider. ``equal``: the index of the first model with exactly this name."""

    offers: tuple[Offer, ...]
    fallback: tuple[str, ...]
    equal: Mapping[str, int]
    matching: tuple[int, ...]
    """The indexes of the models that are matched by more than a list of names."""

    def find(self, name: str) -> Offer | None:
        """Return the first model that matches the name."""
        place = self.equal.get(name, len(self.offers))
        for other in self.matching:
            if other >= place:
                break
            if is_match(self.offers[other].clause, name):
                return self.offers[other]
        return self.offers[place] if place < len(self.offers) else None


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
        {name: _provider(found) for name, found in data["providers"].items()},
        Edition(f"models.dev via models-dev {second['version']}", second["date"]),
        data["models.dev"],
    )


def _provider(data: Mapping[str, Any]) -> CatalogProvider:
    models = tuple(Offer(*model) for model in data["models"])
    equal: dict[str, int] = {}
    matching = []
    for place, model in enumerate(models):
        clauses = model.clause if isinstance(model.clause, list) else [model.clause]
        for clause in clauses:
            if isinstance(clause, str):
                equal.setdefault(clause, place)
        if any(not isinstance(clause, str) for clause in clauses):
            matching.append(place)
    return CatalogProvider(models, tuple(data["fallback"]), equal, tuple(matching))


def is_match(clause: object, name: str) -> bool:
    """Return whether a name in lower case matches a clause: a text, a list of clauses, or tests."""
    if isinstance(clause, list):
        return any(is_match(one, name) for one in clause)
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
            places = (spelled.partition("/") for spelled in spellings(name))
            found += [
                (provider_of(prefix.lower()) or prefix, rest) for prefix, slash, rest in places if slash
            ]
            continue
        known = [key for spelling in spellings(name) if (key := published().key(spelling)) is not None]
        if known:  # a model with only open weights has no price of its own
            served_by = published().row(known[0]).provider
            found += [(provider, name) for provider in (first_party(name), served_by) if provider is not None]
    return list(dict.fromkeys(found))


def offered_window(wanted: str) -> Figure | None:
    """Return the context window of a model at a provider that offers it."""
    for provider, name in offered_as(wanted):
        found = offered(provider, name)
        if found is not None and found.window is not None:
            return offers().edition.figure(found.window)
    return None
