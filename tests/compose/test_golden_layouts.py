"""Realistic layouts as plain files, at budgets 0, 1, exact fit, one less, and several between."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.compose.independent import COUNTERS
from tests.conftest import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = sorted(path.name.removesuffix(".in.json") for path in (GOLDEN / "layout").glob("*.in.json"))


def shown(result: tokenbox.Layout | tokenbox.ContextCriticalOverflow, budget: int) -> str:
    lines = [f"=== budget {budget}"]
    if isinstance(result, tokenbox.ContextCriticalOverflow):
        return "\n".join([*lines, f"{result.code}: {result}", ""])
    lines.append(
        f"total {result.total}  joins {result.joins}  fixed load {result.fixed_load}  {result.digest}"
    )
    for section in result.sections:
        lines.append(f"  {section.id}: {section.decision.value} {section.base_size} -> {section.size}")
        lines += [f"    as {section.form}"] * (section.form is not None)
        lines += [
            f"    {step.action.value} {step.before} -> {step.after}: {step.why}" for step in section.steps
        ]
    lines += [f"  ! {warned.message}" for warned in result.warnings]
    return "\n".join(
        [*lines, "--- text, one line of it per line", *map(ascii, result.text.splitlines(keepends=True)), ""]
    )


def test_there_are_cases() -> None:
    assert len(CASES) >= 5


@pytest.mark.parametrize("case", CASES)
def test_golden_layout(case: str, golden: Callable[[str, str], None]) -> None:
    given: dict[str, Any] = json.loads((GOLDEN / "layout" / f"{case}.in.json").read_text(encoding="utf-8"))
    count = COUNTERS[given["tokenizer"]]
    contents = [tokenbox.Section.of(section).content for section in given["sections"]]
    exact = count(given["separator"].join(content for content in contents if content))
    budgets = sorted({0, 1, *given["budgets"], exact - 1, exact})
    options = {name: given[name] for name in ("policy", "groups", "reclaim") if name in given}
    results = tokenbox.whatif(given["sections"], budgets, given["tokenizer"], given["separator"], **options)
    for budget, result in zip(budgets, results, strict=True):
        if isinstance(result, tokenbox.Layout):
            assert result.total == count(result.text) <= budget
    assert isinstance(results[budgets.index(exact)], tokenbox.Layout)
    golden(f"layout/{case}.txt", "\n".join(map(shown, results, budgets)))
