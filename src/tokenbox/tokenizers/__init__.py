"""Tokenizers: protocol and identity, exact and estimated ones, truncation, the safe-cut index, the count cache."""

from tokenbox.tokenizers.cache import CacheInfo, CountCache
from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import CallableTokenizer, TokenizerEntry, as_tokenizer, available, get

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
    "get",
]
