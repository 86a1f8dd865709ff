"""The dialect of OpenAI's Responses API: a chat goes out as items, and comes back as items or events.

Nothing is left on the server (``store`` is false): what the model thought comes back encrypted, is kept with
the answer, and is sent again, so that the next request reads the same prompt.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.request import Api
from tokenbox.ledger.usage import Usage
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
from tokenbox.providers.shapes import at, count_at, items_at, text_at

if TYPE_CHECKING:
    from tokenbox.providers.request import ChatRequest

_REASONS: Final = re.compile(r"(^|/)(gpt-5|o\d)")
_CUT: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def body(request: ChatRequest, max_tokens_field: str = "max_output_tokens") -> dict[str, Any]:
    """The body of a request."""
    made = responses_input(
        {"model": request.model, "messages": request.messages, "tools": list(request.tools)}
    )
    made["store"] = False
    if _REASONS.search(request.model):
        made["include"] = ["reasoning.encrypted_content"]
    if request.max_tokens is not None:
        made[max_tokens_field] = request.max_tokens
    if request.temperature is not None:
        made["temperature"] = request.temperature
    if request.stream:
        made["stream"] = True
    return {**made, **request.extra}


def events(answer: object) -> list[Event]:
    """What a whole answer says. Raises :class:`BadAnswer` and :class:`ServerFailed`."""
    if not isinstance(at(answer, "output"), list):
        raise BadAnswer("the answer has no list of output, so it is not an answer of the Responses API.")
    found: list[Event] = []
    for number, item in enumerate(items_at(answer, "output")):
        found += _said(item, number)
    return [*found, *_ended(answer, found)]


def _said(item: object, number: int) -> list[Event]:
    """What one item of the output says."""
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
    """An item to send back, if the server can read it again: without the encrypted text, it cannot."""
    if isinstance(item, dict) and is_responses_item(item) and item.get("encrypted_content"):
        return [KeptBlock({key: value for key, value in item.items() if key != "status"})]
    return []


def _ended(answer: object, said: list[Event]) -> list[Event]:
    """How it ended, and what it used."""
    status = text_at(answer, "status")
    if status == "failed":
        code = text_at(answer, "error.code") or "no code"
        raise ServerFailed(f"the server gave up on the answer ({code}).")
    usage = at(answer, "usage")
    report = [UsageReport(_usage(usage))] if isinstance(usage, dict) else []
    if status == "incomplete":
        reason = text_at(answer, "incomplete_details.reason")
        return [Finished(_CUT.get(reason, FinishReason.OTHER), reason), *report]
    calls = any(isinstance(event, ToolCallDelta) for event in said)
    return [Finished(FinishReason.TOOL_CALLS if calls else FinishReason.STOP, status), *report]


class ResponsesReader:
    """Reads a stream of typed events. Its end is always said."""

    may_end = False

    def __init__(self) -> None:
        self.done = False
        self._calls: list[Event] = []

    def read(self, event: object) -> list[Event]:
        """The events of one of the API's. Raises :class:`ServerFailed`."""
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
                found = _ended(at(event, "response"), self._calls)
        return found


def _usage(stated: object) -> Usage:
    return Usage.reported(
        input_tokens=count_at(stated, "input_tokens"),
        output_tokens=count_at(stated, "output_tokens"),
        cached_input_tokens=count_at(stated, "input_tokens_details.cached_tokens"),
        cache_write_tokens=count_at(stated, "input_tokens_details.cache_write_tokens"),
        reasoning_tokens=count_at(stated, "output_tokens_details.reasoning_tokens"),
    )


DIALECT: Final = Dialect(Api.RESPONSES, body, events, ResponsesReader, ServerSentEvents)
