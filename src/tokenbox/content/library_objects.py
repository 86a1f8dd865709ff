"""Conversion of other libraries' message objects to mappings, without importing these libraries.

Pydantic objects of the openai and anthropic SDKs and of the OpenAI Agents SDK are dumped as they are sent.
Objects of LangChain, LlamaIndex, pydantic-ai and Haystack become the chat messages that these libraries would
send. To support another library, add one function and one row of ``_CONVERTERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from tokenbox.content.message import InvalidMessage
from tokenbox.content.microsoft import of_agent_framework, of_autogen
from tokenbox.content.parts import MEDIA_TYPES, as_plain, media_of, text_part, texts_in, tool_call

T = TypeVar("T")
Given = Mapping[str, Any]


def as_mapping(value: object) -> tuple[Given | list[Given], bool]:
    """Return the mapping or mappings of an object, and whether that is exactly what its library sends.

    Raises :class:`InvalidMessage` for an object of an unknown library.
    """
    packages = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    for library, attributes, convert in _CONVERTERS:
        if packages & library and all(hasattr(value, name) for name in attributes):
            return _converted(value, convert), False
    to_input_item = getattr(value, "to_input_item", None)  # OpenAI Agents
    sent = to_input_item() if callable(to_input_item) else value
    if isinstance(sent, Mapping):
        return sent, True
    if (dumped := _converted(sent, _dumped)) is not None:
        return dumped, True
    role = getattr(value, "role", None)
    role = getattr(role, "value", role)  # of an enumeration
    if isinstance(role, str) and hasattr(value, "content"):
        return _of_attributes(value, _SMOLAGENTS_ROLES.get(role, role)), False
    raise InvalidMessage(
        'a message is a mapping such as {"role": "user", "content": "hi"}, a message object of a library '
        f"(docs/integrations.md), or an object with a role and a content, not {type(value).__name__}."
    )


def _dumped(value: object) -> Given | None:
    """Return the mapping that an SDK sends; None for an object of another kind."""
    dump = getattr(value, "model_dump", None)  # of Pydantic: the SDKs of OpenAI, Anthropic, Google, Mistral
    dumped = dump(exclude_none=True) if callable(dump) else None
    if not isinstance(dumped, Mapping):
        return None
    if "role" in dumped and hasattr(value, "content"):
        dumped = {"content": None, **dumped}  # an answer without a text has it as null
    if dumped.keys().isdisjoint(("role", "type")):
        for key, hint in _ENVELOPES.items():
            if key in dumped:
                raise InvalidMessage(f"{type(value).__name__} is not a message: {hint}.")
    return _without_envelope(dumped)


# The roles as which smolagents sends those of its tools.
_SMOLAGENTS_ROLES: Final = {"tool-call": "assistant", "tool-response": "user"}
_ATTRIBUTES: Final = "name tool_calls tool_call_id function_call reasoning_content reasoning thinking".split()


def _of_attributes(value: Any, role: str) -> Given:
    """Return a message of an object such as a dataclass or a row of a database, by its attributes."""
    given = {name: getattr(value, name, None) for name in _ATTRIBUTES}
    stated = {name: field for name, field in given.items() if not (field is None or callable(field))}
    found = {name: as_plain(field) for name, field in stated.items()}
    return {"role": role, "content": as_plain(value.content), **found}


def _converted(value: object, convert: Callable[[Any], T], name: str = "") -> T:
    try:
        return convert(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # its library's, or another version
        what = f"{type(error).__name__}: {error!s:.200}"
        raise InvalidMessage(
            f"{name or type(value).__name__} cannot be read as a message ({what})."
        ) from error


# The keys of an SDK's response that contain its message, and what to pass instead of the response.
_ENVELOPES: Final = {
    "choices": "give its message: answer.choices[0].message",
    "message": "give its message: choice.message",
    "output": "give its items: *response.output",
    "candidates": "give its content: response.candidates[0].content",
}


def _without_envelope(dumped: Given) -> Given:
    """Return only role and content of Anthropic's response: its other keys are not sent back."""
    if dumped.get("type") == "message" and "usage" in dumped:
        return {"role": dumped.get("role"), "content": dumped.get("content")}
    return dumped


