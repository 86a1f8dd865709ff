"""The items of a request, of any protocol, as what they are to the window.

The window keeps the last exchange's user message by itself. Chat messages are read as a conversation reads
its own; what differs from :func:`tokenbox.fit` is who counts, and when: each trial asks the upstream, so the
window is not followed through every request there was (:mod:`tokenbox.gateway.low_water`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tokenbox.content.exchanges import Grouping
from tokenbox.content.message import check_messages
from tokenbox.engine.window import Kind, Window
from tokenbox.gateway.texts import says_something

if TYPE_CHECKING:
    from collections.abc import Collection

    from tokenbox.gateway.calls import Call


def window_of(call: Call) -> Window:
    """The items of a call in a window; their sizes are left 0, for the whole is what is counted.

    Raises :class:`InvalidMessage`.
    """
    items = call.input
    if not isinstance(items, list):
        return Window()
    return _READERS[call.protocol.name](items)


def without(call: Call, gone: Collection[int]) -> Call:
    """The call without those of its items."""
    kept = [item for number, item in enumerate(call.input) if number not in gone]
    return call.with_body({**call.body, call.protocol.input_key: kept})


def _chat(items: list[Any]) -> Window:
    grouping, window = Grouping(), Window()
    for message in check_messages(items):
        grouping.take_into(window, message, 0)
    return window


def _anthropic(items: list[Any]) -> Window:
    """Anthropic's messages: results of tools are in the user message that follows the calls.

    What the user says beside a result is no message of its own. If it is the last that is said, it is
    pinned, with the round that it is in: it never leaves.
    """
    window = Window()
    last_words: int | None = None
    call: int | None = None
    for number, item in enumerate(items):
        kinds, role = _block_kinds(item.get("content")), item.get("role")
        words = says_something(item)
        last_words = number if words else last_words
        answered = call if "tool_result" in kinds and role == "user" else None
        if call is not None and answered is None:
            window.give_up_waiting(call)
        call = None
        if answered is not None:
            window.append(Kind.RESULT, 0, call=answered)
        elif role == "assistant":
            call = number if "tool_use" in kinds else None
            window.append(Kind.ANSWER if call is None else Kind.CALL, 0, calls=int(call is not None))
        elif "tool_result" in kinds and not words:
            window.append(Kind.STRAY, 0)
        else:
            window.append(Kind.USER if role == "user" else Kind.FIXED, 0)
    if last_words is not None:
        window.pin(last_words)
    return window


def _responses(items: list[Any]) -> Window:
    """Items of the Responses API.

    Between two messages, calls, their outputs and the reasoning that led to them are rounds: a new one
    begins where an output is followed by something else.
    """
    window = Window()
    rounds = _rounds(items)
    sizes = Counter(rounds)
    for number, (item, first) in enumerate(zip(items, rounds, strict=True)):
        if first == number:
            window.append(Kind.CALL, 0, calls=sizes[first] - 1)
        elif first is not None:
            window.append(Kind.RESULT, 0, call=first)
        else:
            role = item.get("role") if isinstance(item, dict) else None
            window.append(_KINDS.get(str(role), Kind.ANSWER), 0)
    last = rounds[-1] if rounds else None
    if last is not None and _waits(items[last:]):
        window.pin(last)
    return window


_KINDS = {"system": Kind.FIXED, "developer": Kind.FIXED, "user": Kind.USER}


def _rounds(items: list[Any]) -> list[int | None]:
    """For each item the place of the first of its round; None for a message."""
    firsts: list[int | None] = []
    first: int | None = None
    after_output = False
    for number, item in enumerate(items):
        kind = _item_kind(item)
        if kind == "message":
            first = None
        elif first is None or (after_output and kind != "output"):
            first = number
        after_output = kind == "output"
        firsts.append(first)
    return firsts


def _waits(items: list[Any]) -> bool:
    """Whether a round has calls that wait for their outputs."""
    called = {str(item.get("call_id")) for item in items if _item_kind(item) == "call"}
    return bool(called - {str(item.get("call_id")) for item in items if _item_kind(item) == "output"})


def _item_kind(item: object) -> str:
    if not isinstance(item, dict):
        return "message"
    kind = item.get("type")
    if kind in (None, "message"):
        return "message"
    if isinstance(kind, str) and kind.endswith("_output"):
        return "output"
    return "call" if isinstance(kind, str) and kind.endswith("_call") else "other"


def _block_kinds(content: object) -> set[str]:
    if not isinstance(content, list):
        return set()
    return {str(block.get("type")) for block in content if isinstance(block, dict)}


_READERS = {"chat": _chat, "messages": _anthropic, "responses": _responses}
