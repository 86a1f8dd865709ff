"""contextcram: ``Packer(budget).add(text, priority=..., strategy=...).fit()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextcram import Packer
from contextcram.tokenizers import CallableTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("contextcram",)
UNIT = "items with priorities; strategy truncate (its default); CallableTokenizer"


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    packer = Packer(budget=budget, tokenizer=CallableTokenizer(counter.count))
    for item in items:
        packer.add(item.text, priority=item.priority, strategy="truncate", name=item.id)

    def run() -> tuple[list[str], str]:
        return [packer.fit().text], ""

    return run
