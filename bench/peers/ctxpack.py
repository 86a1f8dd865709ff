"""llm-ctxpack: ``pack([ContextItem(...)], budget).render()``.

It has no parameter for a counter: it uses tiktoken with the named encoding, or its own estimate of four
characters per token if tiktoken is not installed. Both are used as they are; to record the calls, its two
counting functions are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_ctxpack import ContextItem, pack, packer, tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("llm-ctxpack",)
UNIT = "items with priorities, truncatable; no pluggable counter: tiktoken by name, or its own estimate"


class _Encoding:
    def __init__(self, counter: Counter) -> None:
        self.encode = counter.encode
        self.decode = counter.decode


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    if counter.name == "o200k":
        # the same encoding, with recorded calls
        tokenizers._TIKTOKEN_AVAILABLE = True
        encoding = _Encoding(counter)
        tokenizers._get_encoding = lambda _name: encoding
    else:
        tokenizers._TIKTOKEN_AVAILABLE = False
        packer.count_tokens = lambda text, encoding="": counter.count(text)
    own = [ContextItem(id=item.id, text=item.text, priority=item.priority) for item in items]

    def run() -> tuple[list[str], str]:
        return [pack(own, budget, encoding="o200k_base").render("\n\n")], ""

    return run
