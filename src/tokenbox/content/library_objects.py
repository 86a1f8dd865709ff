"""Message objects of libraries as the mappings they stand for, told by their marks: none is imported.

Pydantic objects of the openai and anthropic SDKs and of the OpenAI Agents SDK are what they send; those of
LangChain, LlamaIndex, pydantic-ai and Haystack are turned into the chat messages that these libraries would
send. A further library is one function and one row of ``_READERS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import InvalidMessage

Given = Mapping[str, Any]


def as_mapping(value: object) -> tuple[Given, bool]:
    """The mapping that an object stands for, and whether it is what its library sends, byte for byte.

    Raises :class:`InvalidMessage` for an object of no library that is known.
    """
    for library, attributes, read in _READERS:
        modules = {base.__module__.partition(".")[0] for base in type(value).__mro__}
        if modules & library and all(hasattr(value, name) for name in attributes):
            return read(value), False
    to_input_item = getattr(value, "to_input_item", None)  # OpenAI Agents
    if callable(to_input_item):
        found = to_input_item()
        return (found, True) if isinstance(found, Mapping) else as_mapping(found)
    dump = getattr(value, "model_dump", None)  # the SDKs of OpenAI and Anthropic
    if callable(dump):
        dumped = dump(exclude_none=True)
        if isinstance(dumped, Mapping):
            return _without_envelope(dumped), True
    raise InvalidMessage(
        'a message is a mapping such as {"role": "user", "content": "hi"}, or a message object of openai, '
        "anthropic, LangChain, LlamaIndex, pydantic-ai, Haystack or OpenAI Agents, "
        f"not {type(value).__name__}."
    )


def _without_envelope(dumped: Given) -> Given:
    """Anthropic's answer is a message with figures about it; only role and content are sent again."""
    if dumped.get("type") == "message" and "usage" in dumped:
        return {"role": dumped.get("role"), "content": dumped.get("content")}
    return dumped


# LangChain ------------------------------------------------------------------------------------------------

_LANGCHAIN_ROLES: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "function",
    "FunctionMessageChunk": "function",
}


def _of_langchain(value: Any) -> Given:  # noqa: ANN401  # an object of a library
    role = _LANGCHAIN_ROLES.get(value.type) or getattr(value, "role", None)
    if role is None:
        raise InvalidMessage(f"LangChain's {type(value).__name__} is not a message that is sent.")
    calls = [_call(call.get("id"), call["name"], call.get("args", {})) for call in _calls_of(value)]
    message: dict[str, Any] = {
        "role": role,
        "content": _langchain_content(value.content, with_calls=bool(calls)),
    }
    if calls:
        message["tool_calls"] = calls
    extra = getattr(value, "additional_kwargs", None) or {}
    for key in ("reasoning_content", "function_call"):
        if extra.get(key) and not (key == "function_call" and calls):
            message[key] = extra[key]
    for key in ("name", "tool_call_id"):
        if getattr(value, key, None):
            message[key] = getattr(value, key)
    return message


