"""Tokenizers, exact and estimates, by name or by file; truncation; the safe-cut index; the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    from tokenbox.tokenizers.cache import CacheInfo, CountCache
    from tokenbox.tokenizers.guarded import CallableTokenizer
    from tokenbox.tokenizers.ownership import (
        disable_all_baselines,
        enable_baseline,
        enable_heuristic,
        register,
        resolve,
        unregister,
    )
    from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, Tokenizer, TokenizerIdentity
    from tokenbox.tokenizers.registry import TokenizerEntry, as_tokenizer, available, get
    from tokenbox.tokenizers.truncation import truncate

__all__ = [
    "AdditiveTokenizer",
    "BaseTokenizer",
    "CacheInfo",
    "CallableTokenizer",
    "CountCache",
    "Tokenizer",
    "TokenizerEntry",
    "TokenizerIdentity",
    "as_tokenizer",
    "available",
    "disable_all_baselines",
    "enable_baseline",
    "enable_heuristic",
    "get",
    "register",
    "resolve",
    "truncate",
    "unregister",
]

# Those who need one kind of tokenizer load no other.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(
        __name__,
        {
            "cache": "CacheInfo CountCache",
            "guarded": "CallableTokenizer",
            "ownership": "disable_all_baselines enable_baseline enable_heuristic register resolve unregister",
            "protocol": "AdditiveTokenizer BaseTokenizer Tokenizer TokenizerIdentity",
            "registry": "TokenizerEntry as_tokenizer available get",
            "truncation": "truncate",
        },
    )
