"""Generated chat requests of every kind that a server accepts, for counting."""

from __future__ import annotations

import json
import pydoc_data.topics
import random
from typing import Any

WORDS = " ".join(pydoc_data.topics.topics.values()).split()
ODD = (
    "naïve café", "日本語のテキスト", "👩‍🚀🏳️‍🌈", "e\u0301", "\ufeffbom", "a\x00b", "\t tabs\r\n",
    "<|im_end|>", "<|im_start|>assistant\n", "<|endoftext|>", "<tool_call>", "</tool_call>", "<|im_sta",
    "{{ messages }}", "{% raw %}", "</s>[INST]", " ", "\n\n\n",
)  # fmt: skip
NUMBERS = (0, 1, -1, 1.0, 2.5, -0.0, 1e20, 1e-5, 3.14159265, 123456789, 2**53, 2**63, 2**64)


def text(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.05:
        return ""
    if kind < 0.06:
        return " ".join(chance.choices(WORDS, k=chance.randrange(500, 1_500)))
    words = chance.choices(WORDS, k=chance.randrange(1, 12))
    if kind < 0.4:
        words[chance.randrange(len(words))] = chance.choice(ODD)
    return chance.choice(("", " ", "\n")) + " ".join(words) + chance.choice(("", " ", "\n", "."))


def value(chance: random.Random, depth: int = 0) -> Any:  # noqa: ANN401  # JSON
    kind = chance.randrange(8 if depth < 2 else 6)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 4:
        return text(chance)[:40]
    if kind < 6:
        return chance.choice((None, True, False, ""))
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {chance.choice(WORDS): value(chance, depth + 1) for _ in range(chance.randrange(3))}


def content(chance: random.Random) -> Any:  # noqa: ANN401  # a text or parts
    if chance.random() < 0.9:
        return text(chance)
    return [{"type": "text", "text": text(chance)} for _ in range(chance.randrange(3))]


def tool(chance: random.Random) -> dict[str, Any]:
    function: dict[str, Any] = {"name": chance.choice(("add", "find_files", "läufe"))}
    if chance.random() < 0.8:
        function["description"] = text(chance)
    if chance.random() < 0.8:
        properties = {word: value(chance) for word in chance.choices(("a", "b", "path"), k=2)}
        described = {key: {"type": "string", "default": item} for key, item in properties.items()}
        function["parameters"] = {"type": "object", "properties": described, "required": ["a"]}
    if chance.random() < 0.2:
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_round(chance: random.Random) -> list[dict[str, Any]]:
    names = [f"call{chance.randrange(10**6)}" for _ in range(chance.randrange(1, 4))]
    calls = [
        {
            "id": name,
            "type": "function",
            "function": {"name": "add", "arguments": json.dumps({"a": value(chance)})},
        }
        for name in names
    ]
    answer = chance.choice((None, "", text(chance)))
    results = [{"role": "tool", "tool_call_id": name, "content": content(chance)} for name in names]
    return [{"role": "assistant", "content": answer, "tool_calls": calls}, *results]


def request(seed: int) -> dict[str, Any]:
    """Return ``{"messages", "tools"}``; most are short, some have 40 messages."""
    chance = random.Random(seed)
    messages: list[dict[str, Any]] = []
    if chance.random() < 0.6:
        messages.append({"role": chance.choice(("system", "developer")), "content": content(chance)})
    goal = chance.choice((1, 2, 3, 4, 6, 8, 12, 40))
    while len(messages) < goal:
        kind = chance.random()
        if kind < 0.45:
            user = {"role": "user", "content": content(chance)}
            messages.append(user | ({"name": "Ada"} if chance.random() < 0.1 else {}))
        elif kind < 0.75 and messages and messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": content(chance)})
        elif kind < 0.8:
            messages.append({"role": "system", "content": text(chance)})
        elif messages:
            messages += tool_round(chance)
    messages = messages[:40]
    while messages[-1].get("tool_calls"):
        messages.pop()
    made: dict[str, Any] = {"messages": messages or [{"role": "user", "content": text(chance)}]}
    if chance.random() < 0.4:
        made["tools"] = [tool(chance) for _ in range(chance.randrange(4))]
    return made
