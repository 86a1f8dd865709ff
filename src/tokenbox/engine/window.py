"""The window of a conversation as sizes: what is there, what belongs together, and what must stay.

The engine sees sizes and kinds, never a text. Items are known by their number, counted from 0 in the order in
which they came; a number is never used again. How the window is made smaller is in
:mod:`tokenbox.engine.reduction`. Queues hold what may change next, so a turn costs as much as it changes,
however long the window is.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tokenbox.engine.low_water import Epoch

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction


class ItemKind(Enum):
    """What an item is to the window."""

    FIXED = "fixed"  # a system or developer message: not part of the window
    USER = "user"
    ANSWER = "answer"  # an assistant message without tool calls
    CALL = "call"  # one with tool calls
    RESULT = "result"  # of one of those calls
    STRAY = "stray"  # the result of a call that is not there


class Reduce(StrEnum):
    """A way to make the window smaller, in the order in which they are tried."""

    MASK = "mask"
    CUT = "cut"
    ROUNDS = "rounds"
    EXCHANGES = "exchanges"
    SHORTEN_LAST = "shorten_last"


ALL_STEPS: Final = frozenset(Reduce)
KEEP_RESULTS: Final = 3
"""Results that are masked last: what an agent has just read."""
LEAST_CUT: Final = 64
"""Tokens that a result keeps at least when its middle is cut out; below that it is masked."""


class WindowAction(StrEnum):
    """What a step did to its items."""

    EVICT = "evict"
    MASK = "mask"
    CUT = "cut"
    RESTORE = "restore"


class WindowReason(StrEnum):
    """Why a step was taken. The value is the template of the sentence shown to a person."""

    UNSENDABLE = "no server takes a tool call without its results, or a result without its call"
    TURNS = "there were {over} exchanges more than the {limit} allowed"
    OVER = "the whole was {over} tokens over the budget of {limit}"
    AHEAD = "making room for more requests, down to about {limit} tokens, keeps the prompt's start for longer"
    OPEN_ROUND = "what must stay was {over} tokens over the budget of {limit} by itself"
    LESS_WORTH = (
        "the whole was {over} tokens over the budget of {limit}; what stays is nearer to the question"
    )
    ROOM = "what left made more room than was needed: {over} tokens of {limit} were free"


class WindowStep(NamedTuple):
    """One change: which items it was done to and why; the total before and after it, in tokens.

    ``over`` is by how much ``limit`` was passed: in exchanges for ``TURNS``, else in tokens.
    """

    messages: tuple[int, ...]
    reason: WindowReason
    before: int
    after: int
    over: int = 0
    limit: int = 0
    action: WindowAction = WindowAction.EVICT

    @property
    def why(self) -> str:
        return self.reason.value.format(over=f"{self.over:,}", limit=f"{self.limit:,}")

    def to_dict(self) -> dict[str, object]:
        return {
            "action": self.action.value,
            "messages": list(self.messages),
            "before": self.before,
            "after": self.after,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """At most ``max_turns`` exchanges and ``budget`` tokens; None is no such limit.

    Once over the budget, the window is made smaller until the total is about ``mark``, the low-water mark, in
    whole steps (:mod:`tokenbox.engine.low_water`). With ``eagerness``, the window itself suggests how far,
    and ``mark`` is not used.
    """

    max_turns: int | None
    budget: int | None
    mark: int
    eagerness: Fraction | None = None
    steps: frozenset[Reduce] = ALL_STEPS
    keep_results: int = KEEP_RESULTS


class Measure(Protocol):
    """Sizes of shorter forms of a result, in tokens. None: it has no such form, or not a smaller one."""

    def masked(self, number: int) -> int | None:
        """The size of the one line that stands for the result."""
        ...

    def cut(self, number: int, at_most: int) -> int | None:
        """The size of the result's head and tail, which is at most ``at_most``."""
        ...


class WholeOrNothing:
    """A measure where no result can be shortened."""

    def masked(self, number: int) -> int | None:
        return None

    def cut(self, number: int, at_most: int) -> int | None:
        return None


@dataclass(slots=True, eq=False)
class Unit:
    """What stays or leaves together: one item, or a tool call with all its results."""

    kind: ItemKind
    members: list[int]
    size: int
    exchange: int = -1
    results: list[int] = field(default_factory=list)
    pinned: int = 0
    waiting: int = 0
    gone: bool = False

    @property
    def first(self) -> int:
        return self.members[0]


