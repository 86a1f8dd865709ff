"""The dialect of Anthropic's Messages API, translated from and to OpenAI's chat format.

System and developer messages become ``system``, tool calls ``tool_use`` blocks, and tool results
``tool_result`` blocks of a user message. Neighbours of the same role are joined: turns must alternate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tokenbox.content.request import Api
from tokenbox.providers.errors import BadAnswer, InvalidRequest
from tokenbox.providers.events import (
    Event,
    Finished,
    FinishReason,
    KeptBlock,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from tokenbox.providers.framing import ServerSentEvents
from tokenbox.providers.kinds.kind import Dialect
from tokenbox.providers.request import (
    ChatRequest,
    calls_of,
    function_of,
    image_url,
    json_arguments,
    part_text,
    parts_of,
    provider_blocks,
    stated,
    unsupported,
)
from tokenbox.providers.shapes import at, count_at, items_at, text_at
from tokenbox.providers.usage import MESSAGES, usage_of

# The output limit, which the API requires, if the request has none.
DEFAULT_MAX_TOKENS: Final = 4096

_FINISHES: Final = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
}
_PROVIDER: Final = "Anthropic's API"
_ROLES: Final = {"user": "user", "tool": "user", "assistant": "assistant"}


def body(request: ChatRequest, max_tokens_field: str = "max_tokens") -> dict[str, Any]:
    """Return the body of a messages request."""
    most = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    made = stated(
        system=_system(request) or None,
        tools=[_tool(tool) for tool in request.tools],
        temperature=request.temperature,
        stop_sequences=list(request.stop),
        stream=request.stream or None,
    )
    turns = _turns(request)
    return {"model": request.model, "messages": turns, max_tokens_field: most, **made, **request.extra}


def _system(request: ChatRequest) -> str | list[dict[str, Any]]:
    """Return the system prompt: one text, or blocks if one of them has a cache mark."""
    messages = [message for message in request.messages if message["role"] in {"system", "developer"}]
    found = [blocks for message in messages if (blocks := _marked(message, _content(message)))]
    for block in (block for blocks in found for block in blocks):
        if block["type"] != "text":
            raise InvalidRequest(
                f"{_PROVIDER} takes only text in a system prompt, not a part of the type "
                f"{block['type']!r}. Send it in a user message."
            )
    if any("cache_control" in block for blocks in found for block in blocks):
        return [block for blocks in found for block in blocks]
    return "\n\n".join("".join(block["text"] for block in blocks) for blocks in found)


def _marked(message: Mapping[str, Any], blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the cache mark of a message on its last block."""
    if blocks and message.get("cache_control"):
        blocks[-1] = {**blocks[-1], "cache_control": message["cache_control"]}
    return blocks


def _tool(tool: object) -> dict[str, Any]:
    if isinstance(tool, Mapping) and "input_schema" in tool:
        return dict(tool)  # in Anthropic's format already
    function = function_of(tool)
    made: dict[str, Any] = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    if function.get("description"):
        made["description"] = function["description"]
    mark = at(tool, "cache_control") or function.get("cache_control")
    return {**made, "cache_control": mark} if mark else made


def _turns(request: ChatRequest) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for number, message in enumerate(request.messages):
        if message["role"] in {"system", "developer"}:
            continue
        role = _ROLES.get(message["role"])
        if role is None:
            raise InvalidRequest(
                f"message {number} has the role {message['role']!r}, which Anthropic does not support.",
                index=number,
            )
        blocks = _blocks(message)
        if not blocks:
            continue  # the API rejects empty text
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = _content(message)
    if message["role"] == "tool":
        texts = [block["text"] for block in content if block["type"] == "text"]
        result = {
            "type": "tool_result",
            "tool_use_id": str(message.get("tool_call_id", "")),
            "content": "".join(texts) if len(texts) == len(content) else content,
        }
        return _marked(message, [result])
    # Signed thoughts must come first and unchanged.
    blocks = [dict(block) for block in provider_blocks(message) if _is_own(block)] + content
    blocks += [
        {
            "type": "tool_use",
            "id": call_id,
            "name": name,
            "input": json_arguments(name, arguments, "Anthropic"),
        }
        for call_id, name, arguments in calls_of(message)
    ]
    return _marked(message, blocks)


def _content(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for part in parts_of(message) if (block := _part(part)) is not None]


def _is_own(block: Mapping[str, Any]) -> bool:
    """Return whether a kept block is Anthropic's. The API rejects a thought without its signature."""
    kind = block.get("type")
    return (
        (kind == "thinking" and bool(block.get("signature")))
        or kind == "redacted_thinking"
        or (kind == "compaction" and "content" in block)
    )