def _calls_of(value: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401
    return [*(getattr(value, "tool_calls", None) or ()), *(getattr(value, "invalid_tool_calls", None) or ())]


def _langchain_content(content: object, *, with_calls: bool) -> object:
    """A text, or blocks. Calls stand among Anthropic's blocks and in ``tool_calls``: they count once."""
    if not isinstance(content, list):
        return content
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    if not with_calls:
        return blocks
    return [b for b in blocks if b.get("type") not in ("tool_use", "tool_call", "function_call")] or None


# LlamaIndex -----------------------------------------------------------------------------------------------

_LLAMA_ROLES: Final = {"chatbot": "assistant", "model": "assistant"}


def _of_llama_index(value: Any) -> Given:  # noqa: ANN401
    role = getattr(value.role, "value", value.role)
    extra = dict(value.additional_kwargs or {})
    parts: list[dict[str, Any]] = []
    calls = [_plain(call) for call in extra.get("tool_calls") or ()]
    thoughts = []
    for block in value.blocks:
        kind = block.block_type
        if kind == "text":
            parts.append({"type": "text", "text": block.text})
        elif kind == "thinking":
            thoughts.append(block.content or "")
        elif kind == "tool_call":
            calls.append(_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        elif kind in ("image", "audio", "video", "document"):
            shown = {"image": "image_url", "audio": "input_audio", "video": "video_url"}.get(kind, "file")
            parts.append({"type": shown})
        else:
            raise InvalidMessage(f"LlamaIndex's block of the type {kind!r:.60} is not known.")
    only_texts = all(part["type"] == "text" for part in parts)
    content: object = "\n".join(part["text"] for part in parts) if only_texts else parts
    message: dict[str, Any] = {"role": _LLAMA_ROLES.get(role, role), "content": content}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    for key in ("name", "tool_call_id", "function_call"):
        if extra.get(key):
            message[key] = _plain(extra[key])
    return message


# pydantic-ai ----------------------------------------------------------------------------------------------


def _of_pydantic_ai(value: Any) -> Given:  # noqa: ANN401
    """A request or a response of several parts, in the blocks of Anthropic's API, which has as many."""
    blocks: list[dict[str, Any]] = []
    if getattr(value, "instructions", None):
        blocks.append({"type": "text", "text": value.instructions})
    only_system = value.kind == "request"
    for part in value.parts:
        kind = part.part_kind
        only_system = only_system and kind == "system-prompt"
        if kind in ("tool-call", "builtin-tool-call"):
            name = "tool_use" if kind == "tool-call" else "server_tool_use"
            arguments = part.args if isinstance(part.args, dict) else part.args_as_json_str()
            blocks.append({"type": name, "id": part.tool_call_id, "name": part.tool_name, "input": arguments})
        elif kind == "thinking":
            blocks.append({"type": "thinking", "thinking": part.content})
        elif kind == "tool-return" or (kind == "retry-prompt" and part.tool_name is not None):
            said = getattr(part, "model_response_str", None) or part.model_response
            blocks.append({"type": "tool_result", "tool_use_id": part.tool_call_id, "content": said()})
        elif isinstance(getattr(part, "content", None), str):
            blocks.append({"type": "text", "text": part.content})
        elif kind == "user-prompt":
            blocks.extend(map(_prompt_part, part.content))
        else:
            raise InvalidMessage(f"pydantic-ai's part of the kind {kind!r:.60} is not known.")
    if only_system:
        return {"role": "system", "content": "\n\n".join(block["text"] for block in blocks)}
    return {"role": "assistant" if value.kind == "response" else "user", "content": blocks}


def _prompt_part(part: object) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = str(getattr(part, "kind", ""))
    if isinstance(getattr(part, "content", None), str):
        return {"type": "text", "text": part.content}  # type: ignore[attr-defined]
    return {"type": "image" if kind.startswith("image") else "document"}


# Haystack -------------------------------------------------------------------------------------------------


def _of_haystack(value: Any) -> Given:  # noqa: ANN401
    found: Given = value.to_openai_dict_format(require_tool_call_ids=False)
    return found


def _call(identifier: object, name: object, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


def _plain(value: object) -> Any:  # noqa: ANN401  # JSON
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value


# Which packages' objects, told by which attributes, and who reads them.
_READERS: Final[Sequence[tuple[frozenset[str], tuple[str, ...], Callable[[Any], Given]]]] = (
    (frozenset({"langchain_core", "langchain"}), ("type", "content"), _of_langchain),
    (frozenset({"llama_index"}), ("role", "blocks"), _of_llama_index),
    (frozenset({"pydantic_ai"}), ("kind", "parts"), _of_pydantic_ai),
    (frozenset({"haystack"}), ("to_openai_dict_format",), _of_haystack),
)
