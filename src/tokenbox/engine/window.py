"""The window of a conversation as sizes: its items, which of them belong together, and which must stay.

The engine sees sizes and kinds, never a text. Items are numbered from 0 in the order of arrival; a number is
never reused. :mod:`tokenbox.engine.reduction` plans how the window shrinks. Queues hold the items that may
change next, so the cost of a turn depends on what changes and not on the length of the window.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tokenbox.engine.low_water import Epoch
from tokenbox.engine.steps import Reduce, WindowAction, WindowStep


class ItemKind(Enum):
    """The role of an item in the window."""

    FIXED = "fixed"  # a system or developer message: never evicted
    USER = "user"
    ANSWER = "answer"  # an assistant message without tool calls
    CALL = "call"  # an assistant message with tool calls
    RESULT = "result"  # the result of one of those calls
    STRAY = "stray"  # a result whose call is missing


class Measure(Protocol):
    """Sizes of shorter forms of a result, in tokens. None: it has no such form, or none that is smaller."""

    def masked(self, number: int) -> int | None:
        """Return the size of the line that stands for the result."""
        ...

    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        """Return the size of the result's head and tail, at most ``at_most``; ``media``: with its images."""
        ...


@dataclass(slots=True, eq=False)
class Unit:
    """The items that stay or leave together: one item, or a tool call with all its results.

    ``pinned``: the number of pins. ``held``: it may not leave, but its results may be shortened.
    """

    kind: ItemKind
    members: list[int]
    size: int
    exchange: int = -1
    results: list[int] = field(default_factory=list)
    pinned: int = 0
    removed: bool = False
    held: bool = False

    @property
    def first(self) -> int:
        return self.members[0]

    @property
    def stays(self) -> bool:
        return bool(self.pinned) or self.held


@dataclass(slots=True, eq=False)
class WindowExchange:
    """A user message and everything up to the next. Only the first exchange may lack the user message.

    ``units``: those in the window, by their first number. ``core``: those of them that are no tool rounds.
    """

    units: dict[int, Unit] = field(default_factory=dict)
    core: dict[int, Unit] = field(default_factory=dict)


class PlannedChange(NamedTuple):
    """A change to apply later: units to evict, or new sizes of results."""

    action: WindowAction
    units: tuple[Unit, ...] = ()
    sizes: Mapping[int, int] = MappingProxyType({})


@dataclass(slots=True)
class EvictionPlan:
    """Changes to a window that are not committed yet.

    ``total``: the window's total after them. ``evicted``: the units that leave, by their first items.
    ``sizes``: the new sizes of shortened or restored items.
    ``ahead`` and ``epoch``: the changes planned for later and their bounds; None if they stay as they are.
    ``ahead_frees``: the tokens that all changes of ``ahead`` free together; None if that is not known.
    ``freed``: the tokens that are evicted because of the budget.
    """

    total: int
    steps: list[WindowStep] = field(default_factory=list)
    evicted: dict[int, Unit] = field(default_factory=dict)
    sizes: dict[int, tuple[WindowAction, int]] = field(default_factory=dict)
    ahead: list[PlannedChange] | None = None
    ahead_frees: int | None = None
    epoch: Epoch | None = None
    freed: int = 0

    @property
    def evicted_numbers(self) -> list[int]:
        return [number for unit in self.evicted.values() for number in unit.members]


