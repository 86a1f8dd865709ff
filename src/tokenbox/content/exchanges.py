"""What belongs together in a conversation: tool calls with their results, questions with their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.message import Role
from tokenbox.engine.window import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.content.items import Item
    from tokenbox.engine.window import Window


class Placement(NamedTuple):
    """What an item is to the window. ``call``: the place of the item whose round this one belongs to.

    ``calls`` are the calls that it makes, ``answers`` those it answers. ``abandoned``: the place of an item
    whose calls cannot be answered any more, now that this one came.
    """

    kind: ItemKind
    call: int | None = None
    calls: int = 0
    answers: int = 0
    abandoned: int | None = None


class Grouping:
    """Reads items one after the other and says of each what it belongs to.

    Results answer the calls of the round directly before them, each call once, by id or else in order. Calls
    and reasoning that are items of their own are one round until a result comes. What a user says beside
    results (Anthropic's API) stays while it is the last that the user said.
    """

    def __init__(self) -> None:
        self._round: int | None = None
        self._waiting: list[str | None] = []
        self._is_open = False
        self._worded: int | None = None

    def take_into(self, window: Window, item: Item, size: int) -> int:
        """Append the item to the window it is read for, as what it is to that: its number there."""
        placed = self.place(item, window.next_number)
        if placed.abandoned is not None and placed.abandoned in window:
            window.give_up_waiting(placed.abandoned)
        number = window.append(
            placed.kind, size, calls=placed.calls, call=placed.call, answers=placed.answers
        )
        if item.is_system and placed.kind is not ItemKind.FIXED:
            window.pin(number)
        if item.role is Role.USER:
            if self._worded is not None and self._worded in window:
                window.unpin(self._worded)
            self._worded = number if placed.kind is ItemKind.RESULT else None
            if self._worded is not None:
                window.pin(number)
        return number

    def place(self, item: Item, number: int) -> Placement:
        """Where the item belongs that has this number."""
        calls, results = item.calls, item.results
        if results:
            answers = sum(map(self._answered, results))
            if self._round is not None and answers:
                self._is_open = False
                return Placement(ItemKind.RESULT, self._round, answers=answers)
            if item.role is not Role.USER:
                return Placement(ItemKind.STRAY)
        if item.joins and self._is_open:
            self._waiting += calls
            return Placement(ItemKind.RESULT, self._round, calls=len(calls))
        abandoned = self._round if self._waiting else None
        self._round, self._waiting, self._is_open = None, [], False
        if calls or item.joins:
            self._round, self._waiting, self._is_open = number, list(calls), item.joins
            return Placement(ItemKind.CALL, None, len(calls), abandoned=abandoned)
        return Placement(_KINDS[item.role], None, abandoned=abandoned)

    def _answered(self, identifier: str | None) -> bool:
        """Whether a call waits for this result: it does not wait any more."""
        waiting = self._waiting
        if not waiting:
            return False
        if identifier is None:
            waiting.pop(0)
        elif identifier in waiting:
            waiting.remove(identifier)
        elif None in waiting:
            waiting.remove(None)
        else:
            return False
        return True


_KINDS = {
    Role.SYSTEM: ItemKind.FIXED,
    Role.DEVELOPER: ItemKind.FIXED,
    Role.USER: ItemKind.USER,
    Role.ASSISTANT: ItemKind.ANSWER,
    Role.TOOL: ItemKind.STRAY,
    Role.FUNCTION: ItemKind.STRAY,
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user message with everything up to the next. Only the first of a conversation may lack it.

    ``numbers`` are the places of its items in the list. ``rounds`` are those of its tool rounds: the
    assistant's calls, and all their results.
    """

    numbers: tuple[int, ...]
    items: tuple[Item, ...]
    rounds: tuple[tuple[int, ...], ...]


def exchanges(items: Iterable[Item]) -> tuple[Exchange, ...]:
    """The exchanges of a conversation, in order. System and developer messages are in none of them."""
    grouping = Grouping()
    found: list[list[tuple[int, Item]]] = []
    rounds: list[list[list[int]]] = []
    for number, item in enumerate(items):
        placement = grouping.place(item, number)
        if placement.kind is ItemKind.FIXED:
            continue
        if placement.kind is ItemKind.USER or not found:
            found.append([])
            rounds.append([])
        found[-1].append((number, item))
        if placement.kind is ItemKind.CALL:
            rounds[-1].append([number])
        elif placement.call is not None:
            rounds[-1][-1].append(number)
    return tuple(
        Exchange(
            tuple(number for number, _ in pairs), tuple(item for _, item in pairs), tuple(map(tuple, inner))
        )
        for pairs, inner in zip(found, rounds, strict=True)
    )
