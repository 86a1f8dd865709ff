"""Choose upgrades within a budget, by class and worth: the choice behind packs and selections.

An *upgrade* gives an item a better form: a piece its outline, or its whole text. Upgrades are tried in the
order of their class, then of their worth; each is taken if its exact price at that moment fits the remaining
budget. So a larger budget never loses an upgrade unless one that is worth more came in.

Integers only. Ties keep the input order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Upgrade(NamedTuple):
    """Form ``form`` for item ``item``. ``rank`` is its class: a lower one goes first, whatever the worth."""

    rank: int
    worth: int
    item: int
    form: int = 0


class ChoiceWhole(Protocol):
    """The output as chosen so far."""

    def at_least(self, upgrade: Upgrade, /) -> int:
        """Return a lower bound of the price, in tokens, without counting."""
        ...

    def price(self, upgrade: Upgrade, /) -> int | None:
        """Return the tokens that the upgrade adds; None if it adds nothing that is not shown already."""
        ...

    def take(self, upgrade: Upgrade, /) -> None:
        """Make the upgrade."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen upgrades.

    ``left``: unused tokens. ``worth``: the sum over ``taken``. ``bound``: the upper bound of any choice's
    worth, by the linear relaxation.
    """

    taken: tuple[Upgrade, ...]
    left: int
    worth: int
    bound: int

    @property
    def gap_permille(self) -> int:
        """The upper bound of the distance from the optimal worth, in thousandths of it, rounded up."""
        return 0 if self.bound <= self.worth else -((self.worth - self.bound) * 1000 // self.bound)


def choose(upgrades: Iterable[Upgrade], room: int, whole: ChoiceWhole) -> Choice:
    """Take upgrades until no other fits into the rest of ``room`` tokens."""
    taken: list[Upgrade] = []
    asked: list[tuple[int, int]] = []
    left = room
    for upgrade in sorted(upgrades, key=lambda upgrade: (upgrade.rank, -upgrade.worth)):
        least = whole.at_least(upgrade)
        if least > left:
            asked.append((least, upgrade.worth))
            continue
        price = whole.price(upgrade)
        if price is None:
            continue
        asked.append((price, upgrade.worth))
        if price <= left:
            whole.take(upgrade)
            taken.append(upgrade)
            left -= price
    worth = sum(upgrade.worth for upgrade in taken)
    return Choice(tuple(taken), left, worth, max(worth, relaxed(asked, room)))


def relaxed(asked: Sequence[tuple[int, int]], room: int) -> int:
    """Return the most worth of (price, worth) pairs in ``room``, the last in part: Dantzig's bound."""
    free = [pair for pair in asked if pair[0] <= 0]  # each leaves no less room than before
    total, room = sum(worth for _, worth in free), room - sum(price for price, _ in free)
    for price, worth in sorted((pair for pair in asked if pair[0] > 0), key=_density, reverse=True):
        if price > room:
            return total + worth * room // price
        total += worth
        room -= price
    return total


def _density(pair: tuple[int, int]) -> int:
    """Return the worth per token. Different quotients of prices below 2**32 differ in these 64 bits."""
    price, worth = pair
    return (worth << 64) // price
