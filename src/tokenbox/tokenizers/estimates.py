"""Estimates: the rules by which other programs count without a tokenizer. Never exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tokenbox.tokenizers.protocol import BaseTokenizer
from tokenbox.tokenizers.utf8 import ByteTokenizer, identity_of, utf8

_BYTES_PER_TOKEN: Final = 4
_BYTES_PER_TOKEN_OF_CODE: Final = 3
_INDENTED_PERCENT_OF_CODE: Final = 30
_HEADROOM_PERCENT: Final = 15


class Chars4(ByteTokenizer):
    """``chars4``: one token for every four UTF-8 bytes, at least one; 0 for the empty text."""

    _identity = identity_of("chars4", "max(1, utf-8 bytes // 4), 0 for the empty text", exact=False)

    def count_of(self, weight: int) -> int:
        return max(1, weight // _BYTES_PER_TOKEN) if weight else 0


class Heuristic(ByteTokenizer):
    """``heuristic``: UTF-8 bytes / 4 plus 15 % headroom, rounded up once (nrv ADR 007).

    It counts bytes rather than characters, as ``chars4`` does: for ASCII they are the same, and for Chinese
    or Hindi characters would give a third of the true count.
    """

    _identity = identity_of("heuristic", "ceil(utf-8 bytes * 115 / 400)", exact=False)

    def count_of(self, weight: int) -> int:
        return -(-weight * (100 + _HEADROOM_PERCENT) // (100 * _BYTES_PER_TOKEN))


class Larger(BaseTokenizer):
    """``two-vocabularies``: the larger count of two vocabularies plus 15 %, rounded up.

    For a model whose tokenizer is unknown (requests.md, "Order of who counts").
    """

    def __init__(self, name: str, first: BaseTokenizer, second: BaseTokenizer) -> None:
        self._both = first, second
        rule = f"ceil(max * 115 / 100) of {first.identity.fingerprint} and {second.identity.fingerprint}"
        self._identity = identity_of(name, rule, exact=False)

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def expect(self, characters: int) -> None:
        for tokenizer in self._both:
            tokenizer.expect(characters)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        first, second = (tokenizer.count_batch(texts) for tokenizer in self._both)
        larger = map(max, zip(first, second, strict=True))
        return [-(-count * (100 + _HEADROOM_PERCENT) // 100) for count in larger]


class CodeAware(BaseTokenizer):
    """``code-aware``: as ``chars4``, but three bytes per token for text that looks like code (LCP SPEC_08).

    Code is text in which more than 30 % of the lines, in percent rounded down, begin with a space or a tab.
    """

    cheap = True

    _identity = identity_of(
        "code-aware",
        "max(1, utf-8 bytes // (3 if indented lines * 100 // lines > 30 else 4)), 0 for empty",
        exact=False,
    )

    def count(self, text: str) -> int:
        size = len(utf8(text))
        if size == 0:
            return 0
        # A final newline does not begin another line, as in the sample code (Rust's `str::lines`).
        lines = text.count("\n") + (not text.endswith("\n"))
        indented = text.startswith((" ", "\t")) + text.count("\n ") + text.count("\n\t")
        is_code = indented * 100 // lines > _INDENTED_PERCENT_OF_CODE
        return max(1, size // (_BYTES_PER_TOKEN_OF_CODE if is_code else _BYTES_PER_TOKEN))
