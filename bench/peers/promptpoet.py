"""Prompt Poet: ``Prompt(raw_template, template_data, encode_func)``, ``tokenize``, ``truncate``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from prompt_poet import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Counter
    from workload import Item

DISTRIBUTIONS = ("prompt-poet", "tiktoken")
UNIT = "parts with truncation priorities, dropped whole; rendering the template is part of it; encode_func"

_TEMPLATE = """
{% for item in items %}
- name: {{ item.name }}
  truncation_priority: {{ item.truncation_priority }}
  content: |
    {{ escape_special_characters(item.text) }}
{% endfor %}
"""


def prepare(items: Sequence[Item], budget: int, counter: Counter) -> Callable[[], tuple[list[str], str]]:
    # the highest number is truncated first; 0 is never truncated
    top = max(item.priority for item in items)
    data = {
        "items": [
            {"name": item.id, "text": item.text, "truncation_priority": 1 + top - item.priority}
            for item in items
        ]
    }
    quiet = logging.getLogger("prompt-poet")
    quiet.setLevel(logging.ERROR)

    def run() -> tuple[list[str], str]:
        prompt = Prompt(raw_template=_TEMPLATE, template_data=data, encode_func=counter.encode, logger=quiet)
        prompt.tokenize()
        prompt.truncate(token_limit=budget, truncation_step=1)
        return [part.content for part in prompt.parts], "\n\n"

    return run
