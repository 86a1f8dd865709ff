"""The window engine against a slow reference, over random lives of conversations."""

from __future__ import annotations

import json
import random
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.growth import growth
from tests.reference_window import Item, Solver, Wanted
from tests.windows import NoShorterForms, enforce
from tokenbox.engine import reduction
from tokenbox.engine.low_water import Epoch, halvings
from tokenbox.engine.reduction import plan
from tokenbox.engine.steps import ALL_STEPS, Reduce, WindowAction, WindowLimits, WindowReason, WindowStep
from tokenbox.engine.window import ItemKind, Window

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

KINDS = {
    "fixed": ItemKind.FIXED,
    "user": ItemKind.USER,
    "answer": ItemKind.ANSWER,
    "call": ItemKind.CALL,
    "result": ItemKind.RESULT,
    "stray": ItemKind.STRAY,
}
SIZES = st.integers(0, 9)
# A result that can be cut can be masked, too. The last figure: it has an image.
RESULTS = st.tuples(
    st.one_of(SIZES, st.integers(0, 400)),
    st.none() | st.integers(0, 20),
    st.sampled_from([True, True, False]),
    st.sampled_from([False, False, True]),
).map(lambda result: (*result[:2], result[2] and result[1] is not None, result[3]))
STEPS = st.one_of(
    st.just(ALL_STEPS),
    st.sets(st.sampled_from(list(Reduce))).map(frozenset),
    st.just(frozenset((Reduce.EXCHANGES,))),
)
LIMITS = st.tuples(
    st.none() | st.integers(1, 5),
    st.one_of(st.none(), st.integers(0, 60), st.integers(0, 900)),
    st.sampled_from([None, None, None, Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2)]),
    STEPS,
    st.integers(0, 4),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["fixed", "user", "user", "answer", "stray"]), SIZES),
        st.tuples(st.sampled_from(["user", "answer"]), st.integers(0, 400)),
        st.tuples(st.just("round"), SIZES, st.lists(RESULTS, min_size=1, max_size=4)),
        st.tuples(st.just("round"), SIZES, st.lists(RESULTS, min_size=1, max_size=4)),
        st.tuples(st.just("broken"), SIZES, st.lists(RESULTS, min_size=1, max_size=3)),
        st.tuples(st.just("waiting"), SIZES, st.lists(RESULTS, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["said", "said and called"]), SIZES, st.integers(0, 400)),
        st.tuples(st.just("picture"), st.integers(0, 400), st.integers(0, 20)),
        st.tuples(st.sampled_from(["pin", "unpin", "drop", "hold", "release"]), st.integers(0, 30)),
        st.tuples(st.just("enforce"), LIMITS),
        st.tuples(st.just("enforce"), LIMITS),
    ),
    max_size=40,
)


