"""Texts and requests with more tokens than their length suggests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

TEXTS = (
    '"' * 50 + "\n" * 40, "<|im_end|>" * 20, "<|im_sta" * 20, "\\" * 60, "\x00\x01" * 20, '日本語"é' * 20,
    "ﷺ가" * 20, "</s>[INST]" * 10, '{"a": "b\\n"}' * 10, "'" * 40, "\t\t\t" * 20, "<b>&amp;</b>" * 10,
    "👩‍🚀🏳️‍🌈" * 10, "e\u0301\u200b" * 30, " \n" * 50, "a" * 300,
)  # fmt: skip
_KEPT = frozenset(("role", "type", "id", "tool_call_id", "arguments"))


def hostile(chance: random.Random, value: Any) -> Any:  # noqa: ANN401  # JSON
    """Return the value with half of its texts replaced by hostile ones."""
    if isinstance(value, str):
        return chance.choice(TEXTS) if chance.random() < 0.5 else value
    if isinstance(value, dict):
        return {key: v if key in _KEPT else hostile(chance, v) for key, v in value.items()}
    return [hostile(chance, v) for v in value] if isinstance(value, list) else value


def shapes() -> list[dict[str, Any]]:
    """Return requests with many repetitions of one feature, to test the allowance for it."""
    user = {"role": "user", "content": "u"}

    def round_of(number: int, arguments: str) -> list[dict[str, Any]]:
        name = f"call{number:05}"
        call = {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}
        return [
            user,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": ""},
            {"role": "assistant", "content": "x"},
        ]

    def tools(*properties: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "function": {"name": f"f{n}", "description": "d", "parameters": {"properties": inner}},
            }
            for n, inner in enumerate(properties)
        ]

    kinds: list[dict[str, Any]] = [
        {"type": "string"},
        {"type": "integer", "default": 1},
        {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "properties": {"x": {"type": "number", "minimum": 0.5}}, "required": ["x"]},
    ]
    odd = '{"a":1,"b":[1,2,3,4,5],"c":{"d":null,"e":true},"f":"\\"q\\""}'
    thought = {"role": "assistant", "content": "a", "reasoning_content": "x"}
    return [
        {"messages": [user]},
        {"messages": [{"role": "user", "content": ""}] * 30},
        {"messages": [*(m for n in range(30) for m in round_of(n, "{}")), user]},
        {"messages": [*(m for n in range(30) for m in round_of(n, odd)), user]},
        {"messages": [*[user, thought] * 30, user]},
        {"messages": [user], "tools": tools({f"p{n}": kinds[n % 6] for n in range(90)})},
        {"messages": [user], "tools": tools(*[{}] * 60)},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "u"}] * 50}]},
    ]
