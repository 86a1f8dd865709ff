"""The usage that an answer states, by the names that each API has for its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenbox.ledger.usage import Usage
from tokenbox.providers.shapes import at, count_at


@dataclass(frozen=True, slots=True)
class UsageKeys:
    """The paths of the figures in a ``usage``.

    The input is the sum of ``input``; without the first of them it is unknown. ``cached``: the first that is
    there. ``runs``: the list of the usage of each run of a model, some of which are not in other figures.
    """

    input: tuple[str, ...]
    output: str
    cached: tuple[str, ...]
    reasoning: str
    written: str
    runs: str | None = None


CHAT: Final = UsageKeys(
    ("prompt_tokens",),
    "completion_tokens",
    ("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),  # the second is DeepSeek's
    "completion_tokens_details.reasoning_tokens",
    "prompt_tokens_details.cache_write_tokens",
)
RESPONSES: Final = UsageKeys(
    ("input_tokens",),
    "output_tokens",
    ("input_tokens_details.cached_tokens",),
    "output_tokens_details.reasoning_tokens",
    "input_tokens_details.cache_write_tokens",
)
# Anthropic's ``input_tokens`` exclude what was read from a cache, or written to one.
MESSAGES: Final = UsageKeys(
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
    ("cache_read_input_tokens",),
    "output_tokens_details.reasoning_tokens",
    "cache_creation_input_tokens",
    runs="iterations",
)


def usage_of(stated: object, keys: UsageKeys) -> Usage:
    """Return the usage that ``stated`` has; figures that are missing or impossible are unknown."""
    if isinstance(stated, dict) and keys.runs is not None:
        stated = _of_all_runs(stated, keys)
    parts = [count_at(stated, path) for path in keys.input]
    cached = (count for path in keys.cached if (count := count_at(stated, path)) is not None)
    return Usage.reported(
        None if parts[0] is None else sum(part or 0 for part in parts),
        count_at(stated, keys.output),
        next(cached, None),
        count_at(stated, keys.reasoning),
        count_at(stated, keys.written),
    )


def _of_all_runs(stated: Mapping[str, Any], keys: UsageKeys) -> Mapping[str, Any]:
    """Return the usage with the sum over all runs where it is larger: each of them is paid for."""
    runs = at(stated, keys.runs or "")
    if not isinstance(runs, list) or not {dict}.issuperset(map(type, runs)):
        return stated
    sums = {name: sum(count_at(run, name) or 0 for run in runs) for name in (*keys.input, keys.output)}
    more = {name: total for name, total in sums.items() if total > (count_at(stated, name) or 0)}
    return {**stated, **more}
