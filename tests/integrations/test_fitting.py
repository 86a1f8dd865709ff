"""Guarding of requests, without the clients that send them (tests/clients has these)."""

from __future__ import annotations

from typing import Any

import pytest

import tokenbox
from tokenbox.integrations.fitting import Fitting, Guarding, OverWindow
from tokenbox.policy.guard import needed

REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 100}]}


def test_a_request_is_counted_with_the_tokenizer_that_fits_it() -> None:
    """By the words of gpt-4o it is small; by the caller's tokenizer, which counts bytes, it is over."""
    fitting = Fitting(100, options={"tokenizer": "utf8-bytes", "markers": False})
    with pytest.raises(OverWindow) as caught:
        Guarding(fitting).checked(REQUEST, "messages")
    assert caught.value.verdict.count.total == 100
    _, count = Guarding(Fitting(100)).checked(REQUEST, "messages")
    assert count.total < 100


def test_a_margin_of_one_token_too_many_drops_a_long_message() -> None:
    """A budget smaller by one fits the same long messages again: it must be smaller than what they have."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 300} for n in range(21)]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    request = {"model": "gpt-4o", "messages": said, "tools": tools}
    whole: dict[str, Any] = {"steps": ("exchanges",)}
    fitted = tokenbox.fit(said, 4_000, model="gpt-4o", tools=tools, **whole)
    count = tokenbox.count({**request, "messages": fitted.messages})
    limit = needed(count)[0] - 1
    assert limit > count.total + 10  # the margin decides
    sent, found = Guarding(Fitting(limit, options=whole), fit=True).checked(request, "messages")
    assert len(sent["messages"]) < len(fitted.messages)
    assert needed(found)[0] <= limit
