"""The official clients, unchanged, through the gateway. ``make clients`` installs them and runs this.

A script per client (python/, node/) asks the same of each and reports what it got as JSON.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import SECONDS

if TYPE_CHECKING:
    from tests.gateway.running import StartGateway
    from tests.llama.server import StartLlama

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TEXT = "Hello there"
CALLED = [["get_weather", {"city": "Paris"}]]
OPENAI = {"code": "context_length_exceeded", "param": "messages", "type": "invalid_request_error"}


@dataclass(frozen=True, slots=True)
class Client:
    """``name``: of its lock; ``script`` asks with it."""

    name: str
    script: str

    @property
    def is_node(self) -> bool:
        return self.script.endswith(".mjs")

    @property
    def is_installed(self) -> bool:
        if self.is_node:
            stamp, lock = HERE / "node/node_modules/installed", HERE / "node/package-lock.json"
        else:
            stamp, lock = HERE / f".venv-{self.name}/installed", HERE / f"locks/{self.name}.txt"
        return stamp.exists() and stamp.read_bytes() == lock.read_bytes()

    def run(self, url: str, model: str) -> dict[str, Any]:
        python = f".venv-{self.name}/bin/python"
        command = ["node", f"node/{self.script}"] if self.is_node else [python, f"python/{self.script}"]
        done = subprocess.run(
            [*command, url, model], cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts


OPENAI_PYTHON = [Client(f"openai-{major}", "openai_client.py") for major in (1, 2, 3)]
OPENAI_NODE = Client("openai for Node", "openai_client.mjs")
ANTHROPIC = [
    Client("anthropic", "anthropic_client.py"),
    Client("anthropic for Node", "anthropic_client.mjs"),
]
LLM = Client("llm", "llm_client.py")
LANGCHAIN = Client("langchain", "langchain_client.py")
PYDANTIC_AI = Client("pydantic-ai", "pydantic_ai_client.py")
LITELLM = Client("litellm", "litellm_client.py")
AI_SDK = Client("AI SDK", "ai_sdk_client.mjs")


def asked_by(*clients: Client) -> pytest.MarkDecorator:
    """The test is run once with each of the clients; skipped, before anything starts, without it."""
    return pytest.mark.parametrize(
        "client",
        [
            pytest.param(
                client,
                id=client.name,
                marks=pytest.mark.skipif(
                    not client.is_installed,
                    reason=f"{client.name} is not installed, or not as its lock says: make clients",
                ),
            )
            for client in clients
        ],
    )


def calls_in(facts: dict[str, Any]) -> list[list[Any]]:
    """The calls of tools, with their arguments as an object, whatever the client makes of them."""
    return [[name, json.loads(given) if isinstance(given, str) else given] for name, given in facts["tools"]]


def check(facts: dict[str, Any]) -> None:
    """Chat, stream and tools, as the upstream answered."""
    assert facts["chat"] == facts["stream"] == TEXT
    assert facts["input_tokens"] == 25
    assert calls_in(facts) == CALLED


@pytest.fixture
def guarded(start_gateway: StartGateway, upstream: str) -> str:
    return start_gateway(upstream).url


@asked_by(*OPENAI_PYTHON, OPENAI_NODE)
def test_openai(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    check(facts)
    assert facts["plain_loop"] == facts.get("helped", TEXT) == TEXT
    assert facts["response"] == facts["response_helper"] == TEXT
    assert facts["stream_input_tokens"] == 25
    assert facts["told"] == facts["stream_told"] == facts.get("told_by_header", facts["told"])
    assert facts["response_events"] == ["response.created", "response.completed"]
    assert facts["over"] == {"chat": OPENAI, "stream": OPENAI, "responses": {**OPENAI, "param": "input"}}


@asked_by(*ANTHROPIC)
def test_anthropic(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    check(facts)
    assert facts["told"] == facts["stream_told"] == facts["counted"]
    assert facts["stream_stop"] == "end_turn"
    assert facts["events"] == ["message_start", "message_stop"]
    assert facts["over"]["type"] == "invalid_request_error"
    assert facts["over"]["message"].startswith("prompt is too long: ")


@asked_by(LLM)
def test_llm(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    check(facts)
    assert facts["stream_input_tokens"] == 25
    # It has no error of its own for this: the openai package's goes through, with its code and its words.
    assert facts["over"]["class"] == "BadRequestError"
    assert facts["over"]["code"] == "context_length_exceeded"
    assert "maximum context length is 8000 tokens" in facts["over"]["message"]


@asked_by(LANGCHAIN)
def test_langchain(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    check(facts)
    assert facts["stream_input_tokens"] == 25
    assert facts["over"] == dict.fromkeys(("chat", "stream"), "OpenAIContextOverflowError")


@asked_by(PYDANTIC_AI)
def test_pydantic_ai(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    for api in (facts, facts["anthropic"]):
        check(api)
        assert api["after_tool"] == "Sunny."
        assert api["over"] == {"class": "ModelContextWindowExceededError"}


@asked_by(LITELLM)
def test_litellm(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    for api in (facts, facts["anthropic"]):
        check(api)
        assert api["over"] == {"class": "ContextWindowExceededError", "is": True}


@asked_by(AI_SDK)
def test_ai_sdk(client: Client, guarded: str) -> None:
    facts = client.run(guarded, "gpt-4o")
    for api in ("compatible", "chat", "responses", "anthropic"):
        check(facts[api])
        assert facts[api]["stream_input_tokens"] == 25
        assert facts[api]["stream_errors"] == []
        # It has no error of its own for this: status, words and code are there, and it does not try again.
        over = facts[api]["over"]
        assert (over["status"], over["retryable"]) == (400, False)
        assert over["code"] == (None if api == "anthropic" else "context_length_exceeded")
        assert over["message"].startswith(
            "prompt is too long"
            if api == "anthropic"
            else "This model's maximum context length is 8000 tokens"
        )


# In front of the real llama.cpp server, whose words make no sense, and whose counts are exact.


@pytest.fixture
def guarded_llama(start_gateway: StartGateway, start_llama: StartLlama) -> str:
    return start_gateway(start_llama(n_ctx=2048).url).url


@asked_by(*OPENAI_PYTHON, OPENAI_NODE, *ANTHROPIC, LLM, LANGCHAIN, LITELLM, AI_SDK)
def test_in_front_of_llama_cpp(client: Client, guarded_llama: str) -> None:
    facts = client.run(guarded_llama, "tiny")
    apis = [
        value for value in (facts, *facts.values()) if isinstance(value, dict) and "input_tokens" in value
    ]
    assert apis
    for api in apis:
        used = api["input_tokens"]
        assert used > 0
        # What was told before is what the server reported after.
        assert {api.get(name, used) for name in ("told", "counted", "stream_input_tokens")} == {used}
        assert api["over"]
