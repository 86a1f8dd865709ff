"""The budget holds on the request, with a model's own format and with a bare vocabulary."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tokenbox
from tests.conversation import requests
from tokenbox import counters
from tokenbox.conversation import Conversation
from tokenbox.conversation.pieces import PieceCounter
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

SHORT = [{"role": "user", "content": "x"}] * 402


def test_many_short_messages() -> None:
    for counter in ("o200k_base", "gpt-4o", None):
        fitted = tokenbox.fit(SHORT, 400, counter)
        assert fitted.total <= 400
        assert tokenbox.count(fitted.messages, "gpt-4o").total <= 400
    by_model = tokenbox.fit(SHORT, 400, model="gpt-4o")
    assert (by_model.total, by_model.exact) == (398, True)
    assert tokenbox.count(by_model.messages, "gpt-4o").total == 398


@pytest.mark.parametrize("counter", ["o200k_base", "gpt-4o"])
def test_random_conversations(counter: str) -> None:
    held = 0
    for seed in range(120):
        body = requests.request(seed)
        chance = random.Random(seed)
        budget, low_water = chance.randrange(50, 3_000), chance.choice((1, "0.6", "auto"))
        tools = body.get("tools")
        try:
            fitted = tokenbox.fit(body["messages"], budget, counter, tools=tools, low_water=low_water)
        except ContextCriticalOverflow as overflow:
            assert overflow.to_dict()["deficit"] > 0  # type: ignore[operator]  # noqa: PT017  # most do not raise
            continue
        held += 1
        assert fitted.total <= budget
        assert tokenbox.count(fitted.messages, "gpt-4o", tools=tools).total <= budget, seed
    assert held > 40


class Watched(BaseTokenizer):
    """Remembers what it was asked."""

    cacheable = False
    identity = TokenizerIdentity("watched", "1", "0" * 64, exact=True)

    def __init__(self) -> None:
        self.seen: list[str] = []

    def count(self, text: str) -> int:
        self.seen.append(text)
        return len(text)


def test_with_markers_too_a_message_is_counted_once_in_its_life() -> None:
    tokenizer = Watched()
    conversation = Conversation("system", tokenizer, token_budget=10_000)
    for number in range(50):
        conversation.user(f"question {number}")
        conversation.enforce_budget()
        conversation.assistant(f"answer {number}")
        assert conversation.request_count().at_most >= conversation.estimate_tokens()
    conversation.token_budget = 2_000
    conversation.enforce_budget()
    said = [text for text in tokenizer.seen if text.startswith(("question", "answer"))]
    # The text itself, and once more for the bound.
    assert len(said) <= 2 * len(set(said)) == 200


def test_media_cost_what_the_caller_says() -> None:
    image: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:,"}, "tokens": 0}
    messages = [{"role": "user", "content": [image]}]
    costs = [tokenbox.count(messages, "gpt-4o", media_tokens=media).total for media in (None, 85, "declared")]
    assert [cost - costs[2] for cost in costs] == [
        1_445,
        85,
        0,
    ]  # without its size, the most that an image costs
    counter = counters.request_counter("gpt-4o")
    assert isinstance(counter, PieceCounter)
    assert counter.priced(None) is counter
    assert tokenbox.fit(messages, 500, "gpt-4o", media_tokens=85).total < 500
    with pytest.raises(ContextCriticalOverflow):
        tokenbox.fit(messages, 500, "gpt-4o")
    with pytest.raises(InvalidBudget):
        tokenbox.fit(messages, 500, "gpt-4o", pinned=[True])
