"""LiteLLM: ``trim_messages(messages, model, max_tokens=...)``.

It has no parameter for a counter: it counts by the model's tokenizer, here o200k of gpt-4o, which is
left as it is (only wrapped to record). For the cheap counter its ``token_counter`` is replaced.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# Without this it asks a server for its price list when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from litellm import utils
from litellm.litellm_core_utils import token_counter as counting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("litellm",)
UNIT = "messages, no priorities: the last that fit; no pluggable counter: model gpt-4o"


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    messages = [{"role": "user", "content": item.text} for item in items]
    count = counter.count

    def count_messages(model: str, messages: Sequence[dict[str, str]]) -> int:
        return sum([count(message["content"]) for message in messages])

    if counter.name == "o200k":
        counting._encoding_count = lambda _encoding, text: count(text)
    else:
        utils.token_counter = count_messages

    def run() -> tuple[list[str], str]:
        kept = utils.trim_messages(messages, model="gpt-4o", max_tokens=budget)
        return [message["content"] for message in kept], "\n\n"

    return run
