"""No text is sent uncounted: a longer text at any place of a request, or a longer key, raises its bound."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import tokenbox
from tests.effort import examples
from tests.gateway.attacks import SHAPES
from tests.sdk_values import Maker
from tokenbox.content.message import InvalidMessage
from tokenbox.content.parts import as_plain
from tokenbox.content.request import FREE_CHARACTERS, INPUT_KEYS, read_request
from tokenbox.counters import request_counter
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.protocols import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, PROTOCOLS, RESPONSES
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import RequestLimits
from tokenbox.integers import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.gateway.protocols import Protocol

# Longer than all that fields may have that cost nothing.
WORDS = FREE_CHARACTERS // 5 + 100
LONG = " word" * WORDS
PARAMETERS = (
    (CHAT, "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming"),
    (RESPONSES, "openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming"),
    (MESSAGES, "anthropic.types.message_create_params:MessageCreateParamsNonStreaming"),
    (MESSAGES, "anthropic.types.beta.message_create_params:MessageCreateParamsNonStreaming"),
    (COMPLETIONS, "openai.types.completion_create_params:CompletionCreateParamsNonStreaming"),
    (EMBEDDINGS, "openai.types.embedding_create_params:EmbeddingCreateParams"),
)
# Messages whose parts have no type: of Gemini, of Bedrock, of Ollama.
UNTYPED: list[list[dict[str, Any]]] = [
    [
        {
            "role": "user",
            "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
        },
        {
            "role": "model",
            "parts": [
                {"text": "so", "thought": True, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "look", "args": {"city": "Bonn"}}, "thoughtSignature": "c2ln"},
                {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "sunny"}}}]},
    ],
    [
        {"role": "user", "content": [{"text": "hi"}, {"guardContent": {"text": {"text": "hi"}}}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "so", "signature": "s"}}},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"city": "Bonn"}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"a": "sunny"}}]}}],
        },
    ],
    [{"role": "user", "content": "hi", "images": ["iVBORw0KGgo="], "thinking": "so"}],
]
Where = tuple[str | int, ...]


@cache
def requests(made: int) -> list[tuple[Protocol, dict[str, Any]]]:
    """Requests of all APIs: those that attacks start from, and such as the SDKs can make."""
    found = [(PROTOCOLS[path], shape) for path, shapes in SHAPES.items() for shape in shapes]
    found += [(CHAT, {"messages": messages}) for messages in UNTYPED]
    found.append((RESPONSES, {"input": "hi", "prompt_cache_options": {"comparison_response_id": "r1"}}))
    for protocol, name in PARAMETERS:
        for seed in range(made):
            body = as_plain(Maker(seed).value(resolve_name(name)))
            for message in body.get("messages", ()):
                message.setdefault("content", None)
            if any(body.get(key) is not None for key in INPUT_KEYS):
                found.append((protocol, body))
    return found


def longer(value: Any, where: Where = ()) -> Iterator[tuple[Where, Any]]:  # noqa: ANN401  # JSON
    """Yield the value with a longer text, or with a long key, at each place; and that place."""
    if isinstance(value, str):
        yield where, value + LONG
    elif isinstance(value, dict):
        yield (*where, "a key"), {**value, LONG: 1}
        for key, inner in value.items():
            if key != "type":  # it says what the object is: another one costs something else
                yield from ((at, {**value, key: changed}) for at, changed in longer(inner, (*where, key)))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for at, changed in longer(inner, (*where, place)):
                yield at, [*value[:place], changed, *value[place + 1 :]]


@pytest.mark.slow  # the SDKs take seconds to load
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "model-of-nobody"])
def test_a_longer_text_anywhere_raises_the_bound(model: str) -> None:
    """Or no bound is known, or the request is refused. The gateway counts what the library does."""
    counter = request_counter(model)
    for protocol, body in requests(examples(8)):
        before = counter.count_request(read_request(body, api=protocol.api, strict=False))
        for where, changed in longer(body):
            try:
                count = tokenbox.count(changed, model)
            except InvalidMessage:
                continue
            if count.at_most < MAX_INTEGER:
                assert count.at_most >= before.at_most + WORDS, where
            try:
                call = read_call(protocol, json.dumps({**changed, "model": model}).encode(), RequestLimits())
            except Refusal:
                continue
            assert (call.unseen() is None) == (count.at_most < MAX_INTEGER), where


@pytest.mark.parametrize("address", [",{}", ";base64,{}"])
def test_the_text_of_a_file_may_grow_when_it_is_read(address: str) -> None:
    """Some tokenizers normalize: of this character they make eighteen, in 33 bytes."""
    text = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 9_000
    payload = b64encode(text.encode()).decode() if "base64" in address else quote(text)
    file = {"filename": "a.txt", "file_data": "data:text/plain" + address.format(payload)}
    messages = [{"role": "user", "content": [{"type": "file", "file": file}]}]
    assert 33 * 9_000 <= tokenbox.count(messages, "model-of-nobody").at_most < MAX_INTEGER
