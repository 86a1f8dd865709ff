"""Every type of message, item, block and tool in OpenAI's and Anthropic's SDKs is read and counted.

The values are made from the types alone, so that a new release of an SDK shows here what it added.
"""

from __future__ import annotations

from itertools import product
from pkgutil import resolve_name
from typing import Any

import pytest

import tokenbox
from tests.effort import examples
from tests.sdk_values import Maker, members

HI = {"role": "user", "content": "hi"}
# The types, and where a value of one stands in what is counted.
USER: dict[str, tuple[str, ...]] = {
    "": (
        "openai.types.responses:ResponseInputItemParam",
        "openai.types.responses:ResponseOutputItem",
        "openai.types.beta:BetaResponseInputItem",
        "openai.types.beta.beta_response_input_item_param:BetaResponseInputItemParam",
        "openai.types.beta:BetaResponseOutputItem",
        "openai.types.chat:ChatCompletionMessageParam",
        "openai.types.chat:ChatCompletionMessage",
        "anthropic.types:MessageParam",
        "anthropic.types.beta:BetaMessageParam",
    ),
    "user": (
        "openai.types.responses:ResponseInputContentParam",
        "openai.types.chat:ChatCompletionContentPartParam",
    ),
    "assistant": (
        "anthropic.types:ContentBlockParam",
        "anthropic.types:ContentBlock",
        "anthropic.types.beta:BetaContentBlockParam",
        "anthropic.types.beta:BetaContentBlock",
    ),
    "tool": (
        "openai.types.responses:ToolParam",
        "openai.types.chat:ChatCompletionToolUnionParam",
        "anthropic.types:ToolUnionParam",
        "anthropic.types.beta:BetaToolUnionParam",
    ),
}


@pytest.mark.slow  # the SDKs take seconds to load
@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in USER.items() for name in names]
)
def test_every_type_of_the_sdks_is_counted(place: str, name: str) -> None:
    # Resolved here, not for the cases: to import both SDKs takes each worker longer than to make the values.
    kinds = members(resolve_name(name))
    for kind, seed in product(kinds, range(examples(20))):
        value = Maker(seed).value(kind)
        if isinstance(value, dict) and value.get("role") in ("assistant", "system"):
            value.setdefault("content", None)  # the type allows neither content nor calls, no server does
        messages: list[Any] = [HI, {"role": place, "content": [value]} if place else value]
        if place == "tool":
            messages = [HI]
        counted = tokenbox.count(messages, model="gpt-4o", tools=[value] if place == "tool" else None)
        assert 0 < counted.total <= counted.at_most, kind