class Life:
    """One conversation, kept by the engine and as a plain list. It measures the results, too."""

    def __init__(self, base: int) -> None:
        self.window, self.base = Window(base), base
        self.items: list[Item] = []
        self.left: list[Item] = []
        self.waiting: Item | None = None

    def masked(self, number: int) -> int | None:
        return self.items[number].masked

    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        item = self.items[number]
        return at_most if item.may_cut and not (media and item.image) else None

    def add(self, item: Item, waiting: int = 0, begins: ItemKind | None = None) -> None:
        """Add an item. ``begins``: the kind that the window is told, of a part of reasoning."""
        if item.kind in {"user", "answer", "call", "fixed"}:
            if self.waiting is not None:
                self.window.give_up_waiting(self.items.index(self.waiting))
                self.waiting.given_up = True
            self.waiting = None
        item.waiting = waiting
        call = None if item.round is None else self.items.index(item.round)
        kind = begins or KINDS[item.kind]
        number = self.window.append(kind, item.full, call=call, answers=begins is None, media=item.media)
        self.items.append(item)
        self.left.append(item)
        assert self.items[number] is item
        if item.round is not None:
            item.round.waiting -= 1

    def do(self, action: tuple[Any, ...]) -> None:
        kind, *rest = action
        if kind in KINDS:
            self.add(Item(kind, rest[0]))
        elif kind == "picture":
            self.add(Item("user", rest[0], rest[1], may_cut=False, media=True))
        elif kind in {"round", "broken", "waiting"}:
            self.add_round(kind, *rest)
        elif kind in {"said", "said and called"}:
            self.add_said(*rest, calls=kind != "said")
        elif kind == "enforce":
            self.enforce(*rest[0])
        else:
            self.pin(kind, rest[0])

    def add_round(self, kind: str, size: int, results: list[tuple[int, int | None, bool, bool]]) -> None:
        """A round whose calls are all answered; one that lacks a result, for ever or so far."""
        call = Item("call", size)
        self.add(call, len(results) if kind == "round" else len(results) + 1)
        for full, masked, may_cut, image in results:
            self.add(Item("result", full, masked, may_cut, call, image=image))
        self.waiting = call if kind != "round" else None
        if kind == "broken":
            self.add(Item("answer", 1))

    def add_said(self, thought: int, said: int, *, calls: bool) -> None:
        """Reasoning and what is said after it, as an answer or before a call and its result."""
        first = Item("call" if calls else "answer", thought, may_cut=False)
        self.add(first, begins=ItemKind.CALL)
        self.add(Item("part" if calls else "answer", said, round=first), begins=ItemKind.ANSWER)
        if calls:
            self.add(Item("part", 1, round=first), 1, begins=ItemKind.CALL)
            self.add(Item("result", said, 3, round=first))

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
        elif kind == "hold":
            self.window.hold(place)
            self.hold(place, held=True)
        elif kind == "release":
            if self.items[place].held:
                self.window.hold(place, held=False)
                self.hold(place, held=False)
        elif self.items[place].pinned:
            self.window.unpin(place)
            self.items[place].pinned -= 1

    def hold(self, place: int, *, held: bool) -> None:
        call = self.items[place].round or self.items[place]
        for item in self.items:
            if item is call or item.round is call:
                item.held = held

    def enforce(
        self,
        max_turns: int | None,
        budget: int | None,
        eagerness: Fraction | None,
        steps: frozenset[Reduce],
        keep: int,
    ) -> None:
        if budget is not None:  # the reference knows no steps
            eagerness = None
        mark = budget or 0
        wanted = Wanted(max_turns, budget, mark, eagerness, frozenset(step.value for step in steps), keep)
        before = {number: item.size for number, item in enumerate(self.items)}
        here = self.left
        self.left = Solver(self.items, here, self.base, wanted).solve()
        taken = enforce(self.window, WindowLimits(max_turns, budget, mark, eagerness, steps, keep), self)
        self.check_steps(taken, here, before)

    def check_steps(self, steps: list[WindowStep], here: list[Item], before: dict[int, int]) -> None:
        gone = [n for step in steps for n in step.messages if step.action is WindowAction.EVICT]
        assert sorted(gone) == [i for i, x in enumerate(self.items) if x in here and x not in self.left]
        for one, other in pairwise(steps):
            assert one.after == other.before
        assert all(step.why for step in steps)
        if steps:
            whole = self.base + sum(before[i] for i, item in enumerate(self.items) if item in here)
            assert (steps[0].before, steps[-1].after) == (whole, self.window.total)

    def check(self) -> None:
        assert list(self.window) == [i for i, item in enumerate(self.items) if item in self.left]
        sizes = {number: self.window.size(number) for number in self.window}
        assert sizes == {i: item.size for i, item in enumerate(self.items) if item in self.left}
        assert self.window.total == self.base + sum(item.size for item in self.left)
        assert self.window.exchanges == sum(item.kind == "user" for item in self.left)


@settings(max_examples=examples(600))
@given(st.integers(0, 20), ACTIONS)
@example(0, [("answer", 3), ("user", 1), ("user", 1), ("enforce", (1, None, None, ALL_STEPS, 3))])
@pytest.mark.slow
def test_the_same_as_the_reference_over_a_whole_life(base: int, actions: list[tuple[Any, ...]]) -> None:
    life = Life(base)
    for action in actions:
        life.do(action)
        life.check()


@given(st.integers(0, 20), ACTIONS, st.integers(0, 900), STEPS)
def test_a_plan_changes_nothing_until_it_is_committed(
    base: int, actions: list[tuple[Any, ...]], budget: int, steps: frozenset[Reduce]
) -> None:
    life = Life(base)
    for action in actions:
        life.do(action)
    limits = WindowLimits(2, budget, budget, None, steps)
    made = plan(life.window, limits, life)
    life.check()
    life.window.commit(made)
    assert life.window.total == made.total


