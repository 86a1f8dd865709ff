"""The limits of a window as a caller gives them, checked, and the error for what cannot fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.content.section import MAX_INTEGER
from tokenbox.content.weight import exact_weight
from tokenbox.conversation.low_water import eagerness_of
from tokenbox.engine.window import Limits
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget

if TYPE_CHECKING:
    from collections.abc import Sequence


def limits(max_turns: object, budget: object, low_water: object) -> Limits:
    """Checked limits. Raises :class:`InvalidBudget`."""
    turns = _whole("max_turns", max_turns, at_least=1, unit="exchanges")
    tokens = _whole("the token budget", budget, at_least=0, unit="tokens")
    eagerness = eagerness_of(low_water)
    if eagerness is not None:
        return Limits(turns, tokens, tokens or 0, eagerness)
    try:
        fraction = exact_weight(low_water)
    except (TypeError, ValueError) as error:
        raise InvalidBudget(
            f'low_water: {error}. Give a share of the budget, or "auto".', low_water=repr(low_water)
        ) from None
    if fraction > 1:
        raise InvalidBudget(
            f"low_water is a fraction of the budget, from 0 to 1, not {low_water}.", low_water=repr(low_water)
        )
    mark = 0 if tokens is None else int(tokens * fraction)
    return Limits(turns, tokens, mark)


def _whole(name: str, value: object, *, at_least: int, unit: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not at_least <= value <= MAX_INTEGER:
        raise InvalidBudget(
            f"{name} is a whole number of {unit}, {at_least} or more, not {value!r}.", given=repr(value)
        )
    return value


def overflow(
    budget: int, total: int, kept: Sequence[tuple[str, int]], *, estimate: bool
) -> ContextCriticalOverflow:
    """The typed error for what is still over the budget when nothing more may leave."""
    deficit = total - budget
    raise_budget = f"raise the budget by {deficit:,} to {total:,}"
    change: dict[str, object] = {"change": "raise_budget", "by": deficit, "minimum_budget": total}
    enough = [item for item in kept if item[1] >= deficit]
    if enough:
        name, size = min(enough, key=lambda item: item[1])
        change = {"change": "shorten", "id": name, "by": deficit, "minimum_budget": total}
        change["say"] = f"shorten {name} ({size:,} tokens) by {deficit:,}, or {raise_budget}"
    else:
        change["say"] = raise_budget
    return ContextCriticalOverflow(
        fixed_load=total,
        budget=budget,
        critical=kept,
        smallest_change=change,
        estimate=estimate,
        what="messages",
    )
