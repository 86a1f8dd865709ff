"""Degrade before dropping: the policy ``degrade`` of the Token Box Model (docs/layout.md has the rules).

Three passes over the sections in one order, each only while the output is over the budget: take smaller
forms, truncate as far as the minimum, drop. Then whatever fits again is restored. The same passes bring a
section under its own maximum, and the sections of a group under the maximum of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tokenbox.engine import box
from tokenbox.engine.result import Action, Reason, Step, StepLog

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")


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
    return fixed_load, StepLog(passes.steps)


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
        self.group_sizes = [0] * len(groups)
        for i, one in enumerate(boxes):
            for g in one.groups:
                self.members[g].append(i)
                self.group_sizes[g] += whole.sizes[i]

    def change(self, i: int, change: Callable[..., T], *args: object) -> T:
        """Change a section of the whole, and keep the sizes of its groups up to date."""
        before = self.whole.sizes[i]
        result = change(i, *args)
        for g in self.boxes[i].groups:
            self.group_sizes[g] += self.whole.sizes[i] - before
        return result

    # Bounds.

    def maxima(self) -> Iterator[Scope]:
        """Yield each section that has a maximum, then each group that has one, inner groups first."""
        for i in sorted(self.everything.order):
            if (maximum := self.boxes[i].max) is not None:
                yield Scope([i], _over(self.whole.sizes, i, maximum), Reason.OWN_MAX, Reason.OWN_MAX)
        place = {i: n for n, i in enumerate(self.everything.order)}
        for g, group in enumerate(self.groups):
            if group.max is not None:
                order = sorted((i for i in self.members[g] if i in place), key=place.__getitem__)
                over = _over(self.group_sizes, g, group.max)
                yield Scope(order, over, Reason.GROUP_MAX, Reason.GROUP_MAX)

    def floor(self, i: int) -> int:
        """Return a kept section's smallest size, by its minimum and those of its groups."""
        floor = self.boxes[i].min
        for g in self.boxes[i].groups:
            if self.groups[g].min:
                spare = max(0, self.group_sizes[g] - self.groups[g].min)
                floor = max(floor, self.whole.sizes[i] - spare)
        return floor

    def ceiling(self, i: int) -> int | None:
        """Return a section's largest size now, by its maximum and those of its groups; None: no limit."""
        ceiling = self.boxes[i].max
        for g in self.boxes[i].groups:
            if (maximum := self.groups[g].max) is not None:
                in_group = self.whole.sizes[i] + maximum - self.group_sizes[g]
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
                over, before = scope.over(), self.whole.sizes[i]
                if over <= 0:
                    return
                if self.change(i, self.whole.compress, self.floor(i)):
                    changed = True
                    self.lose(Step(i, Action.COMPRESS, scope.why, before, self.whole.sizes[i], over))

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
        if any(map(self.floor, together)):
            return True
        lost: Counter[int] = Counter()
        for i in together:
            lost.update(dict.fromkeys(self.boxes[i].groups, self.whole.sizes[i]))
        return len(together) > 1 and any(
            self.is_too_small(g, tokens) and self.has_others(g, together) for g, tokens in lost.items()
        )

    def is_too_small(self, g: int, lost: int) -> bool:
        """Return True if the group would be below its minimum without ``lost`` tokens."""
        return self.group_sizes[g] - lost < self.groups[g].min

    def cut(self, i: int, floor: int, scope: Scope) -> None:
        """Take the longest cut of at most ``max(floor, size - deficit)`` tokens, repeatedly if not enough.

        A cut changes the tokens at the join with the next section, so the deficit is measured each time.
        """
        before = size = limit = self.whole.sizes[i]
        over = deficit = scope.over()
        while deficit > 0 and max(floor, size - deficit) < size:
            limit = max(floor, size - deficit)
            self.change(i, self.whole.truncate, limit, floor)
            if self.whole.sizes[i] >= size:
                break
            size, deficit = self.whole.sizes[i], scope.over()
        if size == 0 < before:
            self.change(i, self.whole.drop)
            self.lose(Step(i, Action.DROP, scope.because(Reason.NOTHING_LEFT), before, 0, over, limit))
        elif size < before:
            self.lose(Step(i, Action.TRUNCATE, scope.why, before, size, over, limit))

    def is_over_without(self, unit: int, scope: Scope) -> bool:
        """Drop a unit if the scope is over its limit even without it: then no cut is enough."""
        over, together = scope.over(), self.units[unit]
        states = [self.whole.state(i) for i in together]
        sizes = [self.whole.sizes[i] for i in together]
        for i in together:
            self.change(i, self.whole.drop)
        if scope.over() > 0:
            why = scope.because(Reason.STILL_OVER_WITHOUT)
            self.lose(
                *(Step(i, Action.DROP, why, size, 0, over) for i, size in zip(together, sizes, strict=True))
            )
            return True
        for i, state in zip(together, states, strict=True):
            self.change(i, self.whole.revert, state)
        return False

    def drop_while_over(self, scope: Scope) -> None:
        """Pass 3: drop sections."""
        for i in scope.order:
            over = scope.over()
            if over <= 0:
                return
            if self.whole.has_text(i):
                self.drop(i, over, scope.why_dropped)

    def drop(self, i: int, over: int, why: Reason) -> None:
        """Drop a section, and every section that must leave with it."""
        leaving = self.leaving(i, why)
        self.lose(
            *(Step(k, Action.DROP, reason, self.whole.sizes[k], 0, over) for k, reason in leaving.items())
        )
        for k in leaving:
            self.change(k, self.whole.drop)

    def leaving(self, i: int, why: Reason) -> dict[int, Reason]:
        """Return the sections that leave with ``i`` and why: its unit, and groups below their minimum."""
        leaving: dict[int, Reason] = {}
        lost: Counter[int] = Counter()  # the tokens that leave each group
        touched: set[int] = set()

        def leave(k: int, why: Reason) -> None:
            if k not in leaving:
                leaving[k] = why
                lost.update(dict.fromkeys(self.boxes[k].groups, self.whole.sizes[k]))
                touched.update(self.boxes[k].groups)

        leave(i, why)
        for k in self.units[self.boxes[i].unit]:
            leave(k, Reason.TOGETHER)
        while touched:
            groups = sorted(touched)
            touched.clear()
            for g in groups:
                if self.is_too_small(g, lost[g]):
                    for k in self.others(g, leaving):
                        for m in self.units[self.boxes[k].unit]:
                            leave(m, Reason.GROUP_MIN)
        return leaving

    def others(self, g: int, leaving: Collection[int]) -> Iterator[int]:
        """Yield the flexible sections of a group that would stay."""
        for k in self.members[g]:
            if self.boxes[k].shrink and self.whole.sizes[k] and k not in leaving:
                yield k

    def has_others(self, g: int, leaving: Collection[int] = ()) -> bool:
        return next(self.others(g, leaving), None) is not None

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
            steps = [
                self.change(i, box.restore, last[i], self.budget, self.whole, self.ceiling(i)) for i in back
            ]
            incomplete = len(back) > 1 and not all(steps)
            if incomplete or not self.minima_hold(back):
                for i, state in states:
                    self.change(i, self.whole.revert, state)
            else:
                self.steps += chain.from_iterable(steps)

    def minima_hold(self, sections: Iterable[int]) -> bool:
        """Return True if each group of these sections is at its minimum or has no flexible section left."""
        groups = {g for i in sections for g in self.boxes[i].groups}
        return not any(self.is_too_small(g, 0) and self.has_others(g) for g in groups)

    def expand(self) -> None:
        """Step 3 (expand) for the sections that are unchanged."""
        touched = {step.section for step in self.steps}
        grows = [0 if i in touched else one.grow for i, one in enumerate(self.boxes)]
        groups = {g for i in touched for g in self.boxes[i].groups}
        gone = {g for g in groups if self.is_too_small(g, 0) and not self.has_others(g)}

        def extend(i: int, share: int) -> int:
            # A flexible section whose group was dropped brings the group to its minimum, or stays empty.
            back = gone.intersection(self.boxes[i].groups) if self.boxes[i].shrink else ()
            lacking = max((self.groups[g].min - self.group_sizes[g] for g in back), default=0)
            at_least = self.whole.sizes[i] + lacking
            return self.change(i, self.whole.extend, share, self.ceiling(i), at_least)

        self.steps += box.expand(grows, self.budget, self.whole, extend)


def _over(sizes: Sequence[int], which: int, maximum: int) -> Callable[[], int]:
    """Return a function that returns the tokens of a section or a group over its maximum."""
    return lambda: sizes[which] - maximum
