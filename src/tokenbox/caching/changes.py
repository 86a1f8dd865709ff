"""The first difference of two requests, after which a prompt cache cannot be read.

A cache holds the prefixes of the previous request. A request that continues the previous one or ends earlier
breaks nothing. In every other case everything after the first change is processed again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tokenbox.caching.breaks import Break, PrefixChange
from tokenbox.caching.prompt import Layer, PromptSpan, api_of, as_text, blocks_in, message_blocks, spans
from tokenbox.caching.rules import CacheProvider, rules_of
from tokenbox.characters import common_prefix, normalize
from tokenbox.content.message import media_kind
from tokenbox.content.request import Api
from tokenbox.records import from_json
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


def first_change(
    before: Mapping[str, Any], after: Mapping[str, Any], tokenizer: Tokenizer | str | None = None
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
    kept, lost = _tokens(new, change.byte, as_tokenizer(tokenizer))
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
        reason, detail = _of_tools(_names(old), _names(new), was, now)
    elif layer is Layer.SYSTEM:
        reason, detail = _of_text(was, now) or (Break.SYSTEM_CHANGED, _difference(was, now))
    else:
        reason, detail = _of_order(old[same:], new[same:]) or _of_block(old[same:], new[same:])
    return _change(reason, old, new, same, detail)


def _of_tools(
    before: Sequence[str], after: Sequence[str], was: PromptSpan, now: PromptSpan
) -> tuple[Break, str]:
    """Return the reason and detail, by the names of all tools, and the first that differ."""
    if before == after and was.value == now.value:
        return _spelling(was.value, now.value), _name(now)
    if before == after:
        return Break.TOOL_CHANGED, f"{_name(now)}: {', '.join(_fields(was.value, now.value))}"
    if sorted(before) == sorted(after):
        return Break.TOOLS_REORDERED, f"{_name(now)} stands here now"
    missing = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    follows = now.layer is Layer.TOOLS
    if follows and _name(was) in missing and _name(now) in added:
        return Break.TOOL_CHANGED, f"{_name(was)} became {_name(now)}"
    if missing and (not added or not follows or _name(was) in missing):
        return Break.TOOL_REMOVED, ", ".join(missing)
    return Break.TOOL_ADDED, ", ".join(added)


def _of_order(old: Sequence[PromptSpan], new: Sequence[PromptSpan]) -> tuple[Break, str] | None:
    """Return the reason and detail if the same blocks follow further on in one of the requests."""
    old_texts, new_texts = [span.text for span in old], [span.text for span in new]
    if _reordered(old_texts, new_texts):
        return Break.MESSAGES_REORDERED, ""
    if removed := _inserted(new_texts, old_texts):
        reason = _removal({span.kind for span in old[:removed]})
        places = {span.message for span in old[:removed]}
        detail = f"{len(places)} message{'' if len(places) == 1 else 's'}"
        return reason, detail if reason is Break.MESSAGES_REMOVED else ""
    return (Break.MESSAGES_INSERTED, "") if _inserted(old_texts, new_texts) else None


def _of_block(old: Sequence[PromptSpan], new: Sequence[PromptSpan]) -> tuple[Break, str]:
    """Return the reason and detail if one block, or some messages, became others."""
    was, now = old[0], new[0]
    if was.kind in _THOUGHTS:
        return Break.THOUGHT_DROPPED, ""
    if media_kind(was.kind) or media_kind(now.kind):
        return Break.MEDIA_CHANGED, ""
    if _is_result(was) and _is_result(now) and len(now.text) < len(was.text):
        return Break.RESULT_SHORTENED, ""
    if detail := _replaced(old, new):
        return Break.MESSAGES_REPLACED, detail
    return _of_text(was, now) or (Break.MESSAGE_CHANGED, _difference(was, now))


def _removal(kinds: set[str]) -> Break:
    if kinds <= _THOUGHTS:
        return Break.THOUGHT_DROPPED
    return Break.MEDIA_CHANGED if all(map(media_kind, kinds)) else Break.MESSAGES_REMOVED


def _reordered(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return True if the first texts of ``after`` are the first of ``before`` in another order."""
    balance: Counter[str] = Counter()
    for a, b in zip(before, after, strict=False):
        for text, by in ((a, 1), (b, -1)):
            balance[text] += by
            if not balance[text]:
                del balance[text]
        if not balance:
            return True
    return False


