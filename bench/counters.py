"""The two counters that every library gets, and a recorder of their calls."""

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
    """A counter, with ``count(text) == len(encode(text))``."""

    name: str
    count: Callable[[str], int]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(slots=True)
class Recorder:
    """The numbers of calls, of texts and of their characters."""

    calls: int = 0
    texts: int = 0
    characters: int = 0

    def note(self, texts: Sequence[str]) -> None:
        self.calls += 1
        self.texts += len(texts)
        self.characters += sum(map(len, texts))


def counter(name: str) -> Counter:
    """Return the counter ``cheap`` (characters // 4) or ``o200k`` (real tokens)."""
    if name == "cheap":
        return Counter("cheap", cheap_count, cheap_encode, cheap_decode)
    encode = o200k().encode_ordinary
    return Counter("o200k", lambda text: len(encode(text)), encode, o200k().decode)


def recorded(inner: Counter, recorder: Recorder) -> Counter:
    """Return the counter with every call recorded."""

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
    raise NotImplementedError("the cheap counter has no tokens to decode")


@cache
def o200k() -> tiktoken.Encoding:
    """Return tiktoken's own o200k_base, from the file in ``TIKTOKEN_CACHE_DIR``, which run.py sets.

    tiktoken checks that file against its published SHA-256. tokenbox's data is not used: the count that
    judges tokenbox must not come from tokenbox.
    """
    import tiktoken  # not needed by the cheap counter

    if not os.environ.get("TIKTOKEN_CACHE_DIR"):
        raise RuntimeError("TIKTOKEN_CACHE_DIR is not set: start this with bench/run.py")
    return tiktoken.get_encoding("o200k_base")
