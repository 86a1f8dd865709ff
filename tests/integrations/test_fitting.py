"""Guarding of requests, without the clients that send them (tests/clients has these)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tokenbox
from tokenbox.errors import InvalidBudget
from tokenbox.integrations.fitting import Called, Fitting, Guarding, NotGuarded, OverWindow
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


LARGE: Any = [{"role": "user", "content": "x " * 200}]
SMALL: Any = REQUEST["messages"]
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.slow
def test_every_request_to_an_endpoint_is_guarded() -> None:
    """Also one that has no method of its own. A field of ``extra_body`` replaces one of the body."""
    from tests.integrations.clients import Answering, for_openai

    Answering.sent.clear()
    client = for_openai.guarded(Answering(api_key="none", base_url=NOWHERE), 100)
    for path in ("/chat/completions", "chat/completions", f"{NOWHERE}/v1/chat/completions/?beta=true"):
        with pytest.raises(OverWindow):
            client.post(path, cast_to=object, body={"model": "gpt-4o", "messages": LARGE})
        with pytest.raises(NotGuarded):
            client.post(path, cast_to=object, content=b"{}")
    with pytest.raises(OverWindow):
        client.chat.completions.create(model="gpt-4o", messages=SMALL, extra_body={"messages": LARGE})
    assert Answering.sent == []
    answer: Any = client.chat.completions.create(model="gpt-4o", messages=SMALL, extra_body={"user": "u"})
    assert answer == "the answer"
    [sent] = Answering.sent
    assert (sent.url, sent.json_data, sent.extra_json) == (
        "/chat/completions",
        {**REQUEST, "user": "u"},
        None,
    )
    assert client.responses.input_tokens.count(model="gpt-4o", input=LARGE) is not None
    assert client.models.list() is not None


def test_messages_of_an_iterator_are_counted_and_sent() -> None:
    from tests.integrations.clients import AnsweringNow, for_anthropic

    AnsweringNow.sent.clear()
    client: Any = for_anthropic.guarded(AnsweringNow(api_key="none"), 100)
    asked = {"model": "claude-opus-4-8", "max_tokens": 5}
    client.messages.create(**asked, messages=iter(SMALL))
    with pytest.raises(OverWindow):
        client.messages.create(**asked, messages=iter(LARGE))
    assert [sent.json_data["messages"] for sent in AnsweringNow.sent] == [SMALL]


def test_what_no_eviction_makes_fit_is_over_the_window() -> None:
    """It is beside the messages."""
    request = {**REQUEST, "response_format": {"schema": "x " * 500}}
    with pytest.raises(OverWindow):
        Guarding(Fitting(100), fit=True).checked(request, "messages")


def test_the_largest_of_several_output_limits_is_reserved() -> None:
    """A server may heed any of them."""
    limits = {"max_completion_tokens": 5, "max_tokens": 127_995}
    with pytest.raises(OverWindow):
        Guarding(Fitting()).checked({**REQUEST, **limits}, "messages")


def test_no_method_of_a_guarded_openai_client_sends_what_does_not_fit() -> None:
    """Neither ``parse``, ``stream``, those of ``beta`` nor a copy with other options."""
    from tests.integrations.clients import OpenAI, for_openai

    client = for_openai.guarded(OpenAI(api_key="none", base_url=NOWHERE, max_retries=0), 100)
    large = LARGE
    beta: Any = client.beta
    calls: list[Callable[[], object]] = [
        lambda: client.chat.completions.create(model="gpt-4o", messages=large),
        lambda: client.chat.completions.parse(model="gpt-4o", messages=large),
        lambda: client.chat.completions.stream(model="gpt-4o", messages=large).__enter__(),
        lambda: client.chat.completions.with_raw_response.create(model="gpt-4o", messages=large),
        lambda: client.with_raw_response.chat.completions.create(model="gpt-4o", messages=large),
        lambda: client.with_streaming_response.responses.create(model="gpt-4o", input=large).__enter__(),
        lambda: client.completions.create(model="gpt-3.5-turbo-instruct", prompt="x " * 200),
        lambda: client.completions.create(model="gpt-3.5-turbo-instruct", prompt=["hi", "x " * 200]),
        lambda: client.responses.create(model="gpt-4o", input=large),
        lambda: client.responses.parse(model="gpt-4o", input=large),
        lambda: client.responses.compact(model="gpt-4o", input=large),
        lambda: beta.responses.create(model="gpt-4o", input=large),
        lambda: client.with_options(timeout=1).chat.completions.create(model="gpt-4o", messages=large),
        lambda: client.copy().with_options().responses.parse(model="gpt-4o", input=large),
    ]
    for call in calls:
        with pytest.raises(OverWindow):
            call()


def test_what_cannot_be_counted_is_refused() -> None:
    from tests.integrations.clients import Anthropic, OpenAI, for_anthropic, for_openai

    openai = for_openai.guarded(OpenAI(api_key="none", base_url=NOWHERE, max_retries=0), 100)
    anthropic: Any = for_anthropic.guarded(Anthropic(api_key="none", base_url=NOWHERE, max_retries=0), 100)
    window: Any = "24h"
    calls: list[Callable[[], object]] = [
        lambda: openai.batches.create(
            completion_window=window, endpoint="/v1/chat/completions", input_file_id="f"
        ),
        openai.responses.connect,
        openai.beta.responses.connect,
        openai.with_options(timeout=1).responses.connect,
        lambda: anthropic.messages.batches.create(requests=[{"custom_id": "a", "params": REQUEST}]),
        lambda: anthropic.beta.messages.batches.create(requests=[]),
    ]
    for call in calls:
        with pytest.raises(NotGuarded, match="the client that you gave to guarded"):
            call()


def test_no_method_of_a_guarded_anthropic_client_sends_what_does_not_fit() -> None:
    from tests.integrations.clients import Anthropic, AnthropicBedrock, for_anthropic

    client: Any = for_anthropic.guarded(Anthropic(api_key="none", base_url=NOWHERE, max_retries=0), 100)
    bedrock: Any = AnthropicBedrock(aws_access_key="a", aws_secret_key="b", aws_region="eu-west-1")
    asked = {"model": "claude-opus-4-8", "max_tokens": 5, "messages": LARGE}
    calls: list[Callable[[], object]] = [
        lambda: client.messages.create(**asked),
        lambda: client.messages.stream(**asked).__enter__(),
        lambda: client.beta.messages.create(**asked),
        lambda: client.beta.messages.tool_runner(**asked, tools=[]).until_done(),
        lambda: client.with_raw_response.messages.create(**asked),
        lambda: client.with_options(timeout=1).messages.create(**asked),
        lambda: for_anthropic.guarded(bedrock, 100).messages.create(**asked),
    ]
    for call in calls:
        with pytest.raises(OverWindow):
            call()


def test_an_asynchronous_client_is_guarded_alike() -> None:
    from tests.integrations.clients import AnsweringLater, for_anthropic

    found: list[Called] = []
    client: Any = for_anthropic.guarded(AnsweringLater(api_key="none"), 100, on_call=found.append)
    asked = {"model": "claude-opus-4-8", "max_tokens": 5}

    async def both() -> object:
        with pytest.raises(OverWindow):
            await client.messages.create(**asked, messages=LARGE)
        return await client.messages.create(**asked, messages=SMALL)

    assert asyncio.run(both()) == "the answer"
    assert [called.used for called in found] == [None]
    assert [sent.json_data["messages"] for sent in AnsweringLater.sent] == [SMALL]


@pytest.mark.parametrize("budget", ["8000", 8000.5, -1, True])
def test_a_budget_is_a_number_of_tokens(budget: Any) -> None:  # noqa: ANN401  # wrong ones too
    with pytest.raises(InvalidBudget):
        Fitting(budget).fit(REQUEST["messages"], model="gpt-4o")
    with pytest.raises(InvalidBudget):
        check_fits("text", budget, "gpt-4o")
