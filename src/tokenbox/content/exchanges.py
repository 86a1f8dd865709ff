"""Grouping of conversation items: tool calls with their results, questions with their answers."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
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

    ``answers``: whether it answers calls of the round. ``abandoned``: the number of an earlier item whose
    open calls can no longer be answered after this one.
    """

    kind: ItemKind
    call: int | None = None
    answers: bool = False
    abandoned: int | None = None


class Waiting:
    """The calls without a result, in order. Each is found by its id, or else taken in turn, at once."""

    def __init__(self, calls: Iterable[str | None] = ()) -> None:
        self._open: OrderedDict[int, str | None] = OrderedDict()
        self._by_id: defaultdict[str | None, deque[int]] = defaultdict(deque)
        self._next = 0
        self.add(calls)

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, calls: Iterable[str | None]) -> None:
        for identifier in calls:
            self._open[self._next] = identifier
            self._by_id[identifier].append(self._next)
            self._next += 1

    def take(self, identifier: str | None) -> bool:
        """Remove the call that a result with this id answers; False if no call waits for it."""
        place = next(iter(self._open), None)
        if identifier is not None:
            place = self._first(identifier)
            place = self._first(None) if place is None else place
        if place is None:
            return False
        del self._open[place]
        return True

    def _first(self, identifier: str | None) -> int | None:
        places = self._by_id.get(identifier)
        while places and places[0] not in self._open:
            places.popleft()
        return places[0] if places else None


class Grouping:
    """Assigns items, one after the other, to tool rounds.

    Results answer the calls of the round directly before them: each call once, by id, or else in order. Calls
    and reasoning that are separate items form one round until a result arrives. What a model says in it
    belongs to it, too: OpenAI refuses reasoning without the item that followed it, and that item without its
    reasoning. A user's text next to tool results (Anthropic's API) stays while it is the latest text of the
    user; the results may be shortened. So does the newest item in which a provider has summed up the items
    before it.
    """

    def __init__(self) -> None:
        self._round: int | None = None
        self._waiting = Waiting()
        self._is_open = self._answered = False
        self._thought = self._acted = False  # whether the open round has reasoning, and something after it
        self._begun: set[object] = set()  # what a later item of the provider ends, such as a program
        self._held: int | None = None
        self._compaction: int | None = None

    def take_into(self, window: Window, item: Item, size: int) -> int:
        """Append the item to the window and return its number there."""
        if self._round is not None and self._round not in window:  # the caller has dropped it
            self._round, self._waiting, self._is_open = None, Waiting(), False
        placed = self.place(item, window.next_number)
        if placed.abandoned is not None and placed.abandoned in window:
            window.give_up_waiting(placed.abandoned)
        number = window.append(
            placed.kind,
            size,
            call=placed.call,
            answers=placed.answers,
            media=placed.kind is ItemKind.USER and any(message.media for message in item.messages),
        )
        if item.is_system and placed.kind is not ItemKind.FIXED:
            window.pin(number)
        self._hold(window, item, number, placed.kind)
        return number

    def _hold(self, window: Window, item: Item, number: int, kind: ItemKind) -> None:
        """Protect what the model needs beside its last question, and nothing older."""
        before = self._held, self._compaction
        if item.role is Role.USER:
            self._held = number if kind is ItemKind.RESULT else None
        if item.is_compaction:
            self._compaction = number
        now = self._held, self._compaction
        if now == before:
            return
        for held, numbers in ((False, before), (True, now)):
            for one in numbers:
                if one is not None and one in window:
                    window.hold(one, held=held)

    def place(self, item: Item, number: int) -> Placement:
        """Return the placement of the item, which gets this number."""
        calls, results = item.calls, item.results
        if results:
            answers = sum(map(self._waiting.take, results))
            if self._round is not None and answers:
                self._answered, self._is_open = True, bool(self._begun)
                return Placement(ItemKind.RESULT, self._round, answers=True)
            if item.role is not Role.USER:
                return Placement(ItemKind.STRAY)
        if self._is_open and self._belongs(item):
            self._waiting.add(calls)
            self._thought |= item.is_thought
            self._acted |= not item.is_thought
            self._begun |= {item.begins} - {None}
            self._begun -= {item.ends}
            self._is_open = bool(self._begun or self._waiting) or not self._answered
            said = ItemKind.RESULT if item.joins or self._waiting else ItemKind.ANSWER
            return Placement(ItemKind.CALL if calls else said, self._round)
        abandoned = self._round if self._waiting else None
        self._round, self._waiting, self._is_open = None, Waiting(), False
        if calls or (item.joins and not item.is_compaction):
            self._round, self._waiting, self._is_open = number, Waiting(calls), item.joins
            self._thought, self._acted = item.is_thought, not item.is_thought
            self._answered, self._begun = False, {item.begins} - {None}
            return Placement(ItemKind.CALL, abandoned=abandoned)
        return Placement(_KINDS[item.role], abandoned=abandoned)

    def _belongs(self, item: Item) -> bool:
        """Return whether an item is a part of the open round: all but reasoning after a finished part."""
        unfinished = bool(self._waiting or self._begun)
        if item.is_thought:
            return unfinished or not self._acted
        if item.is_compaction:
            return unfinished
        return item.joins or (item.role is Role.ASSISTANT and (self._thought or unfinished))


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

    ``numbers``: the positions of its items in the list.
    """

    numbers: tuple[int, ...]
    items: tuple[Item, ...]


def exchanges(items: Iterable[Item]) -> tuple[Exchange, ...]:
    """Return the exchanges of a conversation, in order, without system and developer messages."""
    grouping = Grouping()
    found: list[tuple[list[int], list[Item]]] = []
    for number, item in enumerate(items):
        kind = grouping.place(item, number).kind
        if kind is ItemKind.FIXED:
            continue
        if kind is ItemKind.USER or not found:
            found.append(([], []))
        numbers, members = found[-1]
        numbers.append(number)
        members.append(item)
    return tuple(Exchange(tuple(numbers), tuple(members)) for numbers, members in found)
