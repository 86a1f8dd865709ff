"""The usage that an answer states, by the names that each API has for its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tokenbox.content.parts import as_plain, snake_case
from tokenbox.integers import MAX_INTEGER
from tokenbox.ledger.usage import Usage
from tokenbox.providers.shapes import at, count_at


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """The paths of the figures in a ``usage``.

    The input is the sum of ``input``; without the first of them it is unknown. ``cached``: the first that is
    there. ``lifetimes``: of the ``written`` tokens, those that are kept for an hour, and the others.
    ``runs``: the list of the usage of each run of a model; some runs are not in other figures. ``audio``: the
    tokens of audio, which are part of the others.
    """

    input: tuple[str, ...]
    output: str
    cached: tuple[str, ...]
    reasoning: str
    written: str
    lifetimes: tuple[str, str] | None = None
    runs: str | None = None
    audio: tuple[str, ...] = ()


CHAT: Final = UsageKeys(
    ("prompt_tokens",),
    "completion_tokens",
    ("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),  # the second is DeepSeek's
    "completion_tokens_details.reasoning_tokens",
    "prompt_tokens_details.cache_write_tokens",
    audio=("prompt_tokens_details.audio_tokens", "completion_tokens_details.audio_tokens"),
)
RESPONSES: Final = UsageKeys(
    ("input_tokens",),
    "output_tokens",
    ("input_tokens_details.cached_tokens",),
    "output_tokens_details.reasoning_tokens",
    "input_tokens_details.cache_write_tokens",
    audio=("input_tokens_details.audio_tokens", "output_tokens_details.audio_tokens"),
)
# Anthropic's ``input_tokens`` exclude what was read from a cache, or written to one.
MESSAGES: Final = UsageKeys(
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
    ("cache_read_input_tokens",),
    "output_tokens_details.reasoning_tokens",
    "cache_creation_input_tokens",
    ("cache_creation.ephemeral_1h_input_tokens", "cache_creation.ephemeral_5m_input_tokens"),
    runs="iterations",
)

GEMINI: Final = UsageKeys(
    ("prompt_token_count", "tool_use_prompt_token_count"),
    "candidates_token_count",
    ("cached_content_token_count",),
    "thoughts_token_count",
    "",
    audio=("audio",),
)
# Its ``inputTokens`` exclude what was read from a cache, or written to one.
BEDROCK: Final = UsageKeys(
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    "outputTokens",
    ("cacheReadInputTokens",),
    "",
    "cacheWriteInputTokens",
)


def usage_of(stated: object, keys: UsageKeys) -> Usage:
    """Return the usage that ``stated`` has; figures that are missing or impossible are unknown.

    So is an input of 0 tokens, which no model answers: servers state 0 where they did not count, such as for
    a prompt in a cache (Ollama).
    """
    figures, runs = _figures(stated), _runs(stated, keys)

    def count(path: str) -> int | None:
        """Return the figure, or the sum over all runs where it is larger: each of them is paid for."""
        own = figures.get(path)
        total = sum([run.get(path, 0) for run in runs])
        return total if total > (own or 0) else own

    parts = [count(path) for path in keys.input]
    cached = (found for path in keys.cached if (found := count(path)) is not None)
    written = count(keys.written)
    hour, others = (None, None) if keys.lifetimes is None else map(count, keys.lifetimes)
    if None not in (hour, others, written) and (hour or 0) + (others or 0) != written:
        hour = None  # such as in a stream whose end has only the new sum
    return Usage.reported(
        None if parts[0] is None else sum(part or 0 for part in parts) or None,
        count(keys.output),
        next(cached, None),
        count(keys.reasoning),
        written,
        hour,
        audio=any(map(figures.get, keys.audio)),
    )


def usage_in(stated: object) -> Usage | None:
    """Return the usage that an answer states, such as ``answer.usage`` of an SDK; None if it states none.

    Of OpenAI's and Anthropic's APIs, of Gemini's (``usage_metadata``) and of Bedrock's Converse.
    """
    given = as_plain(stated)
    if not isinstance(given, dict) or not given:
        return None
    if "prompt_tokens" in given:
        return usage_of(given, CHAT)
    if "promptTokenCount" in given:  # JSON of Gemini's, which its SDK renames
        given = {snake_case(name): value for name, value in given.items()}
    if "prompt_token_count" in given:
        answer, thoughts = count_at(given, GEMINI.output), count_at(given, GEMINI.reasoning)
        both = None if answer is None else answer + (thoughts or 0)  # the answer is without its thoughts
        return usage_of({**given, GEMINI.output: both, "audio": _audio_of_gemini(given)}, GEMINI)
    if "inputTokens" in given:
        return usage_of(given, BEDROCK)
    read, written = given.get("cache_read_input_tokens"), given.get("cache_creation_input_tokens")
    if read is not None or written is not None or "service_tier" in given:  # Anthropic
        none = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        return usage_of(none | {name: value for name, value in given.items() if value is not None}, MESSAGES)
    return usage_of(given, RESPONSES)


def _audio_of_gemini(given: dict[str, Any]) -> int:
    """Return the tokens of audio, which Gemini lists by modality: of the prompt, the answer and the cache."""
    listed = [value for name, value in given.items() if name.endswith("_tokens_details")]
    parts = [part for value in listed if isinstance(value, list) for part in value if isinstance(part, dict)]
    audio = [part for part in parts if str(part.get("modality")).upper().endswith("AUDIO")]
    return sum(count_at(part, name) or 0 for part in audio for name in ("token_count", "tokenCount"))


def _figures(stated: object, around: str = "") -> dict[str, int]:
    """Return the figures in a usage and in its objects, by their paths."""
    found: dict[str, int] = {}
    for name, value in stated.items() if isinstance(stated, dict) else ():
        if type(value) is int and 0 <= value <= MAX_INTEGER:
            found[f"{around}{name}"] = value
        elif isinstance(value, dict) and not around:
            found |= _figures(value, f"{name}.")
    return found


def _runs(stated: object, keys: UsageKeys) -> list[dict[str, int]]:
    """Return the usage of each run of a model; none if one of them is no object."""
    runs = None if keys.runs is None else at(stated, keys.runs)
    if not isinstance(runs, list) or not {dict}.issuperset(map(type, runs)):
        return []
    return list(map(_figures, runs))
