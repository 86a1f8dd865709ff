"""The dialect of OpenAI's Responses API, whose requests and answers are lists of items.

Nothing is stored on the server (``store`` is false): the model's reasoning is returned encrypted, kept with
the answer, and sent back, so that the next request has the same prompt.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tokenbox.content.request import Api
from tokenbox.providers.errors import BadAnswer, ServerFailed
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
from tokenbox.providers.openai_chat import is_responses_item, responses_input
from tokenbox.providers.request import ChatRequest, stated
from tokenbox.providers.shapes import at, count_at, items_at, text_at
from tokenbox.providers.usage import RESPONSES, usage_of

_REASONING_MODELS: Final = re.compile(r"(^|/)(gpt-5|o\d)")
_INCOMPLETE: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def body(request: ChatRequest, max_tokens_field: str = "max_output_tokens") -> dict[str, Any]:
    """Return the body of a request."""
    made = responses_input(
        {"model": request.model, "messages": request.messages, "tools": list(request.tools)}
    )
    is_reasoning = _REASONING_MODELS.search(request.model)
    made |= stated(
        store=False,
        include=["reasoning.encrypted_content"] if is_reasoning else None,
        **{max_tokens_field: request.max_tokens},
        temperature=request.temperature,
        stream=request.stream or None,
    )
    return {**made, **request.extra}


def events(answer: object) -> list[Event]:
    """Return the events of a complete answer. Raises :class:`BadAnswer` and :class:`ServerFailed`."""
    if not isinstance(at(answer, "output"), list):
        raise BadAnswer("the answer has no output list, so it is not an answer of the Responses API.")
    found: list[Event] = []
    for number, item in enumerate(items_at(answer, "output")):
        found += _item_events(item, number)
    return [*found, *_end_events(answer, found)]


def _item_events(item: object, number: int) -> list[Event]:
    """Return the events of an output item."""
    match text_at(item, "type"):
        case "message":
            parts = items_at(item, "content")
            return [TextDelta(text_at(part, "text") or text_at(part, "refusal")) for part in parts]
        case "function_call":
            name, arguments = text_at(item, "name"), text_at(item, "arguments")
            return [ToolCallDelta(number, text_at(item, "call_id") or None, name or None, arguments)]
        case "reasoning":
            parts = [*items_at(item, "summary"), *items_at(item, "content")]
            return [*(ReasoningDelta(text_at(part, "text")) for part in parts), *_kept(item)]
    return _kept(item)


def _kept(item: object) -> list[Event]:
    """Return an item to send back. The server accepts it only with its encrypted text."""
    if isinstance(item, dict) and is_responses_item(item) and item.get("encrypted_content"):
        return [KeptBlock({key: value for key, value in item.items() if key != "status"})]
    return []


def _end_events(answer: object, found: list[Event]) -> list[Event]:
    """Return the finish reason and the usage."""
    status = text_at(answer, "status")
    if status == "failed":
        code = text_at(answer, "error.code") or "no code"
        raise ServerFailed(f"the server gave up on the answer ({code}).")
    stated = at(answer, "usage")
    report = [UsageReport(usage_of(stated, RESPONSES))] if isinstance(stated, dict) else []
    if status == "incomplete":
        reason = text_at(answer, "incomplete_details.reason")
        return [Finished(_INCOMPLETE.get(reason, FinishReason.OTHER), reason), *report]
    calls = any(isinstance(event, ToolCallDelta) for event in found)
    return [Finished(FinishReason.TOOL_CALLS if calls else FinishReason.STOP, status), *report]


class ResponsesReader:
    """Reads a stream of typed events, which ends with a final event."""

    may_end = False

    def __init__(self) -> None:
        self.done = False
        self._calls: list[Event] = []

    def read(self, event: object) -> list[Event]:
        """Return the events for one event of the API. Raises :class:`ServerFailed`."""
        index = count_at(event, "output_index")
        found: list[Event] = []
        match text_at(event, "type"):
            case "response.output_text.delta" | "response.refusal.delta":
                found = [TextDelta(text_at(event, "delta"))]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                found = [ReasoningDelta(text_at(event, "delta"))]
            case "response.output_item.added" if text_at(event, "item.type") == "function_call":
                call_id, name = text_at(event, "item.call_id"), text_at(event, "item.name")
                found = [ToolCallDelta(len(self._calls) if index is None else index, call_id, name)]
                self._calls += found
            case "response.function_call_arguments.delta" if index is not None:
                found = [ToolCallDelta(index, arguments=text_at(event, "delta"))]
            case "response.output_item.done":
                found = _kept(at(event, "item"))
            case "response.completed" | "response.incomplete" | "response.failed":
                self.done = True
                found = _end_events(at(event, "response"), self._calls)
        return found


DIALECT: Final = Dialect(Api.RESPONSES, body, events, ResponsesReader, ServerSentEvents)
