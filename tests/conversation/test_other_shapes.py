"""Chats with tools in the shapes of every API: parallel calls, results in any order, huge or empty."""

from __future__ import annotations

import json
import random
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import pytest

from tokenbox import count, fit

if TYPE_CHECKING:
    from collections.abc import Callable

    Chat = list[dict[str, Any]]

WORDS: Final = "release cache deploy river token window café 数据 résumé error trace stack".split()  # noqa: SIM905
IMAGE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Writer(random.Random):
    def text(self, *sizes: int) -> str:
        return " ".join(self.choice(WORDS) for _ in range(self.choice(sizes)))

    def result(self) -> str:
        """An empty text, JSON, a huge text, or a usual one."""
        kind = self.random()
        if kind < 0.1:
            return ""
        if kind < 0.2:
            return json.dumps([{"id": row, "name": self.text(3)} for row in range(self.randrange(1, 120))])
        return self.text(6_000) if kind < 0.25 else self.text(5, 40, 150, 600)

    def call_ids(self, place: str) -> tuple[list[str], list[str]]:
        """The ids of parallel calls, and in the order of their results."""
        calls = [f"{place}_{number}" for number in range(self.randrange(1, 5))]
        return calls, self.sample(calls, len(calls))

    def arguments(self) -> str:
        return json.dumps({"q": self.text(3)})


def chat_completions(r: Writer) -> Chat:
    chat: Chat = [{"role": r.choice(["system", "developer"]), "content": r.text(20)}]
    for n in range(r.randrange(12, 30)):
        asked = r.text(4, 20, 80)
        picture = [{"type": "text", "text": asked}, IMAGE]
        chat.append({"role": "user", "content": picture if r.random() < 0.1 else asked})
        for k in range(r.randrange(6)):
            calls, results = r.call_ids(f"{n}_{k}")
            functions = [{"name": r.choice(["search", "run"]), "arguments": r.arguments()} for _ in calls]
            made = [
                {"id": one, "type": "function", "function": function}
                for one, function in zip(calls, functions, strict=True)
            ]
            chat.append(
                {"role": "assistant", "content": r.choice([None, "", r.text(12)]), "tool_calls": made}
            )
            chat += [{"role": "tool", "tool_call_id": one, "content": r.result()} for one in results]
        chat.append({"role": "assistant", "content": r.text(3, 30, 200)})
    return [*chat, {"role": "user", "content": r.text(10)}]


def legacy(r: Writer) -> Chat:
    chat: Chat = [{"role": "system", "content": r.text(20)}]
    for _ in range(r.randrange(30, 60)):
        chat.append({"role": "user", "content": r.text(4, 20, 80)})
        for _ in range(r.randrange(4)):
            call = {"name": "search", "arguments": r.arguments()}
            chat.append({"role": "assistant", "content": None, "function_call": call})
            chat.append({"role": "function", "name": "search", "content": r.result()})
        chat.append({"role": "assistant", "content": r.text(30)})
    return [*chat, {"role": "user", "content": r.text(10)}]


def anthropic(r: Writer) -> Chat:
    chat: Chat = []
    for n in range(r.randrange(20, 50)):
        chat.append({"role": "user", "content": r.text(4, 20, 80)})
        for k in range(r.randrange(5)):
            calls, results = r.call_ids(f"{n}_{k}")
            uses = [
                {"type": "tool_use", "id": one, "name": "run", "input": {"q": r.text(3)}} for one in calls
            ]
            chat.append({"role": "assistant", "content": [{"type": "text", "text": r.text(8)}, *uses]})
            given = [{"type": "tool_result", "tool_use_id": one, "content": r.result()} for one in results]
            chat.append({"role": "user", "content": given})
        chat.append({"role": "assistant", "content": [{"type": "text", "text": r.text(30)}]})
    return [*chat, {"role": "user", "content": r.text(10)}]


def responses(r: Writer) -> Chat:
    chat: Chat = [{"role": "developer", "content": r.text(20)}]
    for n in range(r.randrange(20, 50)):
        asked = [{"type": "input_text", "text": r.text(4, 20, 80)}]
        chat.append({"type": "message", "role": "user", "content": asked})
        for k in range(r.randrange(5)):
            calls, results = r.call_ids(f"{n}_{k}")
            if r.random() < 0.4:
                thought = [{"type": "summary_text", "text": r.text(10)}]
                chat.append({"type": "reasoning", "id": f"{n}_{k}", "summary": thought})
            chat += [
                {"type": "function_call", "call_id": one, "name": "run", "arguments": r.arguments()}
                for one in calls
            ]
            chat += [
                {"type": "function_call_output", "call_id": one, "output": r.result()} for one in results
            ]
        said = [{"type": "output_text", "text": r.text(30)}]
        chat.append({"type": "message", "role": "assistant", "content": said})
    return [
        *chat,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
    ]


def parted(chat: Chat) -> bool:
    """Return True if a call is without its result, or a result without its call."""
    calls: list[str] = []
    results: list[str] = []
    for message in chat:
        blocks = message["content"] if isinstance(message.get("content"), list) else [message]
        calls += [call["id"] for call in message.get("tool_calls") or ()]
        calls += [block["id"] for block in blocks if block.get("type") == "tool_use"]
        calls += [block["call_id"] for block in blocks if block.get("type") == "function_call"]
        calls += ["legacy"] * ("function_call" in message)
        results += [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        results += [block["call_id"] for block in blocks if block.get("type") == "function_call_output"]
        results += [message.get("tool_call_id", "")] * (message.get("role") == "tool")
        results += ["legacy"] * (message.get("role") == "function")
    return sorted(calls) != sorted(results)


@pytest.mark.parametrize("shape", [chat_completions, legacy, anthropic, responses])
def test_chats_of_every_shape_fill_the_budget_and_part_nothing(shape: Callable[[Writer], Chat]) -> None:
    shares = []
    for seed in range(13):
        chat = shape(Writer(f"{shape.__name__} {seed}"))
        assert not parted(chat)
        fitted = fit(chat, 4_000, model="gpt-4o")
        assert count(fitted.messages, model="gpt-4o").total == fitted.total <= 4_000
        assert not parted(fitted.messages)
        assert fitted.messages[-1] is chat[-1]
        if count(chat, model="gpt-4o").total > 4_000:
            shares.append(fitted.total / 4_000)
    assert len(shares) >= 10
    assert mean(shares) >= 0.95
    assert min(shares) >= 0.8
