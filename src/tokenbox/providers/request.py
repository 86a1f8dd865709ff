"""Chat requests, independent of the server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, TypeGuard, Unpack

from tokenbox.providers.errors import InvalidRequest

PROVIDER_BLOCKS: Final = "provider_blocks"
"""The key of a message for blocks of one provider, such as signed thoughts, to send back unchanged."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request in OpenAI's format. None leaves a value to the server.

    ``max_tokens``: the output limit. ``extra``: more fields of the body. ``window``: the context window to
    request, for servers that take one. ``cache_marks``: place cache breakpoints, for Claude models.
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
    cache_marks: bool = False


class ChatOptions(TypedDict, total=False):
    """The options of a chat.

    ``max_tokens``: the output limit. ``extra``: more fields of the body. ``cache_marks``: place the cache
    breakpoints that Claude models need (:func:`tokenbox.caching.with_breakpoints`).
    """

    max_tokens: int | None
    temperature: float | None
    stop: Sequence[str]
    extra: Mapping[str, Any] | None
    cache_marks: bool


def chat_request(
    model: str,
    messages: Sequence[Any],
    tools: Sequence[Mapping[str, Any]] | None,
    **options: Unpack[ChatOptions],
) -> ChatRequest:
    """Return the request of a chat. Raises :class:`InvalidRequest` for invalid messages."""
    stop = options.get("stop", ())
    return ChatRequest(
        model,
        plain_messages(messages),
        tuple(tools or ()),
        options.get("max_tokens"),
        options.get("temperature"),
        (stop,) if isinstance(stop, str) else tuple(stop),
        options.get("extra") or {},
        cache_marks=options.get("cache_marks", False),
    )


def plain_messages(messages: object) -> list[Mapping[str, Any]]:
    """Return messages as mappings; others are converted by ``to_dict()``. Raises :class:`InvalidRequest`."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InvalidRequest('messages must be a list of mappings like {"role": "user", "content": "..."}.')
    plain = []
    for number, message in enumerate(messages):
        to_dict = getattr(message, "to_dict", None)
        value = message if isinstance(message, Mapping) else to_dict() if callable(to_dict) else None
        if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
            raise InvalidRequest(
                f'message {number} must be like {{"role": "user", "content": "..."}}.', index=number
            )
        plain.append(value)
    return plain


def text_of(content: object) -> str:
    """Return the text of a message's content, or of its text parts."""
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
    """Return whether a message's content is a list of parts."""
    return isinstance(content, list | tuple) and all(isinstance(part, Mapping) for part in content)


def calls_of(message: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the tool calls of an assistant message: id, name, arguments as JSON text."""
    calls = []
    given = message.get("tool_calls") or ()
    listed: Sequence[Any] = given if isinstance(given, list | tuple) else [None]
    for call in listed:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise InvalidRequest(
                'a tool call must be like {"id": "...", "function": {"name": "...", "arguments": "{}"}}.'
            )
        calls.append(
            (str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", "")))
        )
    return calls


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the function that a tool describes. Raises :class:`InvalidRequest`."""
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidRequest(
            'a tool must be like {"type": "function", "function": {"name": "...", "parameters": {}}}.'
        )
    return function


def json_arguments(name: str, arguments: str, provider: str) -> dict[str, Any]:
    """Parse the arguments of a tool call, for a provider that takes an object instead of JSON text.

    Raises :class:`InvalidRequest`.
    """
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the arguments of the call of {name} must be a JSON object for {provider}.")
    return value


def provider_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the provider's own blocks of an assistant message."""
    blocks = message.get(PROVIDER_BLOCKS)
    if not isinstance(blocks, list | tuple):
        return []
    return [block for block in blocks if isinstance(block, Mapping)]
