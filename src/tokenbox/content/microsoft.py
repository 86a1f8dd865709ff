"""Message objects of Microsoft's AutoGen and Agent Framework, read without importing these libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tokenbox.content.parts import text_part, texts_in, tool_call

Given = Mapping[str, Any]

_AUTOGEN_ROLES: Final = {"SystemMessage": "system", "UserMessage": "user", "AssistantMessage": "assistant"}


def of_autogen(value: Any) -> Given | list[Given]:
    """Return the message of AutoGen's, or one message for each result of a tool in it."""
    if value.type == "FunctionExecutionResultMessage":
        return [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
            for result in value.content
        ]
    content, calls = value.content, []
    if not isinstance(content, str):
        calls = [tool_call(one.id, one.name, one.arguments) for one in content if hasattr(one, "arguments")]
        content = [_autogen_part(one) for one in content if not hasattr(one, "arguments")] or None
    message: dict[str, Any] = {"role": _AUTOGEN_ROLES[value.type], "content": content}
    if calls:
        message["tool_calls"] = calls
    if getattr(value, "thought", None):
        message["reasoning_content"] = value.thought
    return message


def _autogen_part(part: Any) -> dict[str, Any]:
    return text_part(part) if isinstance(part, str) else {"type": "image", "data": part.to_base64()}


def of_agent_framework(value: Any) -> Given:
    """Return the message of Agent Framework's with blocks of Anthropic's API."""
    role = getattr(value.role, "value", value.role)
    blocks = [block for content in value.contents for block in _agent_framework_blocks(content)]
    return {"role": "user" if role == "tool" else role, "content": blocks}


def _agent_framework_blocks(content: Any) -> list[dict[str, Any]]:
    kind = content.type
    if kind == "function_call":
        given = content.arguments or {}
        return [{"type": "tool_use", "id": content.call_id, "name": content.name, "input": given}]
    if kind == "function_result":
        items = [block for item in content.items or () for block in _agent_framework_blocks(item)]
        shown: object = items or ("" if content.result is None else str(content.result))
        return [{"type": "tool_result", "tool_use_id": content.call_id, "content": shown}]
    if kind == "text_reasoning":
        return [{"type": "thinking", "thinking": content.text or ""}]
    if kind in ("data", "uri"):
        is_image = str(content.media_type).startswith("image/")
        return [{"type": "image" if is_image else "document", "url": content.uri}]
    if kind == "usage":
        return []
    given = {key: inner for key, inner in content.to_dict().items() if not isinstance(inner, Mapping)}
    text = content.text if kind == "text" else "\n".join(texts_in(given))
    return [text_part(text or "")]
