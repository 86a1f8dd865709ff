"""The first difference of two requests, after which a prompt cache cannot be read.

A cache holds the prefixes of the previous request. A request that continues the previous one or ends earlier
breaks nothing. In every other case everything after the first change is processed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tokenbox.caching.prompt import Layer, PromptSpan, api_of, as_text, spans
from tokenbox.caching.rules import CacheProvider, rules_of
from tokenbox.content.request import Api
from tokenbox.records import to_record

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


class Break(StrEnum):
    """The reason why a cached prefix cannot be read. The value is a stable word for programs."""

    MODEL = "model"
    TOOLS_REORDERED = "tools_reordered"
    TOOL_ADDED = "tool_added"
    TOOL_REMOVED = "tool_removed"
    TOOL_CHANGED = "tool_changed"
    KEY_ORDER = "key_order"
    DATE = "date"
    IDENTIFIER = "identifier"
    WHITESPACE = "whitespace"
    SYSTEM_CHANGED = "system_changed"
    RESPONSE_FORMAT = "response_format"
    TOOL_CHOICE = "tool_choice"
    THINKING = "thinking"
    THOUGHT_DROPPED = "thought_dropped"
    RESULT_SHORTENED = "result_shortened"
    MESSAGES_REMOVED = "messages_removed"
    MESSAGES_INSERTED = "messages_inserted"
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
    Break.DATE: (
        "a date or time in it changed",
        "Put the date into the last user message, or give the day without the time.",
    ),
    Break.IDENTIFIER: (
        "an identifier in it changed",
        "Leave out ids that change with each request, or put them into the last message.",
    ),
    Break.WHITESPACE: ("only its white space changed", "Build the text in the same way each time."),
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
    Break.THOUGHT_DROPPED: ("a thought of the model was left out", "Send thinking blocks back unchanged."),
    Break.RESULT_SHORTENED: (
        "an old tool result is shown shorter",
        'Shorten many at once: low_water="auto" does it where it pays.',
    ),
    Break.MESSAGES_REMOVED: (
        "old messages left",
        'Evict more at once and less often: low_water="auto" does it where it pays.',
    ),
    Break.MESSAGES_INSERTED: ("messages were put before older ones", "Add messages at the end."),
    Break.MESSAGE_CHANGED: ("an old message changed", "Send old messages as they were."),
    Break.MEDIA_CHANGED: (
        "an image or a file changed",
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


def first_change(
    before: Mapping[str, Any], after: Mapping[str, Any], tokenizer: Tokenizer | None = None
) -> PrefixChange | None:
    """Return why ``after`` cannot read everything that ``before`` wrote to the cache; None if it can.

    Both are bodies of Chat Completions, Responses or Anthropic Messages. ``tokenizer`` counts the tokens kept
    and lost. Raises :class:`InvalidMessage`.
    """
    api = api_of(before)
    old, new = spans(before, api), spans(after, api)
    same = _shared(old, new)
    found = [
        change for change in (_of_settings(before, after, new, api), _of_spans(old, new, same)) if change
    ]
    change = min(found, key=lambda one: one.byte) if found else _of_marks(before, after, old, new, api)
    if change is None or tokenizer is None:
        return change
    kept, lost = _tokens(new, change.byte, tokenizer)
    return replace(change, kept=kept, lost=lost)


@dataclass(slots=True)
class Watch:
    """A monitor of successive requests. ``changes`` counts those that broke the cache."""

    tokenizer: Tokenizer | None = None
    last: Mapping[str, Any] | None = None
    changes: int = 0

    def sent(self, body: Mapping[str, Any]) -> PrefixChange | None:
        """Compare the next request with the one before. Return its first change; None if nothing broke."""
        before, self.last = self.last, json.loads(as_text(body))
        change = None if before is None else first_change(before, self.last, self.tokenizer)
        self.changes += change is not None
        return change


def volatile(text: str) -> str | None:
    """Return a part of the text that is likely to change with each request: a time of day or a random id."""
    for pattern in (_TIME, _UUID):
        found = pattern.search(text)
        if found is not None:
            return found[0]
    return None


# The spans


def _shared(old: Sequence[PromptSpan], new: Sequence[PromptSpan]) -> int:
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a.text != b.text), min(len(old), len(new)))


def _of_spans(old: Sequence[PromptSpan], new: Sequence[PromptSpan], same: int) -> PrefixChange | None:
    if same in (len(old), len(new)):  # one is a prefix of the other
        return None
    was, now = old[same], new[same]
    layer = min(was.layer, now.layer)
    if layer is Layer.TOOLS:
        return _of_tools(old, new, same)
    if layer is Layer.SYSTEM:
        reason, detail = _of_text(was, now) or (Break.SYSTEM_CHANGED, "")
        return _change(reason, old, new, same, detail)
    return _of_messages(old, new, same)


def _of_tools(old: Sequence[PromptSpan], new: Sequence[PromptSpan], same: int) -> PrefixChange:
    before, after = _named(old), _named(new)
    at = same if same < len(new) and new[same].layer is Layer.TOOLS else None
    if list(before) != list(after):
        if sorted(before) == sorted(after):
            return _change(Break.TOOLS_REORDERED, old, new, same, f"{_name(new[same])} stands here now")
        missing = [name for name in before if name not in after]
        added = [name for name in after if name not in before]
        if missing and (at is None or _name(old[same]) in missing):
            return _change(Break.TOOL_REMOVED, old, new, same, ", ".join(missing))
        if added:
            return _change(Break.TOOL_ADDED, old, new, same, ", ".join(added))
        return _change(Break.TOOL_REMOVED, old, new, same, ", ".join(missing))
    if old[same].value == new[same].value:
        return _change(Break.KEY_ORDER, old, new, same, _name(new[same]))
    fields = _fields(old[same].value, new[same].value)
    return _change(Break.TOOL_CHANGED, old, new, same, f"{_name(new[same])}: {', '.join(fields)}")


def _of_messages(old: Sequence[PromptSpan], new: Sequence[PromptSpan], same: int) -> PrefixChange:
    was, now = old[same], new[same]
    old_texts, new_texts = [span.text for span in old[same:]], [span.text for span in new[same:]]
    if removed := _inserted(new_texts, old_texts):
        thoughts = {span.kind for span in old[same : same + removed]} <= _THOUGHTS
        reason = Break.THOUGHT_DROPPED if thoughts else Break.MESSAGES_REMOVED
        places = {span.message for span in old[same : same + removed]}
        detail = "" if thoughts else f"{len(places)} message{'' if len(places) == 1 else 's'}"
        return _change(reason, old, new, same, detail)
    if _inserted(old_texts, new_texts):
        return _change(Break.MESSAGES_INSERTED, old, new, same)
    if was.kind in _THOUGHTS and now.kind not in _THOUGHTS:
        return _change(Break.THOUGHT_DROPPED, old, new, same)
    if was.kind in _MEDIA or now.kind in _MEDIA:
        return _change(Break.MEDIA_CHANGED, old, new, same)
    if _is_result(was) and _is_result(now) and len(now.text) < len(was.text):
        return _change(Break.RESULT_SHORTENED, old, new, same)
    reason, detail = _of_text(was, now) or (Break.MESSAGE_CHANGED, "")
    return _change(reason, old, new, same, detail)


def _inserted(before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many texts ``after`` has in front of ``before``, by up to three texts that match; else 0."""
    count = next((n for n in range(1, len(after)) if after[n] == before[0]), 0)
    overlap = after[count : count + 3]
    return count if overlap == before[: len(overlap)] else 0


