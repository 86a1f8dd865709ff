"""``low_water="auto"``: the cuts of a running conversation, of a list of messages, and of another process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tests.windows import NoShorterForms, enforce
from tokenbox.compose.requests import By, Count
from tokenbox.content.message import Message, Role
from tokenbox.conversation import AutoLowWater
from tokenbox.conversation import Conversation as RequestConversation
from tokenbox.conversation.fitting import fit as fit_request
from tokenbox.engine.low_water import Epoch, freed, halvings, margin
from tokenbox.engine.reduction import plan
from tokenbox.engine.steps import ALL_STEPS, WindowLimits, WindowReason
from tokenbox.engine.window import ItemKind, Window
from tokenbox.errors import ContextCriticalOverflow, InvalidBudget
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from tokenbox.content.request import Request
    from tokenbox.conversation.low_water import LowWater

# Of bare texts, so that sizes are easy to follow.
fit = partial(fit_request, markers=False)
Conversation = partial(RequestConversation, markers=False)
EAGER = st.sampled_from(["auto", AutoLowWater(Fraction(1, 3)), AutoLowWater(Fraction(4)), "0.6"])


class Whole:
    """Counts requests: every message 3 more than its text, a tool result that follows another only 1."""

    identity = TokenizerIdentity("whole", "1", hashlib.sha256(b"whole").hexdigest(), True)

    def count_request(self, request: Request) -> Count:
        made = request.messages
        again = sum(a.role is b.role is Role.TOOL for a, b in pairwise(made))
        total = sum(3 + len(m.counted_text) for m in made) - 2 * again + 2
        return Count(total, True, total, By.SERVER)


def turn(user: int, rounds: list[list[int]], answer: int, name: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "user", "content": "u" * user}]
    for place, sizes in enumerate(rounds):
        ids = [f"{name}-{place}-{i}" for i in range(len(sizes))]
        calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
        made.append({"role": "assistant", "content": None, "tool_calls": calls})
        made += [
            {"role": "tool", "tool_call_id": i, "content": "r" * size}
            for i, size in zip(ids, sizes, strict=True)
        ]
    return [*made, {"role": "assistant", "content": "a" * answer}]


SIZE = st.integers(0, 12)
TURNS = st.lists(
    st.tuples(SIZE, st.lists(st.lists(SIZE, min_size=1, max_size=2), max_size=2), SIZE),
    min_size=1,
    max_size=14,
)


def session(turns: list[tuple[int, list[list[int]], int]]) -> list[dict[str, Any]]:
    return [message for name, one in enumerate(turns) for message in turn(*one, name=str(name))]


def requests(messages: list[dict[str, Any]]) -> list[int]:
    """How many messages there were when an answer was asked for."""
    return [place for place, message in enumerate(messages) if message["role"] == "assistant"]


@given(TURNS, st.integers(20, 120), st.none() | st.integers(1, 6), EAGER, st.sampled_from([len, Whole()]))
@pytest.mark.slow
def test_a_list_is_cut_as_the_running_conversation_was(
    turns: list[tuple[int, list[list[int]], int]],
    budget: int,
    max_turns: int | None,
    low_water: Any,  # noqa: ANN401  # any of its forms
    count: Any,  # noqa: ANN401  # any that counts
) -> None:
    messages = session(turns)
    running = Conversation("", count, max_turns, budget, low_water=low_water)
    taken = 0
    for request in requests(messages):
        running.extend(messages[taken:request])
        taken = request
        enforced = running.enforce_budget()
        try:
            fitted = fit(messages[:request], budget, count, max_turns=max_turns, low_water=low_water)
        except ContextCriticalOverflow:
            assert not enforced.fits
            continue
        assert enforced.fits
        assert fitted.messages == running.messages
        assert fitted.total == enforced.total <= budget
        calls = {call.id for m in map(Message.of, fitted.messages) for call in m.tool_calls}
        assert calls == {m["tool_call_id"] for m in fitted.messages if m["role"] == "tool"}
        # What came last leaves only if it must.
        if low_water != "0.6" and messages[request - 1] not in fitted.messages:
            must = fit(messages[:request], budget, count, max_turns=max_turns)
            assert messages[request - 1] not in must.messages
        # Asked again with nothing new, it does nothing.
        assert not running.enforce_budget().steps


def test_nothing_leaves_while_everything_fits() -> None:
    messages = session([(5, [], 5)] * 10)
    assert fit(messages, 100, len, low_water="auto").messages == messages


def test_the_mark_by_hand() -> None:
    # Ten requests have brought 100 tokens, the last one 10 over: s^2 = 2 * 80 * 90 / 10, so 37 are to leave.
    # 63 may stay, and exchanges end at 70 and at 60.
    window = Window(base=10)
    for _ in range(9):
        window.append(ItemKind.USER, 5)
        window.append(ItemKind.ANSWER, 5)
    window.append(ItemKind.USER, 10)
    over, *_, ahead = enforce(window, WindowLimits(None, 100, 0, Fraction(1)))
    assert (over.reason, over.after, ahead.reason, ahead.limit, ahead.after) == (
        WindowReason.OVER,
        100,
        WindowReason.AHEAD,
        63,
        60,
    )


@pytest.mark.parametrize(
    ("wanted", "times"),
    [(100, 0), (71, 0), (70, 1), (50, 1), (36, 1), (35, 2), (25, 2), (18, 2), (17, 3), (1, 7), (0, 12)],
)
def test_the_nearest_step_is_taken(wanted: int, times: int) -> None:
    assert halvings(wanted, 100) == times


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 12), st.integers(0, 12))
def test_where_a_long_step_ends_a_shorter_one_ends_too(whole: int, budget: int, one: int, other: int) -> None:
    short, long = freed(whole, budget, max(one, other)), freed(whole, budget, min(one, other))
    assert short <= long
    assert (short == 0) == (long == 0) == (whole <= budget)
    assert whole - short <= budget
    assert freed(budget + max(0, long - margin(budget)), budget, max(one, other)) <= long


LARGE = st.one_of(SIZE, st.integers(0, 300))
CHATS = st.lists(
    st.tuples(LARGE, st.lists(st.lists(LARGE, min_size=1, max_size=3), max_size=4), LARGE),
    min_size=1,
    max_size=12,
)
MARKS = ("0.3", "0.5", "0.7", "0.9", "0.97", 1)
STEPS = st.sampled_from(
    [
        tuple(ALL_STEPS),
        ("mask", "rounds", "exchanges"),
        ("mask", "exchanges"),
        ("rounds", "exchanges"),
        ("exchanges",),
    ]
)


@settings(max_examples=examples(60))
@given(CHATS, st.integers(20, 600), STEPS, st.integers(0, 4), st.integers(0, 3))
def test_a_smaller_low_water_never_keeps_more(
    turns: list[tuple[int, list[list[int]], int]],
    budget: int,
    steps: tuple[str, ...],
    keep_results: int,
    open_end: int,
) -> None:
    """Of no list at all; ``open_end``: so many messages before its end, maybe within a round."""
    messages = session(turns)
    messages = messages[: max(1, len(messages) - open_end)]
    totals = []
    for low_water in MARKS:
        options: dict[str, Any] = {"steps": steps, "keep_results": keep_results, "low_water": low_water}
        try:
            totals.append(fit(messages, budget, len, **options).total)
        except ContextCriticalOverflow:
            assert not totals
            with pytest.raises(ContextCriticalOverflow):
                fit(messages, budget, len, **options | {"low_water": 1})
            return
    assert totals == sorted(totals)


@given(st.lists(st.tuples(LARGE, LARGE), max_size=30), st.integers(20, 600))
def test_of_talk_that_holds_for_a_step_of_the_whole_budget_too(
    sizes: list[tuple[int, int]], budget: int
) -> None:
    messages = session([(user, [], answer) for user, answer in sizes])
    if sizes and sizes[-1][0] > budget:
        return
    totals = [fit(messages[:-1], budget, len, low_water=mark).total for mark in (0, *MARKS)]
    assert totals == sorted(totals)


@settings(max_examples=examples(60))
@given(CHATS, st.integers(20, 600), STEPS)
def test_nor_does_a_running_conversation_at_any_request(
    turns: list[tuple[int, list[list[int]], int]], budget: int, steps: tuple[str, ...]
) -> None:
    messages = session(turns)
    running = [Conversation("", len, None, budget, low_water=mark, steps=steps) for mark in MARKS[:-1]]
    for message in messages:
        if message["role"] == "assistant":
            enforced = [one.enforce_budget() for one in running]
            fitting = [one.total for one in enforced if one.fits]
            assert fitting == sorted(fitting)
            assert len(fitting) in {0, len(running)}
            if not fitting:
                return
        for one in running:
            one.add(message)


def test_prices_say_how_eagerly_to_cut() -> None:
    by_price = AutoLowWater.by_price
    assert by_price("1", "0.1").eagerness == 1
    assert by_price(3, "0.3", written="3.75").eagerness == Fraction(345, 270)
    assert by_price(1, "0.1", worth="0.4").eagerness == 3
    assert by_price(1, 1).eagerness == 0
    for wrong in ({"cached": -1}, {"cached": "much"}, {"worth": "0.1"}, {"written": float("inf")}):
        with pytest.raises(InvalidBudget):
            by_price(**{"uncached": 1, "cached": "0.1", **wrong})  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidBudget, match="eagerness"):
        AutoLowWater("a lot")  # type: ignore[arg-type]  # wrong on purpose


def test_no_discount_is_no_reason_to_cut_further() -> None:
    messages = session([(4, [], 6)] * 30)
    dear = AutoLowWater.by_price(1, 1)
    assert fit(messages, 100, len, low_water=dear).messages == fit(messages, 100, len).messages


def test_the_more_eager_the_fewer_cuts() -> None:
    messages = session([(4, [[5]], 6)] * 100)
    cuts = []
    for eagerness in (0, 1, 2, 4):
        low_water = AutoLowWater(Fraction(eagerness))
        running = Conversation("", len, None, 300, low_water=low_water)
        cuts.append(0)
        for message in messages:
            cuts[-1] += message["role"] == "assistant" and bool(running.enforce_budget().steps)
            running.add(message)
    assert cuts == sorted(cuts, reverse=True)
    assert cuts[-1] < cuts[0] / 2


def test_a_short_session_costs_hardly_more_than_by_the_best_mark() -> None:
    """Of 25 turns of 40 to 280 tokens under 1,200: what is processed, by the best mark of each session."""
    ratios = []
    for seed in range(20):
        rng = random.Random(seed)
        sizes = [(rng.randint(10, 80), rng.randint(30, 200)) for _ in range(25)]
        ratios.append(_processed(sizes, "auto") / min(_processed(sizes, mark) for mark in MARKS))
    assert sum(ratios) / len(ratios) <= 1.1


def _processed(sizes: list[tuple[int, int]], low_water: Any) -> int:  # noqa: ANN401  # any of its forms
    """Tokens after the beginning that each request has in common with the one before."""
    running = Conversation("s" * 40, len, None, 1_200, low_water=low_water)
    processed, before = 0, set[int]()
    for user, answer in sizes:
        running.user("u" * user)
        running.enforce_budget()
        here = set(running.window)
        changed = not before <= here
        processed += sum(len(item.text) for n, item in running.window.items() if changed or n not in before)
        before = here
        running.assistant("a" * answer)
    return processed


def test_turns_are_cut_ahead_too() -> None:
    conversation = Conversation("", len, max_turns=32, low_water="auto")
    cuts = 0
    for _ in range(200):
        conversation.user("what")
        cuts += bool(conversation.enforce_budget().steps)
        assert conversation.status.exchanges <= 32
        conversation.assistant("this")
    assert 15 <= cuts <= 25


def test_of_two_states_as_near_to_the_mark_the_larger_stays() -> None:
    """The mark is 25, and the next question and its answer have 6 tokens."""
    window = Window()
    for place, size in enumerate((4, 4, 1, 4, 3, 2, 4, 2, 1, 2, 3, 3, 2, 5, 3, 4, 3, 5)):
        window.append(ItemKind.ANSWER if place % 2 else ItemKind.USER, size)
    assert plan(window, WindowLimits(4, 30, 30, Fraction(1, 7)), NoShorterForms()).total == 28


def test_a_step_to_the_nearest_mark_keeps_the_bounds_of_the_plans() -> None:
    """Without the epoch, what may leave before the longest step is over would be counted again."""
    window = Window()
    for place, size in enumerate((11, 7, 5, 7, 4, 2, 5)):
        window.append(ItemKind.ANSWER if place % 2 else ItemKind.USER, size)
    made = plan(window, WindowLimits(3, 20, 20, Fraction(1)), NoShorterForms())
    assert made.total <= 20
    assert made.epoch == Epoch(0, 18)


@pytest.mark.parametrize("low_water", [Fraction("0.7"), Fraction("0.5"), "auto"])
def test_a_longer_list_of_items_keeps_what_left_a_shorter_one(
    low_water: LowWater,
) -> None:
    items: list[dict[str, Any]] = []
    gone = frozenset[int]()
    cuts = 0
    for turn in range(15):
        items.append({"role": "user", "content": f"question {turn} {'word ' * (10 + turn % 7)}"})
        for number in range(turn % 3 + 1):
            fitted = tokenbox.fit(items, 700, model="gpt-5", low_water=low_water)
            assert gone <= fitted.gone
            cuts += gone < fitted.gone
            gone = fitted.gone
            items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": "think " * 20}]})
            if number < turn % 3:
                name = f"{turn}_{number}"
                items.append({"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"})
                items.append({"type": "function_call_output", "call_id": name, "output": "out " * 40})
            else:
                said = [{"type": "output_text", "text": "answer " * 20}]
                items.append({"type": "message", "role": "assistant", "content": said})
    assert cuts > 1


PROGRAM = """
import json, sys
import tokenbox
messages, budget = json.load(sys.stdin)
fitted = tokenbox.fit(messages, budget, len, low_water="auto", markers=False)
print(fitted.digest, len(fitted.evicted))
"""


@pytest.mark.slow
def test_another_process_cuts_the_same() -> None:
    messages = session([(3 * i % 11, [[i % 7]] * (i % 3), i % 13) for i in range(120)])
    given_to_it = json.dumps([messages, 150])
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=given_to_it,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4711")
    }
    here = fit(messages, 150, len, low_water="auto")
    assert answers == {f"{here.digest} {len(here.evicted)}\n"}
    assert here.to_dict()["low_water"] == {"auto": "1"}
    assert here.digest != fit(messages, 150, len, low_water=AutoLowWater(Fraction(2))).digest


def steps_run(call: Any) -> int:  # noqa: ANN401  # anything
    lines = 0

    def watch(*_: object) -> Any:  # noqa: ANN401  # itself
        nonlocal lines
        lines += 1
        return watch

    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(None)
    return lines


def test_a_list_costs_as_much_as_it_is_long() -> None:
    window_of = [session([(4, [], 6)] * n) for n in (200, 400, 800)]
    short, middle, long = (
        steps_run(lambda messages=messages: fit(messages, 300, len, low_water="auto"))
        for messages in window_of
    )
    assert long - middle < 2.1 * (middle - short)


@pytest.mark.parametrize("turns", [[(4, [], 6)] * 600, [(4, [[60], [90]], 6)] * 150], ids=["plain", "tools"])
@pytest.mark.slow
def test_a_list_is_cut_in_steps_for_at_most_twice_the_work_of_cutting_it_once(
    turns: list[tuple[int, list[list[int]], int]],
) -> None:
    messages = session(turns)
    once = steps_run(lambda: fit(messages, 3_000, len))
    for low_water in ("0.95", "0.7", "0.5", 0, "auto"):
        in_steps = steps_run(lambda low_water=low_water: fit(messages, 3_000, len, low_water=low_water))
        assert in_steps < 2 * once, low_water


def round_of(name: str) -> list[dict[str, Any]]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": "ok"},
    ]


@pytest.mark.parametrize("low_water", [1, "0.5"])
@pytest.mark.slow
def test_a_round_costs_the_same_however_many_have_left(low_water: Any) -> None:  # noqa: ANN401  # any of its forms
    """An agent answers one question with thousands of rounds."""
    conversation = Conversation("s", len, token_budget=60, low_water=low_water)
    conversation.user("q")

    def rounds(first: int) -> None:
        for number in range(first, first + 200):
            for message in round_of(f"c{number:04}"):
                conversation.add(message)
            conversation.enforce_budget()

    early = steps_run(lambda: rounds(0))
    for first in range(200, 1_000, 200):
        rounds(first)
    late = steps_run(lambda: rounds(1_000))
    assert late < 1.1 * early


def test_a_turn_costs_the_same_however_long_the_window_is() -> None:
    costs = []
    for turns in (50, 5_000):
        window = Window()
        for _ in range(turns):
            window.append(ItemKind.USER, 1)
            window.append(ItemKind.ANSWER, 1)
        limits = WindowLimits(None, 2 * turns, 0, Fraction(1))
        costs.append(steps_run(lambda window=window, limits=limits: enforce(window, limits)))
    assert costs[0] == costs[1]
