"""Messages of Gemini's, Bedrock's and Ollama's APIs as messages of parts that have a type.

In the first two the key of a part tells what it is: ``{"text": "hi"}``, ``{"functionCall": {...}}`` (Gemini),
``{"toolUse": {...}}`` (Bedrock). Ollama has images beside a text. The parts that they become are those of
Anthropic's API.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tokenbox.content.message import MAX_DEPTH, InvalidMessage
from tokenbox.content.parts import media_of, snake_case, text_part, texts_in

Given = Mapping[str, Any]
Parts = list[dict[str, Any]]

# Gemini's roles. A message without one is the user's.
_ROLES: Final = {"model": "assistant", "function": "user", "tool": "user"}
# Keys beside that of the part: they tell how a part is shown, or are signed for the server.
_BESIDE: Final = re.compile(r"type|thought(_signature)?|media_\w+|\w+_metadata")


def with_types(given: Given) -> tuple[Given, Given] | None:
    """Return a message with a type for each part, and the message with base64 in place of bytes.

    None if the message has another shape. Raises :class:`InvalidMessage` for an unknown part.
    """
    if isinstance(given.get("images"), list | tuple) and isinstance(text := given.get("content"), str):
        plain = {**given, "images": _without_bytes(given["images"])}
        typed = {
            **plain,
            "content": [text_part(text), *({"type": "image", "data": one} for one in plain["images"])],
        }
        del typed["images"]
        return typed, plain
    key = "parts" if "content" not in given else "content"
    parts = given.get(key)
    if not isinstance(parts, list | tuple) or not (key == "parts" or any(map(_is_untyped, parts))):
        return None
    plain = {**given, key: _without_bytes(parts)}
    typed = {name: value for name, value in plain.items() if name != key}
    if key == "parts":
        role = "user" if given.get("role") is None else given["role"]
        typed["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
    typed["content"] = [
        shown for place, part in enumerate(plain[key]) for shown in _typed(part, f"{key}[{place}]")
    ]
    return typed, plain


def _is_untyped(part: object) -> bool:
    return isinstance(part, Mapping) and "type" not in part and any(snake_case(key) in _PARTS for key in part)


def _typed(part: object, place: str) -> Parts:
    if isinstance(part, Mapping):
        if isinstance(part.get("type"), str):
            return [{**part}]
        given = {snake_case(key): value for key, value in part.items() if value is not None}
        names = [name for name in given if _BESIDE.fullmatch(name) is None]
        if len(names) == 1 and names[0] in _PARTS:
            try:
                shown = _PARTS[names[0]](given[names[0]])
            except (AttributeError, KeyError, TypeError, ValueError):  # not what the API has there
                shown = None
            if shown is not None:
                return _as_thought(shown) if given.get("thought") else shown
    raise InvalidMessage(
        f'{place} is not a part such as {{"text": "hi"}}; it has one of {", ".join(_PARTS)}.'
    )


def _as_thought(parts: Parts) -> Parts:
    return [{"type": "thinking", "thinking": part.get("text", "")} for part in parts]


def _without_bytes(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidMessage(f"a message is nested more than {MAX_DEPTH} deep.")
    if isinstance(value, Mapping):
        return {key: _without_bytes(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_bytes(inner, depth + 1) for inner in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else value


def _call(call: Given) -> Parts:
    """Return a call. Gemini's often has no id; its response then answers the calls in their order."""
    given = call["args"] if call.get("args") is not None else call.get("input", {})
    return [
        {
            "type": "tool_use",
            "id": call.get("toolUseId", call.get("id")),
            "name": call["name"],
            "input": given,
        }
    ]


def _gemini_result(result: Given) -> Parts:
    response = result.get("response")
    shown = [
        text_part(_only_text(response)[1]),
        *(one for part in result.get("parts") or () for one in _typed(part, "a response's part")),
    ]
    return [
        {"type": "tool_result", "tool_use_id": result.get("id"), "name": result.get("name"), "content": shown}
    ]


def _only_text(response: object) -> tuple[str, str]:
    """Return the only text of a response with its key, or else its JSON."""
    if isinstance(response, Mapping) and len(response) == 1:
        ((key, text),) = response.items()
        if isinstance(text, str):
            return key, text
    return "output", json.dumps(response, ensure_ascii=False)


def _bedrock_result(result: Given) -> Parts:
    shown = [one for part in result["content"] for one in _typed(part, "a result's part")]
    return [{"type": "tool_result", "tool_use_id": result.get("toolUseId"), "content": shown}]


def _reasoning(reasoning: Given) -> Parts:
    return [{"type": "thinking", "thinking": (reasoning.get("reasoningText") or {}).get("text", "")}]


def _file(part: Given) -> Parts:
    return [dict(media_of({snake_case(key): value for key, value in part.items()}))]


def _medium(kind: str) -> Callable[[Given], Parts]:
    def read(part: Given) -> Parts:
        source = part.get("source") or {}
        if (text := source.get("text")) is not None:
            return [text_part(text)]
        place = (source.get("s3Location") or {}).get("uri")
        return [
            {"type": kind, "url": place}
            if place is not None
            else {"type": kind, "data": source.get("bytes", "")}
        ]

    return read


def _texts(part: object) -> Parts:
    text = "\n".join(texts_in(part))
    return [text_part(text)] if text else []


_PARTS: Final[Mapping[str, Callable[[Any], Parts]]] = {
    "text": lambda text: [text_part(text)],
    # Gemini
    "inline_data": _file,
    "file_data": _file,
    "function_call": _call,
    "function_response": _gemini_result,
    # Bedrock
    "image": _medium("image"),
    "document": _medium("document"),
    "video": _medium("video_url"),
    "audio": _medium("input_audio"),
    "tool_use": _call,
    "tool_result": _bedrock_result,
    "json": lambda value: [text_part(json.dumps(value, ensure_ascii=False))],
    "reasoning_content": _reasoning,
    # What the server runs, or only marks: the model reads the texts in it.
    **dict.fromkeys(
        (
            "executable_code",
            "code_execution_result",
            "tool_call",
            "tool_response",
            "guard_content",
            "citations_content",
            "search_result",
            "cache_point",
        ),
        _texts,
    ),
}


def with_result(part: Any, text: Callable[[object], Any]) -> Any:
    """Return a part with another text if it is the result of a tool, or else the part itself."""
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "tool_result":
        return {**part, "content": text(part.get("content"))}
    for key, value in part.items():
        if snake_case(key) == "function_response" and value is not None:
            return {**part, key: {**value, "response": {_only_text(value.get("response"))[0]: text(None)}}}
        if snake_case(key) == "tool_result" and value is not None:
            return {**part, key: {**value, "content": [{"text": text(None)}]}}
    return part
