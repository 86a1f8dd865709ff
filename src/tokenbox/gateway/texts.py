"""The texts of a request that may be shortened or summed up, whatever its protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenbox.content.library_objects import texts_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tokenbox.gateway.calls import ApiCall

SUMMARY = "Summary of the earlier conversation:"
_KEPT_ROLES = ("system", "developer")
# Where a text stands in a message: its content, its parts' texts, a tool's output.
_TEXT_KEYS = ("content", "text", "output")


@dataclass(frozen=True, slots=True)
class CuttableText:
    """A text that may be cut: the number of its item, the keys and numbers that lead to it, and the text."""

    item: int
    path: tuple[str | int, ...]
    text: str


def cuttable(call: ApiCall) -> list[CuttableText]:
    """The texts of the past: not of system and developer messages, nor of the last user message and after.

    Results of tools may be cut wherever they are. Always in the same order.
    """
    items = call.input if isinstance(call.input, list) else []
    last = max((number for number, item in enumerate(items) if says_something(item)), default=len(items))
    return [
        CuttableText(number, path, text)
        for number, item in enumerate(items)
        if isinstance(item, dict) and item.get("role") not in _KEPT_ROLES and item.get("type") != "reasoning"
        for path, text in _slots(item)
        if number < last or _is_result(item, path)
    ]


def with_cuts(call: ApiCall, texts: Mapping[int, str]) -> ApiCall:
    """The call with other texts in those of its slots."""
    items = list(call.input)
    slots = cuttable(call)
    for number, text in texts.items():
        slot = slots[number]
        items[slot.item] = _replaced(items[slot.item], slot.path, text)
    return call.with_body({**call.body, call.protocol.input_key: items})


def transcript(call: ApiCall, numbers: Collection[int]) -> str:
    """Those items as a text, for whoever is to sum them up."""
    lines = []
    for number in sorted(numbers):
        item = call.input[number]
        who = item.get("role") or item.get("type") or "message"
        lines.append(f"{who}: {chr(10).join(texts_in(item))}")
    return "\n\n".join(lines)


def with_summary(call: ApiCall, summary: str) -> ApiCall:
    """The call with the summary at the end of its system prompt."""
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


def _slots(item: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key in _TEXT_KEYS:
        value = item.get(key)
        if isinstance(value, str):
            yield (key,), value
        elif isinstance(value, list):
            for number, part in enumerate(value):
                if isinstance(part, dict):
                    for path, text in _slots(part):
                        yield (key, number, *path), text


def _replaced(value: Any, path: Sequence[str | int], text: str) -> Any:  # noqa: ANN401  # JSON
    """A copy with ``text`` at the end of the path; what is beside the path is shared."""
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _replaced(copy[path[0]], path[1:], text)
    return copy


def says_something(item: object) -> bool:
    """Somebody's words: not the results of tools, which Anthropic's API has in user messages."""
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
    if not isinstance(content, list) or len(path) < 2 or not isinstance(path[1], int):  # noqa: PLR2004
        return False
    return bool(content[path[1]].get("type") == "tool_result")