# LangChain ------------------------------------------------------------------------------------------------

# The role of each type of message. The type of a chunk is, for one, ``AIMessageChunk``.
_LANGCHAIN_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
}


def _of_langchain(value: Any) -> Given:  # an object of a library
    kind = value.type.removesuffix("MessageChunk").lower()
    role = _LANGCHAIN_ROLES.get(kind) or getattr(value, "role", None)
    if role is None:
        raise InvalidMessage(f"LangChain's {type(value).__name__} is not a message that is sent.")
    given = (*(getattr(value, "tool_calls", None) or ()), *(getattr(value, "invalid_tool_calls", None) or ()))
    calls = [tool_call(call.get("id"), call.get("name") or "", call.get("args", {})) for call in given]
    calls += _langchain_calls(value.content, {call.get("id") for call in given})
    content, thoughts, details = _langchain_content(value.content)
    extra = getattr(value, "additional_kwargs", None) or {}
    # The older form of blocks.
    details += [as_plain(one) for one in (extra.get("reasoning"), *(extra.get("tool_outputs") or ())) if one]
    # A message with the type of a tool answers these calls, which are not in ``tool_calls``.
    seen = [one for one in details if one.get("type") == _LANGCHAIN_COMPUTER]
    calls += [tool_call(one.get("call_id"), _LANGCHAIN_COMPUTER, one.get("action", {})) for one in seen]
    message: dict[str, Any] = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
        message["content"] = content or None
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    for key in ("reasoning_content", "function_call"):
        if extra.get(key) and not (key == "function_call" and calls):
            message[key] = extra[key]
    if isinstance(audio := extra.get("audio"), Mapping):  # an earlier recording, of which its id is sent
        message["audio"] = {"id": audio.get("id")}
    for key in ("name", "tool_call_id"):
        if getattr(value, key, None):
            message[key] = getattr(value, key)
    return _with_details(message, details)


def _with_details(message: dict[str, Any], details: list[Any]) -> dict[str, Any]:
    """Add what is sent beside the texts: encrypted reasoning and signatures, and items by their ids."""
    return {**message, _DETAILS: details} if details else message


_DETAILS: Final = "details"


# Blocks of calls. They repeat those of ``tool_calls``, which LangChain prefers, or stand alone.
_LANGCHAIN_CALLS: Final = frozenset(
    ("tool_use", "tool_call", "invalid_tool_call", "tool_call_chunk", "function_call", "custom_tool_call")
)
_LANGCHAIN_COMPUTER: Final = "computer_call"
# Blocks of reasoning, each with the keys of its text.
_LANGCHAIN_REASONING: Final = {"thinking": ("thinking",), "reasoning": ("reasoning", "summary", "content")}
# Gemini's blocks of media, whose kind is in their ``mime_type``.
_GEMINI_FILES: Final = frozenset(("media", "file_data"))
# Calls that the provider executes, and their results: the model reads their texts.
_LANGCHAIN_PROVIDER: Final = frozenset(
    """
    server_tool_use server_tool_call server_tool_call_chunk server_tool_result web_search_tool_result
    web_search_call web_search_result file_search_call code_interpreter_call image_generation_call
    code_interpreter_output code_interpreter_result code_execution_tool_result
    mcp_call mcp_tool_use mcp_tool_result mcp_approval_request mcp_approval_response
    tool_search_call computer_call shell_call shell_call_output
    apply_patch_call apply_patch_call_output custom_tool_call_output compaction
    redacted_thinking search_result tool_reference text-plain executable_code code_execution_result
    """.split()
)
# Items with schemas of tools, whose keys the model reads, too, and with settings.
_LANGCHAIN_ITEMS: Final = frozenset(
    ("additional_tools", "configuration_update", "mcp_list_tools", "tool_search_output")
)


