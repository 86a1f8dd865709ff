"""OpenAI's shapes into those of Anthropic and Ollama, and back; checked against the official types."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from tests.providers.fake import FakeServer, serving, sse, streamed
from tests.providers.test_streams import WHOLE
from tokenbox.ledger.usage import Usage
from tokenbox.providers import (
    ApiKey,
    BlockingProvider,
    ChatAnswer,
    ContextExceeded,
    EndpointMemory,
    FinishReason,
    InvalidRequest,
    ModelNotFound,
    ServerFailed,
    StreamCut,
    Target,
    TokenCount,
)
from tokenbox.providers.request import chat_request

if TYPE_CHECKING:
    from collections.abc import Mapping

PNG = "data:image/png;base64,iVBORw0KGgo="
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": [{"type": "text", "text": "Use the tools."}]},
    {"role": "user", "content": "What is the weather in Berlin?"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "And here?"}, {"type": "image_url", "image_url": {"url": PNG}}],
    },
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Berlin"}'},
            },
            {"id": "c2", "type": "function", "function": {"name": "place", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4 °C"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "Pankow"}]},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "Thanks"},
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "place"}},
]


def provider(server: FakeServer, kind: str, **more: Any) -> BlockingProvider:  # fields of Target
    target = Target(server.url, "m", kind, use_tokenize_endpoint=True, **more)
    return BlockingProvider(target, memory=EndpointMemory())


@cache
def adapter(type_: str) -> TypeAdapter[Any]:
    """An official client's type by its name. To import a client takes seconds, so each is imported here."""
    return TypeAdapter(resolve_name(type_))


def valid(type_: str, value: object) -> None:
    """``value`` is of the official client's type, as far as that has the field."""
    adapter(type_).validate_python(value)


# OpenAI


def test_openai_requests_are_those_of_the_official_client() -> None:
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
    }
    with (
        serving({"/v1/chat/completions": body}) as server,
        provider(server, "openai", key=ApiKey("sk-1")) as made,
    ):
        made.chat(CONVERSATION, TOOLS, max_tokens=7, temperature=0.1, stop=["x"])
        list(made.stream(CONVERSATION, TOOLS))
        whole, stream = server.asked
    valid("openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming", whole.body)
    valid("openai.types.chat.completion_create_params:CompletionCreateParamsStreaming", stream.body)
    assert whole.body["messages"] == CONVERSATION
    assert whole.body["tools"] == TOOLS
    assert whole.body["max_completion_tokens"] == 7
    assert whole.headers["Authorization"] == "Bearer sk-1"
    assert stream.body["stream_options"] == {"include_usage": True}


def test_the_chunks_of_the_tests_are_such_as_the_official_client_reads() -> None:
    head = {"id": "1", "created": 1, "model": "m"}
    for chunk in WHOLE:
        valid("openai.types.chat:ChatCompletionChunk", {**head, "object": "chat.completion.chunk", **chunk})  # type: ignore[dict-item]
    choice = {"index": 0, "finish_reason": "stop", "message": ChatAnswer("hi").message}
    valid("openai.types.chat:ChatCompletion", {**head, "object": "chat.completion", "choices": [choice]})


def test_openai_counts_by_its_responses_api_which_is_an_estimate_for_chats() -> None:
    answer = {"object": "response.input_tokens", "input_tokens": 123}
    with serving({"/v1/responses/input_tokens": answer}) as server, provider(server, "openai") as made:
        counted = made.count(CONVERSATION, TOOLS)
        body = server.asked[0].body
    assert counted == TokenCount(123, exact=False, source=f"{server.url}/v1/responses/input_tokens")
    valid("openai.types.responses.input_token_count_params:InputTokenCountParams", body)
    assert [item.get("type", item.get("role")) for item in body["input"]] == [
        *("system", "developer", "user", "user", "assistant"),
        *("function_call", "function_call", "function_call_output", "function_call_output", "user"),
    ]
    assert body["tools"][0]["name"] == "weather"


# Anthropic

