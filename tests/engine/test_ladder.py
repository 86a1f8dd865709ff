"""The ladder on its exact boundaries, over blocks that are nothing but sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tokenbox.engine.ladder import BACKGROUND, CRITICAL, NORMAL, Form, LadderRun

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL, SUMMARY, PLACEHOLDER, MERGED = Form.FULL, Form.SUMMARY, Form.PLACEHOLDER, Form.MERGED
LINE = 3
BLOCK = {FULL: 20, SUMMARY: 8, PLACEHOLDER: 3}


class Overflow(Exception):
    pass


@dataclass
class Sizes:
    """A whole whose total is a sum. ``blocks``: what each form of each block counts."""

    blocks: Sequence[dict[Form, int]]
    shown: list[int] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)

    @property
    def total(self) -> int:
        return sum(self.shown) + LINE * len(self.lines)

    def reset(self, forms: Sequence[Form]) -> None:
        self.shown = [block.get(form, 0) for block, form in zip(self.blocks, forms, strict=True)]

    def has(self, i: int, form: Form, room: int) -> bool:
        return form in self.blocks[i]

    def has_already(self, i: int, form: Form) -> bool:
        return form in self.blocks[i]

    def at_least(self, i: int, form: Form) -> int:
        return self.blocks[i].get(form, 0)

    def size(self, i: int) -> int:
        return self.shown[i]

    def show(self, i: int, form: Form) -> None:
        self.shown[i] = self.blocks[i][form]

    def merge(self, i: int) -> None:
        self.shown[i] = 0

    def show_line(self, priority: int, *, shown: bool) -> None:
        (self.lines.add if shown else self.lines.discard)(priority)

    def fixed_load(self, critical: Sequence[int]) -> int:
        return sum(self.blocks[i][FULL] for i in critical)

    def overflow(
        self, critical: Sequence[int], fixed_load: int, budget: int, allowance: int = 0
    ) -> Exception:
        return Overflow()


def laid_out(blocks: list[dict[Form, int]], budget: int, priorities: list[int] | None = None) -> list[Form]:
    whole = Sizes(blocks)
    run = LadderRun(priorities or [NORMAL] * len(blocks), budget, whole)
    run.hard()
    assert whole.total <= budget
    return run.forms


@pytest.mark.parametrize(
    ("budget", "forms"),
    [
        (40, [FULL, FULL]),
        (39, [FULL, SUMMARY]),
        (28, [FULL, SUMMARY]),
        (27, [FULL, PLACEHOLDER]),
        (23, [FULL, PLACEHOLDER]),
        (22, [SUMMARY, SUMMARY]),
        (16, [SUMMARY, SUMMARY]),
        (15, [SUMMARY, PLACEHOLDER]),
        (11, [SUMMARY, PLACEHOLDER]),
        (10, [PLACEHOLDER, PLACEHOLDER]),
        (6, [PLACEHOLDER, PLACEHOLDER]),
        (5, [MERGED, MERGED]),
        (3, [MERGED, MERGED]),
        (2, [Form.OMITTED, Form.OMITTED]),
    ],
)
def test_each_form_is_shown_where_it_fits_exactly_and_not_with_one_token_less(
    budget: int, forms: list[Form]
) -> None:
    assert laid_out([BLOCK, BLOCK], budget) == forms


@pytest.mark.parametrize(("budget", "merged"), [(9, 0), (8, 2), (6, 2), (5, 3), (3, 3)])
def test_no_more_placeholders_are_merged_than_have_to_be(budget: int, merged: int) -> None:
    only = {FULL: 100, PLACEHOLDER: 3}
    assert laid_out([only] * 3, budget) == [PLACEHOLDER] * (3 - merged) + [MERGED] * merged


def test_a_form_smaller_than_the_placeholder_is_taken_before_any_are_merged() -> None:
    small = {FULL: 100, SUMMARY: 1, PLACEHOLDER: 3}
    assert laid_out([BLOCK, small, small], 5) == [PLACEHOLDER, SUMMARY, SUMMARY]


def test_critical_blocks_may_take_the_budget_to_the_last_token() -> None:
    background = {PLACEHOLDER: 3, Form.OMITTED: 0}
    assert laid_out([BLOCK, background], 23, [CRITICAL, BACKGROUND]) == [FULL, PLACEHOLDER]
    assert laid_out([BLOCK, background], 20, [CRITICAL, BACKGROUND]) == [FULL, Form.OMITTED]
    with pytest.raises(Overflow):
        laid_out([BLOCK, background], 19, [CRITICAL, BACKGROUND])
