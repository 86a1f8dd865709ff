"""The priority ladder: blocks laid out into a budget (LCP SPEC_08, as docs/blocks.md states it).

The engine sees the class of each block and a :class:`LadderWhole`, which it can ask what it counts now and
change; it never sees a text. Every test is one of the whole that would be emitted now.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(1, 6)


class Form(StrEnum):
    """How a block is shown."""

    FULL = "full"
    SUMMARY = "summary"
    PLACEHOLDER = "placeholder"
    MERGED = "merged"
    OMITTED = "omitted"


# Class: its forms, best first. A form that a block does not have is skipped.
LADDERS: Mapping[int, tuple[Form, ...]] = {
    CRITICAL: (Form.FULL,),
    HIGH: (Form.FULL, Form.SUMMARY, Form.PLACEHOLDER),
    NORMAL: (Form.FULL, Form.SUMMARY, Form.PLACEHOLDER),
    LOW: (Form.SUMMARY, Form.PLACEHOLDER),
    BACKGROUND: (Form.PLACEHOLDER, Form.OMITTED),
}
# In a hard budget the last forms of these are set aside before any block is given a better one.
SET_ASIDE = (HIGH, NORMAL, LOW)
# How much smaller a form may be, in tokens, than what :meth:`Whole.at_least` says, because its ends merge
# with what is around them. Within it a form is tried; beyond it, it is not even rendered.
SLACK = 8


class Rule(StrEnum):
    """Why a block is shown as it is. The value is the template of the sentence shown to a person."""

    CLASS = "a {priority} block is never shown in more than this when there is a budget"
    NO_ROOM = "its {tried} form counts {need} or more, and {room} were free"
    MERGED = (
        "the placeholders do not all fit: {over} too many; so one line stands for the last {priority} blocks"
    )
    NO_ROOM_FOR_LINE = "even one line for the {priority} blocks does not fit: {over} too many"
    BACKGROUND_FIRST = "a more urgent block had to take a lesser form, and background goes before that"
    BUDGET_YIELDS_TO_CRITICAL = "a critical block is always full: the budget yields by {over}"
    BUDGET_YIELDS_TO_PLACEHOLDER = (
        "nothing of it fits, and a block that is not background is never omitted: the budget yields by {over}"
    )


class LadderStep(NamedTuple):
    """One recorded action: which block took a form that is not its full one, and why. Figures are tokens."""

    block: int
    form: Form
    rule: Rule
    priority: int
    size: int
    tried: Form | None = None
    need: int = 0
    room: int = 0
    over: int = 0

    def why(self, priority: str) -> str:
        """The rule as a sentence; ``priority`` is the name of the block's class."""
        return self.rule.value.format(
            priority=priority,
            tried=self.tried,
            need=f"{self.need:,}",
            room=f"{max(0, self.room):,}",
            over=f"{self.over:,}",
        )


class LadderWhole(Protocol):
    """What would be emitted, as it stands. All figures are tokens; ``i`` is a block's index."""

    @property
    def total(self) -> int:
        """The count of the whole that would be emitted now, not a sum of parts."""
        ...

    def reset(self, forms: Sequence[Form]) -> None:
        """Show all blocks again, each in its form."""
        ...

    def has(self, i: int, form: Form, room: int) -> bool:
        """Whether the block has that form. A summary may be made for the asking; ``room`` is what is free."""
        ...

    def has_already(self, i: int, form: Form) -> bool:
        """Whether the block has that form without anything being made."""
        ...

    def at_least(self, i: int, form: Form) -> int:
        """What the form counts, up to ``SLACK`` less, without rendering it; 0 if that is not known."""
        ...

    def size(self, i: int) -> int:
        """What the block's present form counts."""
        ...

    def show(self, i: int, form: Form) -> None:
        """Show the block in that form."""
        ...

    def merge(self, i: int) -> None:
        """Show nothing of the block; the line of its class, once shown, stands for it too."""
        ...

    def show_line(self, priority: int, *, shown: bool) -> None:
        """Show, or not, the one line for the merged blocks of a class."""
        ...

    def fixed_load(self, critical: Sequence[int]) -> int:
        """What the whole would count if only these blocks were there."""
        ...

    def overflow(
        self, critical: Sequence[int], fixed_load: int, budget: int, allowance: int = 0
    ) -> Exception:
        """The typed error for critical blocks that do not fit, even ``allowance`` over the budget."""
        ...