@given(st.lists(SIZES, max_size=30), st.integers(0, 100), st.integers(0, 10))
def test_it_evicts_no_more_than_it_must(sizes: list[int], budget: int, tenths: int) -> None:
    window, whole = Window(), sum(sizes)
    for size in sizes:
        window.append(ItemKind.USER, size)
    mark = budget * tenths // 10
    steps = enforce(window, WindowLimits(None, budget, mark))
    epoch = Epoch().at(whole, budget, sizes[-1] if sizes else 0)
    wanted = halvings(budget - mark, budget)
    to_go = whole - budget if mark == budget else epoch.freed(whole, budget, wanted)
    # Without the last step too little had left; with it enough has, or one message is left.
    for step in steps:
        assert whole - step.before < to_go
    if whole <= budget or sizes[-1] > budget:
        assert not steps
    else:
        assert whole - window.total >= to_go or len(window) == 1


@given(st.integers(0, 20), ACTIONS, st.integers(0, 900), st.integers(0, 10), st.integers(0, 10))
def test_a_smaller_low_water_mark_never_keeps_more(
    base: int, actions: list[tuple[Any, ...]], budget: int, one: int, other: int
) -> None:
    totals = []
    for tenths in sorted((one, other)):
        life = Life(base)
        for action in actions:
            if action[0] != "enforce":
                life.do(action)
        enforce(life.window, WindowLimits(None, budget, budget * tenths // 10), life)
        totals.append(life.window.total)
    assert totals[0] <= totals[1]


def random_changes(rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """A long life: mostly talk and rounds of small items, so that much is planned ahead."""
    often, rarely = ("talk", "talk", "round", "grow", "late"), ("talk", "picture", "broken", "drop")
    kinds = (*often, *often, *rarely, "pin", "unpin", "hold", "release")
    for count in range(20, 120):
        kind = rng.choice(kinds)
        old = rng.randrange(max(0, count - 40), count)
        if kind == "talk":
            yield kind, rng.randrange(1, 60)
        elif kind in {"pin", "unpin", "hold", "release", "drop"}:
            yield kind, old
        elif kind == "picture":
            yield kind, rng.randrange(40), rng.randrange(10)
        elif kind == "grow":
            yield kind, old, rng.randrange(-60, 100)
        else:
            results = [
                (
                    rng.choice((5, 20, 70, 150)),
                    rng.choice((None, 3, 9)),
                    rng.random() < 0.5,
                    rng.random() < 0.2,
                )
                for _ in range(rng.randrange(1, 4))
            ]
            yield kind, old if kind == "late" else rng.randrange(9), results


class Stepping(Life):
    """A life with low-water marks, which the reference does not know; its items follow the engine's."""

    def change(self, kind: str, *rest: Any) -> None:
        if kind == "talk":
            self.do(("user", rest[0]))
            self.do(("answer", rest[0] // 2))
        elif kind == "grow":
            place, by = rest
            if place in self.window:
                self.window.change(place, max(by, -self.window.size(place)))
        elif kind == "late":
            place, (result, *_) = rest
            if place in self.window and self.items[place].kind == "call":
                full, masked, may_cut, image = result
                self.add(
                    Item(
                        "result", full, masked, may_cut and masked is not None, self.items[place], image=image
                    )
                )
        else:
            self.do((kind, *rest))

    def reduce(self, limits: WindowLimits) -> tuple[Any, ...]:
        """Return what the engine did, and what it planned ahead."""
        steps, window = enforce(self.window, limits, self), self.window
        self.left = [item for number, item in enumerate(self.items) if number in window]
        ahead = [(one.action, [unit.first for unit in one.units], dict(one.sizes)) for one in window.ahead]
        return steps, [(number, window.size(number)) for number in window], ahead, window.epoch


def random_life(seed: int) -> list[tuple[Any, ...]]:
    """What each enforcement of a random life did. Now and then, one has other limits."""
    rng, life, seen = random.Random(seed), Stepping(0), []
    budget = rng.choice((150, 400, 1_000))
    mark = budget * rng.randrange(10) // 10
    for change in random_changes(rng):
        life.change(*change)
        if rng.random() < 0.15:
            other = rng.randrange(100, 1_000)
            eager = rng.choice((None, Fraction(1)))
            seen.append(life.reduce(WindowLimits(rng.choice((None, 9, 4)), other, other // 2, eager)))
        seen.append(life.reduce(WindowLimits(None, budget, mark)))
    return seen


@pytest.mark.parametrize("seed", range(examples(260)))
def test_what_is_not_planned_because_no_step_is_due_would_change_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly = random_life(seed)
    monkeypatch.setattr(reduction, "_no_step_is_due", lambda *_: False)
    assert random_life(seed) == quickly


def lines_run(length: int) -> list[int]:
    """The lines that are run to evict five messages of a window, and then to find nothing to do."""
    window = Window()
    for _ in range(length):
        window.append(ItemKind.USER, 1)
    window.append(ItemKind.USER, 5)
    counts = []
    for evicted in (5, 0):
        looked_at = 0

        def watch(frame: FrameType, *_: object) -> Any:  # noqa: ANN401  # itself
            nonlocal looked_at
            looked_at += "tokenbox" in Path(frame.f_code.co_filename).parts  # not what the collector runs
            return watch

        sys.settrace(watch)  # every line run counts
        try:
            steps = enforce(window, WindowLimits(None, length, length))
        finally:
            sys.settrace(None)
        assert len(steps) == evicted
        counts.append(looked_at)
    return counts


def test_enforcing_costs_what_it_changes_however_long_the_window_is() -> None:
    lines_run(10)  # what runs once in a process
    assert lines_run(10_000) == lines_run(100)


VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "conformance" / "window.json").read_text(encoding="utf-8")
)["vectors"]
KEYS = {"name", "rule", "base", "messages", "max_turns", "budget", "mark", "steps", "keep_results"}
RESULT_KEYS = {"left", "sizes", "total", "why"}


class Named:
    """Results shrink to 10 tokens when masked; any cut is possible."""

    def masked(self, number: int) -> int | None:
        return 10

    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        return at_most


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    """``messages``: [kind, size] or [kind, size, number of its call]; ``*`` after a kind pins it.

    ``sizes``: of what is left, where some of it was shortened.
    """
    assert set(vector) <= KEYS | RESULT_KEYS
    window = Window(vector.get("base", 0))
    for kind, size, *call in vector["messages"]:
        name = kind.rstrip("*")
        number = window.append(KINDS[name], size, call=call[0] if call else None)
        if kind.endswith("*"):
            window.pin(number)
    budget = vector.get("budget")
    names = vector.get("steps")
    limits = WindowLimits(
        vector.get("max_turns"),
        budget,
        vector.get("mark", budget or 0),
        steps=ALL_STEPS if names is None else frozenset(map(Reduce, names)),
        keep_results=vector.get("keep_results", 3),
    )
    steps = enforce(window, limits, Named())
    assert {
        "left": list(window),
        "total": window.total,
        "why": [step.reason.name.lower() for step in steps],
        **({"sizes": [window.size(number) for number in window]} if "sizes" in vector else {}),
    } == {key: vector[key] for key in vector if key in RESULT_KEYS}


def window_of(question: int, rounds: int) -> Window:
    """A question of this size, and its rounds of a call with a result."""
    window = Window()
    window.append(ItemKind.USER, question)
    for _ in range(rounds):
        call = window.append(ItemKind.CALL, 20)
        window.append(ItemKind.RESULT, 100, call=call)
    return window


def test_the_rounds_of_a_long_exchange_are_not_searched_at_each_reduction() -> None:
    """Those of the last exchange stay while there are others. They were read one by one to find that out."""

    def run_with(rounds: int) -> None:
        window = window_of(10, rounds)
        for _ in range(rounds):
            list(window.eviction_candidates(frozenset(Reduce), (), keep_last=True))

    assert growth(run_with, 100) < 2.5


def test_rounds_without_a_question_are_left_out_in_linear_time() -> None:
    """Each round was looked for in all that leave: four times as long for twice as many."""

    def run_with(rounds: int) -> None:
        window = window_of(600, rounds)
        window.append(ItemKind.ANSWER, 5)
        window.append(ItemKind.USER, 5)
        enforce(window, WindowLimits(None, 400, 400))
        assert window.total == 5

    assert growth(run_with, 200) < 2.5


def agent(rounds: int, mark: int) -> tuple[Window, WindowLimits]:
    """Return one question with rounds of 10 tokens, 100 over the budget, which ends in steps of 1,000."""
    window = Window()
    window.append(ItemKind.USER, 10)
    for _ in range(rounds):
        call = window.append(ItemKind.CALL, 5)
        window.append(ItemKind.RESULT, 5, call=call)
    budget = 10 * (rounds + 1) - 100
    return window, WindowLimits(None, budget, mark, None, frozenset((Reduce.ROUNDS,)), 0)


def test_no_round_of_the_last_question_leaves_ahead_of_need() -> None:
    """They are what an agent has decided so far, so a low mark alone takes none of them."""
    window, limits = agent(199, 950)
    made = plan(window, limits, NoShorterForms())
    assert made.total <= 1_900
    assert made.total > 1_700


def test_what_must_stay_changes_with_a_pinned_item() -> None:
    window = Window()
    fixed, _ = window.append(ItemKind.FIXED, 10), window.append(ItemKind.USER, 3)
    window.change(fixed, 5)
    assert window.must_stay() == 18


def test_an_answer_to_a_dropped_question_is_no_part_of_the_exchange_before() -> None:
    window = Window()
    window.append(ItemKind.USER, 1)
    window.append(ItemKind.ANSWER, 2)
    window.drop(window.append(ItemKind.USER, 4))
    window.append(ItemKind.ANSWER, 8)
    assert window.must_stay() == 8


@given(st.lists(st.integers(0, 9), max_size=5).map(sorted), st.integers(0, 50))
def test_the_common_cap_is_the_largest_that_fits(sizes: list[int], room: int) -> None:
    caps = range(max(sizes, default=0) + 1)
    fits = [cap for cap in caps if sum(min(size, cap) for size in sizes) <= room]
    assert reduction.common_cap(sizes, room) == max(fits)


class CutsToAnySize(NoShorterForms):
    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        return at_most


def test_a_result_that_is_cut_twice_keeps_the_size_of_its_full_text() -> None:
    window = Window()
    call = [window.append(ItemKind.USER, 1), window.append(ItemKind.CALL, 1)][1]
    result = window.append(ItemKind.RESULT, 400, call=call)
    window.append(ItemKind.ANSWER, 1)
    for budget in (300, 200):
        enforce(
            window, WindowLimits(None, budget, budget, None, frozenset((Reduce.CUT,)), 0), CutsToAnySize()
        )
        assert window.total == budget
    assert window.full_size(result) == 400


def test_a_small_hole_of_a_large_budget_is_not_filled_with_older_messages() -> None:
    window, budget = Window(), 6_400
    for size in (90, 200, budget - 95):
        window.append(ItemKind.USER, size)
    limits = WindowLimits(None, budget, budget, None, frozenset((Reduce.CUT, Reduce.EXCHANGES)), 0)
    assert plan(window, limits, NoShorterForms()).total == budget - 95


class MasksToTen(NoShorterForms):
    def masked(self, number: int) -> int | None:
        return 10


def test_a_result_is_restored_into_room_that_it_fills_exactly() -> None:
    window = Window()
    question = window.append(ItemKind.USER, 90)
    call = window.append(ItemKind.CALL, 1)
    window.append(ItemKind.RESULT, 100, call=call)
    window.append(ItemKind.ANSWER, 1)
    limits = WindowLimits(None, 102, 102, None, frozenset((Reduce.MASK,)), 0)
    enforce(window, limits, MasksToTen())
    window.drop(question)
    window.commit(reduction.plan_restored(window, limits, MasksToTen()))
    assert window.total == 102
    window.append(ItemKind.USER, 90)
    enforce(window, limits, MasksToTen())
    assert window.total == 102, "and it is masked again"


def test_what_leaves_for_the_number_of_turns_is_not_freed_for_the_budget() -> None:
    window = Window()
    for _ in range(3):
        window.append(ItemKind.USER, 5)
    made = plan(window, WindowLimits(1, None, 0), NoShorterForms())
    assert (made.total, made.freed) == (5, 0)


def test_a_round_that_cannot_be_sent_does_not_have_to_stay() -> None:
    window = Window()
    window.append(ItemKind.USER, 1)
    window.give_up_waiting(window.append(ItemKind.CALL, 5))
    assert window.must_stay() == 1


@pytest.mark.parametrize(
    ("reason", "one", "two"),
    [
        (
            WindowReason.TURNS,
            "the conversation had 1 exchange more than the 1 allowed",
            "the conversation had 2,000 exchanges more than the 2,000 allowed",
        ),
        (
            WindowReason.OVER,
            "the total was 1 token over the budget of 1",
            "the total was 2,000 tokens over the budget of 2,000",
        ),
        (
            WindowReason.AHEAD,
            "making room for more requests, down to about 1 token, keeps the prompt's start for longer",
            "making room for more requests, down to about 2,000 tokens, keeps the prompt's start for longer",
        ),
        (
            WindowReason.ROOM,
            "what left made more room than was needed: 1 token of 1 was free",
            "what left made more room than was needed: 2,000 tokens of 2,000 were free",
        ),
    ],
)
def test_the_reason_of_a_step_counts_as_english_does(reason: WindowReason, one: str, two: str) -> None:
    assert WindowStep((0,), reason, 5, 4, over=1, limit=1).why == one
    assert WindowStep((0,), reason, 5, 4, over=2_000, limit=2_000).why == two
