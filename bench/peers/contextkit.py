"""cendor-contextkit: ``Context(budget_tokens, model).add(Block(...)).assemble()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cendor.contextkit import Block, Context
from cendor.core import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("cendor-contextkit", "cendor-core")
UNIT = "blocks with priorities; evict truncate; tokens.register; charges 3 + 4 per message of framing"

_PRIMING = 3
_PER_MESSAGE = 4


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    count = counter.count

    def register(content: str | list[dict[str, str]], _model: str) -> int:
        # with the framing of its own counter, when it counts messages
        if isinstance(content, str):
            return count(content)
        return _PRIMING + sum(_PER_MESSAGE + count(message["content"]) for message in content)

    tokens.register("default", register)
    context = Context(budget_tokens=budget, model=f"bench-{counter.name}")
    for item in items:
        context.add(Block(item.text, priority=item.priority, evict="truncate"))

    def run() -> tuple[list[str], str]:
        return [message["content"] for message in context.assemble()], "\n\n"

    return run
