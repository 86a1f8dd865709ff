"""Where a layout changes over a range of budgets: as found by laying it out at every budget."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.compose.test_degrade import some_document
from tests.effort import examples
from tokenbox import Layout, Section, breakpoints, whatif
from tokenbox.compose import breakpoints as module
from tokenbox.compose import sections as compose_sections
from tokenbox.compose.cutting import SectionCuts
from tokenbox.errors import InvalidBudget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.compose.layout import LayoutOptions
    from tokenbox.errors import ContextCriticalOverflow


def states(result: object) -> dict[str, str]:
    if not isinstance(result, Layout):
        return {}
    return {s.id: s.decision.value + ("" if s.form is None else f" {s.form}") for s in result.sections}


def by_hand(
    sections: list[Section], high: int, tokenizer: str = "utf8-bytes", **options: object
) -> list[tuple[int, str, str | None, str | None]]:
    results = whatif(sections, range(high + 1), tokenizer, **options)  # type: ignore[arg-type]
    found = []
    for budget in range(1, high + 1):
        before, after = states(results[budget - 1]), states(results[budget])
        found += [
            (budget, s.id, before.get(s.id), after.get(s.id))
            for s in sections
            if before.get(s.id) != after.get(s.id)
        ]
    return found


@pytest.mark.parametrize("policy", ["facet", "degrade"])
@pytest.mark.parametrize("every", [0, 1_000])
def test_they_are_those_of_every_budget(policy: str, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", every)
    for seed in range(examples(25)):
        sections, groups, separator = some_document(random.Random(seed))
        if policy == "facet":
            fields = ("forms", "max", "group", "with")
            plain = [{k: v for k, v in s.to_dict().items() if k not in fields} for s in sections]
            sections, groups = [Section.of(s) for s in plain], {}
        options: dict[str, Any] = {"separator": separator, "policy": policy, "groups": groups}
        expected = by_hand(sections, 90, **options)
        found = breakpoints(sections, 0, 90, "utf8-bytes", **options)
        assert [(p.budget, p.section, p.before, p.after) for p in found] == expected


def test_budgets_at_which_nothing_can_change_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 400)
    for seed in range(examples(25)):
        sections, groups, separator = some_document(random.Random(seed))
        plain = [s for s in sections if s.max is None and s.group is None and s.with_ is None and not s.extra]
        options: dict[str, Any] = {"separator": separator, "policy": "degrade", "groups": {}}
        found = breakpoints(plain, 0, 10**9, "utf8-bytes", **options)
        expected = by_hand(plain, 400, **options)
        assert [(p.budget, p.section, p.before, p.after) for p in found] == expected, groups


def test_a_long_range_needs_few_layouts() -> None:
    sections = [Section(f"s{i}", f"{i} " * 4_000, shrink=1, priority=i, min=500) for i in range(6)]
    found = breakpoints(sections, 0, 60_000, "utf8-bytes", policy="degrade")
    changes = {(p.section, p.before, p.after) for p in found}
    assert ("s5", "dropped", "truncated") in changes
    for point in found:
        one, other = tokenbox.whatif(
            sections, [point.budget - 1, point.budget], "utf8-bytes", policy="degrade"
        )
        assert states(one).get(point.section) == point.before
        assert states(other).get(point.section) == point.after


def test_a_range_goes_upwards() -> None:
    with pytest.raises(InvalidBudget, match="from a smaller to a larger one"):
        breakpoints([], 2, 1, "utf8-bytes")


def test_a_text_is_cut_once_to_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 sections took a minute and a half, as each layout cut the same texts to the same minima."""
    sections = [Section(f"s{i}", "a word " * (20 + i), min=5, shrink=1) for i in range(12)]
    cuts: list[tuple[str, int]] = []
    longest = SectionCuts.longest

    def counted(self: SectionCuts, at_most: int) -> str:
        cuts.append((self.text, at_most))
        return longest(self, at_most)

    monkeypatch.setattr(SectionCuts, "longest", counted)
    monkeypatch.setattr(module, "EVERY", 0)
    assert breakpoints(sections, 0, 3_000, "utf8-bytes", policy="degrade")
    assert len(cuts) == len(set(cuts))


@pytest.mark.parametrize("tokenizer", ["utf8-bytes", "o200k_base"])
def test_the_token_box_model_is_not_run_at_each_budget(
    tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 sections took 36 seconds: each of 4,000 budgets laid all of them out."""
    sections = [
        Section(f"s{i}", "a word, or two. " * (2 + i), shrink=i % 5, min=4 * (i % 2)) for i in range(7)
    ]
    expected = by_hand(sections, 500, tokenizer)
    laid_out = []
    lay_out_all = compose_sections.lay_out_all

    def counted(
        sections: Sequence[Section], options: LayoutOptions, counter: Counter, budgets: object
    ) -> list[Layout | ContextCriticalOverflow]:
        laid_out.append(budgets)
        return lay_out_all(sections, options, counter, budgets)

    monkeypatch.setattr(module, "lay_out_all", counted)
    found = breakpoints(sections, 0, 500, tokenizer)
    assert [(p.budget, p.section, p.before, p.after) for p in found] == expected
    assert len(expected) > 6
    assert len(laid_out) < 10
