"""Models by name: the one that an id means, and those that a query may mean."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from tokenbox.catalog.families import tokenizer_family
from tokenbox.catalog.figures import Figure, Limit, ModelInfo, ModelLimits, settle, with_input
from tokenbox.catalog.names import checked_name, provider_of, spellings, undated
from tokenbox.catalog.offers import offered_window
from tokenbox.catalog.open_weights import card_of
from tokenbox.catalog.published import is_first_party, published

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# No id of a model is longer.
MAX_ID = 300


def model(
    model_id: str,
    *,
    configured: Mapping[str, ModelLimits] | None = None,
    discovered: Mapping[str, ModelLimits] | None = None,
) -> ModelInfo | None:
    """What is known of a model, or None where nothing is.

    The id is a provider's (``gpt-5``, ``claude-sonnet-4-5``), qualified (``openai/gpt-5``), that of a dated
    snapshot (``gpt-5-2025-08-07``), or a local server's (``llama3.1:8b``, ``Qwen3-8B-Q4_K_M.gguf``).
    ``configured`` and ``discovered`` are by id: what the user and what a server says, of any model.
    """
    wanted = checked_name(model_id)
    if not wanted or len(wanted) > MAX_ID:
        return None
    keys = _keys(wanted)
    said = _published_limits(wanted, keys)
    ours, servers = (_stated(wanted, keys, by_id) for by_id in (configured, discovered))
    if not keys and not said and ours is None and servers is None:
        return None
    settled = {limit: settle(limit, ours, servers, said) for limit in Limit}
    window, taken = settled[Limit.CONTEXT_WINDOW], settled[Limit.MAX_INPUT_TOKENS][0]
    stated = ours is not None and ours.context_window is not None
    settled[Limit.CONTEXT_WINDOW] = with_input(*window, taken, stated=stated)
    figures = {limit: figure for limit, (figure, _) in settled.items()}
    disagreements = [found for _, found in settled.values() if found is not None]
    return ModelInfo(
        keys[0] if keys else wanted,
        _provider(wanted, keys),
        figures[Limit.CONTEXT_WINDOW],
        figures[Limit.MAX_INPUT_TOKENS],
        figures[Limit.MAX_OUTPUT_TOKENS],
        tokenizer_family(wanted),
        tuple(disagreements),
    )


def find(
    query: str,
    *,
    configured: Mapping[str, ModelLimits] | None = None,
    discovered: Mapping[str, ModelLimits] | None = None,
    makers_only: bool = False,
    limit: int | None = None,
) -> list[ModelInfo]:
    """The models that a query may mean, best first: the id itself, what begins so, what has all its words.

    Of equals the maker's own come first, then names without a date, then the newest version. ``makers_only``
    leaves out who else serves a model. An empty query means all.
    """
    said = {**(discovered or {}), **(configured or {})}
    ranked = sorted(_ranked(checked_name(query).lower()[:MAX_ID], makers_only=makers_only, extra=said))
    found = (model(key, configured=configured, discovered=discovered) for _, key in ranked[:limit])
    infos = [info for info in found if info is not None]
    meant = model(query, configured=configured, discovered=discovered)
    if meant is not None and meant.id not in {info.id for info in infos}:
        infos = [meant, *infos][:limit]  # as a local server names it
    return infos


def nearest(model_id: str, most: int = 3) -> list[str]:
    """Ids that are spelled much like this one, for a message that says there is no such model."""
    wanted = checked_name(model_id).lower()[:MAX_ID]
    rows = published().raw
    own = {key.rpartition("/")[2].lower(): key for key in rows if is_first_party(key)}
    near = difflib.get_close_matches(wanted.rpartition("/")[2], own, most)
    return [own[name] for name in near]


def _keys(wanted: str) -> list[str]:
    """The rows that are the model, nearest first."""
    data = published()
    asked, slash, _ = wanted.partition("/")
    provider = provider_of(asked.lower()) if slash else None
    keys: list[str] = []
    for spelling in spellings(wanted):
        key = data.key(spelling)
        if key is None or key in keys:
            continue
        unqualified = "/" not in key
        if provider is not None and unqualified and data.row(key).provider not in (provider, None):
            continue
        keys.append(key)
    return keys


def _published_limits(wanted: str, keys: list[str]) -> list[ModelLimits]:
    data = published()
    said: list[ModelLimits] = []
    for key in keys:
        said += data.limits(key)
    base = undated(wanted)
    if base is not None:
        said += _from_base(base, said)
    card = None if said else card_of(wanted)
    if card is not None:
        return [card]
    if not any(limits.context_window for limits in said):
        said += _as_served(wanted, keys)
    return said


def _from_base(base: str, said: list[ModelLimits]) -> list[ModelLimits]:
    """What is known of the model that this is a snapshot of, where the snapshot's own rows say nothing.

    Only if they agree in the most input: a snapshot may well be smaller than what followed it.
    """
    base_keys = _keys(base)
    inputs = {limits.max_input_tokens.value for limits in said if limits.max_input_tokens is not None}
    known = {limit for limit in Limit if any(limits.figure(limit) for limits in said)}
    taken = []
    for limits in _published_limits(base, base_keys) if base_keys else []:
        own = limits.max_input_tokens
        if inputs and own is not None and own.value not in inputs:
            return []
        taken.append(
            ModelLimits(*(None if limit in known else _of(limits.figure(limit), base) for limit in Limit))
        )
    return [limits for limits in taken if limits != ModelLimits()]


def _of(figure: Figure | None, base: str) -> Figure | None:
    return None if figure is None else Figure(figure.value, f"{figure.source}, of {base}", figure.date)


def _as_served(wanted: str, keys: list[str]) -> list[ModelLimits]:
    """The window of a model that a provider serves under a name of its own, or that another made."""
    windows = (offered_window(name) for name in (wanted, *keys))
    found = next((window for window in windows if window is not None), None)
    return [] if found is None else [ModelLimits(found)]


def _stated(wanted: str, keys: list[str], by_id: Mapping[str, ModelLimits] | None) -> ModelLimits | None:
    """What was said of the model under the id asked for, or another spelling of it."""
    if not by_id:
        return None
    return next((by_id[name] for name in (wanted, *spellings(wanted), *keys) if name in by_id), None)


def _provider(wanted: str, keys: list[str]) -> str | None:
    if keys:
        return published().row(keys[0]).provider
    base = undated(wanted)
    if base is not None and (found := _keys(base)):
        return published().row(found[0]).provider
    provider, slash, _ = wanted.partition("/")
    return provider_of(provider.lower()) if slash and card_of(wanted) is None else None


_Rank = tuple[int, int, int, int, list[tuple[int, int, str]]]


def _ranked(query: str, *, makers_only: bool, extra: Iterable[str]) -> Iterable[tuple[_Rank, str]]:
    words = re.findall(r"[^\W_]+(?:\.\d+)*", query)
    exact = {key.lower() for key in _keys(query)[:1]} if query else set()
    rows = published().raw
    for key in {**dict.fromkeys(extra), **rows}:
        low = key.lower()
        match = _match(query, words, exact, low)
        if match is None:
            continue
        own = key not in rows or is_first_party(key)
        if makers_only and (not own or (match > 0 and _is_repeated(key))):
            continue
        speaks = key not in rows or published().row(key).max_output is not None
        yield (match, not own, undated(low) is not None, not speaks, _newest_first(low)), key


def _match(query: str, words: list[str], exact: set[str], low: str) -> int | None:
    if low == query or low in exact:
        return 0
    if low.startswith(query) or low.rpartition("/")[2].startswith(query):
        return 1
    return 2 if words and all(word in low for word in words) else None


def _is_repeated(key: str) -> bool:
    """``gemini/gemini-2.5-pro``: ``gemini-2.5-pro`` shows all its figures."""
    _, slash, name = key.partition("/")
    return bool(slash) and name in published().raw and is_first_party(name)


def _newest_first(low: str) -> list[tuple[int, int, str]]:
    """Orders ``gpt-5.2`` before ``gpt-5.1``, and ``gpt-5`` before both."""
    parts = re.findall(r"\d+|\D+", low)
    return [(0, -int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