class Climb:
    """One run of the ladder over blocks of these classes.

    ``forms`` and ``steps`` are its result. ``limit``: what the whole may count.
    """

    def __init__(self, priorities: Sequence[int], budget: int, whole: LadderWhole) -> None:
        self.priorities = priorities
        self.budget = budget
        self.limit = budget
        self.whole = whole
        self.forms: list[Form] = []
        self.steps: list[LadderStep] = []
        self._classes: dict[int, list[int]] = {priority: [] for priority in LADDERS}
        for i, priority in enumerate(priorities):
            self._classes[priority].append(i)

    def hard(self) -> None:
        """Never over the budget. Raises what ``whole.overflow`` makes if the critical blocks alone are."""
        if self.everything_fits():
            return
        self.set_aside()
        self.check_critical()
        if self.whole.total > self.budget:
            self.take_smaller_forms()
            self.merge_placeholders(self._classes, self.budget)
        for priority in SET_ASIDE:
            for i in self._classes[priority]:
                if self.forms[i] not in (Form.MERGED, Form.OMITTED):
                    self.give_best_form(i)
        self.show_background()

    def soft(self) -> None:
        """SPEC_08: critical blocks are full, and the whole is over by at most the largest of them.

        Nothing is set aside. What fits nowhere is shown in its last form as far as that limit goes. Raises
        what ``whole.overflow`` makes if the critical blocks alone are over it.
        """
        if self.everything_fits():
            return
        self._reset([Form.OMITTED] * len(self.priorities))
        for i in self._classes[CRITICAL]:
            self._show(i, Form.FULL)
            self._yield_budget(i, Rule.BUDGET_YIELDS_TO_CRITICAL)
        self.limit = limit = self.soft_limit()
        squeezed: dict[int, list[int]] = {priority: [] for priority in SET_ASIDE}
        for priority in SET_ASIDE:
            for i in self._classes[priority]:
                if not self.give_best_form(i):
                    self._show(i, LADDERS[priority][-1])
                    squeezed[priority].append(i)
        if self.whole.total > limit:
            self.merge_placeholders(squeezed, limit)
        for i in sorted(i for some in squeezed.values() for i in some):
            if self.forms[i] not in (Form.MERGED, Form.OMITTED):
                self._yield_budget(i, Rule.BUDGET_YIELDS_TO_PLACEHOLDER)
        for i in self._classes[BACKGROUND]:
            self.give_best_form(i)

    # The steps of the rule.

    def everything_fits(self) -> bool:
        """Whether each block can have the first form of its ladder; if so, it has it."""
        least = sum(
            max(0, self.whole.at_least(i, LADDERS[priority][0]) - SLACK)
            for i, priority in enumerate(self.priorities)
            if priority != BACKGROUND
        )
        if least > self.budget:
            return False
        first = [
            next(form for form in LADDERS[priority] if self.whole.has(i, form, self.budget))
            for i, priority in enumerate(self.priorities)
        ]
        self._reset(first)
        if self.whole.total > self.budget:
            return False
        for i, form in enumerate(first):
            self._note_class(i, form)
        return True

    def set_aside(self) -> None:
        """Critical blocks full, the last form of each block that is to be there in any case."""
        self._reset([LADDERS[priority][-1] for priority in self.priorities])

    def check_critical(self) -> None:
        """Critical blocks alone must fit."""
        critical = self._classes[CRITICAL]
        if not critical:
            return
        load = self.whole.fixed_load(critical)
        if load > self.budget:
            raise self.whole.overflow(critical, load, self.budget)

    def soft_limit(self) -> int:
        """What the whole may count in the soft mode, the critical blocks being there already."""
        critical = self._classes[CRITICAL]
        if not critical:
            return self.budget
        total = self.whole.total
        limit = self.budget + max(map(self.whole.size, critical))
        if len(critical) == 1:  # alone it is always shown, and what is around it too
            return max(limit, total)
        if total > limit:
            raise self.whole.overflow(critical, total, self.budget, limit - self.budget)
        return limit

    def take_smaller_forms(self) -> None:
        """A block whose better form is no larger than its placeholder takes that before any are merged."""
        for priority in SET_ASIDE:
            for i in self._classes[priority]:
                size = self.whole.size(i)
                for form in LADDERS[priority][:-1]:
                    if not self.whole.has_already(i, form) or self.whole.at_least(i, form) > size:
                        continue
                    self._show(i, form)
                    if self.whole.size(i) <= size:
                        break
                    self._show(i, LADDERS[priority][-1])

    def merge_placeholders(self, classes: Mapping[int, Sequence[int]], limit: int) -> None:
        """One line per class for its last blocks, the least urgent class first; then not even that line.

        ``classes``: the blocks that may be merged. ``limit``: what the whole may count.
        """
        over = self.whole.total - limit
        for priority in reversed(SET_ASIDE):
            if self.whole.total <= limit or self._merge_class(priority, classes[priority], limit, over):
                return
        for priority in reversed(SET_ASIDE):
            over = self.whole.total - limit
            if over <= 0:
                return
            self.whole.show_line(priority, shown=False)
            for i in classes[priority]:
                self.forms[i] = Form.OMITTED
                self._step(i, Rule.NO_ROOM_FOR_LINE, over=over)

    def _merge_class(self, priority: int, members: Sequence[int], limit: int, over: int) -> bool:
        """Merge blocks of one class from the end of the stream until the whole fits: whether it does."""
        for i in reversed(members):
            self.whole.merge(i)
            self.forms[i] = Form.MERGED
            self._step(i, Rule.MERGED, over=over)
            # A line is rendered only where the whole would fit without it.
            if self.whole.total <= limit:
                self.whole.show_line(priority, shown=True)
                if self.whole.total <= limit:
                    return True
                self.whole.show_line(priority, shown=False)
        self.whole.show_line(priority, shown=bool(members))
        return self.whole.total <= limit

    def give_best_form(self, i: int) -> bool:
        """The first form of the block's ladder that fits, its present one's share being free again.

        If none fits, the block is shown as before: False if that is not at all.
        """
        whole, ladder, present = self.whole, LADDERS[self.priorities[i]], self.forms[i]
        refused: LadderStep | None = None
        for form in ladder:
            if form is present:
                break
            room = self.budget - whole.total + whole.size(i)
            need = whole.at_least(i, form)
            if need and need > room + SLACK:
                refused = refused or self._refusal(i, form, need, room)
                continue
            if not whole.has(i, form, room):
                continue
            self._show(i, form)
            if whole.total <= self.budget:
                break
            refused = refused or self._refusal(i, form, whole.size(i), room)
            self._show(i, present)
        if refused is not None:
            self.steps.append(refused._replace(form=self.forms[i], size=whole.size(i)))
        else:
            self._note_class(i, self.forms[i])
        return self.forms[i] is not Form.OMITTED

    def show_background(self) -> None:
        """Background placeholders as they fit, unless a more urgent block had to take a lesser form."""
        background = self._classes[BACKGROUND]
        if any(step.rule is not Rule.CLASS for step in self.steps):
            for i in background:
                self._step(i, Rule.BACKGROUND_FIRST)
            return
        for i in background:
            self.give_best_form(i)

    # Bookkeeping.

    def _reset(self, forms: list[Form]) -> None:
        self.forms = forms
        self.whole.reset(forms)

    def _show(self, i: int, form: Form) -> None:
        self.forms[i] = form
        self.whole.show(i, form)

    def _step(self, i: int, rule: Rule, over: int = 0) -> None:
        size = 0 if self.forms[i] in (Form.MERGED, Form.OMITTED) else self.whole.size(i)
        self.steps.append(LadderStep(i, self.forms[i], rule, self.priorities[i], size, over=over))

    def _refusal(self, i: int, form: Form, need: int, room: int) -> LadderStep:
        return LadderStep(i, form, Rule.NO_ROOM, self.priorities[i], 0, form, need, room)

    def _note_class(self, i: int, form: Form) -> None:
        if form is not Form.FULL and LADDERS[self.priorities[i]][0] is not Form.FULL:
            self._step(i, Rule.CLASS)

    def _yield_budget(self, i: int, rule: Rule) -> None:
        over = self.whole.total - self.budget
        if over > 0:
            self._step(i, rule, over)
