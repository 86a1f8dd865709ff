"""The priority ladder: blocks laid out into a budget (LCP SPEC_08, as docs/blocks.md states it).

The engine sees the class of each block and a :class:`LadderWhole` (the output so far, which it measures and
changes), never a text. Every check counts the output as it would be emitted now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(1, 6)


class Form(StrEnum):
    """The form in which a block is shown."""

    FULL = "full"
    SUMMARY = "summary"
    PLACEHOLDER = "placeholder"
    MERGED = "merged"
    OMITTED = "omitted"


# The forms of each class, best first. A form that a block does not have is skipped.
LADDERS: Mapping[int, tuple[Form, ...]] = {
    CRITICAL: (Form.FULL,),
    HIGH: (Form.FULL, Form.SUMMARY, Form.PLACEHOLDER),
    NORMAL: (Form.FULL, Form.SUMMARY, Form.PLACEHOLDER),
    LOW: (Form.SUMMARY, Form.PLACEHOLDER),
    BACKGROUND: (Form.PLACEHOLDER, Form.OMITTED),
}
# With a hard budget, blocks of these classes reserve their last form before any block gets a better one.
SET_ASIDE = (HIGH, NORMAL, LOW)
# Tokens by which a form may be smaller than :meth:`LadderWhole.at_least` says, because its ends merge with
# the text around it. A form that is larger than the free room by more than this is not even rendered.
SLACK = 8


class Rule(StrEnum):
    """The reason for a block's form. The value is the template of the sentence shown to a person."""

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
    """A block that is not shown in full, its form and the reason. Figures are tokens."""

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
        """Return the rule as a sentence; ``priority`` is the name of the block's class."""
        return self.rule.value.format(
            priority=priority,
            tried=self.tried,
            need=f"{self.need:,}",
            room=f"{max(0, self.room):,}",
            over=f"{self.over:,}",
        )


class LadderWhole(Protocol):
    """The output as it would be emitted now. All figures are tokens; ``i`` is a block's index."""

    @property
    def total(self) -> int:
        """The count of the output as one text, not a sum of parts."""
        ...

    def reset(self, forms: Sequence[Form]) -> None:
        """Show all blocks, each in its form."""
        ...

    def has(self, i: int, form: Form, room: int) -> bool:
        """Return True if the block has that form. May create a summary for ``room`` free tokens."""
        ...

    def has_already(self, i: int, form: Form) -> bool:
        """As :meth:`has`, without creating anything."""
        ...

    def at_least(self, i: int, form: Form) -> int:
        """Return the form's count, or up to ``SLACK`` less, without rendering it; 0 if unknown."""
        ...

    def size(self, i: int) -> int:
        """Return the count of the block's present form."""
        ...

    def show(self, i: int, form: Form) -> None: ...

    def merge(self, i: int) -> None:
        """Hide the block; its class's line, once shown, stands for it too."""
        ...

    def show_line(self, priority: int, *, shown: bool) -> None:
        """Show or hide the line that stands for the merged blocks of a class."""
        ...

    def fixed_load(self, critical: Sequence[int]) -> int:
        """Return the total with only these blocks."""
        ...

    def overflow(
        self, critical: Sequence[int], fixed_load: int, budget: int, allowance: int = 0
    ) -> Exception:
        """Return the typed error for critical blocks that do not fit, even ``allowance`` over the budget."""
        ...


class LadderRun:
    """One run of the ladder over blocks of these classes; ``forms`` and ``steps`` are its result.

    ``limit``: the largest total allowed.
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
        """Lay out within the budget. Raises ``whole.overflow(...)`` if critical blocks alone exceed it."""
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
        """Lay out as SPEC_08 does: the total exceeds the budget by at most the largest critical block.

        Nothing is reserved. A block with no form that fits is shown in its last form as far as that limit
        allows. Raises ``whole.overflow(...)`` if the critical blocks alone are over the limit.
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
        """Show each block in the first form of its ladder; return False if they do not all fit."""
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
        """Show critical blocks in full and every other block in its last form."""
        self._reset([LADDERS[priority][-1] for priority in self.priorities])

    def check_critical(self) -> None:
        """Raise ``whole.overflow(...)`` if the critical blocks alone are over the budget."""
        critical = self._classes[CRITICAL]
        if not critical:
            return
        load = self.whole.fixed_load(critical)
        if load > self.budget:
            raise self.whole.overflow(critical, load, self.budget)

    def soft_limit(self) -> int:
        """Return the largest total of the soft mode, once the critical blocks are shown."""
        critical = self._classes[CRITICAL]
        if not critical:
            return self.budget
        total = self.whole.total
        limit = self.budget + max(map(self.whole.size, critical))
        if len(critical) == 1:  # a single critical block is always shown, with its frame
            return max(limit, total)
        if total > limit:
            raise self.whole.overflow(critical, total, self.budget, limit - self.budget)
        return limit

    def take_smaller_forms(self) -> None:
        """Show better forms that are no larger than the block's placeholder, before merging any block."""
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
        """Merge the last blocks of a class into one line, the least urgent class first; then omit the lines.

        ``classes``: the blocks that may be merged. ``limit``: the largest total allowed.
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
        """Merge blocks of one class, the last first, until the output fits; return False if it does not."""
        for i in reversed(members):
            self.whole.merge(i)
            self.forms[i] = Form.MERGED
            self._step(i, Rule.MERGED, over=over)
            # A line is rendered only if the output would fit without it.
            if self.whole.total <= limit:
                self.whole.show_line(priority, shown=True)
                if self.whole.total <= limit:
                    return True
                self.whole.show_line(priority, shown=False)
        self.whole.show_line(priority, shown=bool(members))
        return self.whole.total <= limit

    def give_best_form(self, i: int) -> bool:
        """Show the first form of the block's ladder that fits in place of the present one.

        If none fits, the block stays as it is. Return False if it is omitted.
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
        """Show background placeholders that fit, unless a more urgent block had to take a lesser form."""
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
