"""The budgets at which a layout changes: the decision and form of each section over a range of budgets.

Below the fixed load nothing fits. Once every section is complete, a larger budget changes nothing unless
sections can grow. If fewer than ``EVERY`` budgets lie between these bounds, the sections are laid out at each
of them, and every change is found. In a longer range, the budgets of a grid are tried, and the totals that
the engine compared with the budget, where decisions change; between two neighbours that differ, bisection
finds the change. So every reported change is exact, but a change that is undone within one step of the grid
can be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from tokenbox.compose.layout import Layout, LayoutOptions, decision
from tokenbox.compose.seamed import NotSeamable, SeamedWhole, exact_whole
from tokenbox.compose.sections import checked_sections, lay_out_all
from tokenbox.engine.box import shrink_section
from tokenbox.engine.result import Action, Decision, Policy
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget
from tokenbox.integers import token_budget
from tokenbox.records import AsRecord
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from tokenbox.compose.columns import SectionColumns
    from tokenbox.compose.counting import Counter
    from tokenbox.compose.parts import AdditiveWhole
    from tokenbox.content.section import Section

    At = Callable[[int], Layout | ContextCriticalOverflow]

EVERY = 4_096
GRID = 64


@dataclass(frozen=True, slots=True)
class Breakpoint(AsRecord):
    """A change: from ``budget`` tokens on, a section's state is ``after``; with one token less, ``before``.

    A state is a decision, with the form if that is not the content; None if the budget is too small.
    """

    budget: int
    section: str
    before: str | None
    after: str | None


def breakpoints(
    sections: Sequence[Section], options: LayoutOptions, counter: Counter, low: object, high: object
) -> list[Breakpoint]:
    """Return the budgets from ``low`` to ``high`` at which a section's decision or form changes, in order."""
    low, high = token_budget(low), token_budget(high)
    if low > high:
        raise InvalidBudget(f"a range of budgets goes from a smaller to a larger one, not {low} to {high}.")
    checked = checked_sections(sections)
    outcomes = _Outcomes(lambda budget: lay_out_all(checked, options, counter, [budget])[0])
    descent = _Descent.of(checked, options, counter)
    for budget in sorted(set(_tried(outcomes, low, high)) - outcomes.known.keys(), reverse=True):
        states = None if descent is None else descent.states(budget)
        if states is not None:
            outcomes.known[budget] = states, set()
        outcomes.states(budget)
    for one, other in pairwise(sorted(outcomes.known)):
        _bisect(outcomes, one, other)
    found: list[Breakpoint] = []
    for one, other in pairwise(sorted(outcomes.known)):
        before, after = outcomes.states(one), outcomes.states(other)
        names = {**before, **after} if before != after else ()
        found += [
            Breakpoint(other, name, before.get(name), after.get(name))
            for name in names
            if before.get(name) != after.get(name)
        ]
    return found


def _tried(outcomes: _Outcomes, low: int, high: int) -> Iterable[int]:
    first, last = outcomes.turning(low, high)
    if last - first < EVERY:
        return [low, *range(max(low, first - 1), last + 1), high]
    grid = {low, high, *(first + (last - first) * i // GRID for i in range(GRID + 1))}
    totals = {total for budget in grid for total in outcomes.totals(budget)}
    return sorted(grid | {b for total in totals for b in (total - 1, total) if low <= b <= high})


def _bisect(outcomes: _Outcomes, low: int, high: int) -> None:
    """Bisect between two budgets until both neighbours of every change are known."""
    while high - low > 1 and outcomes.states(low) != outcomes.states(high):
        middle = (low + high) // 2
        if outcomes.states(middle) != outcomes.states(high):
            _bisect(outcomes, middle, high)
        high = middle


class _Outcomes:
    """The states of all sections at each budget that was tried, and the totals that decided them."""

    def __init__(self, at: At) -> None:
        self.at = at
        self.known: dict[int, tuple[Mapping[str, str], set[int]]] = {}

    def states(self, budget: int) -> Mapping[str, str]:
        return self._outcome(budget)[0]

    def totals(self, budget: int) -> set[int]:
        return self._outcome(budget)[1]

    def _outcome(self, budget: int) -> tuple[Mapping[str, str], set[int]]:
        if budget not in self.known:
            outcome = self.at(budget)
            states: dict[str, str] = {}
            totals = {outcome.fixed_load}
            if isinstance(outcome, Layout):
                for section in outcome.sections:
                    form = "" if section.form is None else f" {section.form}"
                    states[section.id] = f"{section.decision.value}{form}"
                totals = _compared(outcome)
            self.known[budget] = states, totals
        return self.known[budget]

    def turning(self, low: int, high: int) -> tuple[int, int]:
        """Return the part of a range in which a layout can change."""
        least, most = self.at(low), self.at(high)
        first = min(high, max(low, least.fixed_load))
        if isinstance(most, Layout) and not most.log and not any(map(_depends, most.inputs)):
            return first, max(first, min(high, most.total))
        return first, high


@dataclass(slots=True)
class _Descent:
    """The states by the Token Box Model at smaller and smaller budgets, each from the one before.

    A smaller budget drops more sections in the same order, and shrinks the next one alone.
    """

    sections: SectionColumns
    whole: AdditiveWhole | SeamedWhole
    fixed_load: int
    known: dict[str, str]
    dropped: int = 0

    @classmethod
    def of(cls, sections: SectionColumns, options: LayoutOptions, counter: Counter) -> _Descent | None:
        """Return None if another algorithm or pricing lays out the sections."""
        tokenizer = counter.tokenizer
        exact = isinstance(tokenizer, AdditiveTokenizer) or getattr(tokenizer, "cuts_proven", False)
        if not exact or counter.requests is not None or options.policy is not Policy.FACET or options.reclaim:
            return None
        try:
            whole = exact_whole(sections, options.separator, counter)
        except NotSeamable:
            return None
        if whole is None:
            return None
        kept = dict.fromkeys(sections.ids, Decision.KEPT.value)
        return cls(sections, whole, whole.total_of(sections.ranked.critical), kept)

    def states(self, budget: int) -> Mapping[str, str] | None:
        """Return the states at a budget below that of the last call; None if all sections or none fit."""
        if budget < self.fixed_load or (self.whole.total <= budget and not self.dropped):
            return None
        order, ids = self.sections.ranked.flexible[self.dropped :], self.sections.ids
        more, _ = self.whole.drop_while_over(order, budget)
        self.dropped += more
        self.known.update((ids[i], Decision.DROPPED.value) for i in order[:more])
        if self.whole.total <= budget:
            return dict(self.known)
        i = order[more]
        before = self.whole.state(i)
        steps = shrink_section(i, budget, self.whole)
        state = decision(self.sections[i], self.whole.texts[i], steps).value
        self.whole.revert(i, before)
        return {**self.known, ids[i]: state}


def _depends(section: Section) -> bool:
    """Return whether a whole section may change with a larger budget."""
    return bool(section.extra) or section.max is not None or section.group is not None


def _compared(layout: Layout) -> set[int]:
    """Return the totals before each step that shrinks the whole."""
    steps = takewhile(lambda step: step.action not in {Action.EXPAND, Action.RECLAIM}, layout.log)
    return {layout.budget + step.over for step in steps}