# Anthropic's own blocks, which are sent unchanged.
_OWN_BLOCKS: Final = frozenset(
    """
    thinking redacted_thinking tool_use tool_result image document search_result server_tool_use
    web_search_tool_result compaction container_upload
    """.split()
)


def _part(part: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if isinstance(kind, str) and kind in _OWN_BLOCKS:
        return dict(part)
    mark = {"cache_control": part["cache_control"]} if part.get("cache_control") else {}
    url, text = image_url(part), part_text(part)
    if url is not None:
        media, found, data = url.removeprefix("data:").partition(";base64,")
        if url.startswith("data:") and found:
            source = {"type": "base64", "media_type": media, "data": data}
            return {"type": "image", "source": source, **mark}
        return {"type": "image", "source": {"type": "url", "url": url}, **mark}
    if text is None:
        raise unsupported(part, _PROVIDER)
    return {"type": "text", "text": text, **mark} if text else None


def events(answer: object) -> list[Event]:
    """Return the events of a complete answer. Raises :class:`BadAnswer`."""
    if not isinstance(at(answer, "content"), list):
        raise BadAnswer("the answer has no content list, so it is not a message of Anthropic's API.")
    found: list[Event] = []
    reader = AnthropicReader()
    for index, block in enumerate(items_at(answer, "content")):
        found += reader.start(index, block)
        if text_at(block, "type") == "tool_use":
            given = json.dumps(at(block, "input"), ensure_ascii=False)
            found += reader.delta(index, {"type": "input_json_delta", "partial_json": given})
        found += reader.stop(index)
    return [
        *found,
        *_finished(text_at(answer, "stop_reason")),
        UsageReport(usage_of(at(answer, "usage"), MESSAGES)),
    ]


class AnthropicReader:
    """Reads a stream of named events, which ends with ``message_stop``."""

    may_end = False

    def __init__(self) -> None:
        self.done = False
        self._calls: dict[int, int] = {}  # the number of each tool call by its content block
        self._usage: dict[str, Any] = {}
        self._open: dict[int, dict[str, Any]] = {}  # unfinished blocks to keep

    def read(self, event: object) -> list[Event]:
        """Return the events for one event of the API."""
        match text_at(event, "type"):
            case "message_start":
                return self._used(at(event, "message.usage"))
            case "content_block_start":
                return self.start(count_at(event, "index"), at(event, "content_block"))
            case "content_block_delta":
                return self.delta(count_at(event, "index"), at(event, "delta"))
            case "content_block_stop":
                return self.stop(count_at(event, "index"))
            case "message_delta":
                return [*_finished(text_at(event, "delta.stop_reason")), *self._used(at(event, "usage"))]
            case "message_stop":
                self.done = True
        return []  # ping, and future types

    def start(self, index: int | None, block: object) -> list[Event]:
        kind = text_at(block, "type")
        if kind == "tool_use" and index is not None:
            number = self._calls.setdefault(index, len(self._calls))
            return [ToolCallDelta(number, text_at(block, "id"), text_at(block, "name"))]
        if kind in {"thinking", "redacted_thinking", "compaction"} and index is not None:
            self._open[index] = dict(block) if isinstance(block, dict) else {}
        text = text_at(block, "text") or text_at(block, "thinking")
        if not text:
            return []
        return [TextDelta(text)] if kind == "text" else [ReasoningDelta(text)]

    def stop(self, index: int | None) -> list[Event]:
        block = None if index is None else self._open.pop(index, None)
        return [] if block is None else [KeptBlock(block)]

    def delta(self, index: int | None, delta: object) -> list[Event]:
        kept = None if index is None else self._open.get(index)
        if kept is not None and isinstance(delta, dict):
            for name, piece in delta.items():
                if name != "type" and isinstance(piece, str):
                    before = kept.get(name)
                    kept[name] = before + piece if isinstance(before, str) else piece
        match text_at(delta, "type"):
            case "text_delta":
                return [TextDelta(text_at(delta, "text"))]
            case "thinking_delta":
                return [ReasoningDelta(text_at(delta, "thinking"))]
            case "input_json_delta" if index in self._calls:
                return [ToolCallDelta(self._calls[index], arguments=text_at(delta, "partial_json"))]
        return []  # citations; signatures are kept with their block

    def _used(self, stated: object) -> list[Event]:
        """Return the usage so far. Figures are cumulative: the start has input, the end has output."""
        if not isinstance(stated, dict):
            return []
        self._usage |= {name: value for name, value in stated.items() if value is not None}
        return [UsageReport(usage_of(self._usage, MESSAGES))]


def _finished(reason: str) -> list[Event]:
    return [Finished(_FINISHES.get(reason, FinishReason.OTHER), reason)] if reason else []


DIALECT: Final = Dialect(Api.MESSAGES, body, events, AnthropicReader, ServerSentEvents)
