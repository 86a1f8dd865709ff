"""The proof: what we predict is what a real llama.cpp server counts, for a thousand conversations."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.conversation.requests import request
from tests.waiting import SECONDS
from tokenbox.conversation import Conversation
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.llama.syntax import TemplateError

if TYPE_CHECKING:
    from tests.llama.server import LlamaServer, StartLlama

pytestmark = pytest.mark.slow

# How many conversations each template gets: a thousand together.
SHARES = {"tools": 400, "turns": 200, "parts": 200, "no_system": 200}


class Refused(Exception):  # the word for it
    """The server does not take the request."""


class Asking:
    """One connection, kept open."""

    def __init__(self, server: LlamaServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401  # JSON
        data = json.dumps(body).encode()
        self._connection.request("POST", path, data, {"content-type": "application/json"})
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise Refused(answer["error"]["message"])
        return answer

    def close(self) -> None:
        self._connection.close()


def counts_by_endpoints(asking: Asking, body: dict[str, Any]) -> tuple[int, int]:
    counted = asking.post("/v1/chat/completions/input_tokens", body)["input_tokens"]
    prompt = asking.post("/apply-template", body)["prompt"]
    tokens = asking.post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})
    return counted, len(tokens["tokens"])


@pytest.mark.parametrize("template", SHARES)
def test_predicted_is_what_the_server_counts(start_llama: StartLlama, template: str) -> None:
    server = start_llama(n_ctx=65_536, template=template)
    asking = Asking(server)
    by_gguf = ChatFormat.open(server.model.gguf)
    by_folder = ChatFormat.open(server.model.folder, server="llama.cpp")
    assert by_gguf.exact
    assert not by_folder.exact
    seed = counted = largest = 0
    while counted < SHARES[template]:
        body = request(seed)
        messages, tools = body["messages"], body.get("tools")
        seed += 1
        try:
            by_server = counts_by_endpoints(asking, body)
        except Refused:
            # Then so do we: a system message in the middle, with a template that takes none.
            with pytest.raises(TemplateError, match="System role not supported"):
                by_gguf.count_messages(messages, tools)
            continue
        predicted = by_gguf.count_messages(messages, tools)
        assert predicted == by_folder.count_messages(messages, tools), seed
        assert by_server == (predicted, predicted), seed
        usage = asking.post("/v1/chat/completions", {**body, "max_tokens": 1})["usage"]
        assert usage["prompt_tokens"] == predicted, seed
        largest = max(largest, predicted)
        counted += 1
    assert largest > 3_000
    assert seed - counted <= SHARES[template] // 10
    asking.close()


def test_a_conversation_knows_what_the_server_will_count(start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=65_536, template="tools")
    asking = Asking(server)
    body = request(5)
    conversation = Conversation(
        "You are terse.", ChatFormat.open(server.model.gguf), token_budget=600, tools=body.get("tools")
    )
    evictions = 0
    for seed in range(30):
        for message in request(seed)["messages"][:4]:
            conversation.add(message)
        conversation.user(f"question {seed}")
        enforced = conversation.enforce_budget()
        evictions += len(enforced.evicted)
        sent: dict[str, Any] = {"messages": conversation.messages, "max_tokens": 1}
        if conversation.tools:
            sent["tools"] = list(conversation.tools)
        usage = asking.post("/v1/chat/completions", sent)["usage"]
        assert usage["prompt_tokens"] == enforced.total == conversation.estimate_tokens()
        assert enforced.total <= 600 or not enforced.fits
        assert sum(item.tokens for item in conversation.items()) == enforced.total
        conversation.assistant("ok")
    assert evictions > 20
    assert conversation.exact
    asking.close()


def test_a_server_counts_for_a_format(start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=65_536, template="tools")
    asking = Asking(server)
    asked = []

    def count(body: dict[str, Any]) -> int:
        asked.append(body["messages"])
        return int(asking.post("/v1/chat/completions/input_tokens", body)["input_tokens"])

    by_server = ChatFormat.from_server(count, "llama.cpp")
    local = ChatFormat.open(server.model.gguf)
    for seed in range(20):
        body = request(seed)
        for _ in range(2):
            found = by_server.count_messages(body["messages"], body.get("tools"))
            assert found == local.count_messages(body["messages"], body.get("tools"))
    assert len(asked) == 20
    asking.close()


# Shows what an assistant thought, as Qwen3's template does.
THINKS = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and (loop.last or message.reasoning_content) %}
        {{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def test_an_answer_with_thoughts_that_goes_on(
    start_llama: StartLlama, request: pytest.FixtureRequest
) -> None:
    server = start_llama(template=THINKS)
    asking = Asking(server)
    request.addfinalizer(asking.close)
    chat = ChatFormat.open(server.model.gguf)
    question = {"role": "user", "content": "Who sails?"}
    for begun in (
        {"content": "The mate"},
        {"content": "The mate", "reasoning_content": "At sea,"},
        {"content": "<think>Hm</think>The"},
        {"content": ""},
        None,
    ):
        messages = [question] if begun is None else [question, {"role": "assistant", **begun}]
        usage = asking.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})["usage"]
        assert chat.count_messages(messages) == usage["prompt_tokens"], begun
        assert not tokenbox.count(messages, tokenizer=chat).exact  # no template of the table of proofs
