"""Which upgrades to take within a budget, by class and worth: the choice behind packs and selections.

An *upgrade* gives an item a better form: a piece its outline, its whole text. Upgrades are tried in the
order of their class, then of their worth; each is taken if its exact price, as the whole stands then, fits
in what is left. So a larger budget never loses an upgrade unless one that is worth more came in.

Integers only. The order of what is given decides between equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Upgrade(NamedTuple):
    """Item ``item`` may have form ``form``.

    ``rank`` is its class: a lower one goes first, whatever the worth.
    """

    rank: int
    worth: int
    item: int
    form: int = 0


class ChoiceWhole(Protocol):
    """What would be emitted, as it stands."""

    def at_least(self, upgrade: Upgrade, /) -> int:
        """What the upgrade costs at least, without counting."""
        ...

    def price(self, upgrade: Upgrade, /) -> int | None:
        """By how many tokens the whole grows; None if all of it is shown already."""
        ...

    def take(self, upgrade: Upgrade, /) -> None:
        """Make the upgrade."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen. ``left``: tokens that nothing fitted in.

    ``worth``: of what was taken. ``bound``: the most there can be, by the linear relaxation.
    """

    taken: tuple[Upgrade, ...]
    left: int
    worth: int
    bound: int

    @property
    def gap_permille(self) -> int:
        """How far from the best there is the choice may be at most, by these worths, in thousandths."""
        return 0 if self.bound <= self.worth else (self.bound - self.worth) * 1000 // self.bound


def choose(upgrades: Iterable[Upgrade], room: int, whole: ChoiceWhole) -> Choice:
    """Take upgrades until nothing that is left fits into ``room`` tokens."""
    taken: list[Upgrade] = []
    asked: list[tuple[int, int]] = []
    left = room
    for upgrade in sorted(upgrades, key=_order):
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


def relaxed(asked: Iterable[tuple[int, int]], room: int) -> int:
    """The most worth that fits if the last upgrade may be taken in part (Dantzig's bound of the knapsack)."""
    total = 0
    # By worth per token, compared without division: no number is rounded.
    free = [worth for price, worth in asked if price <= 0]
    dear = sorted(((price, worth) for price, worth in asked if price > 0), key=_Density)
    for price, worth in dear:
        if price > room:
            total += worth * room // price
            break
        total += worth
        room -= price
    return total + sum(free)


class _Density:
    """Orders (price, worth) by worth per token, the most first."""

    __slots__ = ("price", "worth")

    def __init__(self, pair: tuple[int, int]) -> None:
        self.price, self.worth = pair

    def __lt__(self, other: _Density) -> bool:
        return self.worth * other.price > other.worth * self.price


def _order(upgrade: Upgrade) -> tuple[int, int]:
    return upgrade.rank, -upgrade.worth
