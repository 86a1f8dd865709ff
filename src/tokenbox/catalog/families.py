"""What a model's bare name tells: its tokenizer, and the context window of open weights.

The bare name is in lower case, without provider, file suffix and quantization. In each table the first row
whose pattern matches its start applies; no row means unknown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, TypeVar

from tokenbox.catalog.figures import Figure, ModelLimits, TokenizerFamily
from tokenbox.catalog.names import bare_name, checked_name


class _Row(NamedTuple):
    """A row with ``family`` None: the maker publishes no tokenizer."""

    pattern: str
    family: str | None
    source: str


_TIKTOKEN = "tiktoken, model.py"
_ROWS = (
    # OpenAI. These are the name prefixes in tiktoken; later models are unknown.
    _Row(
        r"gpt-oss",
        "o200k_base",
        "tiktoken, model.py (o200k_harmony: the same vocabulary, more special tokens)",
    ),
    _Row(r"(ft:)?gpt-5(?![\da-z])", "o200k_base", _TIKTOKEN),
    _Row(r"(ft:)?(gpt-4o|chatgpt-4o|gpt-4\.1|gpt-4\.5|o1|o3|o4-mini)(?![\da-z])", "o200k_base", _TIKTOKEN),
    # No new models have these names, but models of others begin with them (gpt-4-x-alpaca).
    _Row(
        r"(ft:)?(gpt-4|gpt-3\.?5)(-(turbo|vision|preview|instruct|base|\d\d?k|\d{4}|\d\d(?!\d)))*(:|$)",
        "cl100k_base",
        _TIKTOKEN,
    ),
    _Row(r"text-embedding-(3|ada-002)", "cl100k_base", _TIKTOKEN),
    # Anthropic.
    _Row(r"claude", None, "Anthropic publishes none since Claude 3; its API counts (messages/count_tokens)"),
    # Google.
    _Row(r"gemini-(2\.[05]-(pro|flash)|3-pro)", "gemma3", "google-genai, local tokenizer"),
    _Row(r"gemini-1\.[05]", "gemma2", "google-genai, local tokenizer"),
    _Row(r"gemma-?3(?![\d.])", "gemma3", "model card"),
    _Row(r"gemma-?2(?![\d.])", "gemma2", "model card"),
    # A distilled model uses the tokenizer of its base model.
    _Row(r"deepseek-r1-(distill-llama|70b)", "llama3-bpe", "model card"),
    _Row(r"deepseek-r1-(distill-qwen|0528-qwen3|(1\.5|7|14|32)b)", "qwen2-bpe", "model card"),
    _Row(r"deepseek-r1-8b", None, "of Llama 3.1 or of Qwen 3, by its date"),
    _Row(r"deepseek-(r1|v3)(?!\d)", "deepseek-v3-bpe", "model card"),
    # Meta.
    _Row(r"(meta-)?llama-?4(?!\d)", "llama4-bpe", "model card"),
    _Row(r"(meta-)?llama-?3(?!\d)", "llama3-bpe", "model card"),
    _Row(r"(meta-)?llama-?2(?!\d)|codellama", "llama2-sentencepiece", "model card"),
    # Alibaba's open models. Its hosted models (qwen-max) have no card; Qwen 3.5 has another vocabulary.
    _Row(
        r"qwen-?(2|2[.-]5|3)(-(coder|math|next|vl))*(-\d+(\.\d+)?b(?![a-z]).*)?$", "qwen2-bpe", "model card"
    ),
    _Row(r"qwq-32b", "qwen2-bpe", "model card"),
    # Mistral.
    _Row(
        r"(open-)?mistral-nemo|ministral-8b-2410|pixtral-12b|mistral-small-(25|3)",
        "mistral-tekken",
        "mistral-common",
    ),
    _Row(
        r"(open-)?mistral-7b|(open-)?mixtral-8x(7|22)b|codestral-22b",
        "mistral-sentencepiece",
        "mistral-common",
    ),
)


# Open models with a vocabulary of a baseline, as their makers name them. Models that are made from these may
# have more tokens: their names say more than a size, a use, a version and an offer of those who host them.
_OPEN = re.compile(
    r"(gpt-oss(-safeguard)?|(meta-)?llama-?3([.-]\d)?|deepseek-r1-(distill-llama|70b))"
    r"(-(\d+b|v?\d|instruct|chat|text|vision|preview|hf"
    r"|latest|versatile|specdec|instant|turbo|lite|free|maas|cloud))*"
)


class _Card(NamedTuple):
    pattern: str
    window: int
    card: str
    published: str


# max_position_embeddings of config.json, with the publication date of the card.
_CARDS = (
    _Card(
        r"deepseek-r1-(distill-(llama|qwen)|0528-qwen3|(1\.5|7|8|14|32|70)b)",
        131072,
        "deepseek-ai/DeepSeek-R1-Distill",
        "2025-01-20",
    ),
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


# A derived model with a longer window than its card's: Llama-3-8B-262k, Qwen2.5-7B-Instruct-1M.
_OWN_WINDOW = re.compile(r"-(\d{1,4}[km]|gradient|yarn|long\w*)(-|$)")

R = TypeVar("R", _Row, _Card)


@cache
def _patterns(rows: tuple[R, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row.pattern) for row in rows)


def _first(rows: tuple[R, ...], name: str) -> R | None:
    return next(
        (row for row, pattern in zip(rows, _patterns(rows), strict=True) if pattern.match(name)), None
    )


def tokenizer_family(model: str) -> TokenizerFamily | None:
    """Return the tokenizer family of a model, or None if it is unknown."""
    row = _first(_ROWS, bare_name(checked_name(model)))
    return None if row is None else TokenizerFamily(row.family, row.source)


def is_makers_own(model: str) -> bool:
    """Return whether the name is that of an open model of its maker, not of one that is made from it."""
    return _OPEN.fullmatch(bare_name(model)) is not None


def card_of(model: str) -> ModelLimits | None:
    """Return the window of an open model's card, by any name that local servers use for it.

    A server may be configured with a smaller one; its own figure overrides this table.
    """
    name = bare_name(model)
    card = _first(_CARDS, name)
    if card is None or _OWN_WINDOW.search(name):
        return None
    return ModelLimits(Figure(card.window, f"config.json of {card.card}", card.published))
