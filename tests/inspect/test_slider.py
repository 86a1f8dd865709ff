"""The slider: every frame is a layout, and at every budget it is the layout of that budget."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tests.inspect.pages import sections
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.inspect import entry_of
from tokenbox.inspect.of_layout import layout_entry
from tokenbox.inspect.record import PageFrame, PageSlider, PageState
from tokenbox.inspect.slider import slider_of


def states_at(slider: PageSlider, budget: int) -> tuple[PageFrame, dict[int, PageState]]:
    """The frame that the page shows at a budget, and its states put together from the changes."""
    place = bisect_right([frame.budget or 0 for frame in slider.frames], budget)
    states: dict[int, PageState] = {}
    for frame in slider.frames[:place]:
        states |= {state.item: state for state in frame.changes}
    return slider.frames[place - 1], states


def check(made: tokenbox.Layout, slider: PageSlider) -> None:
    """Every budget of the slider against the layout of that budget."""
    assert slider.every
    budgets = range(slider.low, slider.high + 1)
    for budget, expected in zip(budgets, made.whatif(budgets), strict=True):
        frame, states = states_at(slider, budget)
        if isinstance(expected, ContextCriticalOverflow):
            assert frame.error is not None
            continue
        shown = [(states[i].decision, states[i].size, states[i].text) for i in range(len(made.inputs))]
        assert frame.error is None
        assert frame.total == expected.total
        assert shown == [(one.decision.value, one.size, one.text) for one in expected.sections]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["facet", "degrade"])
def test_at_every_budget_it_is_the_layout_of_that_budget(policy: str) -> None:
    given = [
        {name: value for name, value in one.items() if policy == "degrade" or name != "forms"}
        for one in sections()
    ]
    made = tokenbox.layout(given, 400, "o200k_base", policy=policy)
    slider = entry_of(made).slider
    assert slider is not None
    assert (slider.low, slider.high >= sum(made.base_sizes)) == (made.fixed_load - 1, True)
    check(made, slider)


SECTION = st.fixed_dictionaries(
    {
        "content": st.text("ab \n日", max_size=30),
        "priority": st.integers(0, 3),
        "shrink": st.integers(0, 2),
        "min": st.integers(0, 4),
        "extra": st.lists(st.text("cd", min_size=1, max_size=5), max_size=2),
        "grow": st.integers(0, 1),
    }
)


@settings(max_examples=examples(40))
@given(st.lists(SECTION, min_size=1, max_size=5), st.integers(0, 80), st.booleans())
def test_it_is_so_for_any_sections(given: list[dict[str, Any]], budget: int, reclaim: bool) -> None:
    named = [{"id": str(i), **one} for i, one in enumerate(given)]
    try:
        made = tokenbox.layout(named, budget, "utf8-bytes", reclaim=reclaim)
    except ContextCriticalOverflow:
        return
    slider = entry_of(made).slider
    if slider is not None:
        check(made, slider)


def test_with_few_stops_it_has_the_breakpoints_and_says_that_it_lacks_the_rest() -> None:
    given = sections()
    made = tokenbox.layout(given, 400, "o200k_base", policy="degrade")
    slider = layout_entry(made, "", stops=200).slider
    assert slider is not None
    assert not slider.every
    assert len(slider.frames) <= 200
    points = tokenbox.breakpoints(given, slider.low, slider.high, "o200k_base", policy="degrade")
    budgets = {frame.budget for frame in slider.frames}
    known = {point.budget for point in points}
    assert len(known & budgets) / len(known) > 0.9
    for frame in slider.frames:  # each of them is the layout of its own budget
        assert frame.budget is not None
        shown, states = states_at(slider, frame.budget)
        (expected,) = made.whatif([frame.budget])
        if isinstance(expected, tokenbox.Layout):
            assert shown.total == expected.total
            assert [states[i].text for i in range(len(given))] == list(expected.texts)


def test_without_stops_there_is_no_slider() -> None:
    assert (
        layout_entry(tokenbox.layout(sections(), 400, "o200k_base", policy="degrade"), "", stops=0).slider
        is None
    )


def test_many_sections_take_no_longer_than_few() -> None:
    """What is tried is bounded by the work, which depends on the input alone."""
    tried: list[int] = []

    def at(budget: int) -> PageFrame:
        tried.append(budget)
        return PageFrame(budget, budget, True, (PageState(0, "truncated", budget, None),))

    slider = slider_of(at, low=0, high=10**9, own=10**6, items=50_000, characters=10**7)
    assert slider is not None
    assert not slider.every
    assert len(tried) <= 70
    assert 10**6 in tried
