"""Message objects of libraries as the mappings they stand for, told by their marks: none is imported.

Pydantic objects of the openai and anthropic SDKs and of the OpenAI Agents SDK are what they send; those of
LangChain, LlamaIndex, pydantic-ai and Haystack are turned into the chat messages that these libraries would
send. A further library is one function and one row of ``_READERS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import InvalidMessage

Given = Mapping[str, Any]

# Keys whose texts no model reads.
_UNREAD: Final = frozenset(("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status"))


def as_mapping(value: object) -> tuple[Given | list[Given], bool]:
    """The mapping or mappings that an object stands for, and whether it is what its library sends.

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
            if dumped.keys().isdisjoint(("role", "type")):
                for holder, meant in _ENVELOPES.items():
                    if holder in dumped:
                        raise InvalidMessage(f"{type(value).__name__} is not a message: {meant}.")
            return _without_envelope(dumped), True
    raise InvalidMessage(
        'a message is a mapping such as {"role": "user", "content": "hi"}, or a message object of openai, '
        "anthropic, LangChain, LlamaIndex, pydantic-ai, Haystack or OpenAI Agents, "
        f"not {type(value).__name__}."
    )


def as_plain(value: object) -> Any:  # noqa: ANN401  # JSON
    """A value with the SDKs' objects in it as what the SDKs send: an answer's blocks, put in as they came."""
    if isinstance(value, Mapping):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value


# What an answer of an SDK holds in place of a role, and what to give instead.
_ENVELOPES: Final = {
    "choices": "give its message: answer.choices[0].message",
    "message": "give its message: choice.message",
    "output": "give its items: *response.output",
}


def _without_envelope(dumped: Given) -> Given:
    """Anthropic's answer is a message with figures about it; only role and content are sent again."""
    if dumped.get("type") == "message" and "usage" in dumped:
        return {"role": dumped.get("role"), "content": dumped.get("content")}
    return dumped


