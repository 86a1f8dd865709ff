"""Plan what to evict or shorten when a window is over its limits (layout.md 5).

Required items always stay: fixed and pinned ones, the last user message and what follows it outside of
rounds, and the open round, whose results the model has not read yet. A round that stays because it has the
user's last text may have its results shortened. The others change in this order, each
step only while the total is over the limit:

1. mask: results of old calls, and the images and files of old questions, become one line, the oldest first;
2. cut: the newest ``keep_results`` results keep their head and tail; then they are masked, too;
3. rounds: the oldest round of calls and results is evicted;
4. exchanges: the oldest exchange is evicted.

A result that fits in part is cut instead of masked. One large part that leaves can free much more than was
needed. If more than an eighth of the budget would be empty, ``cut`` gives the room to the parts that would
leave, the last of them first: one that fits does not leave, and one that does not fit keeps the head and tail
of its long texts. Last, shortened results are restored as far as they fit, the newest first. If the required
items alone are over the budget, the results of the open round are cut first (``shorten_last``). If the budget
cannot be met, the plan changes nothing for its sake, and the caller refuses to send.

With a low-water mark, more is evicted at once, in whole steps (:mod:`tokenbox.engine.low_water`). The order
is planned for the longest step; all marks share it and differ only in how much of it they have applied. The
rounds of the last exchange, an agent at work, are evicted only as far as the budget requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from tokenbox.engine.low_water import Epoch, margin, to_free
from tokenbox.engine.steps import LEAST_CUT, Reduce, WindowAction, WindowLimits, WindowReason, WindowStep
from tokenbox.engine.window import EvictionPlan, ItemKind, Measure, PlannedChange, Unit, Window

if TYPE_CHECKING:
    from fractions import Fraction


_EXCHANGES = frozenset((Reduce.EXCHANGES,))
_HOLE = 8
"""Room of more than 1/8 of the budget is filled. Filling less would change the start of the prompt, and so
empty a prompt cache, on nearly every request."""


def plan(window: Window, limits: WindowLimits, measure: Measure, extra: int = 0) -> EvictionPlan:
    """Plan the changes that meet the limits; the plan's ``total`` is over the budget if they cannot be met.

    ``extra``: tokens by which the request is known to be larger than the sum of the sizes.
    """
    if _is_met(window, limits, extra):
        return EvictionPlan(window.total + extra)
    return _Planning(window, limits, measure, extra).run()


def _is_met(window: Window, limits: WindowLimits, extra: int) -> bool:
    """Return True if there is nothing to plan, as on most turns of a conversation."""
    if window.unsendable or (limits.max_turns is not None and window.exchanges > limits.max_turns):
        return False
    budget, total = limits.budget, window.total + extra
    if budget is None or not limits.in_steps:
        return budget is None or total <= budget
    # In steps, tokens that were freed before count too: the next step may be due.
    return total + max(0, window.freed) <= budget or _no_step_is_due(window, limits, budget, total)


def _no_step_is_due(window: Window, limits: WindowLimits, budget: int, total: int) -> bool:
    """Return True if planning the next step would evict nothing and plan nothing further ahead."""
    if limits.eagerness is not None:
        return total <= budget - margin(budget)
    epoch, whole, frees = window.epoch, total + window.freed, window.ahead_frees
    return (
        frees is not None
        and not epoch.ends_at(whole, budget)
        and total <= epoch.end_of_step(whole, budget, limits.mark)
        and total - frees <= epoch.end_of_plans(whole, budget)
    )


def plan_minimum(window: Window, limits: WindowLimits, measure: Measure) -> EvictionPlan:
    """Plan the smallest window that the allowed steps can reach: the smallest feasible budget."""
    return _Planning(window, limits, measure).run_to_minimum()


def plan_restored(window: Window, limits: WindowLimits, measure: Measure) -> EvictionPlan:
    """Plan to restore shortened results as far as the budget has room."""
    return _Planning(window, limits, measure).run_restored()


class _Planning:
    """A plan under construction."""

    def __init__(self, window: Window, limits: WindowLimits, measure: Measure, extra: int = 0) -> None:
        self._window, self._limits, self._measure = window, limits, measure
        self._plan = EvictionPlan(window.total + extra)
        self._applied: list[PlannedChange] = []

    def run(self) -> EvictionPlan:
        limits, budget = self._limits, self._limits.budget
        self._evict_unsendable()
        exchanges_evicted = self._limit_exchanges()
        without_budget, before = self._copy(), self._plan.total
        if budget is not None:
            if not self._open_round_fits(budget):
                return without_budget
            over = self._plan.total > budget
            if limits.in_steps:
                self._reduce_in_steps(budget, before + self._window.freed)
            else:
                self._reduce(budget, WindowReason.OVER)
            if self._plan.total > budget:
                return without_budget
            if over and not limits.in_steps:
                self._restore(budget)
        if limits.eagerness is not None and exchanges_evicted:
            self._reduce_to_nearest(self._suggested_mark(limits.eagerness))
        self._plan.freed = before - self._plan.total
        return self._plan

    def run_to_minimum(self) -> EvictionPlan:
        self._evict_unsendable()
        unit = self._window.open_round
        if unit is not None and Reduce.SHORTEN_LAST in self._limits.steps:
            sizes = {number: self._window.size(number) for number in unit.results}
            least = LEAST_CUT * len(sizes)
            if cut := self._cut_to(sizes, least, media=True) or self._cut_to(sizes, least, media=False):
                self._shorten_to(cut, WindowAction.CUT, WindowReason.OPEN_ROUND, 0, 0)
        self._reduce(self._window.base - 1, WindowReason.OVER)  # no eviction reaches the base
        return self._plan

    def run_restored(self) -> EvictionPlan:
        if self._limits.budget is not None:
            self._restore(self._limits.budget)
        return self._plan

    # The steps --------------------------------------------------------------------------------------------

    def _evict_unsendable(self) -> None:
        for unit in self._window.unsendable:
            if not unit.removed and unit.first not in self._plan.evicted:
                self._evict([unit], WindowReason.UNSENDABLE, 0, 0)

    def _limit_exchanges(self) -> bool:
        """Evict the oldest exchanges while there are more than ``max_turns``; return True if any was."""
        limit = self._limits.max_turns
        before = excess = 0 if limit is None else self._window.exchanges - limit
        if limit is not None and excess > 0:
            for units in self._window.eviction_candidates(_EXCHANGES, self._plan.evicted):
                if excess <= 0:
                    break
                self._evict(units, WindowReason.TURNS, excess, limit)
                excess -= sum(unit.kind is ItemKind.USER for unit in units)
        return excess < before

    def _open_round_fits(self, budget: int) -> bool:
        """Shorten read, then unread results of the required items if these alone are over the budget.

        Return False if they cannot be cut enough. The results get half of the available room, so that the
        items before them can stay too, or all of it if no items come before them or half would be too little.
        """
        window, plan = self._window, self._plan
        spared = window.total - window.must_stay() - sum(unit.size for unit in plan.evicted.values()) + budget
        for number, action in list(self._shortenings()) if plan.total > spared else ():
            if window.units[number].held and plan.total > spared:
                self._shorten(number, action, spared, WindowReason.OPEN_ROUND, budget)
        total, over = plan.total, plan.total - spared
        if over <= 0:
            return True
        unit = window.open_round
        if unit is None or Reduce.SHORTEN_LAST not in self._limits.steps or unit.first in plan.evicted:
            return False
        sizes = {number: window.size(number) for number in unit.results}
        room = sum(sizes.values()) - over
        others = total + (window.freed if self._limits.in_steps else 0) - budget > over
        shares = (room // 2, room) if others else (room,)
        for media, share in product((True, False), shares):
            cut = self._cut_to(sizes, share, media=media)
            if cut:
                self._shorten_to(cut, WindowAction.CUT, WindowReason.OPEN_ROUND, over, budget)
                return True
        return False

    def _cut_to(self, sizes: dict[int, int], room: int, *, media: bool) -> dict[int, int]:
        """Return new sizes that bring all results within ``room``, the largest cut most; {} if impossible.

        ``media``: their images and files stay.
        """
        cut, uncut = self._capped(sizes, room, media=media)
        return {} if uncut else cut

    def _capped(
        self, sizes: Mapping[int, int], room: int, *, media: bool = True
    ) -> tuple[dict[int, int], set[int]]:
        """Cut what is larger than the cap common to all; return the new sizes, and what cannot be cut."""
        cap = common_cap(sorted(sizes.values()), room)
        larger = [number for number, size in sizes.items() if size > cap]
        found = {n: self._measure.cut(n, cap, media=media) if cap >= LEAST_CUT else None for n in larger}
        cut = {number: size for number, size in found.items() if size is not None}
        return cut, found.keys() - cut.keys()

    def _reduce(self, target: int, reason: WindowReason, *, keep_last: bool = False) -> None:
        """Mask, cut, and evict rounds and exchanges until the total is at most ``target``.

        ``keep_last``: keep the rounds of the last exchange.
        """
        for number, action in self._shortenings():
            if self._plan.total <= target:
                return
            self._shorten(number, action, target, reason)
        lost, total = self._parts_to_evict(target, keep_last=keep_last)
        cuts = self._keep_what_fits(lost, target, target - total) if target >= total else []
        for part in lost:
            self._evict(part, reason, self._plan.total - target, target)
        for sizes in cuts:
            self._shorten_to(sizes, WindowAction.CUT, reason, self._plan.total - target, target)

    def _parts_to_evict(self, target: int, *, keep_last: bool) -> tuple[list[list[Unit]], int]:
        """Return the parts to evict until the total is at most ``target``, in order, and the total then."""
        lost: list[list[Unit]] = []
        total, gone = self._plan.total, set(self._plan.evicted)
        if total > target:
            for part in self._window.eviction_candidates(self._limits.steps, gone, keep_last=keep_last):
                lost.append(part)
                gone.update(unit.first for unit in part)
                total -= sum(self._size_of(number) for unit in part for number in unit.members)
                if total <= target:
                    break
        return lost, total

    def _keep_what_fits(self, lost: list[list[Unit]], budget: int, free: int) -> list[dict[int, int]]:
        """Take from ``lost`` the parts that fit into the free room, and return new sizes of shortened ones.

        The last part of the order first, so an exchange before its rounds.
        """
        cuts: list[dict[int, int]] = []
        if self._limits.in_steps or Reduce.CUT not in self._limits.steps:
            return cuts
        # A round stays only with its exchange: without that, it would have no question.
        without_question = {u.exchange for part in lost for u in part if u.kind is not ItemKind.CALL}
        for at in reversed(range(len(lost))):
            part = lost[at]
            if free < max(LEAST_CUT, budget // _HOLE):
                break
            if part[0].kind is ItemKind.CALL and part[0].exchange in without_question:
                continue
            sizes = {number: self._size_of(number) for unit in part for number in unit.members}
            cut: dict[int, int] = {}
            if sum(sizes.values()) > free:
                cut = self._cut_texts(part, sizes, free)
                if not cut:
                    continue
                cuts.append(cut)
            del lost[at]
            without_question.discard(part[0].exchange)
            free -= sum((sizes | cut).values())
        return cuts

    def _cut_texts(self, part: Sequence[Unit], sizes: Mapping[int, int], room: int) -> dict[int, int]:
        """Return sizes that bring a part within ``room``, its longest texts cut most; {} if impossible."""
        texts = {n for unit in part for n in (unit.results if unit.kind is ItemKind.CALL else unit.members)}
        while texts:
            left = room - sum(size for number, size in sizes.items() if number not in texts)
            cut, uncut = self._capped({number: sizes[number] for number in sorted(texts)}, left)
            if not uncut:
                return cut
            texts -= uncut
        return {}

    def _reduce_in_steps(self, budget: int, whole: int) -> None:
        """Free whole steps of the budget, in the order that all marks share.

        ``whole``: the total of the window if no budget had ever been enforced.
        """
        if whole <= budget:
            return
        # With eagerness, the mark is derived from the window, and an eviction changes the window: do not
        # evict again because of that.
        if self._limits.eagerness is not None and self._plan.total <= budget - margin(budget):
            return
        epoch = self._plan.epoch = self._window.epoch.at(whole, budget, self._window.must_stay())
        target = self._target(epoch, whole, budget)
        further, end = self._plan_ahead(epoch.end_of_plans(whole, budget))
        ahead = [*self._window.ahead, *further]
        while self._plan.total > target:
            if not ahead:  # a step of the whole budget is longer than what was planned ahead
                self._reduce(target, WindowReason.AHEAD, keep_last=True)
                self._reduce(budget - margin(budget), WindowReason.AHEAD)
                break
            if self._cut_instead_of_mask(ahead[0], target, budget):
                break
            self._apply(ahead.pop(0), target, budget)
        self._plan.ahead, self._plan.ahead_frees = ahead, self._plan.total - end if ahead else 0

    def _target(self, epoch: Epoch, whole: int, budget: int) -> int:
        """Return the total to reduce the window to: the end of a whole step, or the suggested mark."""
        eagerness, mark = self._limits.eagerness, self._limits.mark
        if eagerness is None:
            return epoch.end_of_step(whole, budget, mark)
        return min(budget - margin(budget), self._suggested_mark(eagerness))

    def _plan_ahead(self, target: int) -> tuple[list[PlannedChange], int]:
        """Plan the changes that follow those planned before, down to ``target``; return the total then."""
        there = _Planning(self._window, self._limits, self._measure)
        there._plan = self._copy()
        for change in self._window.ahead:
            there._apply(change, target, target)
        there._applied.clear()
        there._reduce(target, WindowReason.AHEAD, keep_last=True)
        return there._applied, there._plan.total

    def _apply(self, change: PlannedChange, target: int, budget: int) -> None:
        """Apply a change that was planned earlier, as far as it still can be."""
        if change.action is WindowAction.EVICT:
            units = [u for u in change.units if self._window.is_free(u) and u.first not in self._plan.evicted]
            if units:
                self._evict(units, *self._reason(target, budget))
        elif sizes := {n: size for n, size in change.sizes.items() if self._can_shrink_to(n, size)}:
            self._shorten_to(sizes, change.action, *self._reason(target, budget))

    def _cut_instead_of_mask(self, change: PlannedChange, target: int, budget: int) -> bool:
        """Cut the result that is to be masked next, if that is enough; it is masked later."""
        if change.action is not WindowAction.MASK or Reduce.CUT not in self._limits.steps:
            return False
        ((number, masked),) = change.sizes.items()
        if not self._can_shrink_to(number, masked):
            return False
        size = self._size_of(number)
        at_most = size - (self._plan.total - target)
        cut = self._measure.cut(number, at_most) if max(masked + 1, LEAST_CUT) <= at_most < size else None
        if cut is None or not masked < cut <= at_most:
            return False
        self._shorten_to({number: cut}, WindowAction.CUT, *self._reason(target, budget))
        return True

    def _reason(self, target: int, budget: int) -> tuple[WindowReason, int, int]:
        total = self._plan.total
        if total > budget:
            return WindowReason.OVER, total - budget, budget
        return WindowReason.AHEAD, total - target, target

    def _can_shrink_to(self, number: int, size: int) -> bool:
        return number in self._window and self._may_shorten(number) and size < self._size_of(number)

    def _reduce_to_nearest(self, mark: int) -> None:
        """Reduce the window until it is nearest to ``mark``; if two states are as near, keep the larger."""
        self._plan.ahead_frees = None  # some of those changes may be made here
        for change in self._changes(mark):
            before = self._copy()
            change()
            if before.total - mark <= mark - self._plan.total:
                self._plan = before
                return

    def _changes(self, target: int) -> Iterator[Callable[[], None]]:
        """Yield single changes, in order. Each is computed when it is called."""
        for number, action in self._shortenings():
            yield partial(self._shorten, number, action, target, WindowReason.AHEAD)
        for units in self._window.eviction_candidates(self._limits.steps, self._plan.evicted, keep_last=True):
            yield partial(self._evict, units, WindowReason.AHEAD, self._plan.total - target, target)

    def _shortenings(self) -> Iterator[tuple[int, WindowAction]]:
        """Yield the results that may be shortened and how, in order."""
        window, steps = self._window, self._limits.steps
        if steps.isdisjoint((Reduce.MASK, Reduce.CUT)):
            return
        results = sorted(
            number for number in window.results if self._may_shorten(number) and self._is_unmasked(number)
        )
        unread = 0 if window.open_round is None else len(window.open_round.results)
        kept = max(0, self._limits.keep_results - unread) if Reduce.MASK in steps else len(results)
        old, new = results[: max(0, len(results) - kept)], results[max(0, len(results) - kept) :]
        yield from ((number, WindowAction.MASK) for number in old)
        if Reduce.CUT in steps:
            yield from ((number, WindowAction.CUT) for number in new)
        if Reduce.MASK in steps:
            yield from ((number, WindowAction.MASK) for number in new)

    def _is_unmasked(self, number: int) -> bool:
        planned = self._plan.sizes.get(number)
        return planned is None or planned[0] is not WindowAction.MASK

    def _may_shorten(self, number: int) -> bool:
        unit = self._window.units[number]
        return not unit.pinned and unit.first not in self._plan.evicted

    def _shorten(
        self, number: int, action: WindowAction, target: int, reason: WindowReason, limit: int | None = None
    ) -> None:
        """Cut no more than the excess over ``target`` if a useful part remains; else apply ``action``.

        ``limit``: what the step's reason names, if it is not the target.
        """
        limit = target if limit is None else limit
        size, over = self._size_of(number), self._plan.total - target
        at_most = max(size - over, LEAST_CUT) if action is WindowAction.CUT else size - over
        if Reduce.CUT in self._limits.steps and LEAST_CUT <= at_most < size:
            cut = self._measure.cut(number, at_most)
            if cut is not None and cut < size:
                self._shorten_to({number: cut}, WindowAction.CUT, reason, over, limit)
                return
        if action is WindowAction.MASK:
            masked = self._measure.masked(number)
            if masked is not None and masked < size:
                self._shorten_to({number: masked}, WindowAction.MASK, reason, over, limit)

    def _suggested_mark(self, eagerness: Fraction) -> int:
        """Return the total to evict down to, estimated from the growth of the window so far."""
        window, budget = self._window, self._limits.budget
        required, total = window.must_stay(), window.total
        limit = total if budget is None else min(total, budget)
        added = total + sum(full - window.size(number) for number, full in window.full.items())
        room, held = max(0, limit - required), max(0, added - required)
        return limit - to_free(room, held, window.answers + 1, eagerness)

    def _restore(self, budget: int) -> None:
        """Use the room that is left: restore shortened results, the newest first.

        A result is restored in full if that fits, else with more of its head and tail.
        """
        plan, window = self._plan, self._window
        present = {number for number in window.full if window.units[number].first not in plan.evicted}
        for number in sorted(present | plan.sizes.keys(), reverse=True):
            free, size, full = budget - plan.total, self._size_of(number), window.full_size(number)
            if free <= 0:
                return
            if full - size <= free:
                if full > size:
                    self._shorten_to({number: full}, WindowAction.RESTORE, WindowReason.ROOM, free, budget)
            elif Reduce.CUT in self._limits.steps and size + free >= LEAST_CUT:
                for media in (True, False):
                    cut = self._measure.cut(number, size + free, media=media)
                    if cut is not None and cut > size:
                        self._shorten_to({number: cut}, WindowAction.CUT, WindowReason.ROOM, free, budget)
                        break

    # Single steps -----------------------------------------------------------------------------------------

    def _evict(self, units: Sequence[Unit], reason: WindowReason, over: int, limit: int) -> None:
        plan, before = self._plan, self._plan.total
        numbers = tuple(sorted(number for unit in units for number in unit.members))
        for number in numbers:
            plan.total -= self._size_of(number)
            plan.sizes.pop(number, None)
        plan.evicted.update((unit.first, unit) for unit in units)
        self._applied.append(PlannedChange(WindowAction.EVICT, tuple(units)))
        plan.steps.append(WindowStep(numbers, reason, before, plan.total, over, limit))

    def _shorten_to(
        self, sizes: dict[int, int], action: WindowAction, reason: WindowReason, over: int, limit: int
    ) -> None:
        plan, before = self._plan, self._plan.total
        for number, size in sizes.items():
            plan.total += size - self._size_of(number)
            plan.sizes[number] = action, size
        self._applied.append(PlannedChange(action, (), sizes))
        plan.steps.append(WindowStep(tuple(sizes), reason, before, plan.total, over, limit, action))

    def _size_of(self, number: int) -> int:
        planned = self._plan.sizes.get(number)
        return self._window.size(number) if planned is None else planned[1]

    def _copy(self) -> EvictionPlan:
        plan = self._plan
        return replace(plan, steps=list(plan.steps), evicted=dict(plan.evicted), sizes=dict(plan.sizes))


def common_cap(sizes: Sequence[int], room: int) -> int:
    """Return the largest cap such that ``sizes`` (ascending), each capped, are within ``room`` together."""
    for place, size in enumerate(sizes):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)
