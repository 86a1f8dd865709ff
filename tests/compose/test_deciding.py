"""Sections that are dropped whatever their size are counted only for the record."""

from __future__ import annotations

import pickle
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.effort import examples
from tokenbox.compose.counting import Counter
from tokenbox.compose.layout import Layout, LayoutOptions
from tokenbox.compose.sections import lay_out_all
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.tokenizers import CountCache
from tokenbox.tokenizers.bpe import baseline
from tokenbox.tokenizers.guarded import CallableTokenizer
from tokenbox.tokenizers.protocol import BaseTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.tokenizers.protocol import Tokenizer

TOKENIZER = baseline("o200k_base", "tiktoken")
PIECES = [
    "The tariff of the zone is 12.50 euros a month.",
    "def read(path):\n    return path.read_text()\n",
    "東京の料金は月額です。",
    "x" * 30,
    "a b\n\n",
    "ends with a newline\n",
    "\n",
    "1234567",
    "It's",
    "👩‍👩‍👧 family",
]
BREAKERS = [" starts with a space", "/ a slash", "", "\n\n"]  # a text that does not begin at a cut


def sections(choose: Random, *, plain: bool, pieces: int = 6) -> list[tokenbox.Section]:
    count = choose.choice([16, 17, 40, 90])
    texts = PIECES[:6] + PIECES[7:] if plain else PIECES + BREAKERS
    made = []
    for i in range(count):
        text = "".join(choose.choice(texts) for _ in range(choose.randrange(1, pieces)))
        made.append(
            tokenbox.Section(
                id=f"s{i}",
                content=text.lstrip() if plain else text,
                priority=choose.choice([100, 500, 900]),
                min=choose.choice([0, 0, 3, 20]),
                shrink=choose.choice([0, 1, 1, 1, 2, 2]),
                grow=choose.choice([0, 0, 1]),
                extra=("More.", "And more.") if choose.random() < 0.2 else (),
                strategy="head(1)" if choose.random() < 0.2 else None,
                keep=choose.choice(["head", "tail", "middle"]),
            )
        )
    return made


def eager(
    given: list[tokenbox.Section], budget: int, separator: str, tokenizer: Tokenizer = TOKENIZER
) -> Layout | ContextCriticalOverflow:
    """Lay out by the other path, which counts every section first."""
    options = LayoutOptions.of(given, separator, "facet", None, reclaim=False)
    counter = Counter(tokenizer, CountCache())
    return lay_out_all(given, options, counter, [budget])[0]


@pytest.mark.parametrize("seed", range(examples(90)))
def test_the_same_layout_and_record_as_with_every_section_counted(seed: int) -> None:
    choose = Random(seed)
    given = sections(choose, plain=seed % 3 > 0)
    separator = choose.choice(["\n\n", "\n\n", "\n", " ", "", "\n---\n"])
    total = TOKENIZER.count(separator.join(s.content for s in given))
    budget = choose.randrange(total // 4, total + 20)
    check_same(given, budget, separator, TOKENIZER)


def check_same(
    given: list[tokenbox.Section], budget: int, separator: str, tokenizer: Tokenizer
) -> Layout | None:
    expected = eager(given, budget, separator, tokenizer)
    if isinstance(expected, ContextCriticalOverflow):
        with pytest.raises(ContextCriticalOverflow) as caught:
            tokenbox.layout(given, budget, tokenizer, separator, cache=CountCache())
        assert caught.value.to_dict() == expected.to_dict()
        return None
    found = tokenbox.layout(given, budget, tokenizer, separator, cache=CountCache())
    for each in fields(Layout):
        if each.name not in ("at_budgets", "counter"):
            assert getattr(found, each.name) == getattr(expected, each.name), each.name
    assert found.to_dict() == expected.to_dict()
    assert found.digest == expected.digest
    assert found.total == tokenizer.count(found.text) <= budget
    return found


# Functions whose counts of parts do not add up to the count of the whole.
FUNCTIONS: dict[str, Callable[[str], int]] = {
    "quarter": lambda text: len(text) // 4,
    "begins": lambda text: TOKENIZER.count(text) + 1,
    "words": lambda text: len(text.split()),
    "merges": lambda text: len(text) - text.count("\n\n") * 2,
    "distinct": lambda text: len(set(text.split())),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(examples(20)))
def test_the_same_with_any_function(seed: int, name: str) -> None:
    choose = Random(f"{seed} {name}")
    given = sections(choose, plain=seed % 5 > 0, pieces=200)
    if seed % 4 == 0:
        given[7] = tokenbox.Section("empty", "", choose.choice([100, 500, 900]), shrink=choose.choice([0, 1]))
    separator = choose.choice(["\n\n", "\n", " ", "", "\n---\n"])
    total = FUNCTIONS[name](separator.join(s.content for s in given))
    budget = choose.randrange(total // 5, total * 3 // 4)
    check_same(given, budget, separator, CallableTokenizer(FUNCTIONS[name], name))


@pytest.mark.parametrize("form", [tokenbox.Section, dict])
def test_a_function_is_called_for_what_decides(form: Callable[..., Any]) -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text) // 4

    inputs = [form(id=f"s{i}", content=f"{i} " * 200, priority=i % 5, shrink=1) for i in range(200)]
    found = tokenbox.layout(inputs, 15_000, count)
    assert len(asked) < 120
    assert len(found.base_sizes) == 200
    assert {section.content for section in found.inputs} <= set(asked)


class Noted(BaseTokenizer):
    """A tokenizer that notes the texts that it counts."""

    cuts, cuts_proven = TOKENIZER.cuts, TOKENIZER.cuts_proven
    _identity = TOKENIZER.identity

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self.texts += texts
        return TOKENIZER.count_batch(texts)


def given(count: int = 60) -> list[tokenbox.Section]:
    return [
        tokenbox.Section(id=f"s{i}", content=f"Note {i}: the zone costs {i} euros.", priority=i, shrink=1)
        for i in range(count)
    ]


def test_what_is_dropped_anyway_is_counted_when_the_record_is_read() -> None:
    noted = Noted()
    found = tokenbox.layout(given(), 100, noted, cache=CountCache())
    dropped = [section.content for section in given() if section.content not in found.text]
    counted = [text for text in dropped if text in noted.texts]
    assert len(dropped) > 40
    assert len(counted) < 15
    sizes = [section.base_size for section in found.sections]
    assert sizes == TOKENIZER.count_batch([section.content for section in given()])
    assert set(dropped) <= set(noted.texts)
    assert [step.section for step in found.log][:3] == [0, 1, 2]


def test_a_copy_in_another_process_has_the_record() -> None:
    found = tokenbox.layout(given(), 100, TOKENIZER)
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert copy.digest == found.digest
    assert copy.base_sizes == found.base_sizes


def test_an_empty_text_that_counts_is_priced_as_when_every_section_is_counted() -> None:
    texts = ["abc", *("word " * 150 for _ in range(40)), "", "last " * 150]
    inputs = [tokenbox.Section(f"s{i}", text, i, shrink=1) for i, text in enumerate(texts)]
    tokenizer = CallableTokenizer(lambda text: len(text) // 4 if text else 90, "empty counts")
    for budget in range(2_000, 2_400, 50):
        check_same(inputs, budget, "\n\n", tokenizer)
