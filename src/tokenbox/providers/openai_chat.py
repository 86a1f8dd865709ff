"""The dialect of OpenAI's chat completions: request bodies, answers and streams.

llama.cpp, vLLM, SGLang, TGI, LM Studio, OpenAI and most other servers support it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tokenbox.content.request import Api
from tokenbox.ledger.usage import Usage
from tokenbox.providers.errors import BadAnswer
from tokenbox.providers.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Timings,
    ToolCallDelta,
    UsageReport,
)
from tokenbox.providers.framing import ServerSentEvents
from tokenbox.providers.kinds.kind import Dialect
from tokenbox.providers.request import (
    PROVIDER_BLOCKS,
    ChatRequest,
    calls_of,
    function_of,
    image_url,
    part_text,
    parts_of,
    provider_blocks,
    stated,
    text_of,
    unsupported,
)
from tokenbox.providers.shapes import at, count_at, items_at, text_at, written
from tokenbox.providers.usage import CHAT, usage_of

FINISHES: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "eos_token": FinishReason.STOP,  # TGI
    "stop_sequence": FinishReason.STOP,  # TGI
}


def body(request: ChatRequest, max_tokens_field: str = "max_tokens") -> dict[str, Any]:
    """Return the body of a chat request."""
    messages = [_without_provider_blocks(message) for message in request.messages]
    made = stated(
        tools=list(request.tools),
        **{max_tokens_field: request.max_tokens},
        temperature=request.temperature,
        stop=list(request.stop),
    )
    if request.stream:
        made |= {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": request.model, "messages": messages, **made, **request.extra}


def _without_provider_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if PROVIDER_BLOCKS not in message:
        return message
    return {key: value for key, value in message.items() if key != PROVIDER_BLOCKS}


def events(answer: object) -> list[Event]:
    """Return the events of a complete answer. Raises :class:`BadAnswer`."""
    choice = at(answer, "choices.0")
    if not isinstance(at(choice, "message"), dict):
        raise BadAnswer("the answer has no choices[0].message, so it is not a chat completion.")
    return [*_choice_events(choice, "message"), *_report(answer)]


class ChatReader:
    """Reads a stream of chunks. ``may_end``: whether it may end here without ``[DONE]``."""

    done = False

    def __init__(self) -> None:
        self.may_end = False

    def read(self, chunk: object) -> list[Event]:
        """Return the events of a chunk. Raises :class:`BadAnswer`."""
        if not isinstance(chunk, dict):
            raise BadAnswer("a chunk of the stream is not an object.")
        found: list[Event] = []
        # One answer is asked for: number 0, or the first if they have no numbers.
        for choice in [one for one in items_at(chunk, "choices") if not count_at(one, "index")][:1]:
            # A server that does not stream sends the complete message in one event.
            found += _choice_events(choice, "delta" if at(choice, "delta") else "message")
        self.may_end = self.may_end or any(isinstance(event, Finished) for event in found)
        return [*found, *_report(chunk)]


def _choice_events(choice: object, where: str) -> list[Event]:
    """Return the events of a choice: in the ``message`` of an answer, or the ``delta`` of a chunk."""
    found: list[Event] = []
    # vLLM, SGLang and llama.cpp use reasoning_content; newer vLLM and OpenRouter use reasoning.
    reasoning = text_at(choice, f"{where}.reasoning_content") or text_at(choice, f"{where}.reasoning")
    if reasoning:
        found.append(ReasoningDelta(reasoning))
    text = text_of(at(choice, f"{where}.content")) or text_at(choice, f"{where}.refusal")
    if text:
        found.append(TextDelta(text))
    for number, call in enumerate(items_at(choice, f"{where}.tool_calls")):
        index = count_at(call, "index")
        place = number if index is None else index
        found.append(_call_delta(place, text_at(call, "id"), at(call, "function")))
    if isinstance(legacy := at(choice, f"{where}.function_call"), dict):
        found.append(_call_delta(0, "", legacy))
    reason = text_at(choice, "finish_reason")
    if reason:
        found.append(Finished(FINISHES.get(reason, FinishReason.OTHER), reason))
    return found


def _call_delta(index: int, call_id: str, function: object) -> ToolCallDelta:
    arguments = at(function, "arguments")
    # Some servers give the arguments as an object, not as its JSON text.
    text = written(arguments).decode() if isinstance(arguments, dict) else text_at(function, "arguments")
    return ToolCallDelta(index, call_id or None, text_at(function, "name") or None, text)


def _report(answer: object) -> list[Event]:
    """Return the usage, if the answer has it."""
    stated, timings = at(answer, "usage"), at(answer, "timings")
    if not isinstance(stated, dict) and not isinstance(timings, dict):
        return []
    usage = usage_of(stated, CHAT)
    if not isinstance(timings, dict):
        return [UsageReport(usage)]
    cached = count_at(timings, "cache_n")  # llama.cpp's, in both places
    if usage.cached_input_tokens is None and cached is not None:
        usage = Usage.reported(**{**usage.to_dict(), "cached_input_tokens": cached})
    return [
        UsageReport(usage, Timings(count_at(timings, "prompt_n"), cached, count_at(timings, "predicted_n")))
    ]


def responses_input(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a chat request to OpenAI's Responses API, the one that OpenAI counts."""
    items: list[dict[str, Any]] = []
    for message in body.get("messages", ()):
        role = message["role"]
        content = _responses_content(message)
        if role == "tool":
            output = {"type": "function_call_output", "call_id": message.get("tool_call_id", "")}
            items.append({**output, "output": content})
            continue
        items += [dict(block) for block in provider_blocks(message) if is_responses_item(block)]
        if content:
            items.append({"role": role, "content": content})
        items += [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            for call_id, name, arguments in calls_of(message)
        ]
    made: dict[str, Any] = {"model": body.get("model"), "input": items}
    if body.get("tools"):
        made["tools"] = [{"type": "function", **function_of(tool)} for tool in body["tools"]]
    return made


def is_responses_item(block: Mapping[str, Any]) -> bool:
    """Whether a kept block is one of the Responses API: a thought, or what was compacted, encrypted."""
    kind = block.get("type")
    return kind == "reasoning" or (kind == "compaction" and "content" not in block)


def _responses_content(message: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """Return the content of an item: the text of a tool's result, or of a message that is only a text."""
    content, parts = message.get("content"), parts_of(message)
    texts = [part_text(part) for part in parts]
    if message["role"] == "tool" and None not in texts:
        return "".join(text for text in texts if text)
    if isinstance(content, str) and len(parts) == 1:
        return content
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    return [_responses_part(part, kind) for part in parts]


def _responses_part(part: Mapping[str, Any], kind: str) -> dict[str, Any]:
    given, url, text = part.get("type"), image_url(part), part_text(part)
    if url is not None:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if given in _RESPONSES_PARTS:
        return dict(part)
    if given == "file" and isinstance(part.get("file"), Mapping):
        return {"type": "input_file", **part["file"]}
    if text is None:
        raise unsupported(part, "the Responses API")
    mark = {key: part[key] for key in ("prompt_cache_breakpoint",) if key in part}
    return {"type": kind, "text": text, **mark}


_RESPONSES_PARTS: Final = ("input_text", "input_image", "input_file", "output_text", "refusal")


DIALECT: Final = Dialect(Api.CHAT, body, events, ChatReader, ServerSentEvents)
