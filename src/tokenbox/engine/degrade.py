"""Degrade before dropping: the policy ``degrade`` of the Token Box Model (docs/layout.md has the rules).

Three passes over the sections in one order, each only while the output is over the budget: take smaller
forms, truncate as far as the minimum, drop. Then whatever fits again is restored. The same passes bring a
section under its own maximum, and the sections of a group under the maximum of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.engine import box
from tokenbox.engine.result import Action, Drops, Reason, Step, StepLog

if TYPE_CHECKING:
    from fractions import Fraction


class DegradeBox(NamedTuple):
    """The constraints of one section. ``shrink == 0`` makes it critical.

    ``priority``: the priority of its outermost group first, its own last. ``groups``: all groups that it
    belongs to. ``unit``: sections with the same number are kept or dropped together.
    """

    priority: tuple[int, ...]
    min: int
    max: int | None
    grow: int | Fraction
    shrink: int | Fraction
    groups: tuple[int, ...]
    unit: int


class GroupBounds(NamedTuple):
    """The size bounds of a group of sections. A group comes after the groups inside it."""

    min: int
    max: int | None


class Scope(NamedTuple):
    """Sections that must fit a limit together, in the order in which they shrink.

    ``over`` returns the tokens over that limit.
    """

    order: Sequence[int]
    over: Callable[[], int]
    why: Reason
    why_dropped: Reason

    def because(self, detail: Reason) -> Reason:
        """Return the reason for a drop: one that tells of the budget is of no use under a maximum."""
        return detail if self.why is Reason.OVER else self.why


def lay_out(
    boxes: Sequence[DegradeBox], groups: Sequence[GroupBounds], budget: int, whole: box.LayoutWhole
) -> tuple[int, StepLog]:
    """Fit ``whole`` into ``budget`` tokens. Return the fixed load and the steps taken, in order.

    Raises ``ContextCriticalOverflow`` (from ``whole.overflow``) if the critical sections alone are over the
    budget.
    """
    critical = [i for i, one in enumerate(boxes) if not one.shrink]
    fixed_load = box.check_fixed_load(critical, budget, whole)
    passes = Passes(boxes, groups, budget, whole)
    for scope in passes.maxima():
        passes.fit(scope)
    everything_fits = whole.total <= budget
    passes.fit(passes.everything)
    passes.reclaim()
    if everything_fits:
        passes.expand()
    return fixed_load, StepLog(Drops(), passes.steps)


class Passes:
    """The passes over one output, the steps taken, and the sections that each step affected."""

    def __init__(
        self, boxes: Sequence[DegradeBox], groups: Sequence[GroupBounds], budget: int, whole: box.LayoutWhole
    ) -> None:
        self.boxes, self.groups, self.budget, self.whole = boxes, groups, budget, whole
        self.steps: list[Step] = []
        self.lost: list[tuple[int, ...]] = []
        self.dropped: set[int] = set()
        order = [i for i, one in enumerate(boxes) if one.shrink]
        order.sort(key=lambda i: (boxes[i].priority, -boxes[i].shrink, i))
        self.units: dict[int, list[int]] = {}
        for i in order:
            self.units.setdefault(boxes[i].unit, []).append(i)
        # A unit is as important as its most important section, so it takes that section's place.
        place = {boxes[i].unit: n for n, i in enumerate(order)}
        order.sort(key=lambda i: place[boxes[i].unit])
        self.everything = Scope(order, lambda: whole.total - budget, Reason.OVER, Reason.AT_LEAST)
        self.members: list[list[int]] = [[] for _ in groups]
        for i, one in enumerate(boxes):
            for g in one.groups:
                self.members[g].append(i)

    # Bounds.

    def maxima(self) -> Iterator[Scope]:
        """Yield each section that has a maximum, then each group that has one, inner groups first."""
        for i in sorted(self.everything.order):
            if (maximum := self.boxes[i].max) is not None:
                yield Scope([i], self._over_maximum([i], maximum), Reason.OWN_MAX, Reason.OWN_MAX)
        for g, group in enumerate(self.groups):
            if group.max is not None:
                order = [i for i in self.everything.order if g in self.boxes[i].groups]
                over = self._over_maximum(self.members[g], group.max)
                yield Scope(order, over, Reason.GROUP_MAX, Reason.GROUP_MAX)

    def _over_maximum(self, members: Sequence[int], maximum: int) -> Callable[[], int]:
        return lambda: sum(map(self.whole.size, members)) - maximum

    def group_size(self, g: int) -> int:
        return sum(map(self.whole.size, self.members[g]))

    def floor(self, i: int) -> int:
        """Return a kept section's smallest size, by its minimum and those of its groups."""
        floor = self.boxes[i].min
        for g in self.boxes[i].groups:
            if self.groups[g].min:
                spare = max(0, self.group_size(g) - self.groups[g].min)
                floor = max(floor, self.whole.size(i) - spare)
        return floor

    def ceiling(self, i: int) -> int | None:
        """Return a section's largest size now, by its maximum and those of its groups; None: no limit."""
        ceiling = self.boxes[i].max
        for g in self.boxes[i].groups:
            if (maximum := self.groups[g].max) is not None:
                in_group = self.whole.size(i) + maximum - self.group_size(g)
                ceiling = in_group if ceiling is None else min(ceiling, in_group)
        return ceiling

    # The passes.

    def fit(self, scope: Scope) -> None:
        self.take_smaller_forms(scope)
        self.cut_to_minimum(scope)
        self.drop_while_over(scope)

    def take_smaller_forms(self, scope: Scope) -> None:
        """Pass 1: take the next smaller form of each section, in rounds, until a round changes nothing."""
        changed = True
        while changed:
            changed = False
            for i in scope.order:
                over, before = scope.over(), self.whole.size(i)
                if over <= 0:
                    return
                if self.whole.compress(i, self.floor(i)):
                    changed = True
                    self.lose(Step(i, Action.COMPRESS, scope.why, before, self.whole.size(i), over))

    def cut_to_minimum(self, scope: Scope) -> None:
        """Pass 2: truncate. A section without a minimum may be cut to nothing, that is dropped."""
        for unit, sections in groupby(scope.order, lambda i: self.boxes[i].unit):
            if scope.over() <= 0:
                return
            here, alone = list(sections), len(self.units[unit]) == 1
            if self.dropped.issuperset(here):
                continue
            if self.has_minimum(unit):
                for i in here:
                    self.cut(i, max(self.floor(i), 1), scope)
            elif not self.is_over_without(unit, scope):
                for i in here:
                    self.cut(i, max(self.floor(i), 0 if alone else 1), scope)
                if scope.over() > 0:
                    self.drop(here[0], scope.over(), scope.because(Reason.CUT_NOT_ENOUGH))

    def has_minimum(self, unit: int) -> bool:
        """Return True if a section of the unit has a minimum, or a group would be too small without them."""
        together = self.units[unit]
        return any(map(self.floor, together)) or (
            len(together) > 1 and len(self.leaving(together[0], Reason.TOGETHER)) > len(together)
        )

    def cut(self, i: int, floor: int, scope: Scope) -> None:
        """Take the longest cut of at most ``max(floor, size - deficit)`` tokens, repeatedly if not enough.

        A cut changes the tokens at the join with the next section, so the deficit is measured each time.
        """
        before = size = limit = self.whole.size(i)
        over = deficit = scope.over()
        while deficit > 0 and max(floor, size - deficit) < size:
            limit = max(floor, size - deficit)
            self.whole.truncate(i, limit, floor)
            if self.whole.size(i) >= size:
                break
            size, deficit = self.whole.size(i), scope.over()
        if size == 0 < before:
            self.whole.drop(i)
            self.lose(Step(i, Action.DROP, scope.because(Reason.NOTHING_LEFT), before, 0, over, limit))
        elif size < before:
            self.lose(Step(i, Action.TRUNCATE, scope.why, before, size, over, limit))

    def is_over_without(self, unit: int, scope: Scope) -> bool:
        """Drop a unit if the scope is over its limit even without it: then no cut is enough."""
        over, together = scope.over(), self.units[unit]
        states = [self.whole.state(i) for i in together]
        sizes = [self.whole.size(i) for i in together]
        for i in together:
            self.whole.drop(i)
        if scope.over() > 0:
            why = scope.because(Reason.STILL_OVER_WITHOUT)
            self.lose(
                *(Step(i, Action.DROP, why, size, 0, over) for i, size in zip(together, sizes, strict=True))
            )
            return True
        for i, state in zip(together, states, strict=True):
            self.whole.revert(i, state)
        return False

    def drop_while_over(self, scope: Scope) -> None:
        """Pass 3: drop sections."""
        for i in scope.order:
            over = scope.over()
            if over <= 0:
                return
            if self.whole.size(i):
                self.drop(i, over, scope.why_dropped)

    def drop(self, i: int, over: int, why: Reason) -> None:
        """Drop a section, and every section that must leave with it."""
        leaving = self.leaving(i, why)
        self.lose(
            *(Step(k, Action.DROP, reason, self.whole.size(k), 0, over) for k, reason in leaving.items())
        )
        for k in leaving:
            self.whole.drop(k)

    def leaving(self, i: int, why: Reason) -> dict[int, Reason]:
        """Return the sections that leave with ``i`` and why: its unit, and groups below their minimum."""
        leaving = {i: why} | dict.fromkeys(
            (k for k in self.units[self.boxes[i].unit] if k != i), Reason.TOGETHER
        )
        grown = True
        while grown:
            grown = False
            for g in sorted({g for k in leaving for g in self.boxes[k].groups}):
                stay = [k for k in self.members[g] if k not in leaving and self.whole.size(k)]
                if sum(map(self.whole.size, stay)) < self.groups[g].min:
                    out = [m for k in stay if self.boxes[k].shrink for m in self.units[self.boxes[k].unit]]
                    leaving |= dict.fromkeys((k for k in out if k not in leaving), Reason.GROUP_MIN)
                    grown = grown or bool(out)
        return leaving

    def lose(self, *steps: Step) -> None:
        self.steps += steps
        self.lost.append(tuple(step.section for step in steps))
        self.dropped.update(step.section for step in steps if step.action is Action.DROP)

    # Free tokens.

    def reclaim(self) -> None:
        """Restore, in reverse order of loss, what now fits; sections that left together return together."""
        last = {step.section: step.action for step in self.steps}
        seen: set[int] = set()
        for sections in reversed(self.lost):
            if self.whole.total >= self.budget:
                return
            back = [i for i in reversed(sections) if i not in seen]
            seen.update(back)
            states = [(i, self.whole.state(i)) for i in back]
            steps = [self.restore(i, last[i]) for i in back]
            incomplete = len(back) > 1 and not all(steps)
            if incomplete or not self.minima_hold(back):
                for i, state in states:
                    self.whole.revert(i, state)
            else:
                self.steps += chain.from_iterable(steps)

    def restore(self, i: int, lost_by: Action) -> list[Step]:
        """Restore a section's text, else its best form that fits, else (if cut or dropped) a longer cut."""
        whole, room = self.whole, self.budget - self.whole.total
        now, before = whole.state(i), whole.size(i)
        ceiling, at_least = self.ceiling(i), max(self.boxes[i].min, before + 1)

        def over() -> int:
            over_ceiling = 0 if ceiling is None else whole.size(i) - ceiling
            return max(whole.total - self.budget, over_ceiling)

        whole.restore(i)
        steps = [Step(i, Action.RECLAIM, Reason.ROOM, before, whole.size(i), -room, room)]
        if over() <= 0 and whole.size(i) > before:
            return steps
        while (deficit := over()) > 0:
            size = whole.size(i)
            if whole.compress(i, at_least):
                steps.append(Step(i, Action.COMPRESS, Reason.OVER, size, whole.size(i), deficit))
            elif lost_by is not Action.COMPRESS and (limit := size - deficit) >= at_least:
                whole.truncate(i, limit)
                steps.append(Step(i, Action.TRUNCATE, Reason.OVER, size, whole.size(i), deficit, limit))
            else:
                break
        if over() <= 0 and whole.size(i) >= at_least:
            return steps
        whole.revert(i, now)
        return []

    def minima_hold(self, sections: Iterable[int]) -> bool:
        """Return True if each group of these sections is at its minimum or has no flexible section left."""
        for g in {g for i in sections for g in self.boxes[i].groups}:
            present = any(self.boxes[i].shrink and self.whole.size(i) for i in self.members[g])
            if present and self.group_size(g) < self.groups[g].min:
                return False
        return True

    def expand(self) -> None:
        """Step 3 (expand) for the sections that are unchanged."""
        touched = {step.section for step in self.steps}
        grows = [0 if i in touched else one.grow for i, one in enumerate(self.boxes)]
        self.steps += box.expand(grows, self.budget, self.whole, self.ceiling)
