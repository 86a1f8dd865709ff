"""What the soak counts and says by itself; its upstream and its clients share it, tokenbox has no part."""

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
_MANY = re.compile(r"x(\d+)")
_PROSE = "river stone window morning paper letter garden engine bridge copper silver winter harbour market"
_OTHER = "Straße données größer 東京 привет naïve café 🚲 value = total + 1; return None if x else y"
VOCABULARY = [*_PROSE.split(), *_OTHER.split()]


def tokens_of(body: dict[str, Any]) -> int:
    """A word is a token, and a word like x123 is 123 of them; three more for the whole."""
    return 3 + sum(_words(text) for key in COUNTED for text in _texts(body.get(key)))


def _words(text: str) -> int:
    return sum(int(many[1]) if (many := _MANY.fullmatch(word)) else 1 for word in text.split())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def reserved_in(body: dict[str, Any]) -> int:
    """The output that a request asks for."""
    return int(next((body[key] for key in ("max_tokens", "max_output_tokens") if key in body), 0))


def output_of(number: int, reserved: int) -> int:
    """What the upstream says the answer to a request has."""
    return 1 + number % min(reserved, 300)


def pieces_of(number: int, count: int, size: int) -> list[str]:
    """What the upstream says to request ``number``: no two requests have the same answer."""
    return [f"#{number}.{part} ".ljust(size, ".") for part in range(count)]


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(VOCABULARY, k=words))
