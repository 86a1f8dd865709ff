"""Grouping of conversation items: tool calls with their results, questions with their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.message import Role
from tokenbox.engine.window import ItemKind

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.engine.window import Window


class Placement(NamedTuple):
    """The role of an item in the window. ``call``: the number of the item that started its tool round.

    ``calls``: the number of calls that it makes; ``answers``: the number that it answers. ``abandoned``: the
    number of an earlier item whose open calls can no longer be answered after this one.
    """

    kind: ItemKind
    call: int | None = None
    calls: int = 0
    answers: int = 0
    abandoned: int | None = None


class Grouping:
    """Assigns items, one after the other, to tool rounds.

    Results answer the calls of the round directly before them: each call once, by id, or else in order. Calls
    and reasoning that are separate items form one round until a result arrives. A user's text next to tool
    results (Anthropic's API) stays while it is the latest text of the user; the results may be shortened.
    """

    def __init__(self) -> None:
        self._round: int | None = None
        self._waiting: list[str | None] = []
        self._is_open = False
        self._held: int | None = None

    def take_into(self, window: Window, item: Item, size: int) -> int:
        """Append the item to the window and return its number there."""
        placed = self.place(item, window.next_number)
        if placed.abandoned is not None and placed.abandoned in window:
            window.give_up_waiting(placed.abandoned)
        number = window.append(
            placed.kind,
            size,
            calls=placed.calls,
            call=placed.call,
            answers=placed.answers,
            media=placed.kind is ItemKind.USER and any(message.media for message in item.messages),
        )
        if item.is_system and placed.kind is not ItemKind.FIXED:
            window.pin(number)
        if item.role is Role.USER:
            if self._held is not None and self._held in window:
                window.release(self._held)
            self._held = number if placed.kind is ItemKind.RESULT else None
            if self._held is not None:
                window.hold(number)
        return number

    def place(self, item: Item, number: int) -> Placement:
        """Return the placement of the item, which gets this number."""
        calls, results = item.calls, item.results
        if results:
            answers = sum(map(self._answer_call, results))
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

    def _answer_call(self, identifier: str | None) -> bool:
        """Remove the call that this result answers from the waiting calls; False if no call waits for it."""
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
    """A user message and all items up to the next one. The first exchange may lack the user message.

    ``numbers``: the positions of its items in the list. ``rounds``: the positions of the items of each tool
    round, which is the assistant's calls and all their results.
    """

    numbers: tuple[int, ...]
    items: tuple[Item, ...]
    rounds: tuple[tuple[int, ...], ...]


def exchanges(items: Iterable[Item]) -> tuple[Exchange, ...]:
    """Return the exchanges of a conversation, in order, without system and developer messages."""
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
