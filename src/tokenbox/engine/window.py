"""The window of a conversation: which messages leave when it is over its limits (docs/conversations.md).

The engine sees sizes and kinds, never a text. Messages are known by their number, counted from 0 in the order
in which they came; a number is never used again. The total is kept up to date, so enforcing a budget costs as
much as it evicts, however long the window is.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.engine.renewal import to_free

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from fractions import Fraction


class Kind(Enum):
    """What a message is to the window."""

    FIXED = "fixed"  # a system or developer message: not part of the window
    USER = "user"
    ANSWER = "answer"  # an assistant message without tool calls
    CALL = "call"  # one with tool calls
    RESULT = "result"  # of one of those calls
    STRAY = "stray"  # the result of a call that is not there


_ANSWERS = frozenset({Kind.ANSWER, Kind.CALL})


class Reason(StrEnum):
    """Why messages were evicted. The value is the template of the sentence shown to a person."""

    UNSENDABLE = "no server takes a tool call without its results, or a result without its call"
    TURNS = "there were {over} exchanges more than the {limit} allowed"
    OVER = "the whole was {over} tokens over the budget of {limit}"
    LOW_WATER = "once over the budget, the whole was still {over} tokens over the low-water mark of {limit}"
    AHEAD = (
        "room for some more requests, down to about {limit} tokens, keeps the prompt's beginning for longer"
    )


class Step(NamedTuple):
    """One eviction: which ``messages`` left together and why; the total before and after it, in tokens.

    ``over`` is by how much ``limit`` was passed: in exchanges for ``TURNS``, else in tokens.
    """

    messages: tuple[int, ...]
    reason: Reason
    before: int
    after: int
    over: int = 0
    limit: int = 0

    @property
    def why(self) -> str:
        return self.reason.value.format(over=f"{self.over:,}", limit=f"{self.limit:,}")

    def to_dict(self) -> dict[str, object]:
        return {
            "action": "evict",
            "messages": list(self.messages),
            "before": self.before,
            "after": self.after,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """At most ``max_turns`` exchanges and ``budget`` tokens; None is no such limit.

    Once over the budget, messages leave until the total is at most ``mark``, the low-water mark. With
    ``eagerness``, once over either, until it is nearest to the mark that the window itself suggests
    (:mod:`tokenbox.engine.renewal`), and ``mark`` is not used.
    """

    max_turns: int | None
    budget: int | None
    mark: int
    eagerness: Fraction | None = None


@dataclass(slots=True, eq=False)
class _Unit:
    """What stays or leaves together: one message, or a tool call with all its results."""

    kind: Kind
    members: list[int]
    size: int
    pinned: int = 0
    waiting: int = 0
    gone: bool = False


@dataclass(slots=True, eq=False)
class _Exchange:
    """A user message and all that follows it, up to the next. Only the first may lack the user message."""

    units: list[_Unit] = field(default_factory=list)
    rounds: deque[_Unit] = field(default_factory=deque)


class Window:
    """Messages as sizes. ``total`` counts them and ``base``, what is sent beside them.

    ``answers`` are the messages of the assistant: each was asked for by a request.
    """

    def __init__(self, base: int = 0) -> None:
        self.total = base
        self.exchanges = 0
        self.answers = 0
        self.next_number = 0
        self._units: dict[int, _Unit] = {}
        self._queue: deque[_Exchange] = deque()
        self._unsendable: list[_Unit] = []
        # Pinned units of exchanges that left; those of them that are not pinned any more leave first.
        self._left_behind: set[int] = set()
        self._loose: list[int] = []

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[int]:
        """The numbers of the messages that are here, in order."""
        return iter(self._units)

    def __contains__(self, number: int) -> bool:
        return number in self._units

    def append(self, kind: Kind, size: int, *, calls: int = 0, call: int | None = None) -> int:
        """Take in a message: its number. A ``CALL`` waits for ``calls`` results.

        ``call`` is the number of the message whose call a ``RESULT`` answers.
        """
        number = self.next_number
        self.next_number += 1
        self.total += size
        if call is None:
            unit = _Unit(kind, [number], size, waiting=calls)
            self._place(unit)
            self.answers += kind in _ANSWERS
        else:
            unit = self._units[call]
            unit.members.append(number)
            unit.size += size
            unit.waiting -= 1
        self._units[number] = unit
        return number

    def give_up_waiting(self, number: int) -> None:
        """What this message calls will not be answered any more."""
        self._unsendable.append(self._units[number])

    def change(self, number: int, by: int) -> None:
        """The message counts ``by`` more than it did."""
        self._units[number].size += by
        self.total += by

    def companions(self, number: int) -> tuple[int, ...]:
        """What stays or leaves together with this message, itself among them."""
        return tuple(self._units[number].members)

    def pin(self, number: int) -> None:
        """It never leaves, nor does what stays together with it. As many unpins undo as many pins."""
        self._units[number].pinned += 1

    def unpin(self, number: int) -> None:
        unit = self._units[number]
        unit.pinned -= 1
        first = unit.members[0]
        if unit.pinned:
            return
        if first in self._left_behind:
            self._left_behind.discard(first)
            heapq.heappush(self._loose, first)
        elif unit.kind is Kind.CALL and first >= self._queue[-1].units[0].members[0]:
            last = self._queue[-1]
            last.rounds = deque(u for u in last.units if u.kind is Kind.CALL and not u.gone)

    def evictable(self) -> tuple[int, ...]:
        """All that could leave if it had to, oldest first."""
        return tuple(number for units in self._order(()) for number in _numbers(units))

    def drop(self, number: int) -> tuple[int, ...]:
        """Take the message out, with what stays or leaves together with it: their numbers."""
        return self._remove([self._units[number]])

    def enforce(self, limits: Limits) -> list[Step]:
        """Evict the oldest until the limits hold or nothing more may leave: the steps taken."""
        if limits.eagerness is not None:
            return self._enforce_at_once(limits) if self._is_beyond(limits) else []
        steps = [self._step(units, Reason.UNSENDABLE, 0, 0) for units in self._take_unsendable()]
        limit = limits.budget
        while True:
            over = 0 if limit is None else self.total - limit
            extra = 0 if limits.max_turns is None else self.exchanges - limits.max_turns
            if over <= 0 and extra <= 0:
                return steps
            # Within the last exchange there is no exchange to win.
            units = self._take_oldest(rounds=over > 0)
            if not units:
                return steps
            if over <= 0 or limit is None:
                steps.append(self._step(units, Reason.TURNS, extra, limits.max_turns or 0))
                continue
            over_budget = limits.budget is not None and self.total > limits.budget
            steps.append(self._step(units, Reason.OVER if over_budget else Reason.LOW_WATER, over, limit))
            limit = limits.mark

    def enforce_whole(self, limits: Limits, total_without: Callable[[Collection[int]], int]) -> list[Step]:
        """As ``enforce``, where sizes do not add up: ``total_without(numbers)`` counts the rest as a whole.

        The whole is counted about log2(n) times; it should not grow when messages leave. All that leaves
        for one reason is one step.
        """
        parts = self._parts()
        ends = list(accumulate(len(_numbers(units)) for units in parts))
        gone = [number for units in parts for number in _numbers(units)]
        totals: dict[int, int] = {}

        def total(count: int) -> int:
            if count not in totals:
                totals[count] = total_without(frozenset(gone[: ends[count - 1] if count else 0]))
            return totals[count]

        return self._leave(parts, limits, total)

    def _enforce_at_once(self, limits: Limits) -> list[Step]:
        """``enforce_whole`` where sizes add up."""
        parts = self._parts()
        totals = [self.total]
        totals += [self.total - freed for freed in accumulate(sum(u.size for u in units) for units in parts)]
        return self._leave(parts, limits, totals.__getitem__)

    def _parts(self) -> list[list[_Unit]]:
        """First what no server takes, then what else may leave, in order."""
        unsendable = [unit for unit in self._unsendable if not unit.gone]
        return [unsendable, *self._order(unsendable)]

    def _leave(self, parts: Sequence[list[_Unit]], limits: Limits, total: Callable[[int], int]) -> list[Step]:
        """Evict as many of ``parts`` as the limits ask for. ``total(count)``: without the first ``count``."""
        over = 0 if limits.budget is None else total(1) - limits.budget
        extra = 0 if limits.max_turns is None else self.exchanges - limits.max_turns
        fitting = 1
        if over > 0:
            limit = limits.mark if limits.eagerness is None else limits.budget or 0
            fitting = _first_within(limit, total, len(parts))
        needed = max(fitting, 1 + self._exchanges_to_win(parts[1:], extra))
        ahead, mark = needed, 0
        if limits.eagerness is not None and needed > 1:
            mark = self._suggested_mark(parts, limits.eagerness, limits.budget, total)
            ahead = max(needed, _nearest(mark, total, len(parts) - self._ends_with_newest_round(parts)))
        reasons = (
            (Reason.UNSENDABLE, 0, 1, 0, 0),
            (Reason.OVER, 1, fitting, over, limits.budget or 0),
            (Reason.TURNS, fitting, needed, extra, limits.max_turns or 0),
            (Reason.AHEAD, needed, ahead, 0, mark),
        )
        steps = []
        for reason, start, end, by, limit in reasons:
            numbers = sorted(number for units in parts[start:end] for number in _numbers(units))
            if numbers:
                steps.append(Step(tuple(numbers), reason, total(start), total(end), by, limit))
        whole = total(ahead)
        # Counting may fail, and then nothing has left.
        for units in self._take_unsendable():
            self._remove(units)
        for _ in range(1, ahead):
            self._remove(self._take_oldest(rounds=True))
        self.total = whole
        return steps

    def _ends_with_newest_round(self, parts: Sequence[list[_Unit]]) -> bool:
        """What has just been asked for leaves only if it must."""
        rounds = [unit for unit in self._queue[-1].rounds if not unit.gone and unit not in parts[0]]
        return parts[-1] == rounds[-1:]

    def _suggested_mark(
        self,
        parts: Sequence[list[_Unit]],
        eagerness: Fraction,
        budget: int | None,
        total: Callable[[int], int],
    ) -> int:
        """Where a cut is to end, by what the window shows."""
        least, whole = total(len(parts)), total(1)
        limit = whole if budget is None else min(whole, budget)
        answers = self.answers - sum(unit.kind in _ANSWERS for unit in parts[0])
        return limit - to_free(max(0, limit - least), max(0, whole - least), answers + 1, eagerness)

    def _is_beyond(self, limits: Limits) -> bool:
        """Whether something has to leave."""
        return (
            bool(self._unsendable)
            or (limits.budget is not None and self.total > limits.budget)
            or (limits.max_turns is not None and self.exchanges > limits.max_turns)
        )

    def _place(self, unit: _Unit) -> None:
        if unit.kind is Kind.FIXED:
            return
        if unit.kind is Kind.STRAY:
            self._unsendable.append(unit)
            return
        if unit.kind is Kind.USER or not self._queue:
            self._queue.append(_Exchange())
        self.exchanges += unit.kind is Kind.USER
        self._queue[-1].units.append(unit)
        if unit.kind is Kind.CALL:
            self._queue[-1].rounds.append(unit)

    def _take_unsendable(self) -> list[list[_Unit]]:
        taken = [[unit] for unit in self._unsendable if not unit.gone]
        self._unsendable = []
        return taken

    def _take_oldest(self, *, rounds: bool) -> list[_Unit]:
        """What is to leave next: an exchange, or with ``rounds`` one of the rounds of the last."""
        while self._loose:
            unit = self._units.get(heapq.heappop(self._loose))
            if unit is not None and not unit.pinned:
                return [unit]
            if unit is not None:
                self._left_behind.add(unit.members[0])
        while len(self._queue) > 1:
            here = [unit for unit in self._queue.popleft().units if not unit.gone]
            self._left_behind.update(unit.members[0] for unit in here if unit.pinned)
            if leaving := [unit for unit in here if not unit.pinned]:
                return leaving
        last = self._queue[0].rounds if rounds and self._queue else deque[_Unit]()
        while last and (last[0].gone or not last[0].waiting):
            unit = last.popleft()
            if not unit.pinned and not unit.gone:
                return [unit]
        return []

    def _order(self, unsendable: Sequence[_Unit]) -> Iterator[list[_Unit]]:
        """What ``_take_oldest`` would give, again and again, once ``unsendable`` has left."""
        leaving = set(_numbers(unsendable))
        for first in sorted(self._loose):
            if first in self._units and not self._units[first].pinned:
                yield [self._units[first]]
        for place, exchange in enumerate(self._queue):
            free = [unit for unit in exchange.units if not unit.pinned and not unit.gone]
            here = [unit for unit in free if unit.members[0] not in leaving]
            if place == len(self._queue) - 1:
                yield from ([unit] for unit in here if unit.kind is Kind.CALL and not unit.waiting)
            elif here:
                yield here

    def _exchanges_to_win(self, order: Sequence[Sequence[_Unit]], extra: int) -> int:
        """How many of ``order`` leave until ``extra`` exchanges have, or only the last one is left."""
        last = self._queue[-1].units[0].members[0] if self._queue else 0
        for count, units in enumerate(order):
            if extra <= 0 or units[0].members[0] >= last:
                return count
            extra -= sum(unit.kind is Kind.USER for unit in units)
        return len(order)

    def _step(self, units: Sequence[_Unit], reason: Reason, over: int, limit: int) -> Step:
        before = self.total
        numbers = self._remove(units)
        return Step(numbers, reason, before, self.total, over, limit)

    def _remove(self, units: Sequence[_Unit]) -> tuple[int, ...]:
        numbers = sorted(_numbers(units))
        for unit in units:
            unit.gone = True
            self.total -= unit.size
            self.exchanges -= unit.kind is Kind.USER
            self.answers -= unit.kind in _ANSWERS
        for number in numbers:
            del self._units[number]
        return tuple(numbers)


def _first_within(limit: int, total: Callable[[int], int], most: int) -> int:
    """The least count from 1 to ``most`` whose total is at most ``limit``, or ``most``."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if total(middle) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


def _nearest(mark: int, total: Callable[[int], int], most: int) -> int:
    """The count whose total is nearest to ``mark``; of two, what keeps more."""
    count = _first_within(mark, total, most)
    return count - 1 if count > 1 and total(count - 1) - mark <= mark - total(count) else count


def _numbers(units: Sequence[_Unit]) -> list[int]:
    return [number for unit in units for number in unit.members]
