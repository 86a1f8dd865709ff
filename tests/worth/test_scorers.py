"""A scorer of the user's own decides what is shown, and cannot break the budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tokenbox.errors import CodeNotAllowed
from tokenbox.folder import PackOptions, pack_source, read, survey
from tokenbox.folder.listing import FileShown
from tokenbox.worth.scorers import ScorerProblem, scorer_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXTS = ["the tide is high", "bread is baked daily", "high tide is at noon"]


def about_bread(_query: str, texts: Sequence[str]) -> list[float]:
    return [float("bread" in text) for text in texts]


def too_few(_query: str, texts: Sequence[str]) -> list[float]:
    return [1.0 for _ in texts[1:]]


def not_finite(_query: str, texts: Sequence[str]) -> list[float]:
    return [math.nan for _ in texts]


def test_a_selection_by_a_scorer() -> None:
    by_words = tokenbox.select(TEXTS, 24, "high tide", tokenizer="utf8-bytes")
    by_scorer = tokenbox.select(TEXTS, 24, "high tide", tokenizer="utf8-bytes", scorer=about_bread)
    assert "tide" in by_words.text
    assert by_scorer.text == TEXTS[1]


def test_a_score_of_its_own_goes_before_the_scorer() -> None:
    chunks = [{"text": TEXTS[0], "score": 9}, TEXTS[1], TEXTS[2]]
    assert tokenbox.select(chunks, 20, tokenizer="utf8-bytes", scorer=about_bread).text == TEXTS[0]


def test_a_name_is_module_and_function() -> None:
    name = f"{__name__}:about_bread"
    with pytest.raises(CodeNotAllowed):
        scorer_of(name)
    by_name = tokenbox.select(TEXTS, 24, "high tide", tokenizer="utf8-bytes", scorer=name)
    assert by_name.text == TEXTS[1]
    assert scorer_of(name) is about_bread


@pytest.mark.parametrize(
    "scorer", [too_few, not_finite, "no.such.module:f", "nobody-has-this-name", f"{__name__}:TEXTS", 7]
)
def test_what_is_no_scorer_is_an_error(scorer: object) -> None:
    with pytest.raises(ScorerProblem):
        tokenbox.select(TEXTS, 24, "x", tokenizer="utf8-bytes", scorer=scorer)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [120, 400, 900])
def test_a_pack_by_a_scorer_is_within_the_budget(tmp_path: Path, budget: int) -> None:
    for name in ("oven", "sea", "moon"):
        body = "bread" if name == "oven" else name
        lines = "".join(f"def {name}_{n}():\n    return '{body} {n}'\n\n\n" for n in range(40))
        (tmp_path / f"{name}.py").write_text(lines, encoding="utf-8")
    source = read(survey([tmp_path]))
    pack = pack_source(source, "o200k_base", budget, options=PackOptions("the moon", scorer=about_bread))
    assert pack.total <= budget
    assert pack.to_dict()["scorer"] == f"{__name__}:about_bread"
    if budget >= 400:
        shown = {file.path: file.shown for file in pack.files}
        assert shown["oven.py"] is not FileShown.LISTED
        assert "bread 1" in pack.text