def saved_message(given: Given) -> Given | None:
    """Return the message in LangChain's JSON, of ``model_dump`` or of ``messages_to_dict``; None for another.

    Raises :class:`InvalidMessage` with what to do for the JSON of LlamaIndex and of pydantic-ai.
    """
    if given.keys() >= {"role", "blocks"}:
        raise InvalidMessage(_SAVED.format("ChatMessage.model_validate(it)"))
    if "parts" in given and given.get("kind") in ("request", "response"):
        raise InvalidMessage(_SAVED.format("ModelMessagesTypeAdapter.validate_python([it])"))
    data, kind = given.get("data", given), given.get("type")
    if "role" in given or not (isinstance(kind, str) and isinstance(data, Mapping) and "content" in data):
        return None
    kind = kind.removesuffix("MessageChunk").lower()
    if kind not in _LANGCHAIN_ROLES:
        return None
    fields = {str(key): value for key, value in data.items()}
    return _converted(SimpleNamespace(**{**fields, "type": kind}), _of_langchain, "JSON of LangChain")


_SAVED: Final = "this is the JSON of a library's message: load it with {}."


def _langchain_calls(content: object, known: Collection[object]) -> list[dict[str, Any]]:
    """Return the calls among the blocks whose ids are not ``known``."""
    found = []
    for block in map(_unwrapped, content if isinstance(content, list) else ()):
        if not isinstance(block, Mapping):
            continue
        identifier = block.get("call_id", block.get("id"))
        if block.get("type") in _LANGCHAIN_CALLS and identifier not in known:
            given = (block[key] for key in ("args", "input", "arguments") if block.get(key) is not None)
            found.append(tool_call(identifier, block.get("name") or "", next(given, {})))
    return found


def _langchain_content(content: object) -> tuple[object, list[str], list[Any]]:
    """Return the content (a text or parts), the reasoning and details. Calls are in ``tool_calls``."""
    if not isinstance(content, list):
        return content, [], []
    parts: list[object] = []
    thoughts: list[str] = []
    details: list[Any] = []
    for block in map(_unwrapped, content):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, str):
            parts.append(text_part(block))
        elif kind in _LANGCHAIN_REASONING:
            thoughts += texts_in([block.get(key) for key in _LANGCHAIN_REASONING[kind]])
            details.append(_beside_reasoning(block, _LANGCHAIN_REASONING[kind]))
        elif kind in _LANGCHAIN_PROVIDER:
            shown = _of_provider(block)
            parts += shown
            details += () if shown else (block,)
        elif kind in _LANGCHAIN_ITEMS:
            details.append(block)
        elif kind in _GEMINI_FILES:
            parts.append(media_of(block))
        elif kind not in _LANGCHAIN_CALLS:
            parts.append({**block, "type": MEDIA_TYPES[kind]} if kind in MEDIA_TYPES else block)
    return parts, thoughts, [one for one in details if one.keys() != {"type"}]


def _unwrapped(block: Any) -> Any:
    """Return the block in one that LangChain calls "non_standard", since it does not know it."""
    is_wrapped = isinstance(block, Mapping) and block.get("type") == "non_standard"
    return block.get("value") if is_wrapped else block


def _beside_reasoning(block: Given, shown: tuple[str, ...]) -> dict[str, Any]:
    """Return a block without the text at the keys ``shown``, and without LangChain's own keys."""
    beside = {key: value for key, value in block.items() if key not in {"extras", "index", *shown}}
    return {**(block.get("extras") or {}), **beside}


def _of_provider(block: Given) -> list[dict[str, Any]]:
    """Return the image or the texts of a call or a result as a part, or none: only its server knows it."""
    if block["type"] == "image_generation_call" and block.get("result"):
        return [{"type": "image", "data": block["result"]}]
    text = "" if block["type"] == _LANGCHAIN_COMPUTER else "\n".join(texts_in(block))
    return [text_part(text)] if text else []


# LlamaIndex -----------------------------------------------------------------------------------------------

_LLAMA_ROLES: Final = {"chatbot": "assistant", "model": "assistant"}
# The chat part type of each LlamaIndex block type.
_LLAMA_MEDIA: Final = {"image": "image_url", "audio": "input_audio", "video": "video_url", "document": "file"}
# The attributes with data in base64, which may be larger than it looks.
_LLAMA_DATA: Final = {"audio": "audio", "document": "data"}


