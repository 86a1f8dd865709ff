"""Messages and tools in the form in which they are sent to a template, and dates in templates."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import Message, Part, PartKind, read_as
from tokenbox.content.tool_objects import checked_tools

SOME_DAY: Final = dt.datetime(2024, 7, 26, 12, tzinfo=dt.UTC)
"""The date for templates that print it, if no clock was given: their counts are not exact."""
# The names of an answer's reasoning. Templates read the first, and that of gpt-oss the second.
_REASONING: Final = ("reasoning_content", "thinking", "reasoning")
# Date formats without a time of day; the server may be in another time zone.
_DAYS_ONLY: Final = re.compile(r"(?:[^%]|%[-_0^#]?[aAbBdeFgGhjmnuUVwWxyYDtC%])*")


def only_days(forms: Iterable[str]) -> bool:
    """Return True if none of these date formats includes a time of day."""
    return all(map(_DAYS_ONLY.fullmatch, forms))


def mapping(message: Message | Mapping[str, object]) -> dict[str, Any]:
    """Return the message as it is sent, for a template."""
    return Message.of(message).to_dict(declared=False)


def as_rendered(message: Message | Mapping[str, object]) -> dict[str, Any]:
    """Return the message as transformers passes it to a template (since its version 5.24).

    Keys of null are dropped, and the reasoning has all the names that templates read.
    """
    made = {key: value for key, value in mapping(message).items() if value is not None}
    thought = next((made[name] for name in _REASONING if name in made), None)
    return made if thought is None else {"thinking": thought, **made, "reasoning_content": thought}


def tool_mappings(tools: object) -> Sequence[Mapping[str, Any]]:
    """Return the tools if they are a list of mappings, without validating the mappings."""
    if tools is None:
        return ()
    if isinstance(tools, Sequence) and all(isinstance(tool, Mapping) for tool in tools):
        return tools
    return checked_tools(tools)


def in_chat_shape(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages without images and files.

    The texts of parts that other APIs have, such as ``input_text``, become parts of the type ``text``.
    """
    if all(map(_is_of_texts, messages)):
        return messages
    return tuple(message if _is_of_texts(message) else _texts_only(message) for message in messages)


def _is_of_texts(message: Message) -> bool:
    content = message.content
    if content is None or isinstance(content, str):
        return True
    return all(dict(part.source).get("type") == "text" for part in content)


def _texts_only(message: Message) -> Message:
    parts = [
        {"type": "text", "text": part.text}
        for part in message.content or ()
        if isinstance(part, Part) and part.kind is PartKind.TEXT
    ]
    return read_as(message.role.value, {**message.to_dict(), "content": parts})


def as_texts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a server sends it to a template that takes no list, no null and no JSON text.

    Its content is a text, and the arguments of its calls are objects.
    """
    made, content = dict(message), message.get("content")
    if not isinstance(content, str):
        made["content"] = "\n".join(part.get("text", "") for part in content or ())
    if message.get("tool_calls"):
        made["tool_calls"] = [_with_arguments(call) for call in message["tool_calls"]]
    return made


def _with_arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping):  # a custom call
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (TypeError, KeyError, ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call
