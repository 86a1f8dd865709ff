"""LiteLLM: ``trim_messages(messages, model, max_tokens=...)``.

It has no parameter for a counter: it counts with the model's tokenizer. Its encoding of gpt-4o is replaced by
the same one with recorded calls; for the cheap counter, its ``token_counter`` is replaced.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# Without this, its import downloads a price list.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from litellm import utils
from litellm.litellm_core_utils import token_counter as counting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("litellm",)
UNIT = "messages, no priorities: the last that fit; no pluggable counter: model gpt-4o"


class _Encoding:
    name = "o200k_base"

    def __init__(self, counter: Counter) -> None:
        self._encode = counter.encode

    def encode(self, text: str, disallowed_special: object) -> list[int]:
        return self._encode(text)


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    messages = [{"role": "user", "content": item.text} for item in items]
    count = counter.count

    def count_messages(model: str, messages: Sequence[dict[str, str]]) -> int:
        return sum([count(message["content"]) for message in messages])

    if counter.name == "o200k":
        encoding = _Encoding(counter)
        counting.openai_tokenizer_encoding = lambda _model: encoding
    else:
        utils.token_counter = count_messages

    def run() -> tuple[list[str], str]:
        kept = utils.trim_messages(messages, model="gpt-4o", max_tokens=budget)
        return [message["content"] for message in kept], "\n\n"

    return run