def _of_llama_index(value: Any) -> Given:
    role = getattr(value.role, "value", value.role)
    extra = dict(value.additional_kwargs or {})
    parts: list[dict[str, Any]] = []
    calls = [as_plain(call) for call in extra.get("tool_calls") or ()]
    thoughts, details = [], []
    for block in value.blocks:
        kind = block.block_type
        if kind == "thinking":
            thoughts.append(block.content or "")
            if beside := getattr(block, "additional_information", None):
                details.append({"type": "reasoning", **as_plain(beside)})
        elif kind == "tool_call":
            calls.append(tool_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        elif kind != "cache":  # a marker for the server
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
    return _with_details(message, details)


def _llama_parts(block: Any, kind: str) -> list[dict[str, Any]]:
    if kind == "text":
        return [text_part(block.text)]
    if kind in _LLAMA_MEDIA:
        part = {"type": _LLAMA_MEDIA[kind]}
        if getattr(block, "url", None) or getattr(block, "path", None):
            part["url"] = str(block.url or "file:")  # no path of this machine
        elif kind in _LLAMA_DATA and (data := getattr(block, _LLAMA_DATA[kind])) is not None:
            part["data"] = data.decode() if isinstance(data, bytes) else str(data)
        return [part]
    if kind == "citation":
        return _llama_parts(block.cited_content, block.cited_content.block_type)
    if kind == "citable":
        return [part for one in block.content for part in _llama_parts(one, one.block_type)]
    raise InvalidMessage(f"LlamaIndex's block type {kind!r:.60} is unknown.")


# pydantic-ai ----------------------------------------------------------------------------------------------


def _of_pydantic_ai(value: Any) -> Given | list[Given]:
    """Convert a request or a response of several parts to blocks of Anthropic's API.

    A system prompt next to other parts becomes a separate message, as pydantic-ai sends it.
    """
    prompts = [part.content for part in value.parts if part.part_kind == "system-prompt"]
    blocks = [block for part in value.parts for block in _pydantic_ai_blocks(part)]
    if getattr(value, "instructions", None):
        blocks.insert(0, text_part(value.instructions))
    spoken: Given = {"role": "assistant" if value.kind == "response" else "user", "content": blocks}
    if not prompts:
        return spoken
    system: Given = {"role": "system", "content": "\n\n".join(prompts)}
    return [system, spoken] if blocks else system


def _pydantic_ai_blocks(part: Any) -> list[dict[str, Any]]:
    read = _PYDANTIC_AI_PARTS.get(part.part_kind)
    if read is not None:
        return read(part)
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return [text_part(content)]
    raise InvalidMessage(f"pydantic-ai's part kind {part.part_kind!r:.60} is unknown.")


def _pydantic_ai_call(part: Any, kind: str = "tool_use") -> list[dict[str, Any]]:
    arguments = part.args if isinstance(part.args, dict) else part.args_as_json_str()
    return [{"type": kind, "id": part.tool_call_id, "name": part.tool_name, "input": arguments}]


def _pydantic_ai_result(part: Any) -> list[dict[str, Any]]:
    response: Any = (getattr(part, "model_response_str", None) or part.model_response)()
    if getattr(part, "tool_name", None) is None:
        return [text_part(response)]
    if files := getattr(part, "files", None):
        response = [text_part(response), *map(_prompt_part, files)]
    return [{"type": "tool_result", "tool_use_id": part.tool_call_id, "content": response}]


def _pydantic_ai_details(part: Any) -> dict[str, Any]:
    """Return what is sent beside the text of reasoning or of a summary, for the provider that wrote it."""
    encrypted = [*texts_in([getattr(part, "signature", None), getattr(part, "provider_details", None)])]
    item = {"type": "reasoning", "id": getattr(part, "id", None), "encrypted_content": "\n".join(encrypted)}
    return {_DETAILS: item} if encrypted or item["id"] else {}


def _pydantic_ai_prompt(part: Any) -> list[dict[str, Any]]:
    if isinstance(part.content, str):
        return [text_part(part.content)]
    return [_prompt_part(one) for one in part.content if getattr(one, "kind", "") != "cache-point"]


_PYDANTIC_AI_PARTS: Final[Mapping[str, Callable[[Any], list[dict[str, Any]]]]] = {
    # System prompts are read separately, and tools are counted with the request.
    **dict.fromkeys(
        (
            "system-prompt",
            "instruction-baseline",
            "tool-availability-delta",
            "capability-load-delta",
            "model-settings-delta",
        ),
        lambda _: [],
    ),
    "instruction-delta": lambda part: [text_part(part.content)] if part.content else [],
    "user-prompt": _pydantic_ai_prompt,
    "tool-call": _pydantic_ai_call,
    "builtin-tool-call": lambda part: _pydantic_ai_call(part, "server_tool_use"),
    "tool-return": _pydantic_ai_result,
    "retry-prompt": _pydantic_ai_result,
    "retry-feedback": _pydantic_ai_result,
    "builtin-tool-return": lambda part: [text_part(part.model_response_str())],
    "thinking": lambda part: [{"type": "thinking", "thinking": part.content, **_pydantic_ai_details(part)}],
    "speech": lambda part: [text_part(part.transcript or ""), {"type": "document"}],
    "file": lambda part: [_prompt_part(part.content)],
    "compaction": lambda part: [
        {"type": "compaction", "content": part.content, **_pydantic_ai_details(part)}
    ],
}


def _prompt_part(part: Any) -> dict[str, Any]:
    """Return a text, an image, or a document with its place or data: only its server may know its size."""
    if isinstance(part, str):
        return text_part(part)
    if isinstance(getattr(part, "content", None), str):
        return text_part(part.content)
    kind = str(getattr(part, "kind", ""))
    if kind.startswith("image") or (kind == "binary" and part.media_type.startswith("image/")):
        return {"type": "image"}
    for source, key in (("url", "url"), ("file_id", "file_id"), ("data_uri", "data")):
        if value := getattr(part, source, None):
            return {"type": "document", key: value}
    return {"type": "document"}


# Haystack -------------------------------------------------------------------------------------------------


def _of_haystack(value: Any) -> Given:
    """Convert a message by its own method, which refuses results with images, or else result by result."""
    for result in getattr(value, "tool_call_results", ()):
        if not isinstance(result.result, str):
            content = list(map(_haystack_part, result.result))
            return {"role": "tool", "content": content, "tool_call_id": result.origin.id}
    message: dict[str, Any] = value.to_openai_dict_format(require_tool_call_ids=False)
    thoughts = getattr(value, "reasonings", ())
    if thoughts:
        message["reasoning_content"] = "\n".join(thought.reasoning_text for thought in thoughts)
    details = [{"type": "reasoning", **as_plain(thought.extra)} for thought in thoughts if thought.extra]
    return _with_details(message, details)


def _haystack_part(part: Any) -> dict[str, Any]:
    if hasattr(part, "text"):
        return text_part(part.text)
    return {"type": "image"} if hasattr(part, "base64_image") else {"type": "file", "data": part.base64_data}


# The packages of each library, the attributes of its message objects, and the function that converts them.
_CONVERTERS: Final[Sequence[tuple[frozenset[str], tuple[str, ...], Callable[[Any], Given | list[Given]]]]] = (
    (frozenset({"langchain_core", "langchain"}), ("type", "content"), _of_langchain),
    (frozenset({"llama_index"}), ("role", "blocks"), _of_llama_index),
    (frozenset({"pydantic_ai"}), ("kind", "parts"), _of_pydantic_ai),
    (frozenset({"haystack"}), ("to_openai_dict_format",), _of_haystack),
    (frozenset({"autogen_core"}), ("type", "content"), of_autogen),
    (frozenset({"autogen_agentchat"}), ("to_model_message",), lambda one: of_autogen(one.to_model_message())),
    (frozenset({"agent_framework"}), ("role", "contents"), of_agent_framework),
    (frozenset({"semantic_kernel"}), ("role", "to_dict"), lambda value: value.to_dict()),
)