TURNS = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is the weather in Berlin?"},
            {"type": "text", "text": "And here?"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Berlin"}},
            {"type": "tool_use", "id": "c2", "name": "place", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "4 °C"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "Pankow"},
            {"type": "text", "text": "Thanks"},
        ],
    },
]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "It is cold."},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Köln"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 20,
        "output_tokens": 9,
    },
}
SAID = ChatAnswer(
    "It is cold.",
    "Hm.",
    (("t1", "weather", '{"city": "Köln"}'),),  # type: ignore[arg-type]  # as a tuple
    FinishReason.TOOL_CALLS,
    Usage(33, 9, 20, cache_write_tokens=3),
    kept=({"type": "thinking", "thinking": "Hm.", "signature": "s"},),
)


@pytest.mark.slow
def test_anthropic_whole() -> None:
    valid("anthropic.types:Message", MESSAGE)
    with (
        serving({"/v1/messages": MESSAGE}) as server,
        provider(server, "anthropic", key=ApiKey("sk-ant")) as made,
    ):
        assert made.chat(CONVERSATION, TOOLS, max_tokens=50, temperature=0.2, stop=["END"]) == SAID
        asked = server.asked[0]
    valid("anthropic.types.message_create_params:MessageCreateParamsNonStreaming", asked.body)
    assert asked.body == {
        "model": "m",
        "max_tokens": 50,
        "system": "Be brief.\n\nUse the tools.",
        "messages": TURNS,
        "tools": [
            {
                "name": "weather",
                "description": "The weather in a city.",
                "input_schema": TOOLS[0]["function"]["parameters"],
            },
            {"name": "place", "input_schema": {"type": "object", "properties": {}}},
        ],
        "temperature": 0.2,
        "stop_sequences": ["END"],
    }
    assert asked.headers["x-api-key"] == "sk-ant"
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in asked.headers


def test_what_anthropic_says_can_be_said_back() -> None:
    with serving({"/v1/messages": MESSAGE}) as server, provider(server, "anthropic") as made:
        answer = made.chat([{"role": "user", "content": "hi"}])
        result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "3 °C"}
        made.chat([{"role": "user", "content": "hi"}, answer.message, result])
        back = server.asked[1].body["messages"]
    assert back[1] == {"role": "assistant", "content": MESSAGE["content"]}  # the signed thought, too
    assert back[2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "3 °C"}]


def test_marks_of_the_cache_and_blocks_of_its_own_reach_anthropic() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": mark}]},
        {"role": "user", "content": [document, {"type": "text", "text": "hi", "cache_control": mark}]},
        {"role": "assistant", "content": "Yes.", "cache_control": mark},
    ]
    tools = [{**TOOLS[0], "cache_control": mark}, {"name": "own", "input_schema": {"type": "object"}}]
    with serving({"/v1/messages": MESSAGE}) as server, provider(server, "anthropic") as made:
        made.chat(messages, tools)
        body = server.asked[0].body
    valid("anthropic.types.message_create_params:MessageCreateParamsNonStreaming", body)
    assert body["system"] == messages[0]["content"]
    assert body["messages"][0]["content"] == messages[1]["content"]
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Yes.", "cache_control": mark}]
    assert [tool.get("cache_control") for tool in body["tools"]] == [mark, None]


CHAT = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
}


def test_blocks_of_one_provider_are_not_sent_to_another() -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    encrypted = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    said = {"role": "assistant", "content": "Yes.", "provider_blocks": [signed, encrypted]}
    messages = [{"role": "user", "content": "hi"}, said, {"role": "user", "content": "And?"}]
    answers = {"/v1/messages": MESSAGE, "/v1/responses": RESPONSE, "/v1/chat/completions": CHAT}
    with serving(answers) as server:
        for kind in ("anthropic", "openai-responses", "openai"):
            with provider(server, kind) as made:
                made.chat(messages)
        anthropic, responses, chat = (asked.body for asked in server.asked[-3:])
    assert anthropic["messages"][1]["content"] == [signed, {"type": "text", "text": "Yes."}]
    assert responses["input"][1:3] == [encrypted, {"role": "assistant", "content": "Yes."}]
    assert chat["messages"][1] == {"role": "assistant", "content": "Yes."}


