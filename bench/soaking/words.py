"""Texts and token counts of the soak, shared by its upstream and its clients, independent of tokenbox."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

WINDOW = 65_536
# Dollars per million tokens of the model ``soak``.
PRICE_IN, PRICE_OUT = 1, 5
COUNTED = ("system", "instructions", "messages", "prompt", "input", "tools", "content")
_REPEATED = re.compile(r"x(\d+)")
_PROSE = "river stone window morning paper letter garden engine bridge copper silver winter harbour market"
_OTHER = "Straße données größer 東京 привет naïve café 🚲 value = total + 1; return None if x else y"
VOCABULARY = [*_PROSE.split(), *_OTHER.split()]


def tokens_of(body: dict[str, Any]) -> int:
    """Return the tokens of a request: one per word, 123 for a word like x123, and three more."""
    return 3 + sum(_words(text) for key in COUNTED for text in _texts(body.get(key)))


def _words(text: str) -> int:
    return sum(int(many[1]) if (many := _REPEATED.fullmatch(word)) else 1 for word in text.split())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def reserved_in(body: dict[str, Any]) -> int:
    """Return the maximum output of a request; 0 without one."""
    return int(next((body[key] for key in ("max_tokens", "max_output_tokens") if key in body), 0))


def output_of(number: int, reserved: int) -> int:
    """Return the output tokens that the upstream reports for a request."""
    return 1 + number % min(reserved, 300)


def pieces_of(number: int, count: int, size: int) -> list[str]:
    """Return the answer of the upstream to request ``number``; no two answers are the same."""
    return [f"#{number}.{part} ".ljust(size, ".") for part in range(count)]


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(VOCABULARY, k=words))