_BLANK: Final = re.compile(r"\\[nrt]|\s")
_THOUGHTS: Final = frozenset(("thinking", "redacted_thinking", "reasoning"))
_IDS: Final = frozenset(("id", "call_id", "tool_call_id", "tool_use_id"))
_MEDIA: Final = frozenset(
    ("image", "image_url", "input_image", "document", "file", "input_file", "input_audio")
)
_MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    rf"|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}|\b\d{{1,2}}:\d\d(?::\d\d)?(?:\s?[ap]m)?"
    rf"|\b(?:{_MONTHS})[a-z]*\.? \d{{1,2}}(?:,? \d{{4}})?|\b\d{{1,2}}\.? (?:{_MONTHS})[a-z]*(?: \d{{4}})?"
    rf"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b1[6-9]\d{{8}}(?:\d{{3}})?\b",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b|\b1[6-9]\d{8}(?:\d{3})?\b")
_UUID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_RANDOM: Final = re.compile(r"\b(?=[\w-]*\d)[\w-]{8,}\b")


def _of_text(was: PromptSpan, now: PromptSpan) -> tuple[Break, str] | None:
    """Return the reason and detail if they follow from the texts alone."""
    if was.role != now.role:
        return None
    if _parsed(was.value) == _parsed(now.value):
        return Break.KEY_ORDER, ""
    fields = _fields(was.value, now.value)
    if fields and _IDS.issuperset(fields):
        return Break.IDENTIFIER, ", ".join(fields)
    a, b = was.text, now.text
    if _BLANK.sub("", a) == _BLANK.sub("", b):
        return Break.WHITESPACE, ""
    for reason, pattern in ((Break.DATE, _DATE), (Break.IDENTIFIER, _UUID), (Break.IDENTIFIER, _RANDOM)):
        if pattern.sub("", a) == pattern.sub("", b):
            pairs = zip(pattern.findall(a), pattern.findall(b), strict=False)
            shown = next(((x, y) for x, y in pairs if x != y), None)
            return reason, "" if shown is None else f"{shown[0]!r:.40} became {shown[1]!r:.40}"
    return None