def anthropic_stream(*events: Mapping[str, Any]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            **MESSAGE,
            "content": [],
            "stop_reason": None,
            "usage": {**MESSAGE["usage"], "output_tokens": 1},  # type: ignore[dict-item]
        },
    },
    {"type": "ping"},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "It is "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "cold."}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"city"'},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": ': "Köln"}'},
    },
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]


def test_anthropic_streamed() -> None:
    for event in EVENTS:
        if event["type"] != "ping":
            valid("anthropic.types:RawMessageStreamEvent", event)
    with serving({"/v1/messages": streamed(anthropic_stream(*EVENTS))}) as server:
        stream = provider(server, "anthropic").stream(CONVERSATION, TOOLS)
        for _ in stream:
            pass
        assert stream.answer == SAID
        valid("anthropic.types.message_create_params:MessageCreateParamsStreaming", server.asked[0].body)
        assert server.asked[0].body["max_tokens"] == 4096


def test_what_anthropic_keeps_for_an_hour() -> None:
    kept = {"ephemeral_1h_input_tokens": 2, "ephemeral_5m_input_tokens": 1}
    usage = {**MESSAGE["usage"], "cache_creation": kept}  # type: ignore[dict-item]
    whole = {**MESSAGE, "usage": usage}
    start = {**EVENTS[0], "message": {**EVENTS[0]["message"], "usage": {**usage, "output_tokens": 1}}}
    valid("anthropic.types:Message", whole)
    expected = Usage(33, 9, 20, cache_write_tokens=3, cache_write_1h_tokens=2)
    with serving({"/v1/messages": whole}) as server, provider(server, "anthropic") as made:
        assert made.chat(CONVERSATION).usage == expected
    with serving({"/v1/messages": streamed(anthropic_stream(start, *EVENTS[1:]))}) as server:
        stream = provider(server, "anthropic").stream(CONVERSATION)
        assert len(list(stream)) > 1
        assert stream.answer.usage == expected


def test_anthropic_cut_and_in_error() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for rest, kind in (([], StreamCut), ([overloaded], ServerFailed)):
        with serving({"/v1/messages": streamed(anthropic_stream(*EVENTS[:9], *rest))}) as server:
            stream = provider(server, "anthropic").stream(CONVERSATION)
            with pytest.raises(kind) as raised:
                list(stream)
            assert raised.value.partial is not None
            assert raised.value.partial.text == "It is cold."
            assert raised.value.partial.usage == Usage(33, 1, 20, cache_write_tokens=3)


def test_anthropic_counts() -> None:
    answer = {"input_tokens": 403}
    valid("anthropic.types:MessageTokensCount", answer)
    with serving({"/v1/messages/count_tokens": answer}) as server, provider(server, "anthropic") as made:
        counted = made.count(CONVERSATION, TOOLS)
        body = server.asked[0].body
    assert counted == TokenCount(403, exact=False, source=f"{server.url}/v1/messages/count_tokens")
    valid("anthropic.types.message_count_tokens_params:MessageCountTokensParams", body)
    assert set(body) == {"model", "messages", "system", "tools"}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "narrator", "content": "x"},
        {"role": "user", "content": [{"type": "input_audio"}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "oops"}}]},
        {"role": "assistant", "tool_calls": [{"id": "1"}]},
        {"role": "assistant", "tool_calls": 1.5},
        {"role": "user", "content": [{"type": ["text"], "text": "x"}]},
    ],
    ids=["role", "audio", "arguments", "call", "calls", "type"],
)
def test_what_anthropic_has_no_form_for(message: dict[str, Any]) -> None:
    with serving({}) as server, provider(server, "anthropic") as made:
        with pytest.raises(InvalidRequest):
            made.chat([message])
        with pytest.raises(InvalidRequest):
            made.count([message])
        assert server.asked == []


# Ollama

SHOW = {
    "parameters": 'stop                           "<|im_end|>"\nnum_ctx                        8192\n',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.block_count": 36},
    "capabilities": ["completion", "tools"],
}
OLLAMA = {
    "model": "m",
    "created_at": "2026-11-01T00:00:00Z",
    "message": {
        "role": "assistant",
        "content": "It is cold.",
        "thinking": "Hm.",
        "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Köln"}}}],
    },
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 33,
    "eval_count": 9,
}
OLLAMA_SAID = ChatAnswer(
    "It is cold.",
    "Hm.",
    (("call_0", "weather", '{"city": "Köln"}'),),  # type: ignore[arg-type]  # as a tuple
    FinishReason.TOOL_CALLS,
    Usage(33, 9),
)


