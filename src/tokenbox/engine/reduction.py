"""How a window is made smaller: what leaves, or is shortened, when it is over its limits (layout.md 5).

What must stay: fixed items, pinned ones, the last user message and what follows it outside of rounds, and the
open round, whose results the model has not read yet. What changes, least harm first, each step only while the
total is over the limit:

1. mask: results of old calls become one line, the oldest first;
2. cut: the newest ``keep_results`` results keep their head and tail; then they are masked, too;
3. rounds: the oldest round of calls and results leaves;
4. exchanges: the oldest exchange leaves.

A result that fits in part is cut and not masked, and where a change made more room than was needed,
results come back as far as they fit, the newest first. If what must stay is over the budget by itself, the
results of the open round are cut first (``shorten_last``). If the budget cannot be held, nothing changes for
its sake: it could not help. Whoever sends then refuses.

With a low-water mark more leaves at once, in whole steps (:mod:`tokenbox.engine.low_water`). In which order
is worked out when a longest step is full: all marks share it, and differ in how much of it they have done.
The rounds of the last exchange, an agent at work, leave only as far as the budget asks for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tokenbox.engine.low_water import halvings, margin, to_free
from tokenbox.engine.window import (
    LEAST_CUT,
    EvictionPlan,
    ItemKind,
    PlannedChange,
    Reduce,
    WholeOrNothing,
    WindowAction,
    WindowReason,
    WindowStep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

    from tokenbox.engine.low_water import Epoch
    from tokenbox.engine.window import Measure, Unit, Window, WindowLimits

_EXCHANGES = frozenset((Reduce.EXCHANGES,))


def plan(
    window: Window, limits: WindowLimits, measure: Measure | None = None, extra: int = 0
) -> EvictionPlan:
    """What to change so that the limits hold; ``plan.total`` is over the budget where they cannot.

    ``extra``: tokens by which the whole is known to be larger than the sizes add up to.
    """
    return _Planning(window, limits, WholeOrNothing() if measure is None else measure, extra).run()


def least(window: Window, limits: WindowLimits, measure: Measure | None = None) -> EvictionPlan:
    """The smallest that the window can be made by the steps that are allowed: the least budget that holds."""
    return _Planning(window, limits, WholeOrNothing() if measure is None else measure, 0).run_down()


def enforce(window: Window, limits: WindowLimits, measure: Measure | None = None) -> list[WindowStep]:
    """Plan, and make the changes: the steps."""
    made = plan(window, limits, measure)
    window.commit(made)
    return made.steps


class _Planning:
    """One plan as it is made."""

    def __init__(self, window: Window, limits: WindowLimits, measure: Measure, extra: int) -> None:
        self._window, self._limits, self._measure = window, limits, measure
        self._plan = EvictionPlan(window.total + extra)
        self._gone: set[int] = set()
        self._exchanges = window.exchanges
        self._in_steps = limits.eagerness is not None or limits.mark != limits.budget
        self._done: list[PlannedChange] = []
        self._whole = 0
        """What the window would count if no budget had ever been enforced."""

    def run(self) -> EvictionPlan:
        limits, budget = self._limits, self._limits.budget
        self._let_the_unsendable_leave()
        turns_won = self._win_exchanges()
        without_budget, before = self._copy(), self._plan.total
        if budget is not None:
            if not self._open_round_fits(budget):
                return without_budget
            self._whole = before + self._window.freed
            over = self._plan.total > budget
            if self._in_steps:
                self._reduce_in_steps(budget)
            else:
                self._reduce(budget, WindowReason.OVER)
            if self._plan.total > budget:
                return without_budget
            if over and not self._in_steps:
                self._give_back(budget)
        if limits.eagerness is not None and turns_won:
            self._go_on_to(self._suggested_mark(limits.eagerness))
        self._plan.freed = before - self._plan.total
        return self._plan

    def run_down(self) -> EvictionPlan:
        self._let_the_unsendable_leave()
        unit = self._window.open_round
        if unit is not None and Reduce.SHORTEN_LAST in self._limits.steps:
            sizes = {number: self._window.size(number) for number in unit.results}
            cut = self._cut_to(sizes, LEAST_CUT * len(sizes))
            if cut:
                self._shorten_to(cut, WindowAction.CUT, WindowReason.OPEN_ROUND, 0, 0)
        self._reduce(-1 - self._plan.total, WindowReason.OVER)
        return self._plan

    # The steps --------------------------------------------------------------------------------------------

    def _let_the_unsendable_leave(self) -> None:
        for unit in self._window.unsendable:
            if not unit.gone and unit.first not in self._gone:
                self._evict([unit], WindowReason.UNSENDABLE, 0, 0)

    def _win_exchanges(self) -> bool:
        """Let the oldest exchanges leave while there are too many: whether any did."""
        most, before = self._limits.max_turns, self._exchanges
        if most is not None and before > most:
            for units in self._window.leaving(_EXCHANGES, self._gone):
                if self._exchanges <= most:
                    break
                self._evict(units, WindowReason.TURNS, self._exchanges - most, most)
        return self._exchanges < before

    def _open_round_fits(self, budget: int) -> bool:
        """Cut the results of the open round where what must stay is over the budget by itself.

        They get half of the room there is for them, so that what led to them can stay too; all of it, where
        nothing else is there, or half of it would be of no use.
        """
        window, total = self._window, self._plan.total
        added = total - window.total + sum(unit.size for unit in self._plan.gone)
        over = window.must_stay() + added - budget
        if over <= 0:
            return True
        unit = window.open_round
        if unit is None or Reduce.SHORTEN_LAST not in self._limits.steps or unit.first in self._gone:
            return False
        sizes = {number: window.size(number) for number in unit.results}
        room = sum(sizes.values()) - over
        others = total + (window.freed if self._in_steps else 0) - budget > over
        for share in (room // 2, room) if others else (room,):
            cut = self._cut_to(sizes, share)
            if cut:
                self._shorten_to(cut, WindowAction.CUT, WindowReason.OPEN_ROUND, over, budget)
                return True
        return False

    def _cut_to(self, sizes: dict[int, int], room: int) -> dict[int, int]:
        """The results that are cut so that all are within ``room``, the largest most; none if that fails."""
        cap = _water_level(sorted(sizes.values()), room)
        found = {
            number: self._measure.cut(number, cap) if cap >= LEAST_CUT else None
            for number, size in sizes.items()
            if size > cap
        }
        cut = {number: size for number, size in found.items() if size is not None}
        return cut if len(cut) == len(found) else {}

    def _reduce(self, target: int, reason: WindowReason, *, spare: bool = False) -> None:
        """Mask, cut, and let rounds and exchanges leave until the total is at most ``target``.

        ``spare``: the rounds of the last exchange.
        """
        for change in self._changes(target, reason, spare=spare):
            if self._plan.total <= target:
                return
            change()

    def _reduce_in_steps(self, budget: int) -> None:
        """Free whole steps of the budget, in the order that all marks share."""
        whole = self._whole
        if whole <= budget:
            return
        # A step that is chosen by what the window shows is another one after the cut.
        if self._limits.eagerness is not None and self._plan.total <= budget - margin(budget):
            return
        epoch = self._plan.epoch = self._window.epoch.at(whole, budget, self._window.must_stay())
        target = self._target(epoch, whole, budget)
        ahead = [*self._window.ahead, *self._looked_ahead(whole - epoch.freed(whole, budget, 1))]
        while self._plan.total > target:
            if not ahead:  # one step of the whole budget is longer than what is looked ahead
                self._reduce(target, WindowReason.AHEAD, spare=True)
                self._reduce(budget - margin(budget), WindowReason.AHEAD)
                break
            if self._part_of(ahead[0], target, budget):
                break
            self._do(ahead.pop(0), target, budget)
        self._plan.ahead = ahead

    def _target(self, epoch: Epoch, whole: int, budget: int) -> int:
        """How far down the window is to go: to where a whole step ends, or where it suggests itself."""
        eagerness, mark = self._limits.eagerness, self._limits.mark
        if eagerness is None:
            return whole - epoch.freed(whole, budget, halvings(budget - mark, budget))
        return min(budget - margin(budget), self._suggested_mark(eagerness))

    def _looked_ahead(self, target: int) -> list[PlannedChange]:
        """What follows once all that is known to follow is done, down to ``target``."""
        there = _Planning(self._window, self._limits, self._measure, 0)
        there._plan, there._gone, there._exchanges = self._copy(), set(self._gone), self._exchanges
        for change in self._window.ahead:
            there._do(change, target, target)
        there._done.clear()
        there._reduce(target, WindowReason.AHEAD, spare=True)
        return there._done

    def _do(self, change: PlannedChange, target: int, budget: int) -> None:
        """Make a change that was worked out before, as far as it can still be made."""
        if change.action is WindowAction.EVICT:
            units = [u for u in change.units if self._window.is_free(u) and u.first not in self._gone]
            if units:
                self._evict(units, *self._why(target, budget))
        elif sizes := {n: size for n, size in change.sizes.items() if self._can_become(n, size)}:
            self._shorten_to(sizes, change.action, *self._why(target, budget))

    def _part_of(self, change: PlannedChange, target: int, budget: int) -> bool:
        """Whether a cut of the result that is to be masked next was enough; it is masked later."""
        if change.action is not WindowAction.MASK or Reduce.CUT not in self._limits.steps:
            return False
        ((number, masked),) = change.sizes.items()
        if not self._can_become(number, masked):
            return False
        size = self._size_of(number)
        at_most = size - (self._plan.total - target)
        cut = self._measure.cut(number, at_most) if max(masked + 1, LEAST_CUT) <= at_most < size else None
        if cut is None or not masked < cut <= at_most:
            return False
        self._shorten_to({number: cut}, WindowAction.CUT, *self._why(target, budget))
        return True

    def _why(self, target: int, budget: int) -> tuple[WindowReason, int, int]:
        total = self._plan.total
        if total > budget:
            return WindowReason.OVER, total - budget, budget
        return WindowReason.AHEAD, total - target, target

    def _can_become(self, number: int, size: int) -> bool:
        return number in self._window and self._may_shorten(number) and size < self._size_of(number)

    def _go_on_to(self, mark: int) -> None:
        """Make the window smaller until it is nearest to ``mark``; of two states as near, keep more."""
        for change in self._changes(mark, WindowReason.AHEAD, spare=True):
            before = self._copy()
            change()
            if before.total - mark <= mark - self._plan.total:
                self._plan = before
                return

    def _changes(
        self, target: int, reason: WindowReason, *, spare: bool = False
    ) -> Iterator[Callable[[], None]]:
        """Single changes, in order. Each is worked out when it is made."""
        for number, action in self._shortenings():
            yield partial(self._shorten, number, action, target, reason)
        for units in self._window.leaving(self._limits.steps, self._gone, spare=spare):
            yield partial(self._evict, units, reason, self._plan.total - target, target)

    def _shortenings(self) -> Iterator[tuple[int, WindowAction]]:
        """Results, and what may be done to them, in order."""
        window, steps = self._window, self._limits.steps
        if steps.isdisjoint((Reduce.MASK, Reduce.CUT)):
            return
        results = sorted(
            number for number in window.results if self._may_shorten(number) and self._is_whole(number)
        )
        unread = 0 if window.open_round is None else len(window.open_round.results)
        kept = max(0, self._limits.keep_results - unread) if Reduce.MASK in steps else len(results)
        old, new = results[: max(0, len(results) - kept)], results[max(0, len(results) - kept) :]
        yield from ((number, WindowAction.MASK) for number in old)
        if Reduce.CUT in steps:
            yield from ((number, WindowAction.CUT) for number in new)
        if Reduce.MASK in steps:
            yield from ((number, WindowAction.MASK) for number in new)

    def _is_whole(self, number: int) -> bool:
        """Whether it is not masked, as planned so far."""
        planned = self._plan.sizes.get(number)
        return planned is None or planned[0] is not WindowAction.MASK

    def _may_shorten(self, number: int) -> bool:
        unit = self._window.units[number]
        return not unit.pinned and unit.first not in self._gone

    def _shorten(self, number: int, action: WindowAction, target: int, reason: WindowReason) -> None:
        """Cut out no more than what is over, where that leaves enough to be of use; else as ``action``."""
        size, over = self._size_of(number), self._plan.total - target
        at_most = max(size - over, LEAST_CUT) if action is WindowAction.CUT else size - over
        if Reduce.CUT in self._limits.steps and LEAST_CUT <= at_most < size:
            cut = self._measure.cut(number, at_most)
            if cut is not None and cut < size:
                self._shorten_to({number: cut}, WindowAction.CUT, reason, over, target)
                return
        if action is WindowAction.MASK:
            masked = self._measure.masked(number)
            if masked is not None and masked < size:
                self._shorten_to({number: masked}, WindowAction.MASK, reason, over, target)

    def _suggested_mark(self, eagerness: Fraction) -> int:
        """Where a change is to end, by what the window shows."""
        window, budget = self._window, self._limits.budget
        least, whole = window.must_stay(), window.total
        limit = whole if budget is None else min(whole, budget)
        came = whole + sum(full - window.size(number) for number, full in window.full.items())
        return limit - to_free(max(0, limit - least), max(0, came - least), window.answers + 1, eagerness)

    def _give_back(self, budget: int) -> None:
        """A change may have made more room than was needed: results come back, the newest first.

        Whole where that fits, else more of their head and tail.
        """
        plan, window = self._plan, self._window
        here = {number for number in window.full if window.units[number].first not in self._gone}
        for number in sorted(here | plan.sizes.keys(), reverse=True):
            free, size, full = budget - plan.total, self._size_of(number), window.full_size(number)
            if free <= 0:
                return
            if full - size <= free:
                if full > size:
                    self._shorten_to({number: full}, WindowAction.RESTORE, WindowReason.ROOM, free, budget)
            elif Reduce.CUT in self._limits.steps and size + free >= LEAST_CUT:
                cut = self._measure.cut(number, size + free)
                if cut is not None and cut > size:
                    self._shorten_to({number: cut}, WindowAction.CUT, WindowReason.ROOM, free, budget)

    # What a step does -------------------------------------------------------------------------------------

    def _evict(self, units: Sequence[Unit], reason: WindowReason, over: int, limit: int) -> None:
        plan, before = self._plan, self._plan.total
        numbers = tuple(sorted(number for unit in units for number in unit.members))
        plan.total -= sum(map(self._size_of, numbers))
        plan.gone += units
        self._gone.update(unit.first for unit in units)
        self._exchanges -= sum(unit.kind is ItemKind.USER for unit in units)
        for number in numbers:
            plan.sizes.pop(number, None)
        self._done.append(PlannedChange(WindowAction.EVICT, tuple(units)))
        plan.steps.append(WindowStep(numbers, reason, before, plan.total, over, limit))

    def _shorten_to(
        self, sizes: dict[int, int], action: WindowAction, reason: WindowReason, over: int, limit: int
    ) -> None:
        plan, before = self._plan, self._plan.total
        for number, size in sizes.items():
            plan.total += size - self._size_of(number)
            plan.sizes[number] = action, size
        self._done.append(PlannedChange(action, (), sizes))
        plan.steps.append(WindowStep(tuple(sizes), reason, before, plan.total, over, limit, action))

    def _size_of(self, number: int) -> int:
        planned = self._plan.sizes.get(number)
        return self._window.size(number) if planned is None else planned[1]

    def _copy(self) -> EvictionPlan:
        plan = self._plan
        return EvictionPlan(plan.total, list(plan.steps), list(plan.gone), dict(plan.sizes), plan.ahead)


def _water_level(sizes: Sequence[int], room: int) -> int:
    """The largest cap such that ``sizes``, in rising order, each at most the cap, are within ``room``."""
    left = room
    for place, size in enumerate(sizes):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)
