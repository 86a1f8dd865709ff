"""Guarding of requests, without the clients that send them (tests/clients has these)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai import OpenAI

import tokenbox
from tokenbox.errors import InvalidBudget
from tokenbox.integrations import openai as for_openai
from tokenbox.integrations.fitting import Endpoint, Fitting, Guarding, OverWindow
from tokenbox.integrations.pytest_plugin import check_fits
from tokenbox.policy.guard import needed

REQUEST: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 100}]}


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


class Recorded:
    """A resource of a client, whose methods all send with ``_post``."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def _post(self, path: str, *, body: Any, options: dict[str, Any] | None = None) -> str:  # noqa: ANN401
        self.sent.append((path, {**body, **((options or {}).get("extra_json") or {})}))
        return "the answer"

    def parse(self, path: str, messages: list[dict[str, str]], **more: object) -> str:
        return self._post(path, body={"model": "gpt-4o", "messages": messages}, options=more)


def test_every_method_of_an_endpoint_is_guarded() -> None:
    endpoint = Endpoint("/v1/messages", "messages", lambda _: [], lambda _: None)
    resource, large, small = Recorded(), [{"role": "user", "content": "x " * 200}], REQUEST["messages"]
    endpoint.guard(resource, Guarding(Fitting(100)), is_async=False)
    for given in ({}, {"extra_json": {"messages": large}}):
        with pytest.raises(OverWindow):
            resource.parse("/v1/messages?beta=true", small if given else large, **given)
    assert resource.sent == []
    assert resource.parse("/v1/messages", small, extra_json={"user": "u"}) == "the answer"
    assert resource.parse("/v1/messages/count_tokens", large) == "the answer"
    assert [path for path, _ in resource.sent] == ["/v1/messages", "/v1/messages/count_tokens"]
    assert resource.sent[0][1] == {**REQUEST, "user": "u"}


def test_no_method_of_a_guarded_openai_client_sends_what_does_not_fit() -> None:
    """Neither ``parse``, ``stream`` nor a copy with other options."""
    client = for_openai.guarded(OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0), 100)
    large: Any = [{"role": "user", "content": "x " * 200}]
    calls: list[Callable[[], object]] = [
        lambda: client.chat.completions.create(model="gpt-4o", messages=large),
        lambda: client.chat.completions.parse(model="gpt-4o", messages=large),
        lambda: client.chat.completions.stream(model="gpt-4o", messages=large).__enter__(),
        lambda: client.responses.create(model="gpt-4o", input=large),
        lambda: client.responses.parse(model="gpt-4o", input=large),
        lambda: client.with_options(timeout=1).chat.completions.create(model="gpt-4o", messages=large),
        lambda: client.copy().with_options().responses.parse(model="gpt-4o", input=large),
    ]
    for call in calls:
        with pytest.raises(OverWindow):
            call()


@pytest.mark.parametrize("budget", ["8000", 8000.5, -1, True])
def test_a_budget_is_a_number_of_tokens(budget: Any) -> None:  # noqa: ANN401  # wrong ones too
    with pytest.raises(InvalidBudget):
        Fitting(budget).fit(REQUEST["messages"], model="gpt-4o")
    with pytest.raises(InvalidBudget):
        check_fits("text", budget, "gpt-4o")
