"""The items of a request, of any protocol, as what they are to the window."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tokenbox.content.exchanges import Grouping
from tokenbox.content.message import InvalidMessage, Message
from tokenbox.engine.window import Kind, Window

if TYPE_CHECKING:
    from collections.abc import Collection

    from tokenbox.gateway.calls import Call


def window_of(call: Call) -> Window:
    """The items of a call in a window; their sizes are left 0, for the whole is what is counted.

    The last user message is pinned: it never leaves. Raises :class:`InvalidMessage`.
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
    last_user: int | None = None
    for number, item in enumerate(items):
        try:
            message = Message.of(item)
        except InvalidMessage as error:
            raise InvalidMessage(f"messages[{number}]: {error.message}", index=number) from None
        placement = grouping.place(message, number)
        window.append(placement.kind, 0, calls=len(message.tool_calls), call=placement.call)
        if placement.abandoned is not None:
            window.give_up_waiting(placement.abandoned)
        last_user = number if placement.kind is Kind.USER else last_user
    return _pinned(window, last_user)


def _anthropic(items: list[Any]) -> Window:
    """Anthropic's messages: results of tools are in the user message that follows the calls."""
    window = Window()
    last_user: int | None = None
    call: int | None = None
    for number, item in enumerate(items):
        kinds = _block_kinds(item.get("content")) if isinstance(item, dict) else set()
        role = item.get("role") if isinstance(item, dict) else None
        if role == "assistant":
            if call is not None:
                window.give_up_waiting(call)
            calls = "tool_use" in kinds
            window.append(Kind.CALL if calls else Kind.ANSWER, 0, calls=int(calls))
            call = number if calls else None
        elif "tool_result" in kinds:
            window.append(Kind.RESULT if call is not None else Kind.STRAY, 0, call=call)
            call = None
        else:
            if call is not None:
                window.give_up_waiting(call)
            call = None
            window.append(Kind.USER if role == "user" else Kind.FIXED, 0)
            last_user = number if role == "user" else last_user
    return _pinned(window, last_user)


def _responses(items: list[Any]) -> Window:
    """Items of the Responses API.

    Between two messages, calls, their outputs and the reasoning that led to them are rounds: a new one
    begins where an output is followed by something else.
    """
    window = Window()
    last_user: int | None = None
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
            last_user = number if role == "user" else last_user
    last = rounds[-1] if rounds else None
    if last is not None and _waits(items[last:]):
        window.pin(last)
    return _pinned(window, last_user)


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


def _pinned(window: Window, last_user: int | None) -> Window:
    if last_user is not None:
        window.pin(last_user)
    return window


_READERS = {"chat": _chat, "messages": _anthropic, "responses": _responses}
