"""The published rules of the providers' prompt caches, as a table with sources and date.

Sources: platform.claude.com "Prompt caching", developers.openai.com "Prompt caching", and the types of the
SDKs anthropic 2.11 and openai 3.52, read on 2026-11-22; LiteLLM's table of minimum sizes (of 2026-10-07) and
OpenAI's error message for ``prompt_cache_retention``, read on 2026-11-24.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from tokenbox.catalog.prices import CLAUDE_WRITES

FIVE_MINUTES: Final = 300
HALF_AN_HOUR: Final = 1_800
ONE_HOUR: Final = 3_600
ONE_DAY: Final = 86_400


class CacheProvider(StrEnum):
    """The kind of a provider's cache."""

    ANTHROPIC = "anthropic"
    """Only with ``cache_control`` marks."""
    OPENAI = "openai"
    """Automatic; a write costs nothing (models before GPT-5.6)."""
    OPENAI_EXPLICIT = "openai-explicit"
    """Automatic, plus the caller's own breakpoints; a write costs 1.25 times the input (GPT-5.6 on)."""
    AUTOMATIC = "automatic"
    """The server reuses equal prefixes, without any setting: llama.cpp, vLLM, DeepSeek."""


@dataclass(frozen=True, slots=True)
class CacheRules:
    """The rules for one model. Tokens and seconds.

    ``minimum``: the shortest prefix that is cached; a shorter one is ignored without an error. ``places``:
    breakpoints per request. ``look_back``: how many blocks before a breakpoint an older entry is found; None:
    any. ``lifetimes``: seconds since the last use, each with the price of a write as a multiple of the input
    price.
    """

    provider: CacheProvider
    minimum: int
    places: int
    look_back: int | None
    lifetimes: tuple[tuple[int, Decimal], ...]


# The shortest prefix that is cached, by model; the longest matching name wins. If sources disagree (1,024 and
# 2,048 for Sonnet 4.6), the larger figure: a mark on less has no effect.
_CLAUDE_MINIMUM: Final = {
    "opus-5": 512,
    "fable-5": 512,
    "mythos-5": 512,
    "opus-4-8": 1_024,
    "sonnet-5": 1_024,
    "opus-4-7": 2_048,
    "anthropic-claude-opus-4-7": 4_096,  # Amazon Bedrock's name of the model
    "sonnet-4-6": 2_048,
    "opus-4-6": 4_096,
    "opus-4-5": 4_096,
    "haiku-4-5": 4_096,
    "sonnet-4-5": 1_024,
    "opus-4-1": 1_024,
    "opus-4": 1_024,
    "sonnet-4": 1_024,
    "3-7-sonnet": 1_024,
    "3-5-sonnet": 1_024,
    "3-opus": 1_024,
    "3-5-haiku": 2_048,
    "3-haiku": 2_048,
}
_UNKNOWN_CLAUDE: Final = 4_096
_OPENAI_MINIMUM: Final = 1_024
_CLAUDE_LIFETIMES: Final = tuple(zip((FIVE_MINUTES, ONE_HOUR), CLAUDE_WRITES, strict=True))
_GPT: Final = re.compile(r"gpt-(\d{1,9})(?:\.(\d{1,9}))?")
_FIRST_EXPLICIT: Final = (5, 6)
# It refuses a cache in memory: "This model is compatible only with 24h extended prompt caching".
_KEEPS_A_DAY: Final = (5, 5)


def rules_of(model: str) -> CacheRules:
    """Return the cache rules for a model name."""
    name = model.rpartition("/")[2].lower().replace(".", "-") if "claude" in model.lower() else model.lower()
    if "claude" in name:
        known = sorted((key for key in _CLAUDE_MINIMUM if key in name), key=len)
        minimum = _CLAUDE_MINIMUM[known[-1]] if known else _UNKNOWN_CLAUDE
        return CacheRules(CacheProvider.ANTHROPIC, minimum, 4, 20, _CLAUDE_LIFETIMES)
    found = _GPT.search(name)
    if found is not None and "oss" not in name:
        version = int(found[1]), int(found[2] or 0)
        if version >= _FIRST_EXPLICIT:
            lifetimes = ((HALF_AN_HOUR, Decimal("1.25")),)
            return CacheRules(CacheProvider.OPENAI_EXPLICIT, _OPENAI_MINIMUM, 4, None, lifetimes)
        seconds = ONE_DAY if version == _KEEPS_A_DAY else FIVE_MINUTES
        return CacheRules(CacheProvider.OPENAI, _OPENAI_MINIMUM, 0, None, ((seconds, Decimal(1)),))
    if re.search(r"(^|/)o[134](-|$)", name):
        return CacheRules(CacheProvider.OPENAI, _OPENAI_MINIMUM, 0, None, ((FIVE_MINUTES, Decimal(1)),))
    return CacheRules(CacheProvider.AUTOMATIC, 0, 0, None, ())
