"""How often and how much is counted: each text once."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.compose.independent import COUNTERS, HOSTILE, SEPARATORS
from tokenbox.compose.counting import Counter
from tokenbox.compose.seamed import RECOUNTED, joined_total
from tokenbox.content.section import Section
from tokenbox.tokenizers import BaseTokenizer, CountCache, get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox import TokenizerIdentity

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "rain",
    "falls",
    "on",
    "many",
    "old",
    "roofs",
    "of",
    "this",
    "small",
    "town",
]


class Metered(BaseTokenizer):
    """A tokenizer that says what it was given."""

    def __init__(self, name: str) -> None:
        self.inner = get(name)
        self.cuts = getattr(self.inner, "cuts", None)
        self.cuts_proven = getattr(self.inner, "cuts_proven", False)
        self.seen: list[str] = []

    @property
    def identity(self) -> TokenizerIdentity:
        return self.inner.identity

    def count(self, text: str) -> int:
        self.seen.append(text)
        return self.inner.count(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self.seen.extend(texts)
        return self.inner.count_batch(texts)

    def encode(self, text: str) -> list[int]:
        self.seen.append(text)
        return self.inner.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        return self.inner.decode(tokens)

    @property
    def characters(self) -> int:
        return sum(map(len, self.seen))


def natural(n: int, words: int = 75) -> list[dict[str, object]]:
    chance = random.Random(7)
    return [
        {
            "id": f"s{i}",
            "content": f"Part {i}. " + " ".join(chance.choice(WORDS) for _ in range(words)) + ".",
            "priority": chance.randint(1, 5),
            "shrink": 1,
        }
        for i in range(n)
    ]


@pytest.mark.parametrize("part", [10, 4, 2, 1])
def test_a_plain_function_is_called_once_per_text_and_three_times_more(part: int) -> None:
    """The section at the border is counted again where its ``min`` is its content or more."""
    calls: list[str] = []

    def count(text: str) -> int:
        calls.append(text)
        return len(text.split()) + 1

    sections = [{**s, "min": 10_000} for s in natural(200)]
    budget = sum(len(str(s["content"]).split()) + 3 for s in sections) * part // 10
    result = tokenbox.layout(sections, budget, count)
    assert len(calls) <= len(sections) + 3
    assert result.total <= budget


@pytest.mark.parametrize("part", [10, 9, 5, 2])
def test_natural_texts_are_counted_once(part: int) -> None:
    meter, sections = Metered("o200k_base"), natural(200)
    given = sum(len(str(s["content"])) for s in sections)
    whole = COUNTERS["o200k_base"]("\n\n".join(str(s["content"]) for s in sections))
    result = tokenbox.layout(sections, whole * part // 10, meter, cache=CountCache())
    assert result.total <= whole * part // 10
    assert meter.characters <= 1.05 * (given + len(result.text))
    for section in sections:
        assert meter.seen.count(str(section["content"])) <= 1


def test_whatif_counts_each_text_once() -> None:
    meter, sections = Metered("o200k_base"), natural(60)
    tokenbox.whatif(sections, [500, 1000, 2000, 3000, 4000], meter, cache=CountCache())
    for section in sections:
        assert meter.seen.count(str(section["content"])) == 1


@pytest.mark.parametrize("budget", [1_000, 8_000])
def test_laying_out_again_counts_what_changed(budget: int) -> None:
    """A short whole is counted again, as the check; of a long one the proven cuts are the check."""
    meter, cache, sections = Metered("o200k_base"), CountCache(), natural(200)
    whole = tokenbox.layout(sections, budget, meter, cache=cache).text
    meter.seen.clear()
    tokenbox.layout(sections, budget, meter, cache=cache)
    checked = {whole} if len(whole) <= RECOUNTED else set()
    assert (budget == 1_000) == bool(checked)
    # The seams are short, and the cuts that were tried begin the section at the border.
    cuts = {text for text in meter.seen if any(str(s["content"]).startswith(text) for s in sections)}
    assert not cuts & {s["content"] for s in sections}, "no section is counted again"
    assert {text for text in set(meter.seen) - cuts if len(text) >= 30} == checked
    meter.seen.clear()
    changed = [dict(s) for s in sections]
    changed[90]["content"] = "Changed. " + str(changed[90]["content"])
    result = tokenbox.layout(changed, budget, meter, cache=cache)
    whole = result.text
    large = [text for text in meter.seen if len(text) >= 30]
    assert large.count(str(changed[90]["content"])) <= 1
    assert large.count(whole) == len(checked)
    rest = sum(map(len, large)) - len(whole) * len(checked)
    assert rest <= 8 * len(str(changed[90]["content"])), (
        "the new text, and the section at the border cut anew"
    )
    assert result.sections[90].base_size
    assert meter.seen.count(str(changed[90]["content"])) == 1, "counted for the record at the latest"


@pytest.mark.parametrize("name", ["o200k_base", "code-aware"])
def test_the_cache_changes_no_result(name: str) -> None:
    sections, cache = natural(40), CountCache()
    for budget in (300, 1_000, 2_000, 10_000):
        warm = tokenbox.layout(sections, budget, name, cache=cache)
        cold = tokenbox.layout(sections, budget, name, cache=CountCache())
        tiny = tokenbox.layout(sections, budget, name, cache=CountCache(1))
        assert warm.to_dict() == cold.to_dict() == tiny.to_dict()


def test_the_cache_knows_tokenizers_apart() -> None:
    cache, text = CountCache(), "İstanbul — 漢字 and more, 12345"
    for name in ("o200k_base", "cl100k_base", "code-aware", "facet-units"):
        assert cache.count(get(name), text) == COUNTERS[name](text)
        assert cache.count(get(name), text) == COUNTERS[name](text)
    assert (cache.info().hits, cache.info().misses, cache.info().entries) == (4, 4, 4)


def test_the_cache_is_bounded_and_forgets_the_least_recently_used() -> None:
    meter, cache = Metered("code-aware"), CountCache(3)
    for text in ("a", "b", "c", "a", "d"):
        cache.count(meter, text)
    assert meter.seen == ["a", "b", "c", "d"]
    assert cache.info().entries == cache.info().max_entries == 3
    cache.count(meter, "a")
    assert meter.seen == ["a", "b", "c", "d"]
    cache.count(meter, "b")
    assert meter.seen == ["a", "b", "c", "d", "b"]
    assert cache.count_batch(meter, [str(i) for i in range(50)]) == [1] * 50
    assert cache.info().entries == 3
    cache.clear()
    assert (cache.info().hits, cache.info().misses, cache.info().entries) == (0, 0, 0)
    with pytest.raises(ValueError, match="at least one"):
        CountCache(0)


def test_a_batch_renews_the_counts_that_it_uses() -> None:
    meter, cache = Metered("code-aware"), CountCache(3)
    cache.count_batch(meter, ["a", "b", "c"])
    cache.count_batch(meter, ["a"])
    cache.count_batch(meter, ["d"])
    meter.seen.clear()
    assert cache.count_batch(meter, ["a", "c", "d"]) == [1, 1, 1]
    assert meter.seen == [], "b was used least recently"
    cache.count_batch(meter, ["b"])
    assert meter.seen == ["b"]


def test_the_cache_counts_a_repeated_text_once() -> None:
    meter, cache = Metered("code-aware"), CountCache()
    assert cache.count_batch(meter, ["x", "y", "x", "x"]) == [1, 1, 1, 1]
    assert sorted(meter.seen) == ["x", "y"]
    assert cache.info().hits + cache.info().misses == 4
    assert cache.count_batch(meter, []) == []


def test_threads_share_a_cache() -> None:
    cache, tokenizer = CountCache(64), get("o200k_base")
    texts = [f"text number {i} of many" for i in range(200)]
    expected = {text: COUNTERS["o200k_base"](text) for text in texts}
    wrong: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            some = chance.sample(texts, 20)
            counts = cache.count_batch(tokenizer, some)
            wrong.extend(t for t, c in zip(some, counts, strict=True) if expected[t] != c)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = cache.info()
    assert wrong == []
    assert info.entries <= 64
    assert info.hits + info.misses == 8 * 40 * 20


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize(
    "separator",
    ["\n\n", *(pytest.param(one, marks=pytest.mark.slow) for one in SEPARATORS if one != "\n\n")],
)
def test_parts_and_seams_are_the_count_of_the_whole(name: str, separator: str) -> None:
    """What stands for the recount of a long whole: every piece that is hard to cut, before every other one.

    The seam of two parts depends on what is near it alone, so two parts show all that can go wrong.
    """
    tokenizer, count = get(name), COUNTERS[name]
    pieces = [piece for piece in HOSTILE if piece]
    sizes = dict(zip(pieces, tokenizer.count_batch(pieces), strict=True))
    for before in pieces:
        for after in pieces:
            priced = joined_total([before, after], separator, tokenizer, [sizes[before], sizes[after]])
            assert priced == count(before + separator + after), (before, after)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_a_long_whole_is_what_an_independent_count_says(name: str) -> None:
    choice = random.Random(8)
    for _ in range(8):
        texts = ["".join(choice.choices(HOSTILE, k=choice.randrange(1, 160))) for _ in range(150)]
        separator = choice.choice(SEPARATORS)
        sections = [
            {"id": str(i), "content": text, "shrink": choice.randrange(3), "min": choice.choice([0, 0, 5])}
            for i, text in enumerate(texts)
        ]
        least = COUNTERS[name](separator.join(s["content"] for s in sections if not s["shrink"]))  # type: ignore[misc]
        made = tokenbox.layout(
            sections, least + choice.randrange(3_000, 9_000), name, separator, policy="degrade"
        )
        assert len(made.text) > RECOUNTED
        assert made.pricing == "exact"
        assert made.total == COUNTERS[name](made.text) <= made.budget


@pytest.mark.parametrize(
    ("one", "other"),
    [({"keep": "head"}, {"keep": "tail"}), ({"marker": "..."}, {"marker": "[cut]"}), ({"cut": "line"}, {})],
)
def test_a_remembered_cut_is_of_the_sections_own_rules(one: dict[str, Any], other: dict[str, Any]) -> None:
    text = "one two\nthree four\nfive six\n"
    counter = Counter(get("utf8-bytes"))
    for rules in (one, other):
        section = Section("a", text, **rules)
        fresh = Counter(get("utf8-bytes")).cut(section, text, len(text), 15, 0)
        assert counter.cut(section, text, len(text), 15, 0) == fresh
    first, second = (
        counter.cut(Section("a", text, **rules), text, len(text), 15, 0) for rules in (one, other)
    )
    assert first != second


def test_a_remembered_cut_is_of_the_least_that_was_asked_for() -> None:
    section, text = Section("a", "one two three", cut="word"), "one two three"
    counter = Counter(get("utf8-bytes"))
    assert [counter.cut(section, text, 13, 5, least) for least in (0, 6, 0)] == [
        ("one", 3),
        ("one two", 7),
        ("one", 3),
    ]
