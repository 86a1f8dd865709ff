"""The window of a conversation, slow and obvious: everything is looked at again after every eviction.

Written from docs/conversations.md alone, to check the fast engine against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(eq=False)
class Item:
    """``kind``: fixed, user, answer, call, result or stray. ``round``: the call that a result answers."""

    kind: str
    size: int
    round: Item | None = None
    waiting: int = 0
    pinned: int = 0
    given_up: bool = False


def _together(items: list[Item], item: Item) -> list[Item]:
    call = item.round or item
    return [other for other in items if other is call or other.round is call]


def _oldest(items: list[Item], left: list[Item], *, rounds: bool) -> list[Item]:
    """The oldest exchange that has something to evict; in the last one, the oldest tool round."""

    def pinned(item: Item) -> bool:
        return any(other.pinned for other in _together(items, item))

    exchanges: list[list[Item]] = []
    for item in items:
        if item.kind in {"fixed", "stray"}:
            continue
        if item.kind == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(item)
    for exchange in exchanges[:-1]:
        evictable = [item for item in exchange if item in left and not pinned(item)]
        if evictable:
            return evictable
    for item in exchanges[-1] if exchanges and rounds else []:
        if item.kind == "call" and item in left and not pinned(item) and not item.waiting:
            return _together(items, item)
    return []


def _unsendable(items: list[Item], here: list[Item]) -> list[Item]:
    given_up = [i for i in here if i.kind == "call" and i.given_up]
    return [i for i in here if i.kind == "stray"] + [i for call in given_up for i in _together(items, call)]


def solve(
    items: list[Item], here: list[Item], base: int, max_turns: int | None, budget: int | None, mark: int
) -> tuple[list[Item], int]:
    """Of all ``items`` those are ``here``: what is left of them, and how often something left."""

    stray = [i for i in here if i.kind == "stray"]
    given_up = [i for i in here if i.kind == "call" and i.given_up]
    unsendable = _unsendable(items, here)
    left, times = [item for item in here if item not in unsendable], len(stray) + len(given_up)
    limit = budget
    while True:
        too_many_tokens = limit is not None and base + sum(item.size for item in left) > limit
        too_many_turns = max_turns is not None and sum(i.kind == "user" for i in left) > max_turns
        leaving = _oldest(items, left, rounds=too_many_tokens) if too_many_tokens or too_many_turns else []
        if not leaving:
            return left, times
        left, times = [item for item in left if item not in leaving], times + 1
        if too_many_tokens:
            limit = mark


def solve_auto(
    items: list[Item],
    here: list[Item],
    base: int,
    max_turns: int | None,
    budget: int | None,
    eagerness: Fraction,
) -> list[Item]:
    """What is left where the mark is chosen: of all that may be left, what is nearest to it."""

    def total(left: list[Item]) -> int:
        return base + sum(item.size for item in left)

    def within(left: list[Item]) -> bool:
        turns = sum(item.kind == "user" for item in left)
        no_more = not _oldest(items, left, rounds=False)
        fits = budget is None or total(left) <= budget
        return fits and (max_turns is None or turns <= max_turns or no_more)

    gone = _unsendable(items, here)
    states = [[item for item in here if item not in gone]]
    while leaving := _oldest(items, states[-1], rounds=True):
        states.append([item for item in states[-1] if item not in leaving])
    if within(states[0]) or len(states) == 1:
        return states[0]
    good = [state for state in states if within(state)] or states[-1:]
    rounds = [item for item in items if item.kind == "call" and item in states[0]]
    newest = not _oldest(items, states[-2], rounds=False) and rounds[-1:] == [
        item for item in states[-2] if item not in states[-1] and item.kind == "call"
    ]
    if newest and len(good) > 1:
        good.pop()
    whole, least = total(states[0]), total(states[-1])
    limit = whole if budget is None else min(whole, budget)
    room = max(0, limit - least)
    requests = 1 + sum(item.kind in {"answer", "call"} for item in states[0])
    freed = 2 * eagerness * room * (whole - least) / requests
    half, free = room // 2, 0
    while free < half and (free + 1) ** 2 <= freed:
        free += 1
    return min(good, key=lambda state: abs(total(state) - (limit - free)))
