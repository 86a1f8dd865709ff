"""Tokenizers of the tests."""

from __future__ import annotations

from tokenbox.tokenizers.protocol import AdditiveTokenizer


class Quarters(AdditiveTokenizer):
    def weigh(self, text: str) -> int:
        return len(text.encode())

    def count_of(self, weight: int) -> int:
        return max(1, weight // 4) if weight else 0