def texts_in(value: object) -> Iterator[str]:
    """Every text in a JSON value that a model may read: keys, ids and kinds are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _UNREAD:
                yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


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
    content, thoughts = _langchain_content(value.content)
    message: dict[str, Any] = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
        message["content"] = content or None
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
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


# Blocks that repeat what stands in ``tool_calls``, and blocks of a thought, with the keys of its text.
_LANGCHAIN_CALLS: Final = frozenset(("tool_use", "tool_call", "invalid_tool_call", "function_call"))
_LANGCHAIN_THOUGHTS: Final = {"thinking": ("thinking",), "reasoning": ("reasoning", "summary", "content")}
# Blocks of a call that the provider runs itself, and of what came of it: the model reads their texts.
_LANGCHAIN_OWN: Final = frozenset(
    (
        *("server_tool_use", "server_tool_call", "server_tool_result", "web_search_tool_result"),
        *("web_search_call", "web_search_result", "file_search_call", "code_interpreter_call"),
        *("code_interpreter_output", "code_interpreter_result", "code_execution_tool_result"),
        *("mcp_call", "mcp_tool_use", "mcp_tool_result", "mcp_list_tools", "redacted_thinking"),
        *("text-plain", "executable_code", "code_execution_result"),
    )
)


def _langchain_content(content: object) -> tuple[object, list[str]]:
    """A text or the parts that are shown, and what was thought. Calls are left to ``tool_calls``."""
    if not isinstance(content, list):
        return content, []
    parts: list[object] = []
    thoughts: list[str] = []
    for block in content:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, str):
            parts.append(_text(block))
        elif kind in _LANGCHAIN_THOUGHTS:
            thoughts += texts_in([block.get(key) for key in _LANGCHAIN_THOUGHTS[kind]])
        elif kind in _LANGCHAIN_OWN:
            parts.append(_text("\n".join(texts_in(block))))
        elif kind not in _LANGCHAIN_CALLS:
            parts.append(block)
    return parts, thoughts


# LlamaIndex -----------------------------------------------------------------------------------------------

_LLAMA_ROLES: Final = {"chatbot": "assistant", "model": "assistant"}
# What LlamaIndex's blocks are called in a chat.
_LLAMA_MEDIA: Final = {
    "image": "image_url",
    "audio": "input_audio",
    "video": "video_url",
    "document": "file",
}


def _of_llama_index(value: Any) -> Given:  # noqa: ANN401
    role = getattr(value.role, "value", value.role)
    extra = dict(value.additional_kwargs or {})
    parts: list[dict[str, Any]] = []
    calls = [as_plain(call) for call in extra.get("tool_calls") or ()]
    thoughts = []
    for block in value.blocks:
        kind = block.block_type
        if kind == "thinking":
            thoughts.append(block.content or "")
        elif kind == "tool_call":
            calls.append(_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        elif kind != "cache":  # a mark for the server
            parts += _llama_parts(block, kind)
    only_texts = all(part["type"] == "text" for part in parts)
    content: object = "\n".join(part["text"] for part in parts) if only_texts else parts
    message: dict[str, Any] = {"role": _LLAMA_ROLES.get(role, role), "content": content}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    for key in ("name", "tool_call_id", "function_call"):
        if extra.get(key):
            message[key] = as_plain(extra[key])
    return message


def _llama_parts(block: Any, kind: str) -> list[dict[str, Any]]:  # noqa: ANN401
    if kind == "text":
        return [_text(block.text)]
    if kind in _LLAMA_MEDIA:
        return [{"type": _LLAMA_MEDIA[kind]}]
    if kind == "citation":
        return _llama_parts(block.cited_content, block.cited_content.block_type)
    if kind == "citable":
        return [part for one in block.content for part in _llama_parts(one, one.block_type)]
    raise InvalidMessage(f"LlamaIndex's block of the type {kind!r:.60} is not known.")


# pydantic-ai ----------------------------------------------------------------------------------------------


def _of_pydantic_ai(value: Any) -> Given | list[Given]:  # noqa: ANN401
    """A request or a response of several parts, in the blocks of Anthropic's API, which has as many.

    A system prompt beside other parts is a message of its own, as it is sent.
    """
    told = [part.content for part in value.parts if part.part_kind == "system-prompt"]
    blocks = [block for part in value.parts for block in _pydantic_ai_blocks(part)]
    if getattr(value, "instructions", None):
        blocks.insert(0, _text(value.instructions))
    spoken: Given = {"role": "assistant" if value.kind == "response" else "user", "content": blocks}
    if not told:
        return spoken
    system: Given = {"role": "system", "content": "\n\n".join(told)}
    return [system, spoken] if blocks else system


def _pydantic_ai_blocks(part: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    read = _PYDANTIC_AI_PARTS.get(part.part_kind)
    if read is not None:
        return read(part)
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return [_text(content)]
    raise InvalidMessage(f"pydantic-ai's part of the kind {part.part_kind!r:.60} is not known.")


def _pydantic_ai_call(part: Any, kind: str = "tool_use") -> list[dict[str, Any]]:  # noqa: ANN401
    arguments = part.args if isinstance(part.args, dict) else part.args_as_json_str()
    return [{"type": kind, "id": part.tool_call_id, "name": part.tool_name, "input": arguments}]


def _pydantic_ai_result(part: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    said = getattr(part, "model_response_str", None) or part.model_response
    if getattr(part, "tool_name", None) is None:
        return [_text(said())]
    return [{"type": "tool_result", "tool_use_id": part.tool_call_id, "content": said()}]


def _pydantic_ai_prompt(part: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    if isinstance(part.content, str):
        return [_text(part.content)]
    return [_prompt_part(one) for one in part.content if getattr(one, "kind", "") != "cache-point"]


def _nothing(_: object) -> list[dict[str, Any]]:
    """No block: a system prompt is read apart, and tools count with the request."""
    return []


_PYDANTIC_AI_PARTS: Final[Mapping[str, Callable[[Any], list[dict[str, Any]]]]] = {
    "system-prompt": _nothing,
    "tool-availability-delta": _nothing,
    "capability-load-delta": _nothing,
    "model-settings-delta": _nothing,
    "user-prompt": _pydantic_ai_prompt,
    "tool-call": _pydantic_ai_call,
    "builtin-tool-call": lambda part: _pydantic_ai_call(part, "server_tool_use"),
    "tool-return": _pydantic_ai_result,
    "retry-prompt": _pydantic_ai_result,
    "retry-feedback": _pydantic_ai_result,
    "builtin-tool-return": lambda part: [_text(part.model_response_str())],
    "thinking": lambda part: [{"type": "thinking", "thinking": part.content}],
    "speech": lambda part: [_text(part.transcript or ""), {"type": "document"}],
    "file": lambda part: [_prompt_part(part.content)],
    "compaction": lambda part: [_text(part.content or "")],
}


def _prompt_part(part: object) -> dict[str, Any]:
    if isinstance(part, str):
        return _text(part)
    kind = str(getattr(part, "kind", ""))
    if isinstance(getattr(part, "content", None), str):
        return _text(part.content)  # type: ignore[attr-defined]
    return {"type": "image" if kind.startswith("image") else "document"}


# Haystack -------------------------------------------------------------------------------------------------


def _of_haystack(value: Any) -> Given:  # noqa: ANN401
    found: Given = value.to_openai_dict_format(require_tool_call_ids=False)
    return found


def _text(text: object) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(identifier: object, name: object, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


# Which packages' objects, told by which attributes, and who reads them.
_READERS: Final[Sequence[tuple[frozenset[str], tuple[str, ...], Callable[[Any], Given | list[Given]]]]] = (
    (frozenset({"langchain_core", "langchain"}), ("type", "content"), _of_langchain),
    (frozenset({"llama_index"}), ("role", "blocks"), _of_llama_index),
    (frozenset({"pydantic_ai"}), ("kind", "parts"), _of_pydantic_ai),
    (frozenset({"haystack"}), ("to_openai_dict_format",), _of_haystack),
)
