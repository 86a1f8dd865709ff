"""The reasons why a cached prefix cannot be read, and the change that has one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tokenbox.records import to_record


class Break(StrEnum):
    """The reason why a cached prefix cannot be read. The value is a stable word for programs."""

    MODEL = "model"
    TOOLS_REORDERED = "tools_reordered"
    TOOL_ADDED = "tool_added"
    TOOL_REMOVED = "tool_removed"
    TOOL_CHANGED = "tool_changed"
    KEY_ORDER = "key_order"
    JSON_SPELLING = "json_spelling"
    DATE = "date"
    IDENTIFIER = "identifier"
    NUMBER = "number"
    WHITESPACE = "whitespace"
    UNICODE = "unicode"
    SYSTEM_CHANGED = "system_changed"
    RESPONSE_FORMAT = "response_format"
    TOOL_CHOICE = "tool_choice"
    THINKING = "thinking"
    EFFORT = "effort"
    SPEED = "speed"
    THOUGHT_DROPPED = "thought_dropped"
    RESULT_SHORTENED = "result_shortened"
    MESSAGES_REMOVED = "messages_removed"
    MESSAGES_REPLACED = "messages_replaced"
    MESSAGES_INSERTED = "messages_inserted"
    MESSAGES_REORDERED = "messages_reordered"
    MESSAGE_CHANGED = "message_changed"
    MEDIA_CHANGED = "media_changed"
    CACHE_KEY = "cache_key"
    MARKS_GONE = "marks_gone"
    LOOK_BACK = "look_back"
    SERVER_CLEARS = "server_clears"


# The sentence for each reason, and a fix.
_EXPLANATIONS: Final[Mapping[Break, tuple[str, str]]] = {
    Break.MODEL: ("the model is another", "Keep one model for a session; each has a cache of its own."),
    Break.TOOLS_REORDERED: ("the tools are the same in another order", "Send tools in a fixed order."),
    Break.TOOL_ADDED: ("a tool was added", "Send all tools from the first request on, or add it at the end."),
    Break.TOOL_REMOVED: ("a tool was left out", "Send all tools in every request of a session."),
    Break.TOOL_CHANGED: ("a tool's schema changed", "Keep schemas as they were for the session."),
    Break.KEY_ORDER: (
        "the same JSON has its keys in another order",
        "Serialize with one order of keys, such as sort_keys=True.",
    ),
    Break.JSON_SPELLING: (
        "the same JSON is written in another way",
        "Serialize it in one way: the same blanks, escapes and numbers.",
    ),
    Break.DATE: (
        "a date or time in it changed",
        "Put the date into the last user message, or give the day without the time.",
    ),
    Break.IDENTIFIER: (
        "an identifier in it changed",
        "Leave out ids that change with each request, or put them into the last message.",
    ),
    Break.NUMBER: ("a number in it changed", "Put counters into the last user message."),
    Break.WHITESPACE: ("only its white space changed", "Build the text in the same way each time."),
    Break.UNICODE: (
        "the same characters are in another Unicode form",
        "Normalize texts in one way, such as NFC.",
    ),
    Break.SYSTEM_CHANGED: ("the system prompt changed", "Put what changes into the last user message."),
    Break.RESPONSE_FORMAT: ("the response format changed", "Keep one schema for a session."),
    Break.TOOL_CHOICE: (
        "tool_choice changed",
        "Keep tool_choice for a session; tools and system stay cached.",
    ),
    Break.THINKING: (
        "the thinking options changed",
        "Keep them for a session; tools and system stay cached.",
    ),
    Break.EFFORT: ("the reasoning effort changed", "Keep one effort for a session."),
    Break.SPEED: ("the speed changed", "Keep one speed for a session; tools stay cached."),
    Break.THOUGHT_DROPPED: (
        "a thought of the model was left out or changed",
        "Send thinking blocks back unchanged.",
    ),
    Break.RESULT_SHORTENED: (
        "an old tool result is shown shorter",
        'Shorten many at once: low_water="auto" does it where it pays.',
    ),
    Break.MESSAGES_REMOVED: (
        "old messages left",
        'Evict more at once and less often: low_water="auto" does it where it pays.',
    ),
    Break.MESSAGES_REPLACED: (
        "old messages were replaced by others, such as a summary",
        "Replace many at once, so that the next requests begin alike.",
    ),
    Break.MESSAGES_INSERTED: ("messages were put before older ones", "Add messages at the end."),
    Break.MESSAGES_REORDERED: (
        "the same messages, calls or results are in another order",
        "Send them in the order of the calls, not in the order in which they finish.",
    ),
    Break.MESSAGE_CHANGED: ("an old message changed", "Send old messages as they were."),
    Break.MEDIA_CHANGED: (
        "an image or a file changed or was left out",
        "Send the same bytes, or the same address, each time.",
    ),
    Break.CACHE_KEY: (
        "prompt_cache_key changed, so another server may get the request",
        "Use one key for all requests that begin the same.",
    ),
    Break.MARKS_GONE: ("no cache_control mark is left", "Set a breakpoint, or top-level cache_control."),
    Break.LOOK_BACK: (
        "the mark is more than 20 blocks behind the last one, further than the provider looks back",
        "Set one more breakpoint in between: tokenbox.caching.plan does.",
    ),
    Break.SERVER_CLEARS: (
        "the provider's own context_management changed",
        "Keep its edits for a session; clear_at_least makes each worth its price.",
    ),
}


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """The first change between two requests.

    ``place``: its path in the later request, or in the earlier one if it was removed. ``message``: the index
    of the message, None before the messages. ``byte``: the number of equal bytes of the prompt, as UTF-8.
    ``kept`` and ``lost``: the approximate tokens before and after it; None without a tokenizer.
    """

    reason: Break
    place: str
    message: int | None
    byte: int
    detail: str = ""
    kept: int | None = None
    lost: int | None = None

    @property
    def why(self) -> str:
        why = _EXPLANATIONS[self.reason][0]
        return f"{why} ({self.detail})" if self.detail else why

    @property
    def fix(self) -> str:
        return _EXPLANATIONS[self.reason][1]

    def __str__(self) -> str:
        again = "" if self.lost is None else f", so ~{self.lost:,} tokens are processed again"
        return f"{self.place}, byte {self.byte:,}: {self.why}{again}. {self.fix}"

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "reason place message byte why fix kept_tokens lost_tokens exact",
            kept_tokens=self.kept,
            lost_tokens=self.lost,
            exact=False,
        )
