"""The choice of upgrades: within the room, by class and worth, and how far from the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.engine.choice import Choice, Upgrade, choose, relaxed

if TYPE_CHECKING:
    from collections.abc import Sequence


class Priced:
    """Items that cost the same whatever else is taken."""

    def __init__(self, prices: Sequence[int]) -> None:
        self.prices = prices
        self.taken: list[int] = []

    def at_least(self, upgrade: Upgrade) -> int:
        price = self.prices[upgrade.item]
        return min(price, price // 2)

    def price(self, upgrade: Upgrade) -> int | None:
        return None if upgrade.item in self.taken else self.prices[upgrade.item]

    def take(self, upgrade: Upgrade) -> None:
        self.taken.append(upgrade.item)


ITEMS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50), st.integers(0, 30)), max_size=12)
# A better form may be smaller: it joins two pieces that each had a mark.
ANY_ITEMS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50), st.integers(-30, 30)), max_size=12)


def chosen(items: Sequence[tuple[int, int, int]], room: int) -> Choice:
    upgrades = [Upgrade(rank, worth, i) for i, (rank, worth, _) in enumerate(items)]
    return choose(upgrades, room, Priced([price for _, _, price in items]))


@given(ANY_ITEMS, st.integers(0, 200))
def test_what_is_taken_fits_and_nothing_else_would(items: list[tuple[int, int, int]], room: int) -> None:
    choice = chosen(items, room)
    taken = {one.item for one in choice.taken}
    assert sum(items[i][2] for i in taken) + choice.left == room
    if all(price >= 0 for *_, price in items):
        assert all(items[i][2] > choice.left for i in range(len(items)) if i not in taken)


@given(ITEMS, st.integers(0, 200), st.integers(0, 200))
def test_more_room_loses_nothing_but_to_what_is_worth_more(
    items: list[tuple[int, int, int]], room: int, more: int
) -> None:
    order = sorted(range(len(items)), key=lambda i: (items[i][0], -items[i][1]))
    smaller, larger = ({one.item for one in chosen(items, size).taken} for size in (room, room + more))
    differing = next((i for i in order if (i in smaller) is not (i in larger)), None)
    assert differing is None or differing in larger


@given(ITEMS, st.integers(0, 100))
def test_a_class_goes_before_all_that_follow(items: list[tuple[int, int, int]], room: int) -> None:
    first = [item for item in items if item[0] == 1]
    among_all = {items[one.item][1:] for one in chosen(items, room).taken if one.rank == 1}
    assert among_all == {first[one.item][1:] for one in chosen(first, room).taken}


@given(ANY_ITEMS, st.integers(0, 120))
def test_the_bound_holds_by_an_exact_solver(items: list[tuple[int, int, int]], room: int) -> None:
    highspy = pytest.importorskip("highspy", reason="the oracle is in requirements/dev.in")
    solver = highspy.Highs()
    solver.silent()
    takes = [solver.addBinary() for _ in items]
    if takes:
        solver.addConstr(sum(price * take for take, (_, _, price) in zip(takes, items, strict=True)) <= room)
        solver.maximize(sum(worth * take for take, (_, worth, _) in zip(takes, items, strict=True)))
    best = round(solver.getObjectiveValue()) if takes else 0
    choice = chosen(items, room)
    bound = relaxed([(price, worth) for _, worth, price in items], room)
    assert choice.worth <= best <= bound
    assert best <= choice.bound
    assert (best - choice.worth) * 1000 <= choice.gap_permille * best
    assert 0 <= choice.gap_permille <= 1000


def test_the_distance_from_the_best_is_rounded_up() -> None:
    """0 says that nothing is better."""
    assert Choice((), 0, worth=2_999, bound=3_000).gap_permille == 1
    assert Choice((), 0, worth=2_250, bound=3_000).gap_permille == 250
    assert Choice((), 0, worth=3_000, bound=3_000).gap_permille == 0


def test_what_costs_nothing_is_part_of_the_bound() -> None:
    assert relaxed([(0, 5), (2, 4)], 1) == 7
