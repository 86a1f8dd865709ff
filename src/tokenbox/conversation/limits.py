"""Validation of a window's limits, and the error for a window that cannot fit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tokenbox.content.weight import exact_weight
from tokenbox.conversation.low_water import eagerness_of
from tokenbox.engine.steps import ALL_STEPS, KEEP_RESULTS, Reduce, WindowLimits
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget, plural, raise_budget, several, shown
from tokenbox.integers import limit

# What a request has beside its messages.
BESIDE = "tools and markers"


def limits(
    max_turns: object,
    budget: object,
    low_water: object,
    steps: object = ALL_STEPS,
    keep_results: object = KEEP_RESULTS,
) -> WindowLimits:
    """Return validated limits. Raises :class:`InvalidBudget`."""
    allowed = _steps(steps)
    kept = 0 if keep_results is None else limit("keep_results", keep_results, at_least=0, unit="results")
    turns = None if max_turns is None else limit("max_turns", max_turns, at_least=1, unit="exchanges")
    tokens = None if budget is None else limit("the token budget", budget, at_least=0, unit="tokens")
    eagerness = eagerness_of(low_water)
    if eagerness:
        return WindowLimits(turns, tokens, tokens or 0, eagerness, allowed, kept)
    if eagerness is not None:  # 0: evicting more than necessary saves nothing
        low_water = 1
    try:
        fraction = exact_weight(low_water)
    except (TypeError, ValueError) as error:
        raise InvalidBudget(
            f'low_water: {error}. Give a share of the budget, or "auto".', low_water=shown(low_water)
        ) from None
    if fraction > 1:
        percent = Decimal(int(fraction)) / 100
        hint = f" For {low_water} %, write {percent}." if fraction == int(fraction) and percent <= 1 else ""
        raise InvalidBudget(
            f"low_water is a fraction of the budget, from 0 to 1, not {low_water}.{hint}",
            low_water=repr(low_water),
        )
    mark = 0 if tokens is None else int(tokens * fraction)
    return WindowLimits(turns, tokens, mark, None, allowed, kept)


def _steps(steps: object) -> frozenset[Reduce]:
    if steps is ALL_STEPS:  # the default: nothing to check at every turn
        return ALL_STEPS
    names = several(steps)
    if names is None:
        raise InvalidBudget(f"steps are a list of names, not {shown(steps):.60}.", given=shown(steps))
    if not all(isinstance(name, str) and name in ALL_STEPS for name in names):
        known, given = ", ".join(Reduce), shown(names)
        raise InvalidBudget(f"steps are some of {known}, not {given:.80}.", given=given)
    return frozenset(map(Reduce, names))


def overflow(
    budget: int,
    total: int,
    kept: Sequence[tuple[str, int]],
    *,
    estimate: bool,
    what: str = "messages",
    rest: str = BESIDE,
) -> ContextCriticalOverflow:
    """Return the typed error for a request that is over the budget when nothing more may leave.

    ``kept``: messages that could be shortened. ``rest``: the name of all else in the request.
    """
    deficit = total - budget
    unnamed = total - sum(size for _, size in kept)
    if unnamed < 0:  # the sizes are estimates: the largest was too large
        i = max(range(len(kept)), key=lambda i: kept[i][1])
        name, size = kept[i]
        kept = [*kept[:i], (name, size + unnamed), *kept[i + 1 :]]
    change = raised = raise_budget(budget, total)
    enough = [item for item in kept if item[1] >= deficit]
    if enough:
        name, size = min(enough, key=lambda item: item[1])
        change = {"change": "shorten", "id": name, "by": deficit, "minimum_budget": total}
        change["say"] = f"shorten {name} ({plural(size, 'token')}) by {deficit:,}, or {raised['say']}"
    return ContextCriticalOverflow(
        fixed_load=total,
        budget=budget,
        critical=[*kept, (rest, unnamed)] if unnamed > 0 else kept,
        smallest_change=change,
        estimate=estimate,
        what=what,
    )
