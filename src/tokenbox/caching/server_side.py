"""Context editing and compaction by the provider.

Anthropic's ``context_management.edits`` clear old tool results and thoughts, or compact, once the input is
over a trigger; OpenAI's ``context_management`` compacts, and ``truncation: "auto"`` drops from the middle.
The model then reads less than was sent, so the count of the request is an upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenbox.caching.prompt import PromptSpan, api_of, spans
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import Api
from tokenbox.integers import whole
from tokenbox.records import AsRecord, to_record
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

# By the type of the edit without its version date: the default trigger and the default number of kept items
# (tool uses, turns with thoughts), as Anthropic publishes them.
_DEFAULTS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "clear_tool_uses": (100_000, 3),
    "clear_thinking": (None, 1),
    "compact": (150_000, None),
    "compaction": (None, None),
    "truncation": (None, None),
}
_CLEARED: Final = 16
"""The approximate tokens of the line that replaces a cleared result."""


@dataclass(frozen=True, slots=True)
class Edit(AsRecord):
    """One edit by the provider, made once ``unit`` exceeds ``trigger``."""

    kind: str
    trigger: int | None
    unit: str = "input_tokens"
    keep: int | None = None
    clear_at_least: int | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerSide:
    """The provider's edits of a request of ``sent`` tokens.

    ``read``: the approximate tokens that the model reads after the edits; None if unknown, for instance
    because a summary is yet to be written. ``compacted``: the places of items that replace compacted ones;
    only the provider knows the size of an opaque one. ``unread``: the messages before the last of them, which
    Anthropic does not show to the model.
    """

    edits: tuple[Edit, ...]
    compacted: tuple[str, ...]
    unread: tuple[int, ...]
    sent: int | None = None
    read: int | None = None

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self,
            "edits compacted unread sent_tokens read_tokens exact",
            sent_tokens=self.sent,
            read_tokens=self.read,
            exact=False,
        )


@dataclass(frozen=True, slots=True)
class Applied(AsRecord):
    """An edit reported in an answer. Tokens and uses are None if not reported."""

    kind: str
    cleared_tokens: int | None = None
    cleared_uses: int | None = None


def server_side(body: Mapping[str, Any], tokenizer: Tokenizer | str | None = None) -> ServerSide:
    """Return the edits that ``body`` requests, and the approximate tokens left after them.

    Without ``tokenizer`` there are no figures. Raises ``InvalidMessage``.
    """
    api = api_of(body)
    edits, prompt = _edits(body, api), spans(body, api)
    compacted = tuple(span.place for span in prompt if span.kind == "compaction")
    unread = _unread(prompt) if api is Api.MESSAGES else ()
    if tokenizer is None:
        return ServerSide(edits, compacted, unread)
    sizes = as_tokenizer(tokenizer).count_batch([span.text for span in prompt])
    shown = [(span, size) for span, size in zip(prompt, sizes, strict=True) if span.message not in unread]
    sent = read = sum(size for _, size in shown)
    known = True
    for edit in edits:
        uses = sum(span.kind in {"tool_use", "function_call"} for span, _ in shown)
        measured = uses if edit.unit == "tool_uses" else read
        if edit.trigger is not None and measured <= edit.trigger:
            continue
        if edit.kind == "clear_tool_uses":
            read -= _cleared_results(shown, edit)
        elif edit.kind == "clear_thinking":
            read -= _cleared_thoughts(shown, edit.keep)
        elif edit.trigger is not None:
            known = False
    return ServerSide(edits, compacted, unread, sent, read if known else None)


def applied(answer: Mapping[str, Any]) -> tuple[Applied, ...]:
    """Return the edits that a provider's answer reports. Raises ``InvalidMessage`` if it is not a mapping."""
    if not isinstance(answer, Mapping):
        raise InvalidMessage(f"an answer is a mapping, as the provider sent it, not {type(answer).__name__}.")
    management = answer.get("context_management")
    found = management.get("applied_edits") if isinstance(management, Mapping) else None
    made = [
        Applied(_kind(edit), whole(edit.get("cleared_input_tokens")), whole(edit.get("cleared_tool_uses")))
        for edit in (found if isinstance(found, Sequence) else ())
        if isinstance(edit, Mapping)
    ]
    for key in ("content", "output"):
        items = answer.get(key)
        made += [
            Applied("compact")
            for item in (items if isinstance(items, Sequence) else ())
            if isinstance(item, Mapping) and item.get("type") == "compaction"
        ]
    return tuple(made)


def _edits(body: Mapping[str, Any], api: Api) -> tuple[Edit, ...]:
    given = body.get("context_management")
    listed = given.get("edits") if isinstance(given, Mapping) else given
    found = [
        _edit(edit)
        for edit in (listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ())
        if isinstance(edit, Mapping)
    ]
    if api is Api.RESPONSES and body.get("truncation") == "auto":
        found.append(Edit("truncation", None))
    return tuple(found)


def _edit(edit: Mapping[str, Any]) -> Edit:
    kind = _kind(edit)
    trigger, keep = _DEFAULTS.get(kind, (None, None))
    given = edit.get("trigger")
    unit = given.get("type", "input_tokens") if isinstance(given, Mapping) else "input_tokens"
    if kind == "compaction":
        trigger = whole(edit.get("compact_threshold"))
    excluded = edit.get("exclude_tools")
    return Edit(
        kind,
        _value_of(given, trigger),
        str(unit),
        None if edit.get("keep") == "all" else _value_of(edit.get("keep"), keep),
        _value_of(edit.get("clear_at_least"), None),
        tuple(map(str, excluded)) if isinstance(excluded, Sequence) and not isinstance(excluded, str) else (),
    )


def _value_of(given: object, default: int | None) -> int | None:
    """Return the figure of ``{"type": ..., "value": 3}``."""
    return whole(given.get("value")) if isinstance(given, Mapping) else default


def _kind(edit: Mapping[str, Any]) -> str:
    return str(edit.get("type", "")).rstrip("0123456789").rstrip("_")


def _unread(prompt: Sequence[PromptSpan]) -> tuple[int, ...]:
    summaries = (
        span.message
        for span in prompt
        if span.kind == "compaction" and span.message is not None and span.value.get("content")
    )
    last = max(summaries, default=None)
    if last is None:
        return ()
    return tuple(
        sorted({span.message for span in prompt if span.message is not None and span.message < last})
    )


def _cleared_results(shown: Sequence[tuple[PromptSpan, int]], edit: Edit) -> int:
    """Return the tokens that clearing old tool results saves."""
    names = {
        str(span.value.get("id")): str(span.value.get("name")) for span, _ in shown if span.kind == "tool_use"
    }
    results = [
        size
        for span, size in shown
        if span.kind == "tool_result" and names.get(str(span.value.get("tool_use_id"))) not in edit.exclude
    ]
    old = results[: max(0, len(results) - (edit.keep or 0))]
    saved = sum(max(0, size - _CLEARED) for size in old)
    return 0 if edit.clear_at_least is not None and saved < edit.clear_at_least else saved


def _cleared_thoughts(shown: Sequence[tuple[PromptSpan, int]], keep: int | None) -> int:
    """Return the tokens that clearing old thoughts saves."""
    if keep is None:
        return 0
    thoughts = [(span, size) for span, size in shown if span.kind in {"thinking", "redacted_thinking"}]
    turns = sorted({span.message for span, _ in thoughts if span.message is not None})
    cleared = set(turns[: max(0, len(turns) - keep)])
    return sum(size for span, size in thoughts if span.message in cleared)
