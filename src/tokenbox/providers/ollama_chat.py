"""The dialect of Ollama's own ``/api/chat``.

Its OpenAI-compatible API has no parameter for the context window. A request that exceeds Ollama's window
silently loses its oldest messages; so every request states the window (``options.num_ctx``) and forbids
truncation (``truncate``, ``shift``: newer versions then reject the request, older ones ignore the fields).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tokenbox.ledger.usage import Usage
from tokenbox.providers.errors import BadAnswer, InvalidRequest
from tokenbox.providers.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from tokenbox.providers.framing import JsonLines
from tokenbox.providers.kinds.kind import Dialect
from tokenbox.providers.request import (
    ChatRequest,
    calls_of,
    image_url,
    json_arguments,
    part_text,
    parts_of,
    stated,
    unsupported,
)
from tokenbox.providers.shapes import at, count_at, items_at, text_at

_FINISHES: Final = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def body(request: ChatRequest, _max_tokens_field: str = "") -> dict[str, Any]:
    """Return the body of a chat request. The output limit is always ``num_predict``."""
    options = stated(
        num_ctx=request.window,
        num_predict=request.max_tokens,
        temperature=request.temperature,
        stop=list(request.stop),
    )
    extra = dict(request.extra)
    options |= extra.pop("options", {})
    names = {call_id: name for message in request.messages for call_id, name, _ in calls_of(message)}
    made: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message, names) for message in request.messages],
        "stream": request.stream,
        "options": options,
        "truncate": False,
        "shift": False,
    }
    if request.tools:
        made["tools"] = list(request.tools)
    return made | extra


def _message(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return one message: arguments as an object, images beside the text, and tool names for results."""
    role, texts, images = message["role"], [], []
    for part in parts_of(message):
        url, text = image_url(part), part_text(part)
        if url is not None:
            images.append(_image(url))
        elif text is not None:
            texts.append(text)
        else:
            raise unsupported(part, "Ollama")
    made: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": "".join(texts)}
    if images:
        made["images"] = images
    calls = calls_of(message)
    if calls:
        made["tool_calls"] = [
            {
                "id": call_id,
                "function": {"name": name, "arguments": json_arguments(name, arguments, "Ollama")},
            }
            for call_id, name, arguments in calls
        ]
    if role == "tool":
        call_id = str(message.get("tool_call_id", ""))
        made |= {"tool_name": names.get(call_id, str(message.get("name", ""))), "tool_call_id": call_id}
    return made


def _image(url: str) -> str:
    kind, _, data = url.partition(";base64,")
    if not kind.startswith("data:"):
        raise InvalidRequest("Ollama takes images only as base64 data: URLs, not by address.")
    return data


def events(answer: object) -> list[Event]:
    """Return the events of a complete answer. Raises :class:`BadAnswer`."""
    return OllamaReader().read(answer)


class OllamaReader:
    """Reads a stream of JSON lines, which must end with ``done``. Each tool call is on one line."""

    may_end = False

    def __init__(self) -> None:
        self.done = False
        self._calls = 0

    def read(self, line: object) -> list[Event]:
        """Return the events of a line. Raises :class:`BadAnswer`."""
        if not isinstance(at(line, "message"), dict) and at(line, "done") is not True:
            raise BadAnswer("the answer has no message, so it is not a chat answer of Ollama.")
        found: list[Event] = []
        thinking, text = text_at(line, "message.thinking"), text_at(line, "message.content")
        if thinking:
            found.append(ReasoningDelta(thinking))
        if text:
            found.append(TextDelta(text))
        for call in items_at(line, "message.tool_calls"):
            arguments = at(call, "function.arguments")
            found.append(
                ToolCallDelta(
                    self._calls,
                    text_at(call, "id") or None,
                    text_at(call, "function.name"),
                    arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
                )
            )
            self._calls += 1
        self.done = at(line, "done") is True
        if self.done:
            found += self._end(line)
        return found

    def _end(self, line: object) -> list[Event]:
        word = text_at(line, "done_reason") or "stop"
        reason = _FINISHES.get(word, FinishReason.OTHER)
        if self._calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        # Without a prompt_eval_count the prompt was cached, and its size is unknown.
        usage = Usage.reported(
            input_tokens=count_at(line, "prompt_eval_count"), output_tokens=count_at(line, "eval_count")
        )
        return [Finished(reason, word), UsageReport(usage)]


DIALECT: Final = Dialect(None, body, events, OllamaReader, JsonLines, asks_window=True)
