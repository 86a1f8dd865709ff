"""What belongs together in a conversation: tool calls with their results, questions with their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.message import Message, Role
from tokenbox.engine.window import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.engine.window import Window


class Placement(NamedTuple):
    """What a message is to the window. ``call``: the place of the message whose call this one answers.

    ``abandoned``: the place of a message whose calls cannot be answered any more, now that this one came.
    """

    kind: Kind
    call: int | None = None
    abandoned: int | None = None


class Grouping:
    """Reads messages one after the other and says of each what it belongs to.

    Results answer the calls of the message directly before them, each call once, by id or else in order.
    """

    def __init__(self) -> None:
        self._call: int | None = None
        self._waiting: list[str | None] = []

    def take_into(self, window: Window, message: Message, size: int) -> int:
        """Append the message to the window it is read for, as what it is to that: its number there."""
        placed = self.place(message, window.next_number)
        if placed.abandoned is not None and placed.abandoned in window:
            window.give_up_waiting(placed.abandoned)
        return window.append(placed.kind, size, calls=len(message.tool_calls), call=placed.call)

    def place(self, message: Message, number: int) -> Placement:
        """Where the message belongs that has this number."""
        if message.role is Role.TOOL:
            return self._result(message)
        abandoned = self._call if self._waiting else None
        self._call, self._waiting = None, []
        if message.tool_calls:
            self._call = number
            self._waiting = [call.id for call in message.tool_calls]
            return Placement(Kind.CALL, None, abandoned)
        return Placement(_KINDS[message.role], None, abandoned)

    def _result(self, message: Message) -> Placement:
        answered = message.tool_call_id
        if self._call is None or not self._waiting:
            return Placement(Kind.STRAY)
        if answered is None:
            self._waiting.pop(0)
        elif answered in self._waiting:
            self._waiting.remove(answered)
        elif None in self._waiting:
            self._waiting.remove(None)
        else:
            return Placement(Kind.STRAY)
        return Placement(Kind.RESULT, self._call)


_KINDS = {
    Role.SYSTEM: Kind.FIXED,
    Role.DEVELOPER: Kind.FIXED,
    Role.USER: Kind.USER,
    Role.ASSISTANT: Kind.ANSWER,
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user message with everything up to the next. Only the first of a conversation may lack it.

    ``numbers`` are the places of its messages in the list. ``rounds`` are those of its tool rounds: an
    assistant message with its calls, and all their results.
    """

    numbers: tuple[int, ...]
    messages: tuple[Message, ...]
    rounds: tuple[tuple[int, ...], ...]


def exchanges(messages: Iterable[Message]) -> tuple[Exchange, ...]:
    """The exchanges of a conversation, in order. System and developer messages are in none of them."""
    grouping = Grouping()
    found: list[list[tuple[int, Message]]] = []
    rounds: list[list[list[int]]] = []
    for number, message in enumerate(messages):
        placement = grouping.place(message, number)
        if placement.kind is Kind.FIXED:
            continue
        if placement.kind is Kind.USER or not found:
            found.append([])
            rounds.append([])
        found[-1].append((number, message))
        if placement.kind is Kind.CALL:
            rounds[-1].append([number])
        elif placement.kind is Kind.RESULT:
            rounds[-1][-1].append(number)
    return tuple(
        Exchange(tuple(number for number, _ in pairs), tuple(m for _, m in pairs), tuple(map(tuple, inner)))
        for pairs, inner in zip(found, rounds, strict=True)
    )
