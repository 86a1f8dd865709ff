"""Sessions of Codex ("rollouts"): a JSON object per line, in ``~/.codex/sessions``.

``response_item`` lines are the items of the conversation in the form of the Responses API. An event
``token_count`` ends a request and has its usage. The model's output follows the input of its request.
"""

from __future__ import annotations

from typing import Final

from tokenbox.inspect.importers.transcript import (
    LoggedItem,
    Record,
    Transcript,
    TranscriptTurns,
    as_text,
    mapping,
    text_or_none,
    texts_of,
    tokens_or_none,
)
from tokenbox.providers.usage import UsageKeys, usage_of

NAME: Final = "a session of Codex"
_KINDS: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_USAGE: Final = UsageKeys(
    ("input_tokens",),
    "output_tokens",
    ("cached_input_tokens",),
    "reasoning_output_tokens",
    "cache_write_input_tokens",
)
_TEXTS: Final = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}


def is_own(record: Record) -> bool:
    """Recognize a line of a known type with a payload."""
    return str(record.get("type")) in _KINDS and isinstance(record.get("payload"), dict)


def read(records: list[Record]) -> list[Transcript]:
    """Read the session of the file."""
    reader = _Reader()
    for record in records:
        step = getattr(reader, str(record.get("type")), None) if str(record.get("type")) in _KINDS else None
        if step is not None:
            step(mapping(record.get("payload")), text_or_none(record.get("timestamp")))
    return [Transcript("Codex", tuple(reader.turns.requests), reader.session, missing=True)]


class _Reader:
    """The state of reading a session. There is a method for each type of line."""

    def __init__(self) -> None:
        self.turns = TranscriptTurns()
        self.session: str | None = None
        self._asked: int | None = None  # the number of items before the model's first output
        self._model: str | None = None
        self._note: str | None = None
        self._last: object = None

    def session_meta(self, payload: Record, _: str | None) -> None:
        self.session = self.session or text_or_none(payload.get("id"))
        self._model = text_or_none(payload.get("model")) or self._model
        instructions = payload.get("instructions") or mapping(payload.get("base_instructions")).get("text")
        if isinstance(instructions, str) and instructions and not self.turns.window:
            self.turns.window.append(LoggedItem("system", instructions))

    def turn_context(self, payload: Record, _: str | None) -> None:
        self._model = text_or_none(payload.get("model")) or self._model

    def compacted(self, payload: Record, _: str | None) -> None:
        self._note, self._asked = "compacted before this turn", None
        history = payload.get("replacement_history")
        self.turns.window = [item for item in self.turns.window if item.role == "system"]
        if isinstance(history, list):
            for item in history:
                self.response_item(mapping(item), None)
        elif isinstance(payload.get("message"), str):
            self.turns.window.append(LoggedItem("summary", payload["message"]))
        self._asked = None

    def response_item(self, payload: Record, _: str | None) -> None:
        item, by_model = _item(payload)
        if by_model and self._asked is None:
            self._asked = len(self.turns.window)
        if item is not None:
            self.turns.window.append(item)

    def event_msg(self, payload: Record, time: str | None) -> None:
        info = mapping(payload.get("info"))
        if payload.get("type") != "token_count" or not info:
            return
        stated = info.get("last_token_usage") or info.get("total_token_usage")
        if self._asked is None and (stated == self._last or not self.turns.window):
            return  # a repeated event
        self._last = stated
        self.turns.request(
            self._asked,
            usage=usage_of(stated, _USAGE) if stated else None,
            model=self._model,
            time=time,
            note=self._note,
            window=tokens_or_none(info.get("model_context_window")) or None,
        )
        self._asked, self._note = None, None


def _item(payload: Record) -> tuple[LoggedItem | None, bool]:
    """Return the item, and True if the model wrote it."""
    kind = text_or_none(payload.get("type"))
    if kind == "message":
        role = text_or_none(payload.get("role")) or "user"
        text = "\n".join(text for _, text, _ in texts_of(payload.get("content")))
        return (LoggedItem(role, text) if text else None), role == "assistant"
    if kind in _TEXTS:
        text = as_text(payload.get(_TEXTS[str(kind)]))
        return LoggedItem("tool call", text, text_or_none(payload.get("name"))), True
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = payload.get("output")
        text = "\n".join(text for _, text, _ in texts_of(output))
        return LoggedItem("tool", text), False
    if kind == "reasoning":
        text = "\n".join(text for _, text, _ in texts_of(payload.get("summary") or payload.get("content")))
        return (LoggedItem("thinking", text) if text else None), True
    return (LoggedItem(str(kind), as_text(payload)) if kind else None), True
