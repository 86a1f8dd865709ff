"""The window engine against a slow reference, over random lives of conversations."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.reference_window import Item, solve, solve_auto
from tokenbox.engine.window import Kind, Limits, Reason, Step, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

KINDS = {
    "fixed": Kind.FIXED,
    "user": Kind.USER,
    "answer": Kind.ANSWER,
    "call": Kind.CALL,
    "result": Kind.RESULT,
    "stray": Kind.STRAY,
}
SIZES = st.integers(0, 9)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["fixed", "user", "user", "answer", "stray"]), SIZES),
        st.tuples(st.just("round"), st.lists(SIZES, min_size=1, max_size=4)),
        st.tuples(st.just("broken"), st.lists(SIZES, min_size=1, max_size=3)),
        st.tuples(st.just("waiting"), st.lists(SIZES, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["pin", "unpin", "drop"]), st.integers(0, 30)),
        st.tuples(
            st.sampled_from(["enforce", "enforce", "whole"]),
            st.none() | st.integers(1, 5),
            st.none() | st.integers(0, 60),
            st.integers(0, 10),
        ),
        st.tuples(
            st.sampled_from(["auto", "auto whole"]),
            st.none() | st.integers(1, 5),
            st.none() | st.integers(0, 60),
            st.sampled_from([Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2)]),
        ),
    ),
    max_size=40,
)


class Life:
    """One conversation, kept by the engine and as a plain list."""

    def __init__(self, base: int) -> None:
        self.window, self.base = Window(base), base
        self.items: list[Item] = []
        self.left: list[Item] = []
        self.waiting: Item | None = None

    def add(self, kind: str, size: int, waiting: int = 0, call: Item | None = None) -> Item:
        if kind in {"user", "answer", "call", "fixed"} and self.waiting is not None:
            self.window.give_up_waiting(self.items.index(self.waiting))
            self.waiting.given_up = True
        if kind in {"user", "answer", "call", "fixed"}:
            self.waiting = None
        item = Item(kind, size, call, waiting)
        number = self.window.append(
            KINDS[kind], size, calls=waiting, call=None if call is None else self.items.index(call)
        )
        self.items.append(item)
        self.left.append(item)
        assert self.items[number] is item
        if call is not None:
            call.waiting -= 1
        return item

    def do(self, action: tuple[Any, ...]) -> None:
        kind, *rest = action
        if kind in KINDS:
            self.add(kind, rest[0])
        elif kind in {"round", "broken", "waiting"}:
            sizes = rest[0]
            call = self.add("call", sizes[0], len(sizes) - (kind == "round") or 1)
            for size in sizes[1:] or ([1] if kind == "round" else []):
                self.add("result", size, 0, call)
            if call.waiting:
                self.waiting = call
            if kind == "broken":
                self.add("answer", 1)
        elif kind in {"pin", "unpin", "drop"}:
            self.pin(kind, rest[0])
        elif kind.startswith("auto"):
            self.enforce_auto(kind, *rest)
        else:
            self.enforce(kind, *rest)

    def pin(self, kind: str, place: int) -> None:
        if place >= len(self.items) or self.items[place] not in self.left:
            return
        if kind == "pin":
            self.window.pin(place)
            self.items[place].pinned += 1
        elif kind == "drop":
            call = self.items[place].round or self.items[place]
            gone = [item for item in self.left if item is call or item.round is call]
            assert self.window.drop(place) == tuple(map(self.items.index, gone))
            self.left = [item for item in self.left if item not in gone]
            self.waiting = None if self.waiting is call else self.waiting
        elif self.items[place].pinned:
            self.window.unpin(place)
            self.items[place].pinned -= 1

    def enforce(self, kind: str, max_turns: int | None, budget: int | None, tenths: int) -> None:
        mark = 0 if budget is None else budget * tenths // 10
        limits = Limits(max_turns, budget, mark)
        here = self.left
        self.left, times = solve(self.items, here, self.base, max_turns, budget, mark)
        if kind == "enforce":
            steps = self.window.enforce(limits)
            assert len(steps) == times
        else:
            steps = self.window.enforce_whole(limits, self.total_without(here))
            assert len(steps) <= 3
        self.check_steps(steps, here)

    def enforce_auto(self, kind: str, max_turns: int | None, budget: int | None, eagerness: Fraction) -> None:
        limits = Limits(max_turns, budget, 0, eagerness)
        here = self.left
        self.left = solve_auto(self.items, here, self.base, max_turns, budget, eagerness)
        if kind == "auto":
            steps = self.window.enforce(limits)
        else:
            steps = self.window.enforce_whole(limits, self.total_without(here))
        self.check_steps(steps, here)

    def check_steps(self, steps: list[Step], here: list[Item]) -> None:
        gone = [number for step in steps for number in step.messages]
        assert sorted(gone) == [i for i, x in enumerate(self.items) if x in here and x not in self.left]
        for before, after in pairwise(steps):
            assert before.after == after.before
        for step in steps:
            assert step.before - step.after == sum(self.items[i].size for i in step.messages)
            assert step.why

    def total_without(self, here: list[Item]) -> Callable[[Collection[int]], int]:
        def total(numbers: Collection[int]) -> int:
            gone = [self.items[number] for number in numbers]
            return self.base + sum(item.size for item in here if item not in gone)

        return total

    def check(self) -> None:
        assert list(self.window) == [i for i, item in enumerate(self.items) if item in self.left]
        assert self.window.total == self.base + sum(item.size for item in self.left)
        assert self.window.exchanges == sum(item.kind == "user" for item in self.left)


@settings(max_examples=examples(400))
@given(st.integers(0, 20), ACTIONS)
@example(0, [("answer", 1), ("user", 2), ("user", 3), ("user", 0), ("whole", 2, 3, 5)])
@example(0, [("answer", 3), ("user", 1), ("user", 1), ("enforce", 1, None, 10)])
def test_the_same_as_the_reference_over_a_whole_life(base: int, actions: list[tuple[Any, ...]]) -> None:
    life = Life(base)
    for action in actions:
        life.do(action)
        life.check()


@given(st.lists(SIZES, max_size=30), st.integers(0, 100), st.integers(0, 10))
def test_it_evicts_no_more_than_it_must(sizes: list[int], budget: int, tenths: int) -> None:
    window = Window()
    for size in sizes:
        window.append(Kind.USER, size)
    mark = budget * tenths // 10
    steps = window.enforce(Limits(None, budget, mark))
    # Without the last step it was still over; with it the mark is reached, or one message is left.
    for step in steps:
        assert step.before > (budget if step.reason is Reason.OVER else mark)
    if sum(sizes) > budget:
        assert window.total <= mark or len(window) == 1
    else:
        assert not steps


def test_enforcing_costs_what_it_evicts() -> None:
    window = Window()
    for _ in range(10_000):
        window.append(Kind.USER, 1)
    window.append(Kind.USER, 5)
    looked_at = 0

    def watch(*_: object) -> Any:  # noqa: ANN401  # itself
        nonlocal looked_at
        looked_at += 1
        return watch

    sys.settrace(watch)  # every line run counts
    try:
        steps = window.enforce(Limits(None, 10_000, 10_000))
        evicting, looked_at = looked_at, 0
        window.enforce(Limits(None, 10_000, 10_000))
    finally:
        sys.settrace(None)
    assert len(steps) == 5
    assert evicting < 500
    assert looked_at < 50


VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "conformance" / "window.json").read_text(encoding="utf-8")
)["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    """``messages``: [kind, size] or [kind, size, number of its call]; ``*`` after a kind pins it."""
    assert set(vector) <= {
        "name",
        "rule",
        "base",
        "messages",
        "max_turns",
        "budget",
        "mark",
        "left",
        "total",
        "why",
    }
    window = Window(vector.get("base", 0))
    calls = [message[2] for message in vector["messages"] if len(message) > 2]
    for number, (kind, size, *call) in enumerate(vector["messages"]):
        name = kind.rstrip("*")
        window.append(KINDS[name], size, calls=calls.count(number), call=call[0] if call else None)
        if kind.endswith("*"):
            window.pin(number)
    budget = vector.get("budget")
    steps = window.enforce(Limits(vector.get("max_turns"), budget, vector.get("mark", budget or 0)))
    assert list(window) == vector["left"]
    assert window.total == vector["total"]
    assert [step.reason.name.lower() for step in steps] == vector["why"]
