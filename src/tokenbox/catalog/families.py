"""The table of published tokenizers of models.

The first row whose pattern matches the model's bare name (lower case, without provider, file suffix and
quantization) applies. A row with family None means that the maker publishes no tokenizer; no row means
unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tokenbox.catalog.names import bare_name, checked_name


@dataclass(frozen=True, slots=True)
class TokenizerFamily:
    """A tokenizer shared by models. ``name`` is None if the maker publishes no tokenizer."""

    name: str | None
    source: str

    def to_dict(self) -> dict[str, object]:
        return {"family": self.name, "source": self.source}


class _Row(NamedTuple):
    pattern: str  # matched at the start of the bare name
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
    _Row(r"deepseek-r1-distill-llama", "llama3-bpe", "model card"),
    _Row(r"deepseek-r1-distill-qwen", "qwen2-bpe", "model card"),
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


@cache
def _table() -> tuple[tuple[re.Pattern[str], TokenizerFamily], ...]:
    return tuple((re.compile(row.pattern), TokenizerFamily(row.family, row.source)) for row in _ROWS)


def tokenizer_family(model: str) -> TokenizerFamily | None:
    """Return the tokenizer family of a model, or None if it is unknown."""
    name = bare_name(checked_name(model))
    return next((family for pattern, family in _table() if pattern.match(name)), None)
