"""SentencePiece models, counted with the package ``sentencepiece``."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenbox.errors import TokenizerError, VocabularyError, needing
from tokenbox.tokenizers.bpe import not_tokens
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    import sentencepiece


def open_sentencepiece(data: bytes, name: str, shown: str) -> SentencePieceTokenizer:
    """Return the tokenizer of a SentencePiece ``.model``. ``shown``: the path, for errors."""
    with needing(f"the SentencePiece model {shown}", "files"):
        from sentencepiece import SentencePieceProcessor
    # sentencepiece accepts empty data as a model without pieces, which encodes every text to nothing.
    damaged = VocabularyError(f"{shown} is not a complete SentencePiece model. Fetch it again.")
    if not data:
        raise damaged
    try:
        engine = SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError, TypeError, OSError):
        raise damaged from None
    if engine.vocab_size() == 0:
        raise damaged
    identity = TokenizerIdentity(
        name, "1", hashlib.sha256(engine.serialized_model_proto()).hexdigest(), exact=True
    )
    return SentencePieceTokenizer(engine, identity)


class SentencePieceTokenizer(BaseTokenizer):
    """A tokenizer that counts as ``sentencepiece`` does, without begin and end tokens.

    It has no safe cuts: it puts a space before every text, and its pieces run across spaces.
    """

    def __init__(self, engine: sentencepiece.SentencePieceProcessor, identity: TokenizerIdentity) -> None:
        self._engine = engine
        self._identity = identity

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def encode(self, text: str) -> list[int]:
        if not utf8(text):
            return []
        try:
            tokens: list[int] = self._engine.encode(text, out_type=int)
        except (RuntimeError, ValueError) as error:
            raise TokenizerError(f"{self._identity.name} cannot count this text: {error}") from None
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        try:
            ids = [operator.index(token) for token in tokens]
            text: str = self._engine.decode(ids)
        except (TypeError, ValueError, IndexError, RuntimeError, OverflowError):
            raise TokenizerError(not_tokens(self._identity.name)) from None
        return text
