"""Token counts independent of tokenbox: tiktoken's own patterns, with the ranks in the package."""

# load tiktoken only for counts with a vocabulary
from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable

    import tiktoken

HOSTILE = (
    "", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\r", " \n ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00",
    "\x85",
    "/", "//", "/*", " /", "'", "'s", "'ll", "s", "S", "'T", "\u017f", "don't", "ll ", "I've",
    "a", "A", "hel", "lo", "hello world", "un", "believable", "the ", " the", "The end.", "fooBar", "FOO",
    "İ", "ß",
    "1", "12", "123", "4567", "3.14", " 9", "\u0661\u0662", "½",
    "漢字", "你好,世界", "。", "\u3042\u3044", "한글", "\u1100", "\u1161", "\u11a8",
    "e\u0301", "\u0301", "e", "\u0327\u0301", "n\u0303o", "\u0928\u093f", "\u093f", "\u0e33", "\u0600",
    "🇩🇪", "🇩", "👩\u200d👩\u200d👧", "\u200d", "👋🏽", "🏽", "❤\ufe0f", "🙂",
    "{}", "});\n", "!!", "...", "--", "==", "<|endoftext|>", "<|", "|>", "# T\n", "- x\n", "x = 1\n    y\n",
    "    return a\n", "\tif b:\n", "a\n\nb", "word word word word", "\n/path", "x\n/", " \n\n  z",
)  # fmt: skip
SEPARATORS = (
    "", " ", "\n", "\n\n", "--", " / ", "\r", "'", "s", "\u0301", "\u200d", "漢", "\n\n---\n\n",
    "<|endoftext|>",
)  # fmt: skip


@cache
def encoding(name: str) -> tiktoken.Encoding:
    """Return tiktoken's encoding ``name`` (pattern and special tokens), with the ranks from the package."""
    import tiktoken
    from tiktoken_ext import openai_public

    from tokenbox.tokenizers import vocabularies

    with patch.object(openai_public, "load_tiktoken_bpe", lambda *_args, **_kwargs: vocabularies.load(name)):
        return tiktoken.Encoding(**getattr(openai_public, name)())


def _code_aware(text: str) -> int:
    size = len(text.encode())
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    indented = sum(line.startswith((" ", "\t")) for line in lines)
    return max(1, size // (3 if indented * 100 // len(lines) > 30 else 4)) if text else 0


COUNTERS: dict[str, Callable[[str], int]] = {
    "utf8-bytes": lambda text: len(text.encode()),
    "facet-units": lambda text: len(
        unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).encode()
    ),
    "chars4": lambda text: max(1, len(text.encode()) // 4) if text else 0,
    "code-aware": _code_aware,
    "o200k_base": lambda text: len(encoding("o200k_base").encode_ordinary(text)),
    "cl100k_base": lambda text: len(encoding("cl100k_base").encode_ordinary(text)),
}
