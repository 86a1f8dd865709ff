"""The Token Box Model: sections laid out into a budget.

The steps are those of the FACET Token Box Model, as stated in docs/layout.md. The engine sees weights, an
order and a :class:`LayoutWhole` (the output so far, which it measures and changes), never a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import compress as compress_to
from math import lcm
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tokenbox.engine.result import Action, Reason, Step, StepLog

if TYPE_CHECKING:
    from fractions import Fraction


State = tuple[str, int, int]
"""A section's text, its size and the number of its form. Opaque to the engine: only for :meth:`revert`."""


class Ranked(NamedTuple):
    """The critical sections, and the flexible ones in the order in which they are compressed.

    ``flexible`` may be the end of that order only, if the sections before it are dropped whatever happens.
    """

    critical: Sequence[int]
    flexible: Sequence[int]


class LayoutWhole(Protocol):
    """The output as it would be emitted now. All figures are tokens; ``i`` is a section's index.

    ``total`` is the count of the output as one text, not a sum of parts.
    """

    sizes: list[int]
    """The count of every section's present text; 0 if dropped."""

    @property
    def total(self) -> int: ...

    def minimum(self, i: int) -> int:
        """Return the smallest size to which the section may be cut."""
        ...

    def has_text(self, i: int) -> bool:
        """Return True if the section has a text, which may count 0 tokens by a caller's function."""
        ...

    def total_of(self, indices: Iterable[int]) -> int:
        """Return the total with only these sections."""
        ...

    def overflow(self, critical: Sequence[int], fixed_load: int, budget: int) -> Exception:
        """Return the typed error for critical sections that do not fit."""
        ...

    def drop(self, i: int) -> None: ...

    def drop_while_over(self, order: Sequence[int], budget: int) -> tuple[int, Callable[[], Iterable[int]]]:
        """Drop along ``order`` while the total stays over ``budget`` even without the next section.

        Return the number of drops, and a function that returns the total before each, for the record.
        Dropping the section after the last dropped one would be enough.
        """
        ...

    def compress(self, i: int, at_least: int) -> bool:
        """Switch the section to its next smaller form of at least ``at_least`` tokens, if there is one."""
        ...

    def truncate(self, i: int, at_most: int, at_least: int = 0) -> None:
        """Truncate the section to its longest cut of at most ``at_most`` tokens, which may be empty.

        If that is below ``at_least``, truncate to the shortest cut that is not. Keep the text if that cut is
        not shorter.
        """
        ...

    def restore(self, i: int) -> None:
        """Restore the section's original text."""
        ...

    def has_more(self, i: int) -> bool:
        """Return True if the section has unused extra items."""
        ...

    def extend(self, i: int, at_most: int, ceiling: int | None = None, at_least: int = 0) -> int:
        """Add leading extra items, none of them cut, and return their number.

        The total grows by at most ``at_most``, and the section stays at ``ceiling`` or below. If it would
        stay below ``at_least``, nothing is added.
        """
        ...

    def state(self, i: int) -> State:
        """Return the section's present state, for :meth:`revert`."""
        ...

    def revert(self, i: int, state: State) -> None: ...


def lay_out(
    grows: Sequence[int | Fraction], ranked: Ranked, budget: int, whole: LayoutWhole, *, reclaim: bool = False
) -> tuple[int, StepLog]:
    """Fit ``whole`` into ``budget`` tokens. Return the fixed load and the steps taken, in order.

    ``grows``: the weight by which each section grows.

    Raises ``ContextCriticalOverflow`` (from ``whole.overflow``) if the critical sections alone are over the
    budget.
    """
    fixed_load = check_fixed_load(ranked.critical, budget, whole)
    if whole.total <= budget:
        return fixed_load, StepLog(expand(grows, budget, whole, whole.extend))
    log = compress(ranked.flexible, budget, whole)
    if reclaim:
        log = replace(log, rest=[*log.rest, *reclaim_lost(budget, whole, tuple(log))])
    return fixed_load, log


def check_fixed_load(critical: Sequence[int], budget: int, whole: LayoutWhole) -> int:
    """Steps 1 and 2: return the count of the critical sections alone; raise if it is over the budget."""
    fixed_load = whole.total_of(critical)
    if fixed_load > budget:
        raise whole.overflow(critical, fixed_load, budget)
    return fixed_load


def expand(
    grows: Sequence[int | Fraction],
    budget: int,
    whole: LayoutWhole,
    extend: Callable[[int, int], int],
) -> list[Step]:
    """Step 3: offer the free tokens in proportion to ``grow``, until a round changes nothing.

    ``extend`` adds extra items to a section within its share, as :meth:`LayoutWhole.extend` does.
    """
    steps: list[Step] = []
    candidates = [i for i, grow in enumerate(grows) if grow > 0]
    taken = True
    while taken:
        taken = False
        candidates = [i for i in candidates if whole.has_more(i)]
        left_over = budget - whole.total
        if not candidates or left_over <= 0:
            break
        shares = largest_remainder(left_over, [grows[i] for i in candidates])
        for i, share in zip(candidates, shares, strict=True):
            before, over = whole.sizes[i], whole.total - budget
            items = extend(i, share)
            if items:
                taken = True
                steps.append(Step(i, Action.EXPAND, Reason.SHARE, before, whole.sizes[i], over, share, items))
    return steps


