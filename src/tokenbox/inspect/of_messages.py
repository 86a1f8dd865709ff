"""The entries of messages: fitted into a budget, of a conversation, or of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tokenbox import api, counters
from tokenbox.compose.requests import NO_BOUND, Count, Counts
from tokenbox.content.items import Item
from tokenbox.content.request import read_request
from tokenbox.conversation.pieces import open_session
from tokenbox.conversation.record import Fitted, item_digest
from tokenbox.engine.steps import WindowAction
from tokenbox.inspect.of_layout import tokenizer_facts
from tokenbox.inspect.record import (
    PageEntry,
    PageFrame,
    PageItem,
    PageSlider,
    PageState,
    PageStep,
    check_items,
)

if TYPE_CHECKING:
    from tokenbox.conversation import Conversation

_SHOWN = 48
FRAME = "beside the messages: tools, fields, frame"
_CHANGED = {WindowAction.MASK: "masked", WindowAction.CUT: "cut", WindowAction.RESTORE: "kept"}


def fitted_entry(fitted: Fitted[Any], title: str, slider: PageSlider | None = None) -> PageEntry:
    """Return the entry of messages that were fitted into a budget."""
    check_items(len(fitted.inputs))
    return PageEntry(
        title,
        "conversation",
        tuple(
            message_item(item, number, size, pinned=number in fitted.pinned)
            for number, (item, size) in enumerate(zip(fitted.inputs, fitted.sizes, strict=True))
        ),
        (fitted_frame(fitted),),
        facts=(
            *tokenizer_facts(fitted.tokenizer),
            ("Counted by", fitted.count.by.value),
            _at_most(fitted.count),
            ("Digest", fitted.digest),
        ),
        separator="\n\n",
        slider=slider,
    )


def fitted_frame(fitted: Fitted[Any]) -> PageFrame:
    """Return a frame with a state for every original message."""
    decisions = {
        number: _CHANGED[step.action]
        for step in fitted.steps
        if step.action in _CHANGED
        for number in step.messages
    }
    handles = {text: handle for handle, text in fitted.left_out.items()}
    states = []
    for number, item in enumerate(fitted.inputs):
        shown = fitted.shown.get(number)
        if shown is None:
            states.append(PageState(number, "evicted", 0, ""))
            continue
        decision, handle = "kept", None
        if shown is not item:
            decision, handle = decisions.get(number, "cut"), handles.get(item.text)
        size = fitted.sizes_now[number]
        states.append(PageState(number, decision, size, text_of(shown), expand=handle))
    steps = tuple(
        PageStep(step.messages, step.action.value, step.why, step.before, step.after, whole=True)
        for step in fitted.steps
    )
    return PageFrame(fitted.budget, fitted.total, fitted.exact, tuple(states), steps=steps)


def conversation_entry(conversation: Conversation, title: str) -> PageEntry:
    """Return the entry of the next request of a conversation."""
    found = conversation.items()
    check_items(len(found))
    count = conversation.request_count()
    status = conversation.status
    window = conversation.window
    items = tuple(
        PageItem(
            f"{number + 1} {opening(item.text or '')}" if item.number is not None else item.name,
            item.name,
            item.text if item.number is None else text_of(window[item.number]),
            item.tokens,
            critical=item.pinned or item.number is None,
            fields=() if item.number is None else (("exchanges ago", str(item.age)),),
        )
        for number, item in enumerate(found)
    )
    states = tuple(
        PageState(i, "kept" if item.text is not None else "beside", item.base, item.text)
        for i, item in enumerate(items)
    )
    return PageEntry(
        title,
        "conversation",
        items,
        (PageFrame(conversation.token_budget, count.total, count.exact, states),),
        facts=(
            *tokenizer_facts(conversation.identity),
            ("Counted by", count.by.value),
            ("Exchanges", f"{status.exchanges:,}"),
            ("Evictions", f"{status.evictions:,}"),
            ("Evicted messages", f"{status.evicted_messages:,}"),
        ),
        separator="\n\n",
    )


def request_entry(
    given: object, title: str, *, model: str | None = None, tokenizer: Counts | None = None
) -> PageEntry:
    """Return the entry of a request, a list of messages or a whole body.

    The total is that of ``tokenbox.count``. The size of a message is what it adds to a request; tools, fields
    and the frame of the messages are one separate item.
    """
    count = api.count(given, model, tokenizer=tokenizer)
    request = read_request(given)
    check_items(len(request.messages) + 1)
    if model is None and tokenizer is None and isinstance(given, Mapping):
        named = given.get("model")
        model = named if isinstance(named, str) else None
    counter = counters.request_counter(model, tokenizer)
    session = open_session(counter)
    parts = [Item((message,)) for message in request.messages]
    sizes = [session.cost(item) for item in parts]
    items = [
        PageItem(FRAME, "beside", None, None),
        *(message_item(item, i, size) for i, (item, size) in enumerate(zip(parts, sizes, strict=True))),
    ]
    states = [PageState(i, "sent", item.base, item.text) for i, item in enumerate(items[1:], 1)]
    facts = (
        ("Model", model or "not named"),
        *tokenizer_facts(counter.identity),
        ("Counted by", count.by.value),
        _at_most(count),
    )
    frame = PageFrame(None, count.total, count.exact, (beside(count.total, states), *states))
    return PageEntry(title, "request", tuple(items), (frame,), facts, separator="\n\n")


def beside(total: int | None, states: Sequence[PageState]) -> PageState:
    """Return the state of what is counted beyond the items."""
    sizes = [state.size for state in states]
    if total is None or None in sizes:
        return PageState(0, "beside", None, None)
    rest = max(0, total - sum(size or 0 for size in sizes))
    return PageState(0, "beside" if rest else "absent", rest, None)


def _at_most(count: Count) -> tuple[str, str]:
    return "At most", "only the server knows" if count.at_most == NO_BOUND else f"{count.at_most:,} tokens"


def message_item(item: Item, number: int, size: int | None, *, pinned: bool = False) -> PageItem:
    """Return an original message as an item."""
    return PageItem(
        f"{number + 1} {opening(item.text)}".rstrip(),
        item.role.value,
        text_of(item),
        size,
        item_digest(item),
        pinned,
        (("tool calls", ", ".join(_calls(item))),) if _calls(item) else (),
    )


def text_of(item: Item) -> str:
    """Return the text of a message, with its tool calls as JSON."""
    calls = [f"{call.name}({call.arguments})" for message in item.messages for call in message.tool_calls]
    parts = [item.text, *calls] if item.text else calls
    return "\n".join(parts) if parts else json.dumps(item.to_dict(), ensure_ascii=False)


def _calls(item: Item) -> list[str]:
    return [call.name for message in item.messages for call in message.tool_calls]


def opening(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
