"""What is asked of a model, before it has the form of any server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from tokenbox.providers.errors import InvalidRequest

PROVIDER_BLOCKS: Final = "provider_blocks"
"""The key of a message with blocks of one provider, such as signed thoughts, that it wants back unchanged."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request in OpenAI's shapes. ``max_tokens`` bounds the answer; ``extra`` is sent as it is.

    None is left to the server. ``window`` is the context window to ask for, where a server takes one.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    stop: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    window: int | None = None


def plain_messages(messages: object) -> list[Mapping[str, Any]]:
    """Messages as mappings. Each is one, or has ``to_dict()``. Raises :class:`InvalidRequest`."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InvalidRequest('messages are a list of mappings like {"role": "user", "content": "..."}.')
    plain = []
    for number, message in enumerate(messages):
        to_dict = getattr(message, "to_dict", None)
        value = message if isinstance(message, Mapping) else to_dict() if callable(to_dict) else None
        if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
            raise InvalidRequest(
                f'message {number} is not like {{"role": "user", "content": "..."}}.', index=number
            )
        plain.append(value)
    return plain


def text_of(content: object) -> str:
    """The text of a message's content: itself, or that of its text parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(
            part["text"]
            for part in content
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
    return ""


def is_parts(content: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether a message's content is a list of parts."""
    return isinstance(content, list | tuple) and all(isinstance(part, Mapping) for part in content)


def calls_of(message: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The tool calls of an assistant message: id, name, arguments as JSON text."""
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise InvalidRequest(
                'a tool call is not like {"id": "...", "function": {"name": "...", "arguments": "{}"}}.'
            )
        calls.append(
            (str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", "")))
        )
    return calls


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The function that a tool describes. Raises :class:`InvalidRequest`."""
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidRequest(
            'a tool is not like {"type": "function", "function": {"name": "...", "parameters": {}}}.'
        )
    return function


def provider_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The blocks of a provider that an assistant's message has beside its text."""
    blocks = message.get(PROVIDER_BLOCKS)
    return (
        [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list | tuple) else []
    )