def _parsed(value: object) -> object:
    """Parse JSON texts in a block, such as the arguments of calls."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, object] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found[key] = _parsed(inner)
        elif isinstance(inner, str) and inner[:1] in "{[" and inner:
            try:
                found[key] = json.loads(inner)
            except (ValueError, RecursionError):
                found[key] = inner
        else:
            found[key] = inner
    return found


def _is_result(span: PromptSpan) -> bool:
    return span.role == "tool" or span.kind in {"tool_result", "function_call_output"}


def _fields(a: object, b: object) -> list[str]:
    """Return the keys that differ between two mappings, one level into a function."""
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return []
    found = [key for key in {**a, **b} if a.get(key) != b.get(key)]
    return _fields(a["function"], b["function"]) if found == ["function"] else found


def _named(of: Sequence[PromptSpan]) -> dict[str, PromptSpan]:
    return {_name(span): span for span in of if span.layer is Layer.TOOLS}


def _name(span: PromptSpan) -> str:
    value = span.value if isinstance(span.value, Mapping) else {}
    function = value.get("function")
    inner = function if isinstance(function, Mapping) else value
    return str(inner.get("name") or inner.get("type") or span.place)


def _change(
    reason: Break, old: Sequence[PromptSpan], new: Sequence[PromptSpan], same: int, detail: str = ""
) -> PrefixChange:
    there = new[same]
    was, now = (span.text.encode("utf-8", "surrogatepass") for span in (old[same], there))
    within = next((n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), None)
    begins = sum(span.size for span in new[:same]) + (min(len(was), len(now)) if within is None else within)
    shown = min(old[same], there, key=lambda span: span.layer)
    return PrefixChange(reason, shown.place, shown.message, begins, detail)


def _tokens(new: Sequence[PromptSpan], byte: int, tokenizer: Tokenizer) -> tuple[int, int]:
    whole = b"".join(span.text.encode("utf-8", "replace") for span in new)
    halves = (whole[:byte].decode("utf-8", "ignore"), whole[byte:].decode("utf-8", "ignore"))
    kept, lost = tokenizer.count_batch(list(halves))
    return kept, lost


# Settings outside the prompt that invalidate the cache, with the first layer that they affect: Anthropic
# keeps tools and system cached; for other providers nothing is known to be kept.
_SETTINGS: Final = (
    ("model", Break.MODEL, Layer.TOOLS),
    ("prompt_cache_key", Break.CACHE_KEY, Layer.TOOLS),
    ("response_format", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("text", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("output_config", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("thinking", Break.THINKING, Layer.MESSAGES),
    ("tool_choice", Break.TOOL_CHOICE, Layer.MESSAGES),
    ("context_management", Break.SERVER_CLEARS, Layer.MESSAGES),
)


def _of_settings(
    before: Mapping[str, Any], after: Mapping[str, Any], new: Sequence[PromptSpan], api: Api
) -> PrefixChange | None:
    for key, reason, layer in _SETTINGS:
        if key in {"tool_choice", "thinking"} and api is not Api.MESSAGES:
            continue
        was, now = before.get(key), after.get(key)
        if was != now and not (key == "prompt_cache_key" and was is None):
            at = next((n for n, span in enumerate(new) if span.layer >= layer), len(new))
            detail = f"{as_text(was)[:40]} became {as_text(now)[:40]}"
            return PrefixChange(reason, key, None, sum(span.size for span in new[:at]), detail)
    return None


def _of_marks(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    old: Sequence[PromptSpan],
    new: Sequence[PromptSpan],
    api: Api,
) -> PrefixChange | None:
    """Return a change of the marks by which an unchanged prompt is not found in the cache."""
    if (
        api is not Api.MESSAGES
        or rules_of(str(after.get("model", "claude"))).provider is not CacheProvider.ANTHROPIC
    ):
        return None
    was, now = marked(before), marked(after)
    if not was:
        return None
    if not now:
        return PrefixChange(Break.MARKS_GONE, "cache_control", None, 0)
    if len(new) <= len(old):
        return None
    places = [span.place for span in new]
    furthest = max(was, key=lambda place: _at(places, place))
    begin = _at(places, furthest)
    look_back = rules_of(str(after.get("model", "claude"))).look_back or len(new)
    reached = any(0 <= _at(places, place) - begin <= look_back for place in now)
    if begin < 0 or reached:
        return None
    span = new[begin + 1] if begin + 1 < len(new) else new[begin]
    byte = sum(one.size for one in new[: begin + 1])
    return PrefixChange(Break.LOOK_BACK, span.place, span.message, byte)


def _at(places: Sequence[str], place: str) -> int:
    return places.index(place) if place in places else -1


def marked(body: Mapping[str, Any]) -> list[str]:
    """Return the places of blocks with Anthropic's cache mark; the last block for automatic caching."""
    found = []
    for field in ("tools", "system"):
        values = body.get(field)
        for number, block in enumerate(values if isinstance(values, list | tuple) else ()):
            if isinstance(block, Mapping) and block.get("cache_control"):
                found.append(f"{field}[{number}]")
    messages = body.get("messages")
    for number, message in enumerate(messages if isinstance(messages, list | tuple) else ()):
        content = message.get("content") if isinstance(message, Mapping) else None
        for at, block in enumerate(content if isinstance(content, list | tuple) else ()):
            if isinstance(block, Mapping) and block.get("cache_control"):
                found.append(f"messages[{number}].content[{at}]")
    if body.get("cache_control"):
        last = spans(body, Api.MESSAGES)
        found += [last[-1].place] if last else []
    return found
