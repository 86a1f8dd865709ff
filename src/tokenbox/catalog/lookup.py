"""Lookup of models: by id, and by search."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tokenbox.catalog.families import card_of, tokenizer_family
from tokenbox.catalog.figures import Figure, Limit, ModelInfo, ModelLimits, settle, with_input
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
from tokenbox.catalog.prices import offered_window
from tokenbox.catalog.published import is_first_party, published

# Windows of models for which the sources have that of their family, which is larger.
_ON_ITS_PAGE = {
    "gpt-3.5-turbo-0301": 4_096,
    "gpt-3.5-turbo-0613": 4_096,
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-5-chat": 128_000,
    "gpt-5-chat-latest": 128_000,
    "gpt-5.1-chat": 128_000,
    "gpt-5.1-chat-latest": 128_000,
    "gpt-5.2-chat": 128_000,
    "gpt-5.2-chat-latest": 128_000,
}


def model(
    model_id: str,
    *,
    configured: Mapping[str, ModelLimits] | None = None,
    discovered: Mapping[str, ModelLimits] | None = None,
) -> ModelInfo | None:
    """Return the limits of a model, or None if it is unknown.

    The id is a provider's (``gpt-5``, ``claude-sonnet-4-5``), qualified (``openai/gpt-5``), of a dated
    snapshot (``gpt-5-2025-08-07``), or of a local server (``llama3.1:8b``, ``Qwen3-8B-Q4_K_M.gguf``).
    ``configured`` and ``discovered``: limits by id, from the user and from servers.
    """
    asked = checked_name(model_id)
    if not asked or len(asked) > MAX_NAME:
        return None
    wanted = with_slash(asked)
    keys = _keys(wanted)
    served = served_as(wanted)
    listed = _published_limits(served, keys if served == wanted else _keys(served))
    ours, servers = (_stated(asked, keys, by_id) for by_id in (configured, discovered))
    if not keys and not listed and ours is None and servers is None:
        return None
    settled = {limit: settle(limit, ours, servers, listed) for limit in Limit}
    window, taken = settled[Limit.CONTEXT_WINDOW], settled[Limit.MAX_INPUT_TOKENS][0]
    if ours is None or ours.context_window is None:
        published = servers is None or servers.context_window is None
        settled[Limit.CONTEXT_WINDOW] = with_input(*window, taken, published=published)
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
    """Search models, best matches first: the id itself, ids with this prefix, ids with all of its words.

    Among equal matches, the maker's own ids come first, then ids without a date, then the newest version.
    ``makers_only`` excludes other providers of a model. An empty query matches all models.
    """
    extra = {**(discovered or {}), **(configured or {})}
    ranked = sorted(_ranked(checked_name(query).lower()[:MAX_NAME], makers_only=makers_only, extra=extra))
    found = (model(key, configured=configured, discovered=discovered) for _, key in ranked[:limit])
    infos = [info for info in found if info is not None]
    meant = model(query, configured=configured, discovered=discovered)
    if meant is not None and meant.id not in {info.id for info in infos}:
        infos = [meant, *infos][:limit]  # the name of a local server
    return infos


@lru_cache(maxsize=4096)
def is_listed(model_id: str, provider: str) -> bool:
    """Return whether the sources list this very model of a provider.

    A name that only resembles one, an unknown snapshot and another provider's model are not listed.
    """
    return any(published().row(key).provider == provider for key in _keys(with_slash(checked_name(model_id))))


def nearest(model_id: str, limit: int = 3) -> list[str]:
    """Return ids with similar spelling, to suggest for an unknown model."""
    wanted = with_slash(checked_name(model_id).lower()[:MAX_NAME])
    rows = published().raw
    own = {key.rpartition("/")[2].lower(): key for key in rows if is_first_party(key)}
    near = difflib.get_close_matches(wanted.rpartition("/")[2], own, limit)
    return [own[name] for name in near]


def _keys(wanted: str) -> list[str]:
    """Return the rows of the model, closest spelling first."""
    data = published()
    asked, slash, _ = wanted.partition("/")
    provider = provider_of(asked.lower()) if slash else None
    keys: list[str] = []
    for spelling in spellings(wanted):
        key = data.key(spelling)
        if key is None or key in keys:
            continue
        if keys and undated(wanted) is None and key.endswith("-latest"):
            continue  # the name itself is of a model: gemini-pro is older than gemini-pro-latest
        unqualified = "/" not in key
        if provider is not None and unqualified and data.row(key).provider not in (provider, None):
            continue
        keys.append(key)
    return keys


def _published_limits(wanted: str, keys: list[str]) -> list[ModelLimits]:
    data = published()
    found: list[ModelLimits] = []
    for key in keys:
        found += data.limits(key)
    base = undated(wanted)
    if base is not None:
        found += _from_base(base, found)
    window = next(
        (_ON_ITS_PAGE[name] for name in map(bare_name, (wanted, *keys)) if name in _ON_ITS_PAGE), None
    )
    if window is not None:
        found.append(ModelLimits(Figure(window, "OpenAI, page of the model", "2026-11-29")))
    card = None if found else card_of(wanted)
    if card is not None:
        return [card]
    if not any(limits.context_window for limits in found):
        found += _as_served(wanted, keys)
    return found


def _from_base(base: str, own: list[ModelLimits]) -> list[ModelLimits]:
    """Return limits of a snapshot's base model that the snapshot's own rows do not have.

    Both must agree on the input limit, because a snapshot may be smaller than a later version.
    """
    base_keys = _keys(base)
    inputs = {limits.max_input_tokens.value for limits in own if limits.max_input_tokens is not None}
    known = {limit for limit in Limit if any(limits.figure(limit) for limits in own)}
    found = []
    for limits in _published_limits(base, base_keys) if base_keys else []:
        max_input = limits.max_input_tokens
        if inputs and max_input is not None and max_input.value not in inputs:
            return []
        found.append(
            ModelLimits(*(None if limit in known else _of(limits.figure(limit), base) for limit in Limit))
        )
    return [limits for limits in found if limits != ModelLimits()]


def _of(figure: Figure | None, base: str) -> Figure | None:
    return None if figure is None else Figure(figure.value, f"{figure.source}, of {base}", figure.date)


def _as_served(wanted: str, keys: list[str]) -> list[ModelLimits]:
    """Return the window of a model from a provider that hosts it, perhaps under its own name."""
    windows = (offered_window(name) for name in (wanted, *keys))
    found = next((window for window in windows if window is not None), None)
    return [] if found is None else [ModelLimits(found)]


def _stated(wanted: str, keys: list[str], by_id: Mapping[str, ModelLimits] | None) -> ModelLimits | None:
    """Return the limits stated for this id, or for another spelling of it."""
    if not by_id:
        return None
    return next((by_id[name] for name in (*spellings(wanted), *keys) if name in by_id), None)


def _provider(wanted: str, keys: list[str]) -> str | None:
    if keys:
        return published().row(keys[0]).provider
    base = undated(wanted)
    if base is not None and (found := _keys(base)):
        return published().row(found[0]).provider
    provider, slash, name = wanted.partition("/")
    if provider == "models":  # Gemini's API
        return first_party(name)
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
        if makers_only and (not own or (match > 0 and _is_duplicate(key))):
            continue
        is_chat = key not in rows or published().row(key).max_output is not None
        yield (match, not own, undated(low) is not None, not is_chat, _newest_first(low)), key


def _match(query: str, words: list[str], exact: set[str], low: str) -> int | None:
    if low == query or low in exact:
        return 0
    if low.startswith(query) or low.rpartition("/")[2].startswith(query):
        return 1
    return 2 if words and all(word in low for word in words) else None


def _is_duplicate(key: str) -> bool:
    """Return whether the unqualified id has the same figures: ``gemini-2.5-pro`` for ``gemini/...``."""
    _, slash, name = key.partition("/")
    return bool(slash) and name in published().raw and is_first_party(name)


def _newest_first(low: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders ``gpt-5.2`` before ``gpt-5.1``, and ``gpt-5`` before both."""
    parts = re.findall(r"\d+|\D+", low)
    return [(0, -int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
