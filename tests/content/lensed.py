"""Lenses applied to texts, with a tokenizer that counts bytes."""

from __future__ import annotations

from tokenbox.content.lenses import parse_pipeline
from tokenbox.tokenizers.utf8 import Utf8Bytes

BYTES = Utf8Bytes()


def seen(spelling: str, text: str) -> str:
    return parse_pipeline(spelling).apply(text, BYTES)
