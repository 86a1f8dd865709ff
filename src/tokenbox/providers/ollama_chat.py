"""The dialect of Ollama's own ``/api/chat``.

Not its OpenAI form, because that cannot be told a context window. A request that does not fit Ollama's window
loses its oldest messages, silently; so every request says how large the window is (``options.num_ctx``) and
that nothing may be dropped (``truncate``, ``shift``: newer versions then refuse, older ones ignore it).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

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
from tokenbox.providers.request import calls_of, is_parts, text_of
from tokenbox.providers.shapes import at, count_at, items_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

from tokenbox.providers.request import ChatRequest

_FINISHES: Final = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def body(request: ChatRequest, _max_tokens_field: str = "") -> dict[str, Any]:
    """The body of a chat request. Its limit of the answer is always ``num_predict``."""
    stated = {
        "num_ctx": request.window,
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop) or None,
    }
    options = {name: value for name, value in stated.items() if value is not None}
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
    """One message. Ollama has arguments as an object, images beside the text, and names for results."""
    content = message.get("content")
    role = message["role"]
    made: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": text_of(content)}
    images = (
        [_image(part) for part in content if part.get("type") == "image_url"] if is_parts(content) else []
    )
    if images:
        made["images"] = images
    calls = calls_of(message)
    if calls:
        made["tool_calls"] = [
            {"id": call_id, "function": {"name": name, "arguments": _arguments(name, arguments)}}
            for call_id, name, arguments in calls
        ]
    if role == "tool":
        call_id = str(message.get("tool_call_id", ""))
        made |= {"tool_name": names.get(call_id, str(message.get("name", ""))), "tool_call_id": call_id}
    return made


def _image(part: Mapping[str, Any]) -> str:
    url = text_at(part, "image_url.url")
    kind, _, data = url.partition(";base64,")
    if not kind.startswith("data:"):
        raise InvalidRequest("Ollama takes images as data: URLs in base64 only, not by address.")
    return data


def _arguments(name: str, text: str) -> object:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(
            f"the arguments of the call of {name} are not a JSON object, which Ollama needs."
        )
    return value


def events(answer: object) -> list[Event]:
    """What an answer, or a line of a streamed one, says. Raises :class:`BadAnswer`."""
    return _Lines().events(answer)


class _Lines:
    """Numbers the tool calls, which come whole, over the lines of an answer."""

    def __init__(self) -> None:
        self._calls = 0

    def events(self, line: object) -> list[Event]:
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
        if at(line, "done") is True:
            found += self._end(line)
        return found

    def _end(self, line: object) -> list[Event]:
        said = text_at(line, "done_reason") or "stop"
        reason = _FINISHES.get(said, FinishReason.OTHER)
        if self._calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        # Without a prompt_eval_count the whole prompt came from the cache: how much that was is not said.
        usage = Usage.reported(
            input_tokens=count_at(line, "prompt_eval_count"), output_tokens=count_at(line, "eval_count")
        )
        return [Finished(reason, said), UsageReport(usage)]


class OllamaReader:
    """Reads a stream of JSON lines. Its end is always said."""

    may_end = False

    def __init__(self) -> None:
        self.done = False
        self._lines = _Lines()

    def read(self, line: object) -> list[Event]:
        """The events of a line. Raises :class:`BadAnswer`."""
        found = self._lines.events(line)
        self.done = any(isinstance(event, Finished) for event in found)
        return found


DIALECT: Final = Dialect(None, body, events, OllamaReader, JsonLines, asks_window=True)
