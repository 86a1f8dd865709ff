"""The events of a chat answer, streamed or complete, and the answer that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import ToolCall
from tokenbox.providers.request import PROVIDER_BLOCKS

if TYPE_CHECKING:
    from tokenbox.ledger.usage import Usage


class FinishReason(Enum):
    """The reason why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning, which is not part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of the tool call ``index``. Its ``arguments`` add up to JSON text."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """The token counts of llama.cpp's prompt cache; None if unknown.

    ``prompt_n``: processed for this request. ``cache_n``: cache hits from the previous request.
    """

    prompt_n: int | None
    cache_n: int | None
    predicted_n: int | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage of the call. A later report in a stream replaces an earlier one."""

    usage: Usage
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of the answer. ``said``: the reason in the server's terms."""

    reason: FinishReason
    said: str


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A block to send back to its provider unchanged, such as a signed thought."""

    block: Mapping[str, Any]


Event = KeptBlock | TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | Finished


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, complete or partial. ``finish`` is None if it has not ended.

    ``kept``: blocks to send back to the provider unchanged. ``message`` has them as ``provider_blocks``,
    which only their own dialect sends.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    kept: tuple[Mapping[str, Any], ...] = ()

    @property
    def message(self) -> dict[str, Any]:
        """The assistant message for the conversation, in OpenAI's format."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            # In OpenAI's format, empty content beside tool calls is null.
            message["content"] = self.text or None
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        if self.kept:
            message[PROVIDER_BLOCKS] = [dict(block) for block in self.kept]
        return message


@dataclass(slots=True)
class _GatheredCall:
    """A tool call in pieces. ``index``: its number, as the server gives it."""

    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def continues(self, delta: ToolCallDelta) -> bool:
        """Whether ``delta``, with the same number, is of this call: some servers number all calls alike."""
        return not delta.id or not self.id or delta.id == self.id

    def add(self, delta: ToolCallDelta) -> None:
        # Some servers repeat the id and name with each piece; others give the name in pieces.
        self.id = self.id or delta.id or ""
        if delta.name and delta.name != self.name and not any(self.pieces):
            self.name += delta.name
        self.pieces.append(delta.arguments)


@dataclass(slots=True)
class Gathering:
    """Accumulates events into an answer."""

    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: list[_GatheredCall] = field(default_factory=list)
    finish: FinishReason | None = None
    _report: UsageReport | None = None
    _kept: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallDelta():
                self._call_of(event).add(event)
            case KeptBlock(block):
                self._kept.append(block)
            case UsageReport():
                self._report = event
            case Finished(reason):
                self.finish = reason

    def _call_of(self, delta: ToolCallDelta) -> _GatheredCall:
        last = next((call for call in reversed(self._calls) if call.index == delta.index), None)
        if last is None or not last.continues(delta):
            self._calls.append(last := _GatheredCall(delta.index))
        return last

    def answer(self) -> ChatAnswer:
        return ChatAnswer(
            _joined(self._text),
            _joined(self._reasoning),
            tuple(
                # Older versions of Ollama give no id, but a result must name its call.
                ToolCall(call.id or f"call_{place}", call.name, _joined(call.pieces))
                for place, call in enumerate(sorted(self._calls, key=lambda call: call.index))
            ),
            self.finish,
            None if self._report is None else self._report.usage,
            None if self._report is None else self._report.timings,
            tuple(self._kept),
        )


def _joined(pieces: Sequence[str]) -> str:
    """Join the pieces of a text. Halves of a character in two pieces become one, a lone half U+FFFD."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def gathered(events: Iterable[Event]) -> ChatAnswer:
    """Return the answer that ``events`` add up to."""
    gathering = Gathering()
    for event in events:
        gathering.add(event)
    return gathering.answer()
