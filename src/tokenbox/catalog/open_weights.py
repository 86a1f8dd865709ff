"""The context windows of open-weight models from their model cards, by the names of local servers.

A server may be configured with a smaller window; its own figure (:class:`~tokenbox.catalog.ModelLimits`)
overrides this table.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tokenbox.catalog.figures import Figure, ModelLimits
from tokenbox.catalog.names import bare_name


class _Card(NamedTuple):
    pattern: str  # matched at the start of the bare name
    window: int
    card: str
    published: str


# max_position_embeddings of config.json, with the publication date of the card.
_CARDS = (
    _Card(r"deepseek-r1-distill-(llama|qwen)", 131072, "deepseek-ai/DeepSeek-R1-Distill", "2025-01-20"),
    _Card(r"deepseek-r1(?!\d)", 163840, "deepseek-ai/DeepSeek-R1", "2025-01-20"),
    _Card(r"deepseek-v3(?![\d.])", 163840, "deepseek-ai/DeepSeek-V3", "2024-12-26"),
    _Card(r"(meta-)?llama-?4-scout", 10485760, "meta-llama/Llama-4-Scout-17B-16E-Instruct", "2025-04-05"),
    _Card(
        r"(meta-)?llama-?4-maverick", 1048576, "meta-llama/Llama-4-Maverick-17B-128E-Instruct", "2025-04-05"
    ),
    _Card(r"(meta-)?llama-?3[.-]3(?!\d)", 131072, "meta-llama/Llama-3.3-70B-Instruct", "2024-12-06"),
    _Card(r"(meta-)?llama-?3[.-]2(?!\d)", 131072, "meta-llama/Llama-3.2-3B-Instruct", "2024-09-25"),
    _Card(r"(meta-)?llama-?3[.-]1(?!\d)", 131072, "meta-llama/Llama-3.1-8B-Instruct", "2024-07-23"),
    _Card(r"(meta-)?llama-?3(?![\d.])", 8192, "meta-llama/Meta-Llama-3-8B-Instruct", "2024-04-18"),
    _Card(r"(meta-)?llama-?2(?![\d.])", 4096, "meta-llama/Llama-2-7b-chat-hf", "2023-07-18"),
    _Card(r"qwen-?3-.*2507", 262144, "Qwen/Qwen3-30B-A3B-Instruct-2507", "2025-07-29"),
    _Card(r"qwen-?3-coder-(30b|480b)", 262144, "Qwen/Qwen3-Coder-480B-A35B-Instruct", "2025-07-22"),
    _Card(
        r"qwen-?3(-(0\.6b|1\.7b|4b|8b|14b|32b|30b-a3b|235b-a22b))?($|-instruct$|-chat$)",
        40960,
        "Qwen/Qwen3-8B",
        "2025-04-29",
    ),
    _Card(r"qwen-?2[.-]5-(0\.5|1\.5|3|7|14|32|72)b", 32768, "Qwen/Qwen2.5-7B-Instruct", "2024-09-19"),
    _Card(r"(open-)?mistral-nemo", 131072, "mistralai/Mistral-Nemo-Instruct-2407", "2024-07-18"),
    _Card(r"mistral-7b(?!\d)", 32768, "mistralai/Mistral-7B-Instruct-v0.3", "2024-05-22"),
    _Card(r"gemma-?3-1b", 32768, "google/gemma-3-1b-it", "2025-03-12"),
    _Card(r"gemma-?3-(4|12|27)b", 131072, "google/gemma-3-27b-it", "2025-03-12"),
    _Card(r"gemma-?2(?![\d.])", 8192, "google/gemma-2-9b-it", "2024-06-27"),
    _Card(r"phi-4($|-instruct)", 16384, "microsoft/phi-4", "2024-12-12"),
    _Card(r"gpt-oss-(20|120)b", 131072, "openai/gpt-oss-120b", "2025-08-05"),
)


@cache
def _table() -> tuple[tuple[re.Pattern[str], ModelLimits], ...]:
    return tuple(
        (
            re.compile(card.pattern),
            ModelLimits(Figure(card.window, f"config.json of {card.card}", card.published)),
        )
        for card in _CARDS
    )


def card_of(model: str) -> ModelLimits | None:
    """Return the limits of an open model's card, by any name that local servers use for it."""
    name = bare_name(model)
    return next((limits for pattern, limits in _table() if pattern.match(name)), None)
