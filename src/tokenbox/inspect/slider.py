"""The same request at many budgets. Every frame is a computed layout, never an interpolation.

A short range is laid out at every budget. A longer one is laid out on a grid; gaps between neighbours that
differ are then bisected until every change is known or the limit of work is reached: first where a decision
or a form changes, which finds the breakpoints, then the widest gaps. The result is deterministic.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tokenbox.inspect.record import PageFrame, PageSlider, PageState, differing

GRID: Final = 32
# The limits of layouts, of states and of characters over all layouts: a few seconds of work.
MAX_FRAMES: Final = 4_096
MAX_STATES: Final = 200_000
MAX_CHARACTERS: Final = 12_000_000


def slider_of(
    at: Callable[[int], PageFrame],
    *,
    low: int,
    high: int,
    own: int,
    items: int,
    characters: int,
    stops: int | None = None,
) -> PageSlider | None:
    """Return the frames from ``low`` to ``high``, including ``own``, the actual budget.

    ``at`` returns the frame of a budget, with a state for every item. ``items`` and ``characters``: the size
    of a layout, which determines the number of budgets unless ``stops`` does. None if the range is empty.
    """
    if high <= low or stops == 0:
        return None
    work = min(MAX_FRAMES, MAX_STATES // max(items, 1), MAX_CHARACTERS // max(characters, 1))
    most = max(2 * GRID, work) if stops is None else stops
    if high - low < most:
        made = {budget: at(budget) for budget in range(low, high + 1)}
        return PageSlider(low, high, every=True, frames=_changed(made, own))
    grid = min(GRID, most)
    tried = {low + (high - low) * i // grid for i in range(grid + 1)} | {own}
    made = {budget: at(budget) for budget in sorted(tried)}
    closed = _close_gaps(at, made, most)
    return PageSlider(low, high, every=closed, frames=_changed(made, own))


def _close_gaps(at: Callable[[int], PageFrame], made: dict[int, PageFrame], most: int) -> bool:
    """Bisect gaps between neighbours that differ. Return True if no gap is left that could hide a change."""
    gaps: list[tuple[bool, int, int, int]] = []

    def add(left: int, right: int) -> None:
        one, other = made[left], made[right]
        if right - left > 1 and not _same(one, other):
            heapq.heappush(gaps, (_decided(one) == _decided(other), left - right, left, right))

    for left, right in pairwise(sorted(made)):
        add(left, right)
    while gaps and len(made) < most:
        *_, left, right = heapq.heappop(gaps)
        middle = (left + right) // 2
        made[middle] = at(middle)
        add(left, middle)
        add(middle, right)
    return not gaps


def _changed(made: dict[int, PageFrame], own: int) -> tuple[PageFrame, ...]:
    """Return the frames in order, each with its changes, without those equal to the one before."""
    frames: list[PageFrame] = []
    before: PageFrame | None = None
    states: tuple[PageState, ...] = ()
    for budget, frame in sorted(made.items()):
        if before is not None and budget != own and _same(before, frame):
            continue
        changes = frame.changes if frame.error is not None else differing(states, frame.changes)
        frames.append(replace(frame, changes=changes, steps=(), prompt=None))
        before = frame
        if frame.error is None:
            states = frame.changes
    return tuple(frames)


def _same(one: PageFrame, other: PageFrame) -> bool:
    return one.total == other.total and one.error == other.error and one.changes == other.changes


def _decided(frame: PageFrame) -> list[tuple[str, str | None]] | None:
    """Return the decisions and forms of a frame, or None for an error."""
    return None if frame.error is not None else [(state.decision, state.form) for state in frame.changes]
