"""langchain-core: ``trim_messages(messages, max_tokens=..., token_counter=..., strategy="last")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage, HumanMessage, trim_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("langchain-core",)
UNIT = "messages, no priorities: the last that fit; strategy last, allow_partial; token_counter"


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    messages = [HumanMessage(item.text, id=item.id) for item in items]
    count = counter.count

    def count_messages(some: list[BaseMessage]) -> int:
        return sum([count(message.content) for message in some])

    def run() -> tuple[list[str], str]:
        kept = trim_messages(
            messages, max_tokens=budget, token_counter=count_messages, strategy="last", allow_partial=True
        )
        return [message.content for message in kept], "\n\n"

    return run
