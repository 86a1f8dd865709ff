"""What comes back from a server: the events of a stream, and the answer they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import ToolCall
from tokenbox.providers.request import PROVIDER_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tokenbox.ledger.usage import Usage


class FinishReason(Enum):
    """Why an answer ended."""

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
    """A piece of the model's reasoning, where the server shows it. It is not part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. ``index`` says of which; ``arguments`` adds up to JSON text."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """What llama.cpp says of its prompt cache. Tokens; None where it does not say.

    ``prompt_n`` were processed for this request, ``cache_n`` were there from the one before.
    """

    prompt_n: int | None
    cache_n: int | None
    predicted_n: int | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What the call used. A later report of a stream takes the place of an earlier one."""

    usage: Usage
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The model has ended its answer. ``said`` is the server's own word for the reason."""

    reason: FinishReason
    said: str


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A block that goes back to its provider unchanged: a signed thought, what was compacted."""

    block: Mapping[str, Any]


Event = KeptBlock | TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | Finished


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, or as much of it as came. ``finish`` is None if its end did not come.

    ``kept``: blocks that the provider wants back unchanged. ``message`` has them as ``provider_blocks``,
    which only the dialect they came from sends.
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
        """The assistant message to put into the conversation, as OpenAI shapes it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            # Content beside tool calls is null where there is none: that is how OpenAI writes it.
            message["content"] = self.text or None
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        if self.kept:
            message[PROVIDER_BLOCKS] = [dict(block) for block in self.kept]
        return message


@dataclass(slots=True)
class Gathering:
    """Adds events up to an answer."""

    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: dict[int, tuple[list[str], list[str], list[str]]] = field(default_factory=dict)
    finish: FinishReason | None = None
    _report: UsageReport | None = None
    _kept: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallDelta(index, call_id, name, arguments):
                ids, names, pieces = self._calls.setdefault(index, ([], [], []))
                # Some servers repeat the id and name with each piece.
                if call_id and not ids:
                    ids.append(call_id)
                if name and not names:
                    names.append(name)
                pieces.append(arguments)
            case KeptBlock(block):
                self._kept.append(block)
            case UsageReport():
                self._report = event
            case Finished(reason):
                self.finish = reason

    def answer(self) -> ChatAnswer:
        return ChatAnswer(
            "".join(self._text),
            "".join(self._reasoning),
            tuple(
                # Ollama once gave calls no id, and a result must name its call.
                ToolCall("".join(ids) or f"call_{index}", "".join(names), "".join(pieces))
                for index, (ids, names, pieces) in sorted(self._calls.items())
            ),
            self.finish,
            None if self._report is None else self._report.usage,
            None if self._report is None else self._report.timings,
            tuple(self._kept),
        )


def gathered(events: Iterable[Event]) -> ChatAnswer:
    """The answer that ``events`` add up to."""
    gathering = Gathering()
    for event in events:
        gathering.add(event)
    return gathering.answer()
