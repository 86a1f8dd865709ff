"""Requests of other APIs in the shape of chat completions, so that one template counts them all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.gateway.calls import Call


def as_chat(call: Call) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None, bool]:
    """Messages, tools, and whether that is the request as it is, and not our translation of it."""
    if call.protocol.name == "messages":
        return _from_anthropic(call.body), _anthropic_tools(call.body), False
    if call.protocol.name == "responses":
        return _from_responses(call.body), _responses_tools(call.body), False
    tools = call.body.get("tools")
    return call.input, tools if isinstance(tools, list) and tools else None, True


def texts_of(value: object) -> Iterator[str]:
    """Every text in a message, of whatever shape; keys and kinds are not among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _NO_TEXT:
                continue
            if key == "input" and isinstance(item, dict):  # what an Anthropic tool call is given
                yield json.dumps(item, ensure_ascii=False)
            else:
                yield from texts_of(item)


_NO_TEXT = frozenset(
    {
        "type",
        "role",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "image_url",
        "source",
        "cache_control",
        "status",
    }
    | {"input_audio", "file_data", "encrypted_content", "signature", "data"}
)


def media_in(message: dict[str, Any]) -> int:
    """How many images, files and recordings a message has."""
    content = message.get("content")
    if not isinstance(content, list):
        return 0
    return sum(1 for part in content if isinstance(part, dict) and part.get("type") in _MEDIA)


# A tuple, for what a client calls a type may be a list.
_MEDIA = ("image_url", "input_image", "image", "file", "input_file", "document", "input_audio")


def _from_anthropic(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    system = "\n".join(texts_of(body.get("system")))
    if system:
        messages.append({"role": "system", "content": system})
    for item in body.get("messages", []):
        content = item.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks = [block for block in blocks if isinstance(block, dict)]
        for block in blocks:
            if block.get("type") == "tool_result":
                text = "\n".join(texts_of(block.get("content")))
                messages.append(
                    {"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": text}
                )
        text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        calls = [
            {
                "id": str(block.get("id")),
                "type": "function",
                "function": {
                    "name": str(block.get("name")),
                    "arguments": json.dumps(block.get("input", {}), ensure_ascii=False),
                },
            }
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        media = [block for block in blocks if block.get("type") in _MEDIA]
        if text or calls or media or not blocks:
            role = "assistant" if item.get("role") == "assistant" else "user"
            parts = [{"type": "text", "text": text}, *({"type": "image_url"} for _ in media)]
            message: dict[str, Any] = {"role": role, "content": parts if media else text}
            messages.append({**message, "tool_calls": calls} if calls else message)
    return messages


def _anthropic_tools(body: dict[str, Any]) -> list[dict[str, Any]] | None:
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.get("name"),
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema", {}),
            },
        }
        for tool in _listed(body.get("tools"))
    ]
    return tools or None


def _listed(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none of what is no list: its server says what is wrong with that."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _from_responses(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if isinstance(body.get("instructions"), str):
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    for item in items:
        if not isinstance(item, dict):
            continue
        kind = item.get("type")
        if kind == "function_call":
            function = {"name": str(item.get("name")), "arguments": str(item.get("arguments", ""))}
            call = {"id": str(item.get("call_id")), "type": "function", "function": function}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            text = "\n".join(texts_of(item.get("output")))
            messages.append({"role": "tool", "tool_call_id": str(item.get("call_id")), "content": text})
        else:
            role = item.get("role")
            shown = role if role in ("system", "developer", "user", "assistant") else "assistant"
            content = item.get("content", item)
            text = "\n".join(texts_of(content))
            media = media_in(item)
            parts = [{"type": "text", "text": text}, *[{"type": "image_url"}] * media]
            messages.append({"role": shown, "content": parts if media else text})
    return messages


def _responses_tools(body: dict[str, Any]) -> list[dict[str, Any]] | None:
    tools = [
        {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
        for tool in _listed(body.get("tools"))
    ]
    return tools or None
