"""Windows of sizes alone: their limits enforced, with results that have no shorter forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenbox.content.exchanges import Grouping
from tokenbox.content.items import read_items
from tokenbox.engine.reduction import plan
from tokenbox.engine.steps import ALL_STEPS
from tokenbox.engine.window import Window

if TYPE_CHECKING:
    from tokenbox.engine.steps import WindowLimits, WindowStep
    from tokenbox.engine.window import Measure


class NoShorterForms:
    def masked(self, number: int) -> int | None:
        return None

    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        return None


def enforce(window: Window, limits: WindowLimits, measure: Measure | None = None) -> list[WindowStep]:
    """Plan the changes, commit them, and return the steps."""
    made = plan(window, limits, NoShorterForms() if measure is None else measure)
    window.commit(made)
    return made.steps


def window_of(values: list[Any]) -> Window:
    """Return a window with these messages or items, of one token each."""
    grouping, window = Grouping(), Window()
    for item in read_items(values, strict=False):
        grouping.take_into(window, item, 1)
    return window


def evictable(window: Window) -> tuple[int, ...]:
    """Return the items that may be evicted, oldest first."""
    units = {unit.first: unit for part in window.eviction_candidates(ALL_STEPS, ()) for unit in part}
    return tuple(number for unit in units.values() for number in unit.members)