def test_ollama_whole() -> None:
    routes = {"/api/chat": OLLAMA, "/api/show": SHOW, "/api/ps": {"models": []}}
    with serving(routes) as server, provider(server, "ollama") as made:
        assert made.chat(CONVERSATION, TOOLS, max_tokens=50, temperature=0.2, stop=["END"]) == OLLAMA_SAID
        assert server.paths() == ["/api/ps", "/api/show", "/api/chat"]
        body = server.asked[-1].body
        made.chat(CONVERSATION, extra={"options": {"num_ctx": 99}, "keep_alive": "1h"})
        assert server.paths()[3:] == ["/api/chat"]  # what it can hold is asked for once
        again = server.asked[-1].body
    assert body["options"] == {"num_ctx": 8192, "num_predict": 50, "temperature": 0.2, "stop": ["END"]}
    assert (body["truncate"], body["shift"], body["stream"]) == (False, False, False)
    assert body["tools"] == TOOLS
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Use the tools."},
        {"role": "user", "content": "What is the weather in Berlin?"},
        {"role": "user", "content": "And here?", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Berlin"}}},
                {"id": "c2", "function": {"name": "place", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "4 °C", "tool_name": "weather", "tool_call_id": "c1"},
        {"role": "tool", "content": "Pankow", "tool_name": "place", "tool_call_id": "c2"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Thanks"},
    ]
    assert again["options"] == {"num_ctx": 99}
    assert again["keep_alive"] == "1h"


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def piece(**message: object) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


PIECES = [
    piece(thinking="Hm."),
    piece(content="It is "),
    piece(content="cold."),
    piece(tool_calls=[{"function": {"name": "weather", "arguments": {"city": "Köln"}}}]),
]
END = {**piece(), "done": True, "done_reason": "stop", "prompt_eval_count": 33, "eval_count": 9}


@pytest.mark.parametrize("size", [3, 1_000])
def test_ollama_streamed(size: int) -> None:
    stream = lines(*PIECES, END)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    routes = {"/api/chat": streamed(*pieces, content_type="application/x-ndjson"), "/api/show": SHOW}
    with serving(routes) as server:
        told = provider(server, "ollama", context_window=2048).stream(CONVERSATION)
        for _ in told:
            pass
        assert told.answer == OLLAMA_SAID
        assert server.asked[-1].body["options"] == {"num_ctx": 2048}  # the user's word counts


def test_ollama_in_error() -> None:
    too_long = {"error": "prompt too long; exceeded max context length by 40 tokens"}
    for rest, kind in (({"error": "boom"}, ServerFailed), (too_long, ContextExceeded), (None, StreamCut)):
        stream = lines(*PIECES[:3], *([] if rest is None else [rest]))
        with serving(
            {"/api/chat": streamed(stream, content_type="application/x-ndjson"), "/api/show": SHOW}
        ) as server:
            told = provider(server, "ollama").stream(CONVERSATION)
            with pytest.raises(kind) as raised:
                list(told)
            assert raised.value.partial == ChatAnswer("It is cold.", "Hm.")
            if isinstance(raised.value, ContextExceeded):
                assert (raised.value.input_tokens, raised.value.context_window) == (8232, 8192)


def test_ollama_without_the_model() -> None:
    missing = (404, {"error": "model 'm' not found"})
    routes = {"/api/chat": missing, "/api/show": missing, "/api/ps": {"models": []}}
    with serving(routes) as server:
        made = provider(server, "ollama")
        with pytest.raises(ModelNotFound, match="model 'm' not found"):
            made.chat(CONVERSATION)
        assert not made.capabilities().complete  # it may have been pulled by then


def test_ollama_takes_no_images_by_address() -> None:
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}
    with serving({"/api/show": SHOW}) as server:
        made = provider(server, "ollama")
        with pytest.raises(InvalidRequest, match="data:"):
            made.chat([message])


def test_other_openai_shapes_come_through_as_they_are() -> None:
    """What we do not know in a message is the server's to understand."""
    message = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}], "odd": 1}
    with serving({"/v1/chat/completions": streamed(sse(*WHOLE))}) as server:
        list(provider(server, "vllm").stream([message]))
        assert server.asked[0].body["messages"] == [message]


