"""The texts of a request that may be cut or summarized, in each protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenbox.content.parts import texts_in
from tokenbox.gateway.calls import ApiCall, with_value

SUMMARY = "Summary of the earlier conversation:"
_KEPT_ROLES = ("system", "developer")
# The keys of texts in a message: its content, the texts of its parts, a tool's output.
_TEXT_KEYS = ("content", "text", "output")


@dataclass(frozen=True, slots=True)
class CuttableText:
    """A text that may be cut: the number of its item, the path that leads to it, and the text."""

    item: int
    path: tuple[str | int, ...]
    text: str


def cuttable(call: ApiCall) -> list[CuttableText]:
    """Return the texts that may be cut, always in the same order.

    These are the texts before the last user message, except for system and developer messages, and all
    results of tools.
    """
    items = call.input if isinstance(call.input, list) else []
    last = max((number for number, item in enumerate(items) if is_user_turn(item)), default=len(items))
    return [
        CuttableText(number, path, text)
        for number, item in enumerate(items)
        if isinstance(item, dict) and item.get("role") not in _KEPT_ROLES and item.get("type") != "reasoning"
        for path, text in _texts(item)
        if number < last or _is_result(item, path)
    ]


def with_cuts(call: ApiCall, texts: Mapping[int, str]) -> ApiCall:
    """Return the call with other texts, by their numbers in :func:`cuttable`."""
    items = list(call.input)
    slots = cuttable(call)
    for number, text in texts.items():
        slot = slots[number]
        items[slot.item] = with_value(items[slot.item], slot.path, text)
    return call.with_input(items)


def transcript(call: ApiCall, numbers: Collection[int]) -> str:
    """Return those items as text, to be summarized."""
    lines = []
    for number in sorted(numbers):
        item = call.input[number]
        speaker = item.get("role") or item.get("type") or "message"
        lines.append(f"{speaker}: {chr(10).join(texts_in(item))}")
    return "\n\n".join(lines)


def with_summary(call: ApiCall, summary: str) -> ApiCall:
    """Return the call with the summary at the end of its system prompt."""
    text = f"{SUMMARY}\n{summary}"
    body = dict(call.body)
    if call.protocol.name == "messages":
        body["system"] = _appended(body.get("system"), text)
    elif call.protocol.name == "responses":
        body["instructions"] = _appended(body.get("instructions"), text)
    else:
        items = list(call.input)
        if items and items[0].get("role") in _KEPT_ROLES:
            items[0] = {**items[0], "content": _appended(items[0].get("content"), text)}
        else:
            items.insert(0, {"role": "system", "content": text})
        body["messages"] = items
    return call.with_body(body)


def _appended(content: object, text: str) -> object:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if isinstance(content, str) and content else text


def _texts(item: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key in _TEXT_KEYS:
        value = item.get(key)
        if isinstance(value, str):
            yield (key,), value
        elif isinstance(value, list):
            for number, part in enumerate(value):
                if isinstance(part, dict):
                    for path, text in _texts(part):
                        yield (key, number, *path), text


def is_user_turn(item: object) -> bool:
    """Whether the user speaks. Anthropic's API has results of tools in user messages, too."""
    if not isinstance(item, dict) or item.get("role") != "user":
        return False
    content = item.get("content")
    return not isinstance(content, list) or any(
        isinstance(part, dict) and part.get("type") != "tool_result" for part in content
    )


def _is_result(item: Mapping[str, Any], path: Sequence[str | int]) -> bool:
    if item.get("role") == "tool" or path[0] == "output":
        return True
    content = item.get("content")
    if not isinstance(content, list) or len(path) < 2 or not isinstance(path[1], int):
        return False
    return bool(content[path[1]].get("type") == "tool_result")
