"""The guard before counts that are not exact: which figure decides, to the token."""

from __future__ import annotations

import pytest

from tokenbox.compose.requests import By, Count
from tokenbox.policy.guard import Basis, GuardLimits, Uncertain, guard, needed

# 15 % of it are 15.15 tokens.
ESTIMATE = Count(101, exact=False, at_most=400, by=By.TEXT)


@pytest.mark.parametrize(
    ("uncertain", "tokens", "basis"),
    [
        (Uncertain.MARGIN, 117, Basis.MARGIN),
        (Uncertain.BOUND, 400, Basis.AT_MOST),
        (Uncertain.ALLOW, 101, Basis.TOTAL),
    ],
)
def test_the_setting_says_what_decides(uncertain: Uncertain, tokens: int, basis: Basis) -> None:
    assert needed(ESTIMATE, uncertain) == (tokens, basis)
    passed, refused = (guard(ESTIMATE, GuardLimits.of(window), uncertain) for window in (tokens, tokens - 1))
    assert (passed.ok, passed.tokens, passed.basis) == (True, tokens, basis)
    assert (refused.ok, refused.over) == (False, 1)


def test_a_bound_below_the_margin_decides() -> None:
    close = Count(101, exact=False, at_most=105, by=By.TEXT)
    assert needed(close) == (105, Basis.AT_MOST)


def test_a_bound_of_just_the_margined_total_is_that_which_decides() -> None:
    close = Count(101, exact=False, at_most=117, by=By.TEXT)
    assert needed(close) == (117, Basis.AT_MOST)


@pytest.mark.parametrize(
    ("by", "tokens"),
    [
        *((by, 107) for by in (By.TEMPLATE, By.SERVER, By.PUBLISHED)),  # 5 %: 5.05 tokens
        *((by, 117) for by in (By.TEXT, By.CHARS4)),  # 15 %: 15.15 tokens
        *((by, 101) for by in (By.MARKERS, By.MARGIN)),  # their total has a margin
    ],
)
def test_each_way_of_counting_has_the_margin_of_the_documents(by: By, tokens: int) -> None:
    assert needed(Count(101, exact=False, at_most=400, by=by)) == (tokens, Basis.MARGIN)


def test_an_exact_count_has_no_margin() -> None:
    exact = Count(101, exact=True, at_most=101, by=By.TEMPLATE)
    for uncertain in Uncertain:
        assert needed(exact, uncertain) == (101, Basis.EXACT)


def test_what_is_over_by_its_total_is_refused_for_that() -> None:
    for uncertain in Uncertain:
        verdict = guard(ESTIMATE, GuardLimits.of(100), uncertain)
        assert (verdict.ok, verdict.basis) == (False, Basis.TOTAL)


def test_each_of_several_prompts_has_the_window_for_itself() -> None:
    prompts = Count(300, exact=True, at_most=300, by=By.TEMPLATE, largest=120)
    assert guard(prompts, GuardLimits.of(120)).ok
    assert not guard(prompts, GuardLimits.of(119)).ok