# OpenAI Responses

THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "e",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "t1",
    "name": "weather",
    "arguments": '{"city": "K\u00f6ln"}',
    "status": "completed",
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [
        THOUGHT,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "It is cold.", "annotations": []}],
        },
        CALL,
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 33,
        "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 42,
    },
}
RESPONDED = ChatAnswer(
    "It is cold.",
    "Hm.",
    (("t1", "weather", '{"city": "K\u00f6ln"}'),),  # type: ignore[arg-type]  # as a tuple
    FinishReason.TOOL_CALLS,
    Usage(33, 9, 20, cache_write_tokens=3, reasoning_tokens=4),
    kept=(THOUGHT,),
)


def test_responses_whole_and_said_back() -> None:
    valid("openai.types.responses:Response", RESPONSE)
    with serving({"/v1/responses": RESPONSE}) as server, provider(server, "openai-responses") as made:
        answer = made.chat(CONVERSATION, TOOLS, max_tokens=50, temperature=0.2)
        result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "3 \u00b0C"}
        made.chat([*CONVERSATION, answer.message, result], TOOLS)
        first, second = (asked.body for asked in server.asked[-2:])
    assert answer == RESPONDED
    for body in (first, second):
        valid("openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming", body)
        assert body["store"] is False
    assert (first["max_output_tokens"], first["temperature"]) == (50, 0.2)
    call = {key: value for key, value in CALL.items() if key not in {"id", "status"}}
    assert second["input"][-4:] == [
        THOUGHT,
        {"role": "assistant", "content": "It is cold."},
        call,
        {"type": "function_call_output", "call_id": "t1", "output": "3 \u00b0C"},
    ]


def test_responses_ask_for_thoughts_only_of_models_that_have_them() -> None:
    for model, asked in (
        ("gpt-5.1", ["reasoning.encrypted_content"]),
        ("o4-mini", ["reasoning.encrypted_content"]),
        ("gpt-4o", None),
    ):
        with serving({"/v1/responses": RESPONSE}) as server:
            BlockingProvider(Target(server.url, model, "openai-responses"), memory=EndpointMemory()).chat(
                [{"role": "user", "content": "hi"}]
            )
            assert server.asked[-1].body.get("include") == asked


def test_responses_streamed() -> None:
    made = [
        {
            "type": "response.created",
            "sequence_number": 0,
            "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "sequence_number": 1,
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Hm.",
        },
        {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": THOUGHT},
        {
            "type": "response.output_text.delta",
            "sequence_number": 3,
            "item_id": "msg_1",
            "output_index": 1,
            "content_index": 0,
            "delta": "It is ",
            "logprobs": [],
        },
        {
            "type": "response.output_text.delta",
            "sequence_number": 4,
            "item_id": "msg_1",
            "output_index": 1,
            "content_index": 0,
            "delta": "cold.",
            "logprobs": [],
        },
        {
            "type": "response.output_item.added",
            "sequence_number": 5,
            "output_index": 2,
            "item": {**CALL, "arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "sequence_number": 6,
            "item_id": "fc_1",
            "output_index": 2,
            "delta": CALL["arguments"],
        },
        {"type": "response.completed", "sequence_number": 7, "response": RESPONSE},
    ]
    for event in made:
        valid("openai.types.responses:ResponseStreamEvent", event)
    with serving({"/v1/responses": streamed(anthropic_stream(*made))}) as server:
        stream = provider(server, "openai-responses").stream(CONVERSATION, TOOLS)
        list(stream)
        assert stream.answer == RESPONDED
        valid(
            "openai.types.responses.response_create_params:ResponseCreateParamsStreaming",
            server.asked[-1].body,
        )
    with serving({"/v1/responses": streamed(anthropic_stream(*made[:5]))}) as server:
        stream = provider(server, "openai-responses").stream(CONVERSATION)
        with pytest.raises(StreamCut):
            list(stream)
        assert stream.answer.text == "It is cold."
    failed = {
        "type": "response.failed",
        "sequence_number": 1,
        "response": {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "x"}},
    }
    with (
        serving({"/v1/responses": streamed(anthropic_stream(failed))}) as server,
        pytest.raises(ServerFailed, match="server_error"),
    ):
        list(provider(server, "openai-responses").stream(CONVERSATION))


def test_a_response_that_is_cut_says_so() -> None:
    cut = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    with serving({"/v1/responses": cut}) as server, provider(server, "openai-responses") as made:
        assert made.chat(CONVERSATION).finish is FinishReason.LENGTH


DATA = "iVBORw0KGgo="
PARTS: tuple[dict[str, Any] | str, ...] = (
    "said",
    {"type": "text", "text": "said"},
    {"type": "input_text", "text": "said"},
    {"type": "output_text", "text": "said"},
    {"type": "refusal", "refusal": "said"},
    {"type": "image_url", "image_url": {"url": PNG}},
    {"type": "image_url", "image_url": PNG},
    {"type": "input_image", "image_url": PNG},
    {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"}},
    {"type": "input_file", "file_data": DATA},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "said"}},
    {"type": "tool_result", "tool_use_id": "c", "content": "said"},
    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": "said"}},
)


