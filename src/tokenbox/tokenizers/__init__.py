"""Tokenizers, exact and estimates, by name or by file; truncation; the safe-cut index; the cache."""

from tokenbox.tokenizers.cache import CacheInfo, CountCache
from tokenbox.tokenizers.ownership import (
    disable_all_baselines,
    enable_baseline,
    enable_heuristic,
    register,
    resolve,
    unregister,
)
from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import CallableTokenizer, TokenizerEntry, as_tokenizer, available, get
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
