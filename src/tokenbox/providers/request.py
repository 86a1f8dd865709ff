"""Chat requests, independent of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack

from tokenbox.providers.errors import InvalidRequest
from tokenbox.providers.shapes import text_at, written
from tokenbox.records import from_json

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


def stated(**fields: object) -> dict[str, Any]:
    """Return the fields of a body that are given: those that are neither None nor empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], ())}


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


def parts_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a message; a text is one part. Raises :class:`InvalidRequest`."""
    content = message.get("content")
    given = content if isinstance(content, list | tuple) else [] if content in (None, "") else [content]
    parts: list[Any] = [{"type": "text", "text": part} if isinstance(part, str) else part for part in given]
    if not all(isinstance(part, Mapping) for part in parts):
        raise InvalidRequest(
            'content must be a text, or a list of parts like {"type": "text", "text": "..."}.'
        )
    # Beside the content, OpenAI's answers have a refusal, or a recording that only OpenAI has.
    if message.get("refusal"):
        parts.append({"type": "refusal", "refusal": message["refusal"]})
    if message.get("audio"):
        parts.append({"type": "audio"})
    return parts


_TEXT_KEYS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


def part_text(part: Mapping[str, Any]) -> str | None:
    """Return the text of a part; None if it is no text."""
    kind = part.get("type")
    key = _TEXT_KEYS.get(kind) if isinstance(kind, str) else None
    if key is None:
        return None
    text = part.get(key)
    return text if isinstance(text, str) else ""


def image_url(part: Mapping[str, Any]) -> str | None:
    """Return the address of an image; None if the part is no image."""
    if part.get("type") != "image_url":
        return None
    address = part.get("image_url")
    return address if isinstance(address, str) else text_at(part, "image_url.url")


def unsupported(part: Mapping[str, Any], provider: str) -> InvalidRequest:
    """Return the error for a part that a provider has no form for: nothing is left out silently."""
    return InvalidRequest(
        f"a part of the type {part.get('type')!r} cannot be sent to {provider}. Use text and image_url."
    )


def calls_of(message: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the tool calls of an assistant message: id, name, arguments as JSON text."""
    if message.get("function_call"):
        raise InvalidRequest("function_call is an older form of OpenAI's API. Use tool_calls.")
    calls = []
    listed = message.get("tool_calls") or ()
    if not isinstance(listed, list | tuple):
        listed = [None]
    for call in listed:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise InvalidRequest(
                'a tool call must be like {"id": "...", "function": {"name": "...", "arguments": "{}"}}.'
            )
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else "" if given is None else written(given).decode()
        calls.append((str(call.get("id", "")), str(function.get("name", "")), arguments))
    return calls


def function_of(tool: object) -> Mapping[str, Any]:
    """Return the function that a tool describes. Raises :class:`InvalidRequest`."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidRequest(
            'a tool must be like {"type": "function", "function": {"name": "...", "parameters": {}}}.'
        )
    return function


def json_arguments(name: str, arguments: str, provider: str) -> dict[str, Any]:
    """Parse the arguments of a tool call, for a provider that takes an object instead of JSON text.

    Raises :class:`InvalidRequest`.
    """
    value = from_json(arguments or "{}")
    if not isinstance(value, dict):
        raise InvalidRequest(f"the arguments of the call of {name} must be a JSON object for {provider}.")
    return value


def provider_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the provider's own blocks of an assistant message."""
    blocks = message.get(PROVIDER_BLOCKS)
    if not isinstance(blocks, list | tuple):
        return []
    return [block for block in blocks if isinstance(block, Mapping)]