def _replaced(old: Sequence[PromptSpan], new: Sequence[PromptSpan]) -> str:
    """Return how many messages became fewer, by up to three texts that follow; else an empty text."""
    first = {span.text: at for at, span in reversed([*enumerate(old)])}
    for count in range(1, len(new)):
        at = first.get(new[count].text, 0)
        after = [span.text for span in old[at : at + 3]]
        if at and after == [span.text for span in new[count : count + len(after)]]:
            were, are = ({span.message for span in spans_[:n]} for spans_, n in ((old, at), (new, count)))
            return f"{len(were)} became {len(are)}" if len(were) > len(are) else ""
    return ""


def _inserted(before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many texts ``after`` has in front of ``before``, by up to three texts that match; else 0."""
    count = next((n for n in range(1, len(after)) if after[n] == before[0]), 0)
    overlap = after[count : count + 3]
    return count if overlap == before[: len(overlap)] else 0


_BLANK: Final = re.compile(r"\\[nrt]|\s")
_THOUGHTS: Final = frozenset(("thinking", "redacted_thinking", "reasoning"))
_IDS: Final = frozenset(("id", "call_id", "tool_call_id", "tool_use_id"))
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
_LONG_WORD: Final = re.compile(r"\b[\w-]{8,}\b")
_DIGIT: Final = re.compile(r"\d")
_PATTERNS: Final = (
    (Break.DATE, _DATE),
    (Break.IDENTIFIER, _UUID),
    (Break.IDENTIFIER, _LONG_WORD),
    (Break.NUMBER, re.compile(r"\d+(?:[.,]\d+)*")),
)


def _of_text(was: PromptSpan, now: PromptSpan) -> tuple[Break, str] | None:
    """Return the reason and detail if they follow from the texts alone."""
    if was.role != now.role:
        return None
    values = _parsed(was.value), _parsed(now.value)
    fields = _fields(was.value, now.value)
    a, b = was.text, now.text
    if values[0] == values[1]:
        return _spelling(*values), ""
    if fields and _IDS.issuperset(fields):
        return Break.IDENTIFIER, ", ".join(fields)
    for reason, same in (
        (Break.WHITESPACE, partial(_BLANK.sub, "")),
        (Break.UNICODE, partial(normalize, "NFC")),
    ):
        if same(a) == same(b):
            return reason, ""
    for reason, pattern in _PATTERNS:
        (rest, parts), (other_rest, others) = _without(pattern, a), _without(pattern, b)
        if rest == other_rest:
            pairs = zip(parts, others, strict=False)
            shown = next(((x, y) for x, y in pairs if x != y), None)
            return reason, "" if shown is None else f"{shown[0]!r:.40} became {shown[1]!r:.40}"
    return None


def _without(pattern: re.Pattern[str], text: str) -> tuple[str, list[str]]:
    """Return the text without what the pattern matches, and these parts; of long words only random ones."""
    parts: list[str] = []

    def take(match: re.Match[str]) -> str:
        if pattern is _LONG_WORD and not _DIGIT.search(match[0]):
            return match[0]
        parts.append(match[0])
        return ""

    return pattern.sub(take, text), parts


def _spelling(a: object, b: object) -> Break:
    """Return how two equal JSON values differ as texts."""
    same_order = as_text(a) == as_text(b)
    sorted_alike = json.dumps(a, sort_keys=True, default=repr) == json.dumps(b, sort_keys=True, default=repr)
    return Break.KEY_ORDER if sorted_alike and not same_order else Break.JSON_SPELLING


def _difference(was: PromptSpan, now: PromptSpan) -> str:
    """Describe what one block has and the other does not."""
    if was.role != now.role:
        return f"the role {was.role} became {now.role}"
    a, b = was.text, now.text
    start = common_prefix(a, b)
    end = common_prefix(a[start:][::-1], b[start:][::-1])
    gone, come = a[start : len(a) - end], b[start : len(b) - end]
    if not gone or not come:
        return f"{gone or come!r:.40} was {'left out' if gone else 'added'}"
    return f"{gone!r:.40} became {come!r:.40}"


def _parsed(value: object) -> object:
    """Parse JSON texts in a block, such as the arguments of calls."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, object] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found[key] = _parsed(inner)
        elif isinstance(inner, str) and inner[:1] in "{[" and inner:
            found[key] = from_json(inner, inner)
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
    inner = _fields(a.get("function"), b.get("function")) if found == ["function"] else []
    return inner or found


def _names(of: Sequence[PromptSpan]) -> list[str]:
    return list(dict.fromkeys(_name(span) for span in of if span.layer is Layer.TOOLS))


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
    ("mcp_servers", Break.TOOL_CHANGED, Layer.TOOLS),
    ("response_format", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("text.format", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("output_config.format", Break.RESPONSE_FORMAT, Layer.SYSTEM),
    ("reasoning_effort", Break.EFFORT, Layer.SYSTEM),
    ("reasoning.effort", Break.EFFORT, Layer.SYSTEM),
    ("speed", Break.SPEED, Layer.SYSTEM),
    ("output_config.effort", Break.EFFORT, Layer.MESSAGES),
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
        was, now = _setting(before, key), _setting(after, key)
        if was != now and not (key == "prompt_cache_key" and was is None):
            at = next((n for n, span in enumerate(new) if span.layer >= layer), len(new))
            detail = f"{as_text(was)[:40]} became {as_text(now)[:40]}"
            return PrefixChange(reason, key, None, sum(span.size for span in new[:at]), detail)
    return None


def _setting(body: Mapping[str, Any], key: str) -> object:
    """Return a setting, at most one level deep; None if it is not there."""
    outer, _, inner = key.partition(".")
    value = body.get(outer)
    if inner:
        return value.get(inner) if isinstance(value, Mapping) else None
    return value


def _of_marks(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    old: Sequence[PromptSpan],
    new: Sequence[PromptSpan],
    api: Api,
) -> PrefixChange | None:
    """Return a change of the marks by which an unchanged prompt is not found in the cache."""
    rules = rules_of(str(after.get("model", "claude")))
    if api is not Api.MESSAGES or rules.provider is not CacheProvider.ANTHROPIC:
        return None
    was, now = marked(before), marked(after)
    if not was:
        return None
    if not now:
        return PrefixChange(Break.MARKS_GONE, "cache_control", None, 0)
    if len(new) <= len(old):
        return None
    places = {span.place: at for at, span in enumerate(new)}
    begin = max(places.get(place, -1) for place in was)
    look_back = rules.look_back or len(new)
    reached = any(0 <= places.get(place, -1) - begin <= look_back for place in now)
    if begin < 0 or reached:
        return None
    span = new[begin + 1] if begin + 1 < len(new) else new[begin]
    byte = sum(one.size for one in new[: begin + 1])
    return PrefixChange(Break.LOOK_BACK, span.place, span.message, byte)


def marked(body: Mapping[str, Any]) -> list[str]:
    """Return the places of blocks with Anthropic's cache mark; the last block for automatic caching."""
    return [place for place, _ in marks_of(body)]


def marks_of(body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return Anthropic's cache marks with the places of their blocks."""
    blocks = chain(
        blocks_in(body.get("tools"), "tools"), blocks_in(body.get("system"), "system"), message_blocks(body)
    )
    found = [(place, mark) for place, block in blocks if (mark := block.get("cache_control"))]
    if automatic := body.get("cache_control"):
        found += [(span.place, automatic) for span in spans(body, Api.MESSAGES)[-1:]]
    return found