def largest_remainder(amount: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Return shares of ``amount`` in proportion to ``weights``; they add up to ``amount`` exactly.

    Each share is the floor of its quota; the rest goes, one each, to the largest remainders (ties: the
    earlier). Weights are non-negative rationals; if all are 0, so are the shares.
    """
    scale = lcm(*(weight.denominator for weight in weights))
    whole_weights = [weight.numerator * (scale // weight.denominator) for weight in weights]
    sum_of_weights = sum(whole_weights)
    if not sum_of_weights:
        return [0] * len(weights)
    quotas = [divmod(amount * weight, sum_of_weights) for weight in whole_weights]
    shares = [share for share, _ in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda i: (-quotas[i][1], i))
    for i in by_remainder[: amount - sum(shares)]:
        shares[i] += 1
    return shares


def rank(priorities: Sequence[int], shrinks: Sequence[int | Fraction]) -> Ranked:
    """Rank the flexible sections by (priority ascending, shrink descending, declared order ascending)."""
    everything = range(len(shrinks))
    order = list(compress_to(everything, shrinks))
    # Two stable sorts: the less significant key first. Often all flexible sections have one value.
    if len(set(shrinks)) > 1:
        order.sort(key=shrinks.__getitem__, reverse=True)
    order.sort(key=priorities.__getitem__)
    critical = [] if len(order) == len(shrinks) else [i for i in everything if not shrinks[i]]
    return Ranked(critical, order)


def compress(order: Sequence[int], budget: int, whole: LayoutWhole) -> StepLog:
    """Step 4: visit flexible sections in order until the output fits.

    If the output is over the budget even without a section, its strategy or a cut cannot be enough, so the
    section is dropped at once. The first section whose removal would be enough is the only one that can be
    kept in part, and the output fits after it.
    """
    before = list(whole.sizes)
    dropped, totals = whole.drop_while_over(order, budget)
    over = dropped < len(order) and whole.total > budget
    rest = shrink_section(order[dropped], budget, whole) if over else ()
    return StepLog(rest, order[:dropped], before, budget, totals)


def shrink_section(i: int, budget: int, whole: LayoutWhole) -> list[Step]:
    """Steps 4a to 4c for one section: apply its strategy, else truncate it, else drop it."""
    steps: list[Step] = []
    before, over = whole.sizes[i], whole.total - budget
    if whole.compress(i, whole.minimum(i)):
        steps.append(Step(i, Action.COMPRESS, Reason.OVER, before, whole.sizes[i], over))
    if whole.total > budget:
        steps.append(cut_or_drop(i, budget, whole))
    return steps


def cut_or_drop(i: int, budget: int, whole: LayoutWhole) -> Step:
    """Steps 4b and 4c: take the longest cut of at most ``max(min, size - deficit)`` tokens, else drop.

    A cut changes the tokens at the join with the next section, so the output may still be over the budget;
    then the rule is applied again with the remaining deficit.
    """
    floor, before = whole.minimum(i), whole.sizes[i]
    size, over = before, whole.total - budget
    deficit = over
    while True:
        limit = max(floor, size - deficit)
        if limit >= size:
            break
        whole.truncate(i, limit)
        size, deficit = whole.sizes[i], whole.total - budget
        if size and size >= floor and deficit <= 0:
            return Step(i, Action.TRUNCATE, Reason.OVER, before, size, over, limit)
        if size <= floor:
            break
    reason = Reason.NOTHING_LEFT if size == 0 else Reason.BELOW_MIN if size < floor else Reason.CUT_NOT_ENOUGH
    whole.drop(i)
    return Step(i, Action.DROP, reason, before, 0, over, limit)


def reclaim_lost(budget: int, whole: LayoutWhole, lost: Sequence[Step]) -> list[Step]:
    """Option ``reclaim``: restore, in reverse order of loss, what now fits."""
    steps: list[Step] = []
    last_action = {step.section: step.action for step in lost}
    for i in dict.fromkeys(step.section for step in reversed(lost)):
        if whole.total >= budget:
            break
        steps += restore(i, last_action[i], budget, whole)
    return steps


def restore(
    i: int, lost_by: Action, budget: int, whole: LayoutWhole, ceiling: int | None = None
) -> list[Step]:
    """Restore a section's text, else its best form that fits, else (if cut or dropped) a longer cut.

    Return the steps taken, none if nothing changed. ``ceiling``: the largest size of the section; None: no
    limit.
    """
    room, now, before = budget - whole.total, whole.state(i), whole.sizes[i]
    at_least = max(whole.minimum(i), before + 1)

    def over() -> int:
        over_budget = whole.total - budget
        return over_budget if ceiling is None else max(over_budget, whole.sizes[i] - ceiling)

    whole.restore(i)
    steps = [Step(i, Action.RECLAIM, Reason.ROOM, before, whole.sizes[i], -room, room)]
    if over() <= 0 and whole.sizes[i] > before:
        return steps
    while (deficit := over()) > 0:  # a cut may change the join, so it is measured each time
        size = whole.sizes[i]
        if whole.compress(i, at_least):
            steps.append(Step(i, Action.COMPRESS, Reason.OVER, size, whole.sizes[i], deficit))
        # The result of a strategy is what its author wants in less room: a mere cut does not replace it.
        elif lost_by is not Action.COMPRESS and (limit := size - deficit) >= at_least:
            whole.truncate(i, limit)
            steps.append(Step(i, Action.TRUNCATE, Reason.OVER, size, whole.sizes[i], deficit, limit))
        else:
            break
    if deficit <= 0 and whole.sizes[i] >= at_least:
        return steps
    whole.revert(i, now)
    return []
