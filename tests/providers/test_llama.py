"""The real llama.cpp server: what is predicted is what is used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import LOAD_DEPENDENT, examples
from tokenbox.providers import (
    BlockingProvider,
    ConnectionRefused,
    ContextExceeded,
    EndpointMemory,
    FinishReason,
    ProviderError,
    RequestRejected,
    StreamCut,
    Target,
    TextDelta,
    tokenize_supported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.llama.server import LlamaServer, StartLlama

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Wie ist das Wetter in Köln? <|im_end|> \U0001f327"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4 °C"},
    {"role": "user", "content": ""},
]


@pytest.fixture
def provider(llama: LlamaServer) -> Iterator[BlockingProvider]:
    target = Target(llama.url + "/v1/", "tiny", use_tokenize_endpoint=True)
    with BlockingProvider(target, memory=EndpointMemory()) as made:
        yield made


def test_it_is_recognised_and_says_what_a_slot_holds(llama: LlamaServer, start_llama: StartLlama) -> None:
    two = start_llama(n_ctx=2_048, n_parallel=2)
    for server, slots, window in ((llama, 1, llama.n_ctx), (two, 2, 1_024)):
        found = BlockingProvider(Target(server.url, "tiny"), memory=EndpointMemory()).capabilities()
        assert found.kind == "llama.cpp"
        assert found.context_window is not None
        assert (found.context_window.value, found.slots) == (window, slots)
        assert found.trained_window is not None
        assert found.complete


def test_the_seed_s_text(provider: BlockingProvider, llama: LlamaServer) -> None:
    counted = provider.counted_text("hello world")
    _, body = llama.post("/tokenize", {"content": "hello world"})
    assert counted.exact
    assert counted.value == len(body["tokens"])
    assert tokenize_supported(llama.url) is None  # another memory
    assert provider.token_count("") == 0


@settings(
    max_examples=examples(50), suppress_health_check=[*LOAD_DEPENDENT, HealthCheck.function_scoped_fixture]
)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_a_text_is_counted_as_its_tokenizer_does(
    provider: BlockingProvider, llama: LlamaServer, text: str
) -> None:
    _, body = llama.post("/tokenize", {"content": text})
    assert provider.token_count(text) == len(body["tokens"])


@pytest.mark.parametrize("tools", [None, [TOOL]], ids=["plain", "tools"])
@pytest.mark.parametrize("length", [1, 2, 4, 5])  # ending with a call is refused, below
def test_the_predicted_prompt_is_the_used_one(
    provider: BlockingProvider, length: int, tools: list[dict[str, Any]] | None
) -> None:
    talk = TALK[:length]
    predicted = provider.count(talk, tools)
    assert predicted.exact
    answer = provider.chat(talk, tools, max_tokens=1)
    assert answer.usage is not None
    assert answer.usage.input_tokens == predicted.value
    assert answer.timings is not None
    assert answer.timings.prompt_n is not None
    assert answer.timings.cache_n is not None
    assert answer.timings.prompt_n + answer.timings.cache_n == predicted.value
    assert answer.usage.cached_input_tokens == answer.timings.cache_n


def test_what_the_server_refuses_to_template_is_estimated_and_refused(provider: BlockingProvider) -> None:
    assert provider.count(TALK[:3]).exact is False
    with pytest.raises(RequestRejected, match="tool calls"):
        provider.chat(TALK[:3])
    assert provider.count(TALK[:2]).exact is True


def test_the_way_of_old_builds_gives_the_same(provider: BlockingProvider, llama: LlamaServer) -> None:
    """By /apply-template and /tokenize: what is left where /v1/chat/completions/input_tokens is not known."""
    new = provider.count(TALK, [TOOL])
    memory = EndpointMemory()
    memory._supported[llama.url, "/v1/chat/completions/input_tokens"] = False, math.inf  # noqa: SLF001
    old = BlockingProvider(provider.target, memory=memory).count(TALK, [TOOL])
    assert (old.value, old.exact) == (new.value, True)
    assert old.source.endswith("/apply-template")


def test_a_stream(provider: BlockingProvider) -> None:
    stream = provider.stream([{"role": "user", "content": "Tell me."}], max_tokens=12, temperature=0)
    texts = [event.text for event in stream if isinstance(event, TextDelta)]
    assert "".join(texts) == stream.answer.text
    assert stream.answer.finish in {FinishReason.LENGTH, FinishReason.STOP}
    assert stream.answer.usage is not None
    assert stream.answer.usage.output_tokens is not None
    whole = provider.chat([{"role": "user", "content": "Tell me."}], max_tokens=12, temperature=0)
    assert whole.text == stream.answer.text


def test_too_long_says_by_how_much(start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=2_048, n_parallel=2)
    target = Target(server.url, "tiny", use_tokenize_endpoint=True)
    with BlockingProvider(target, memory=EndpointMemory()) as provider:
        talk = [{"role": "user", "content": "word " * 2_000}]
        predicted = provider.count(talk)
        for attempt in (provider.chat, lambda messages: list(provider.stream(messages))):
            with pytest.raises(ContextExceeded) as raised:
                attempt(talk)
            assert raised.value.input_tokens == predicted.value
            assert raised.value.context_window == 1_024


def test_leaving_a_stream_frees_the_only_slot(provider: BlockingProvider) -> None:
    with provider.stream(
        [{"role": "user", "content": "Count."}], max_tokens=10_000, extra={"ignore_eos": True}
    ) as stream:
        next(stream)
    assert provider.chat([{"role": "user", "content": "hi"}], max_tokens=1).finish is not None


def test_a_server_that_dies_in_the_middle_and_comes_back(start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=8_192, fresh=True)
    target = Target(server.url, "tiny", "llama.cpp", use_tokenize_endpoint=True)
    memory = EndpointMemory()
    with BlockingProvider(target, memory=memory) as provider:
        exact = provider.counted_text("hello world")
        stream = provider.stream(
            [{"role": "user", "content": "Go."}], max_tokens=8_000, extra={"ignore_eos": True}
        )
        kept = next(event for event in stream if isinstance(event, TextDelta)).text
        server.kill()
        with pytest.raises(ProviderError) as raised:
            list(stream)
        assert type(raised.value) is StreamCut
        assert raised.value.partial is not None
        assert raised.value.partial.text.startswith(kept)
        with pytest.raises(ConnectionRefused):
            provider.chat([{"role": "user", "content": "hi"}])
        assert not provider.counted_text("hello world").exact
        start_llama(n_ctx=8_192, fresh=True, port=server.port)
        assert provider.counted_text("hello world") == exact