@pytest.mark.parametrize("dialect", ["anthropic_messages", "ollama_chat", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_every_part_is_sent_or_refused(dialect: str, role: str) -> None:
    body = resolve_name(f"tokenbox.providers.{dialect}:body")
    for place, part in enumerate(PARTS):
        message = {"role": role, "content": [part], "tool_call_id": "c"}
        request = chat_request("m", [{"role": "user", "content": "hi"}, message], None)
        made = ""
        with suppress(InvalidRequest):
            made = json.dumps(body(request))
        assert "said" in made or DATA in made or (not made and place >= 5), part
        assert made or dialect != "openai_chat"


@pytest.mark.parametrize("dialect", ["anthropic_messages", "ollama_chat", "openai_responses"])
def test_older_forms_and_recordings_are_not_left_out(dialect: str) -> None:
    body = resolve_name(f"tokenbox.providers.{dialect}:body")

    def made(message: dict[str, Any]) -> str:
        return json.dumps(body(chat_request("m", [{"role": "user", "content": "hi"}, message], None)))

    assert "no, thanks" in made({"role": "assistant", "content": None, "refusal": "no, thanks"})
    function = {"name": "f", "arguments": {"a": "given"}}  # an object, where the API has its JSON text
    shown = made({"role": "assistant", "tool_calls": [{"id": "c", "function": function}]})
    assert "given" in shown
    assert "'given'" not in shown
    for message in (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
        {"role": "user", "content": {"text": "said"}},
        {"role": "user", "content": 5},
    ):
        with pytest.raises(InvalidRequest):
            made(message)


def test_a_chat_that_the_counting_api_has_no_form_for_is_counted_locally() -> None:
    with serving({"/v1/responses/input_tokens": {"input_tokens": 9}}) as server:
        target = Target(server.url, "gpt-4o", "openai", use_tokenize_endpoint=True)
        client = BlockingProvider(target, memory=EndpointMemory())
        recording = {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}
        found = client.count([{"role": "user", "content": [recording]}])
        client.close()
    assert (found.exact, found.source) == (False, "published")
    assert found.value > 500


@pytest.mark.parametrize("dialect", ["anthropic_messages", "openai_responses"])
@pytest.mark.parametrize("tool", ["search", 5])
def test_a_tool_that_is_no_object_is_named(dialect: str, tool: object) -> None:
    body = resolve_name(f"tokenbox.providers.{dialect}:body")
    with pytest.raises(InvalidRequest, match="a tool must be like"):
        body(chat_request("m", [{"role": "user", "content": "hi"}], [tool]))  # type: ignore[list-item]


def test_an_image_in_a_system_prompt_is_refused_with_what_to_do() -> None:
    body = resolve_name("tokenbox.providers.anthropic_messages:body")
    system = {"role": "system", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}
    with pytest.raises(InvalidRequest, match=r"only text in a system prompt.*in a user message"):
        body(chat_request("m", [system, {"role": "user", "content": "hi"}], None))
