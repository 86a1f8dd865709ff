"""LlamaIndex: ``Memory.from_defaults(token_limit=..., tokenizer_fn=...)``, ``put_messages``, ``get``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("llama-index-core",)
UNIT = "messages, no priorities: a queue that flushes the oldest; chat_history_token_ratio 1; tokenizer_fn"


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    messages = [ChatMessage(role="user", content=item.text) for item in items]

    def run() -> tuple[list[str], str]:
        memory = Memory.from_defaults(
            token_limit=budget, tokenizer_fn=counter.encode, chat_history_token_ratio=1.0
        )
        memory.put_messages(messages)
        return [message.content or "" for message in memory.get()], "\n\n"

    return run