class Window:
    """Items as sizes. ``total`` is their sum plus ``base``, the tokens sent beside them.

    ``answers``: the number of assistant items, each the answer to one request. ``freed``: the tokens evicted
    or shortened so far because of the budget. ``ahead``: the planned order of further changes;
    ``ahead_frees``: the tokens that they free together at least, None if that is not known.
    """

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.exchanges = 0
        self.answers = 0
        self.next_number = 0
        self._sum = 0
        self.fixed = 0
        self.freed = 0
        self.ahead: list[PlannedChange] = []
        self.ahead_frees: int | None = 0
        self._planned_until = 0
        self.epoch = Epoch()
        self.units: dict[int, Unit] = {}
        self.sizes: dict[int, int] = {}
        self.full: dict[int, int] = {}  # the original sizes of shortened results
        self.pins: dict[int, Unit] = {}
        self.unsendable: list[Unit] = []
        self.queue: OrderedDict[int, WindowExchange] = OrderedDict()
        self.open_round: Unit | None = None
        # The answered rounds, and the items that may be masked: their results, and old questions with media.
        self.results: OrderedDict[int, None] = OrderedDict()
        self.rounds: OrderedDict[int, Unit] = OrderedDict()

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the numbers of the items, in order."""
        return iter(self.units)

    def __contains__(self, number: object) -> bool:
        return number in self.units

    @property
    def total(self) -> int:
        return self.base + self._sum

    # Changes by the caller --------------------------------------------------------------------------------

    def append(
        self,
        kind: ItemKind,
        size: int,
        *,
        call: int | None = None,
        answers: bool = True,
        media: bool = False,
    ) -> int:
        """Add an item and return its number.

        ``call``: the number of the ``CALL`` to whose round a ``RESULT`` belongs. ``answers``: whether it
        answers its calls; a further part of the call, or a thought, does not. A part that is an ``ANSWER``
        makes the unit one, and a ``CALL`` after it makes it a call again. ``media``: a question with
        images or files, which may be masked once another question follows.
        """
        number = self.next_number
        self.next_number += 1
        self._sum += size
        self.sizes[number] = size
        if call is None:
            own = [number] if media else []
            self.units[number] = unit = Unit(kind, [number], size, results=own)
            self._place(unit)
            return number
        unit = self.units[number] = self.units[call]
        unit.members.append(number)
        unit.size += size
        if kind is not ItemKind.RESULT:
            self._turn_into(unit, kind)
        if answers:
            unit.results.append(number)
            if unit is not self.open_round:
                self.results[number] = None
        return number

    def _place(self, unit: Unit) -> None:
        kind = unit.kind
        if kind is ItemKind.FIXED:
            self.fixed += unit.size
        elif kind is ItemKind.STRAY:
            self.unsendable.append(unit)
        else:
            if kind is not ItemKind.USER:
                self.answers += 1
                self._close_round()
            if kind is ItemKind.USER or not self.queue:
                self._release_media()
                self._begin_exchange(unit.first)
            self.exchanges += kind is ItemKind.USER
            unit.exchange = next(reversed(self.queue))
            last = self.queue[unit.exchange]
            last.units[unit.first] = unit
            if kind is ItemKind.CALL:
                self.open_round = unit
            else:
                last.core[unit.first] = unit

    def _turn_into(self, unit: Unit, kind: ItemKind) -> None:
        """Turn the last round into an answer, which leaves only with its exchange, or back into a round."""
        core = self.queue[unit.exchange].core
        unit.kind = kind
        if kind is ItemKind.ANSWER:
            core[unit.first], self.open_round = unit, None
        else:
            core.pop(unit.first, None)
            self.open_round = unit

    def _release_media(self) -> None:
        """Allow the last question with media to be masked: another question follows."""
        last = self.units.get(next(reversed(self.queue), -1))
        if last is not None and last.kind is ItemKind.USER:
            self.results.update(dict.fromkeys(last.results))

    def _begin_exchange(self, number: int) -> None:
        if self.queue and not self.queue[last := next(reversed(self.queue))].units:
            del self.queue[last]
        self.queue[number] = WindowExchange()

    def _close_round(self) -> None:
        """Close the open round: the assistant has answered, so it has read the results."""
        unit, self.open_round = self.open_round, None
        if unit is not None and not unit.removed:
            self.rounds[unit.first] = unit
            self.results.update(dict.fromkeys(unit.results))

    def give_up_waiting(self, number: int) -> None:
        """Note that the open calls of this item will never be answered."""
        self.unsendable.append(self.units[number])

    def change(self, number: int, by: int) -> None:
        """Increase the size of an item by ``by``."""
        unit = self.units[number]
        self._changes_ahead(unit)
        unit.size += by
        self.sizes[number] += by
        self._sum += by
        if unit.kind is ItemKind.FIXED:
            self.fixed += by

    def size(self, number: int) -> int:
        return self.sizes[number]

    def full_size(self, number: int) -> int:
        """Return the size of the item before it was shortened."""
        return self.full.get(number, self.sizes[number])

    def pin(self, number: int) -> None:
        """Protect the item and its companions from eviction. Pins are counted: each needs one unpin."""
        self.units[number].pinned += 1
        self._note_stay(self.units[number])

    def unpin(self, number: int) -> None:
        self.units[number].pinned -= 1
        self._note_stay(self.units[number])

    def hold(self, number: int, *, held: bool = True) -> None:
        """Keep the item and its companions in the window, or no more; their results may be shortened."""
        self.units[number].held = held
        self._note_stay(self.units[number])

    def _note_stay(self, unit: Unit) -> None:
        if unit.stays:
            self._changes_ahead(unit)
            self.pins[unit.first] = unit
        else:
            del self.pins[unit.first]

    def drop(self, number: int) -> tuple[int, ...]:
        """Remove the item and its companions; return their numbers."""
        unit = self.units[number]
        self._remove([unit])
        return tuple(sorted(unit.members))

    # Changes by a plan ------------------------------------------------------------------------------------

    def commit(self, plan: EvictionPlan) -> None:
        """Apply a plan that was made for the window in its present state."""
        for number, (action, size) in plan.sizes.items():
            self._resize(number, action, size)
        self._remove(list(plan.evicted.values()))
        self.unsendable = [unit for unit in self.unsendable if not unit.removed]
        self.freed += plan.freed
        if plan.ahead is not None:
            self.ahead, self.ahead_frees, self._planned_until = plan.ahead, plan.ahead_frees, self.next_number
        if plan.epoch is not None:
            self.epoch = plan.epoch

    def reset_steps(self) -> None:
        """Start counting freed tokens again: after a change of tokenizer, old figures do not compare."""
        self.freed, self.ahead, self.epoch = 0, [], Epoch()
        self.ahead_frees = self._planned_until = 0

    def _changes_ahead(self, unit: Unit) -> None:
        """Forget what the changes planned ahead free at least: this unit, which may be in them, changes."""
        if unit.first < self._planned_until and unit is not self.open_round:
            self.ahead_frees = None

    def must_stay(self) -> int:
        """Return the total after everything evictable has left."""
        return self.base + self.fixed + sum(unit.size for unit in self._required_units())

    def _required_units(self) -> Iterable[Unit]:
        """Return the units that may not leave, except the fixed ones."""
        found = {unit.first: unit for unit in self.pins.values() if unit.kind is not ItemKind.FIXED}
        if self.open_round is not None and not self.open_round.removed:
            found[self.open_round.first] = self.open_round
        if self.queue:
            found |= self.queue[next(reversed(self.queue))].core
        return [unit for unit in found.values() if unit not in self.unsendable]

    def eviction_candidates(
        self, steps: frozenset[Reduce], evicted: Container[int], *, keep_last: bool = False
    ) -> Iterator[list[Unit]]:
        """Yield what may be evicted, in order: rounds, then the rest of older exchanges.

        ``evicted``: the first numbers of units that a plan has evicted already. ``keep_last``: keep the
        rounds of the last exchange, which are what an agent has decided so far.
        """
        if Reduce.ROUNDS in steps:
            last = next(reversed(self.queue), None)
            for unit in self.rounds.values():
                if keep_last and unit.exchange == last:
                    break  # so are all after it
                if not unit.stays and unit.first not in evicted:
                    yield [unit]
        if Reduce.EXCHANGES in steps:
            for exchange in islice(self.queue.values(), max(0, len(self.queue) - 1)):
                free = [u for u in exchange.units.values() if self.is_free(u) and u.first not in evicted]
                if free:
                    yield free

    def parts(self) -> list[tuple[int, ...]]:
        """Return the parts that may leave by themselves, in order.

        They are each round, and the items of each older exchange that are in no round.
        """
        found = [tuple(unit.members) for unit in self.rounds.values() if self.is_free(unit)]
        for exchange in islice(self.queue.values(), max(0, len(self.queue) - 1)):
            core = [unit for unit in exchange.core.values() if self.is_free(unit)]
            if core:
                found.append(tuple(number for unit in core for number in unit.members))
        return sorted(found)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove these items and their companions."""
        self._remove(list({self.units[number].first: self.units[number] for number in numbers}.values()))

    def is_free(self, unit: Unit) -> bool:
        return not unit.stays and not unit.removed and unit is not self.open_round

    def _resize(self, number: int, action: WindowAction, size: int) -> None:
        before = self.sizes[number]
        self.full.setdefault(number, before)
        in_open_round = self.units[number] is self.open_round
        if action is WindowAction.MASK:
            self.results.pop(number, None)
        elif not in_open_round and number in self.units[number].results:
            self.results[number] = None
        if action is WindowAction.RESTORE:
            del self.full[number]
        self.change(number, size - before)

    def _remove(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self._changes_ahead(unit)
            unit.removed = True
            self._sum -= unit.size
            self.fixed -= unit.size if unit.kind is ItemKind.FIXED else 0
            self.exchanges -= unit.kind is ItemKind.USER
            self.answers -= unit.kind in (ItemKind.ANSWER, ItemKind.CALL)
            for number in unit.members:
                del self.units[number], self.sizes[number]
                self.full.pop(number, None)
                self.results.pop(number, None)
            self.rounds.pop(unit.first, None)
            self.pins.pop(unit.first, None)
            if self.open_round is unit:
                self.open_round = None
            self._leave_exchange(unit)

    def _leave_exchange(self, unit: Unit) -> None:
        """Remove the unit from its exchange, and an empty exchange unless it is the last, which may grow."""
        exchange = self.queue.get(unit.exchange)
        if exchange is not None:
            del exchange.units[unit.first]
            exchange.core.pop(unit.first, None)
            if not exchange.units and unit.exchange != next(reversed(self.queue)):
                del self.queue[unit.exchange]
