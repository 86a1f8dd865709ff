"""The vocabularies known by name, as their publishers specify them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tokenbox.tokenizers.patterns import CL100K, LLAMA3, O200K
from tokenbox.tokenizers.protocol import json_digest


@dataclass(frozen=True, slots=True)
class BpeSpec:
    """Everything but the ranks that decides the counts of a byte-pair tokenizer."""

    name: str
    version: str
    pattern: str
    special_tokens: Mapping[str, int] = field(default_factory=dict)


BASELINES: Final[Mapping[str, BpeSpec]] = {
    "o200k_base": BpeSpec("o200k_base", "1", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "cl100k_base": BpeSpec(
        "cl100k_base",
        "1",
        CL100K,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}
"""The vocabularies in the package, as specified in tiktoken's ``openai_public.py``."""

LLAMA3_SHA256: Final = "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"
"""SHA-256 (hex) of the rank file of Llama 3, ``tokenizer.model``."""

_LLAMA3_NAMED: Final = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
)
_LLAMA3_SPECIALS: Final = (
    *_LLAMA3_NAMED,
    *(f"<|reserved_special_token_{n}|>" for n in range(2, 256 - len(_LLAMA3_NAMED) + 2)),
)
_LLAMA3_TOKENS: Final = 128_000

LLAMA3_SPEC: Final = BpeSpec(
    "llama3-bpe", "1", LLAMA3, {spelling: _LLAMA3_TOKENS + n for n, spelling in enumerate(_LLAMA3_SPECIALS)}
)
"""The vocabulary of Llama 3, as specified in the ``llama-models`` package on PyPI."""


def fingerprint(ranks_sha256: str, spec: BpeSpec) -> str:
    """Return the SHA-256 (hex) over the digest of the rank file, the pattern and the special tokens."""
    return json_digest(
        {"pattern": spec.pattern, "ranks": ranks_sha256, "special_tokens": dict(spec.special_tokens)}
    )