@dataclass(slots=True, eq=False)
class WindowExchange:
    """A user message and all that follows it, up to the next. Only the first may lack the user message."""

    units: list[Unit] = field(default_factory=list)
    here: int = 0


class PlannedChange(NamedTuple):
    """One thing that is to happen later: these units leave, or these results get these sizes."""

    action: WindowAction
    units: tuple[Unit, ...] = ()
    sizes: Mapping[int, int] = MappingProxyType({})


@dataclass(slots=True)
class EvictionPlan:
    """Changes that were worked out and not made. ``sizes`` are those of the items that change or come back.

    ``total`` is what the window would count then; ``ahead`` what is to happen after that, and ``epoch`` how
    much, if that is known; ``freed`` the tokens that left for the budget's sake.
    """

    total: int
    steps: list[WindowStep] = field(default_factory=list)
    gone: list[Unit] = field(default_factory=list)
    sizes: dict[int, tuple[WindowAction, int]] = field(default_factory=dict)
    ahead: list[PlannedChange] | None = None
    epoch: Epoch | None = None
    freed: int = 0

    @property
    def left(self) -> list[int]:
        """The numbers of the items that leave."""
        return [number for unit in self.gone for number in unit.members]


class Window:
    """Items as sizes. ``total`` counts them and ``base``, what is sent beside them.

    ``answers`` are the items of the assistant: each was asked for by a request. ``freed`` tokens were made
    room of so far, and ``ahead`` is in which order more of it will be.
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
        self.epoch = Epoch()
        self.units: dict[int, Unit] = {}
        self.sizes: dict[int, int] = {}
        self.full: dict[int, int] = {}  # sizes, before they were reduced, of the results that are
        self.pins: dict[int, Unit] = {}
        self.unsendable: list[Unit] = []
        self.queue: OrderedDict[int, WindowExchange] = OrderedDict()
        self.open_round: Unit | None = None
        # Of rounds that were answered: the results that are not masked, and the rounds.
        self.results: OrderedDict[int, None] = OrderedDict()
        self.rounds: OrderedDict[int, Unit] = OrderedDict()

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[int]:
        """The numbers of the items that are here, in order."""
        return iter(self.units)

    def __contains__(self, number: object) -> bool:
        return number in self.units

    @property
    def total(self) -> int:
        return self.base + self._sum

    # What comes and goes by the caller's wish -------------------------------------------------------------

    def append(
        self, kind: ItemKind, size: int, *, calls: int = 0, call: int | None = None, answers: int = 1
    ) -> int:
        """Take in an item: its number. It waits for as many results as it makes ``calls``.

        ``call`` is the number of the ``CALL`` whose round a ``RESULT`` belongs to, and ``answers`` how many
        of its calls it answers; a further part of that call answers 0, and may make ``calls`` of its own.
        """
        number = self.next_number
        self.next_number += 1
        self._sum += size
        self.sizes[number] = size
        if call is None:
            self.units[number] = unit = Unit(kind, [number], size, waiting=calls)
            self._place(unit)
            return number
        unit = self.units[number] = self.units[call]
        unit.members.append(number)
        unit.size += size
        unit.waiting += calls - answers
        if answers:  # a further call of the round, or a thought, is not a result
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
                self._begin_exchange(unit.first)
            self.exchanges += kind is ItemKind.USER
            unit.exchange = next(reversed(self.queue))
            last = self.queue[unit.exchange]
            last.units.append(unit)
            last.here += 1
            if kind is ItemKind.CALL:
                self.open_round = unit

    def _begin_exchange(self, number: int) -> None:
        if self.queue and not self.queue[last := next(reversed(self.queue))].here:
            del self.queue[last]
        self.queue[number] = WindowExchange()

    def _close_round(self) -> None:
        """The assistant spoke: it has read the results of the round before."""
        unit, self.open_round = self.open_round, None
        if unit is not None and not unit.gone:
            self.rounds[unit.first] = unit
            self.results.update(dict.fromkeys(unit.results))

    def give_up_waiting(self, number: int) -> None:
        """What this item calls will not be answered any more."""
        self.unsendable.append(self.units[number])

    def change(self, number: int, by: int) -> None:
        """The item counts ``by`` more than it did."""
        unit = self.units[number]
        unit.size += by
        self.sizes[number] += by
        self._sum += by
        if unit.kind is ItemKind.FIXED:
            self.fixed += by

    def change_full(self, number: int, size: int) -> None:
        """A result that is shown in a shorter form counts ``size`` in full."""
        self.full[number] = size

    def size(self, number: int) -> int:
        """What the item counts now."""
        return self.sizes[number]

    def full_size(self, number: int) -> int:
        """What the item counts in full, also while a shorter form stands for it."""
        return self.full.get(number, self.sizes[number])

    def companions(self, number: int) -> tuple[int, ...]:
        """What stays or leaves together with this item, itself among them."""
        return tuple(self.units[number].members)

    def pin(self, number: int) -> None:
        """It never leaves, nor does what stays together with it. As many unpins undo as many pins."""
        unit = self.units[number]
        unit.pinned += 1
        self.pins[unit.first] = unit

    def unpin(self, number: int) -> None:
        unit = self.units[number]
        unit.pinned -= 1
        if not unit.pinned:
            del self.pins[unit.first]

    def drop(self, number: int) -> tuple[int, ...]:
        """Take the item out, with what stays or leaves together with it: their numbers."""
        unit = self.units[number]
        self._remove([unit])
        return tuple(sorted(unit.members))

    def evictable(self) -> tuple[int, ...]:
        """All that could leave if it had to, oldest first."""
        units = {u.first: u for part in self.leaving(ALL_STEPS, ()) for u in part}
        return tuple(number for unit in units.values() for number in unit.members)

    # What the limits ask for ------------------------------------------------------------------------------

    def commit(self, plan: EvictionPlan) -> None:
        """Make the changes of a plan that was made of this window as it is."""
        for number, (action, size) in plan.sizes.items():
            self._resize(number, action, size)
        self._remove(plan.gone)
        self.unsendable = [unit for unit in self.unsendable if not unit.gone]
        self.freed += plan.freed
        if plan.ahead is not None:
            self.ahead = plan.ahead
        if plan.epoch is not None:
            self.epoch = plan.epoch

    def forget_steps(self) -> None:
        """Sizes are of another kind now: what was freed, and what was to be, is counted from here."""
        self.freed, self.ahead, self.epoch = 0, [], Epoch()

    def must_stay(self) -> int:
        """What the window counts if all has left that may leave."""
        return self.base + self.fixed + sum(unit.size for unit in self._staying())

    def _staying(self) -> Iterable[Unit]:
        """Each unit but the fixed ones that may not leave."""
        found = {unit.first: unit for unit in self.pins.values() if unit.kind is not ItemKind.FIXED}
        if self.open_round is not None and not self.open_round.gone:
            found[self.open_round.first] = self.open_round
        if self.queue:
            last = self.queue[next(reversed(self.queue))]
            found |= {u.first: u for u in last.units if u.kind is not ItemKind.CALL and not u.gone}
        return [unit for unit in found.values() if unit not in self.unsendable]

    def leaving(
        self, steps: frozenset[Reduce], gone: Container[int], *, spare: bool = False
    ) -> Iterator[list[Unit]]:
        """What may leave, part after part. ``gone``: what a plan has let go already, by first numbers.

        ``spare``: the rounds of the last exchange, for they are what an agent has decided so far.
        """
        if Reduce.ROUNDS in steps:
            last = next(reversed(self.queue), None)
            for unit in self.rounds.values():
                if not unit.pinned and unit.first not in gone and not (spare and unit.exchange == last):
                    yield [unit]
        if Reduce.EXCHANGES in steps:
            for exchange in islice(self.queue.values(), max(0, len(self.queue) - 1)):
                free = [u for u in exchange.units if self.is_free(u) and u.first not in gone]
                if free:
                    yield free

    def parts(self) -> list[tuple[int, ...]]:
        """What may leave by itself, in order: each round, and of each older exchange what is in no round."""
        found = [tuple(unit.members) for unit in self.rounds.values() if self.is_free(unit)]
        for exchange in islice(self.queue.values(), max(0, len(self.queue) - 1)):
            core = [unit for unit in exchange.units if unit.kind is not ItemKind.CALL and self.is_free(unit)]
            if core:
                found.append(tuple(number for unit in core for number in unit.members))
        return sorted(found)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take parts out whole."""
        self._remove(list({self.units[number].first: self.units[number] for number in numbers}.values()))

    def is_free(self, unit: Unit) -> bool:
        return not unit.pinned and not unit.gone and unit is not self.open_round

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
            unit.gone = True
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
        """An exchange is forgotten once nothing of it is here; the last one stays, for it may grow."""
        exchange = self.queue.get(unit.exchange)
        if exchange is not None:
            exchange.here -= 1
            if not exchange.here and unit.exchange != next(reversed(self.queue)):
                del self.queue[unit.exchange]
