"""The two counters that every library is given, and a recorder of what a library asks of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import tiktoken


@dataclass(frozen=True, slots=True)
class Counter:
    """``count`` and ``encode`` agree: ``count(text) == len(encode(text))``."""

    name: str
    count: Callable[[str], int]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(slots=True)
class Recorder:
    """What a library asked: how many calls, with how many texts, of how many characters together."""

    calls: int = 0
    texts: int = 0
    characters: int = 0

    def note(self, texts: Sequence[str]) -> None:
        self.calls += 1
        self.texts += len(texts)
        self.characters += sum(map(len, texts))


def counter(name: str) -> Counter:
    """``cheap`` (characters // 4) or ``o200k`` (real tokens)."""
    if name == "cheap":
        return Counter("cheap", cheap_count, cheap_encode, cheap_decode)
    encode = o200k().encode_ordinary
    return Counter("o200k", lambda text: len(encode(text)), encode, o200k().decode)


def recorded(inner: Counter, recorder: Recorder) -> Counter:
    """The same counter, and every call is noted."""

    def count(text: str) -> int:
        recorder.note((text,))
        return inner.count(text)

    def encode(text: str) -> list[int]:
        recorder.note((text,))
        return inner.encode(text)

    return Counter(inner.name, count, encode, inner.decode)


def cheap_count(text: str) -> int:
    return len(text) // 4


def cheap_encode(text: str) -> list[int]:
    return [0] * (len(text) // 4)


def cheap_decode(tokens: list[int]) -> str:
    message = "the cheap counter has no tokens to decode"
    raise NotImplementedError(message)


@cache
def o200k() -> tiktoken.Encoding:
    """tiktoken's own o200k_base, read from the file that run.py points ``TIKTOKEN_CACHE_DIR`` to.

    tiktoken checks that file against its published SHA-256. Not tokenbox's data: the count that
    judges tokenbox must not come from tokenbox.
    """
    import tiktoken  # the cheap counter needs none

    if not os.environ.get("TIKTOKEN_CACHE_DIR"):
        message = "TIKTOKEN_CACHE_DIR is not set: start this through bench/run.py, which needs no network"
        raise RuntimeError(message)
    return tiktoken.get_encoding("o200k_base")
