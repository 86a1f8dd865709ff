"""The window of a conversation, slow and obvious: everything is looked at again after every eviction.

Written from docs/conversations.md alone, to check the fast engine against.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Item:
    """``kind``: fixed, user, answer, call, result or stray. ``round``: the call that a result answers."""

    kind: str
    size: int
    round: Item | None = None
    waiting: int = 0
    pinned: int = 0
    given_up: bool = False


def solve(
    items: list[Item], here: list[Item], base: int, max_turns: int | None, budget: int | None, mark: int
) -> tuple[list[Item], int]:
    """Of all ``items`` those are ``here``: what is left of them, and how often something left."""

    def together(item: Item) -> list[Item]:
        call = item.round or item
        return [other for other in items if other is call or other.round is call]

    def pinned(item: Item) -> bool:
        return any(other.pinned for other in together(item))

    def oldest(left: list[Item], *, rounds: bool) -> list[Item]:
        """The oldest exchange that has something to evict; in the last one, the oldest tool round."""
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
                return together(item)
        return []

    stray = [i for i in here if i.kind == "stray"]
    given_up = [i for i in here if i.kind == "call" and i.given_up]
    unsendable = stray + [item for call in given_up for item in together(call)]
    left, times = [item for item in here if item not in unsendable], len(stray) + len(given_up)
    limit = budget
    while True:
        too_many_tokens = limit is not None and base + sum(item.size for item in left) > limit
        too_many_turns = max_turns is not None and sum(i.kind == "user" for i in left) > max_turns
        leaving = oldest(left, rounds=too_many_tokens) if too_many_tokens or too_many_turns else []
        if not leaving:
            return left, times
        left, times = [item for item in left if item not in leaving], times + 1
        if too_many_tokens:
            limit = mark
