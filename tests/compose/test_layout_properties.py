"""Properties of every layout, on hostile texts, against the slow reference and an independent count."""

# ruff: noqa: ANN401, PT017  # tokenizers of any kind; an overflow is one of two right answers
from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import tokenbox
from tests import reference_box
from tests.compose.independent import COUNTERS, HOSTILE, SEPARATORS
from tests.effort import examples
from tokenbox import Action, ContextCriticalOverflow, Decision, Layout, Section, layout, whatif
from tokenbox.compose.columns import is_short
from tokenbox.content.group import Group
from tokenbox.content.lenses import parse_pipeline
from tokenbox.content.section import Text
from tokenbox.tokenizers import CountCache, get

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMES = tuple(COUNTERS)
EXACTLY_PRICED = ("utf8-bytes", "facet-units", "chars4", "o200k_base", "cl100k_base")

hostile = st.lists(st.sampled_from(HOSTILE), max_size=6).map("".join)
any_text = st.one_of(hostile, hostile, st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
separators = st.one_of(st.sampled_from(SEPARATORS), hostile)
weights = st.sampled_from([1, 1, 2, "0.5", 0.1, Decimal("0.1"), Fraction(1, 3)])
pipelines = st.sampled_from(
    [None, None, None, "trim", "squeeze", "head(1)", "head(2)", "squeeze |> trim", "uppercase"]
)


@st.composite
def boxes(
    draw: st.DrawFn, *, critical: bool = True, with_strategy: bool = True, max_size: int = 6
) -> list[Section]:
    made = []
    for i in range(draw(st.integers(0, max_size))):
        is_critical = critical and draw(st.integers(0, 4)) == 0
        made.append(
            Section(
                f"s{i}",
                draw(any_text),
                priority=draw(st.sampled_from([-1, 100, 100, 500, 900])),
                min=draw(st.sampled_from([0, 0, 0, 1, 2, 5])),
                shrink=0 if is_critical else draw(weights),  # type: ignore[arg-type]
                grow=draw(st.sampled_from([0, 0, 1, 3, "0.25"])),  # type: ignore[arg-type]
                extra=tuple(draw(st.lists(hostile, max_size=3))),
                strategy=draw(pipelines) if with_strategy else None,
                keep=draw(st.sampled_from(list(tokenbox.Keep))),
            )
        )
    return made


def joined(sections: Sequence[Section], separator: str) -> str:
    return separator.join(section.content for section in sections if section.content)


def budget_near(draw: Callable[[Any], int], whole: int) -> int:
    """Anywhere up to a little more than the whole, which is where layouts differ."""
    return draw(st.one_of(st.integers(0, whole + 12), st.integers(max(0, whole - 3), whole + 3)))


def laid_out(
    sections: Sequence[Section], budget: int, tokenizer: Any, separator: str, **options: Any
) -> Layout | None:
    """The layout; None where it is the typed error, whose figures are checked by their own count."""
    try:
        return layout(sections, budget, tokenizer, separator, **options)
    except ContextCriticalOverflow as error:
        critical = [s for s in sections if s.shrink == 0]
        load = COUNTERS[tokenizer](joined(critical, separator))
        assert error.fixed_load == load > budget == error.budget
        assert error.deficit == load - budget
        assert error.critical == tuple((s.id, COUNTERS[tokenizer](s.content)) for s in critical)
        return None


def check(
    result: Layout, sections: Sequence[Section], budget: int, count: Callable[[str], int], separator: str
) -> None:
    """What must hold for any layout with an exact price."""
    # The budget is hard, by a count tokenbox has no part in; the figures are those of the text.
    assert result.total == count(result.text) <= budget == result.budget
    assert result.text == separator.join(text for text in result.texts if text)
    assert result.joins + sum(result.sizes) == result.total
    assert [s.id for s in result.sections] == [s.id for s in sections]
    assert result.fixed_load == count(joined([s for s in sections if s.shrink == 0], separator))
    fits = count(joined(sections, separator)) <= budget
    touched = []
    for section, part, text in zip(sections, result.sections, result.texts, strict=True):
        assert part.base_size == count(section.content)
        assert part.size == count(text)
        assert (part.decision is Decision.DROPPED) <= (text == "")
        if part.decision is Decision.KEPT:
            assert text == section.content
        # Of a large text under a plain function, the whole may not have been counted beforehand.
        counted = result.pricing == "exact" or is_short([s.content for s in sections])
        if section.shrink == 0 or (fits and counted):
            assert text.startswith(section.content)
            assert part.decision in (Decision.KEPT, Decision.EXPANDED)
        if part.decision in (Decision.TRUNCATED, Decision.COMPRESSED):
            assert part.size >= section.min
            assert part.size > 0
            assert part.size < part.base_size
        if not fits:
            assert part.decision is not Decision.EXPANDED
            assert len(text) <= len(section.content) or section.strategy is not None
        if section.shrink > 0 and part.decision is not Decision.KEPT and not fits:
            touched.append(section)
        # The steps tell the way from the base size to the size, without a gap.
        sizes = [
            part.base_size,
            *(size for step in part.steps for size in (step.before, step.after)),
            part.size,
        ]
        assert all(sizes[k] == sizes[k + 1] for k in range(0, len(sizes), 2))
        assert all(step.why for step in part.steps)
    if not result.reclaim:
        # Lower priority is exhausted before higher is touched.
        for section in touched:
            for other, part in zip(sections, result.sections, strict=True):
                if other.shrink > 0 and other.priority < section.priority:
                    assert part.decision is Decision.DROPPED
    check_record(result)


def check_record(result: Layout) -> None:
    record = json.loads(json.dumps(result.to_dict(), ensure_ascii=True))
    assert record["schema"] == "tokenbox.layout/1"
    assert (record["total"], record["budget"], record["joins"]) == (result.total, result.budget, result.joins)
    assert record["text"] == result.text
    assert record["tokenizer"] == result.tokenizer.to_dict()
    assert [tuple(s[k] for k in ("id", "decision", "base_size", "size")) for s in record["sections"]] == [
        (s.id, s.decision.value, s.base_size, s.size) for s in result.sections
    ]
    assert [len(s["steps"]) for s in record["sections"]] == [len(s.steps) for s in result.sections]
    assert record["digest"] == result.digest
    assert len(result.digest) == 64


def against_reference(
    sections: list[Section],
    budget: int,
    name: str,
    separator: str,
    *,
    reclaim: bool = False,
    literal: bool = False,
) -> None:
    result = laid_out(sections, budget, name, separator, reclaim=reclaim)
    try:
        expected = reference_box.solve(
            sections, budget, get(name), separator, reclaim=reclaim, literal=literal
        )
    except reference_box.Overflow as overflow:
        assert result is None
        assert overflow.fixed_load > budget
        return
    assert result is not None
    check(result, sections, budget, COUNTERS[name], separator)
    if result.pricing == "exact":
        assert list(result.texts) == expected.texts
        assert [s.decision.value for s in result.sections] == expected.decisions
        assert result.total == expected.total


@pytest.mark.parametrize("reclaim", [False, True])
@pytest.mark.parametrize("name", EXACTLY_PRICED)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_equals_the_slow_reference(name: str, reclaim: bool, data: st.DataObject) -> None:
    sections, separator = data.draw(boxes()), data.draw(separators)
    budget = budget_near(data.draw, COUNTERS[name](joined(sections, separator)))
    against_reference(sections, budget, name, separator, reclaim=reclaim)


@pytest.mark.slow
@given(sections=boxes(), separator=separators, data=st.data(), reclaim=st.booleans())
@settings(max_examples=examples(200))
def test_equals_the_letter_of_the_rule_where_counts_add_up(
    sections: list[Section], separator: str, data: st.DataObject, reclaim: bool
) -> None:
    budget = budget_near(data.draw, COUNTERS["utf8-bytes"](joined(sections, separator)))
    against_reference(sections, budget, "utf8-bytes", separator, reclaim=reclaim, literal=True)


@pytest.mark.parametrize("name", EXACTLY_PRICED)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_price_is_exact_where_the_joins_are_known(name: str, data: st.DataObject) -> None:
    sections, separator = data.draw(boxes(critical=False)), data.draw(separators)
    budget = budget_near(data.draw, COUNTERS[name](joined(sections, separator)))
    assert layout(sections, budget, name, separator).pricing == "exact"


@given(sections=boxes(), separator=separators, data=st.data(), reclaim=st.booleans())
@settings(max_examples=examples(200))
def test_an_estimate_without_cuts_keeps_every_promise_too(
    sections: list[Section], separator: str, data: st.DataObject, reclaim: bool
) -> None:
    count = COUNTERS["code-aware"]
    budget = budget_near(data.draw, count(joined(sections, separator)))
    result = laid_out(sections, budget, "code-aware", separator, reclaim=reclaim)
    if result is not None:
        check(result, sections, budget, count, separator)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_exactly_the_whole_changes_nothing_and_one_less_changes_something(
    name: str, data: st.DataObject
) -> None:
    sections = [dataclasses.replace(s, extra=()) for s in data.draw(boxes())]
    separator = data.draw(separators)
    text = joined(sections, separator)
    whole = COUNTERS[name](text)
    result = layout(sections, whole, name, separator)
    assert result.text == text
    assert result.total == whole
    assert not result.log
    assert {s.decision for s in result.sections} <= {Decision.KEPT}
    if whole:
        less = laid_out(sections, whole - 1, name, separator)
        assert less is None or (less.text != text and less.total < whole and less.log)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_whatif_equals_separate_layouts(name: str, data: st.DataObject) -> None:
    sections, separator = data.draw(boxes()), data.draw(separators)
    whole = COUNTERS[name](joined(sections, separator))
    budgets = data.draw(st.lists(st.integers(0, whole + 5), min_size=1, max_size=5))
    reclaim = data.draw(st.booleans())
    together = whatif(sections, budgets, name, separator, reclaim=reclaim, cache=CountCache())
    assert len(together) == len(budgets)
    for budget, result in zip(budgets, together, strict=True):
        alone = laid_out(sections, budget, name, separator, reclaim=reclaim, cache=CountCache())
        if alone is None:
            assert isinstance(result, ContextCriticalOverflow)
            assert result.budget == budget
        else:
            assert isinstance(result, Layout)
            assert result.to_dict() == alone.to_dict()
            assert result.texts == alone.texts


def applied(
    error: ContextCriticalOverflow, sections: Sequence[Section], budget: int
) -> tuple[list[Section], int]:
    """The sections and budget after the change the error asks for."""
    change = error.smallest_change
    if change["change"] == "raise_budget":
        return list(sections), budget + int(str(change["by"]))
    assert change["change"] == "make_flexible"
    return [dataclasses.replace(s, shrink=1) if s.id == change["id"] else s for s in sections], budget


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_the_smallest_change_makes_it_fit(name: str, data: st.DataObject) -> None:
    drawn, separator = data.draw(boxes()), data.draw(separators)
    sections = [s if i % 3 == 2 else dataclasses.replace(s, shrink=0) for i, s in enumerate(drawn)]
    count = COUNTERS[name]
    critical = [s for s in sections if s.shrink == 0]
    load = count(joined(critical, separator))
    assume(load > 0)
    budget = data.draw(st.integers(0, load - 1))
    with pytest.raises(ContextCriticalOverflow) as caught:
        layout(sections, budget, name, separator)
    changed, enough = applied(caught.value, sections, budget)
    assert layout(changed, enough, name, separator).total <= enough
    assert caught.value.smallest_change["minimum_budget"] == load
    assert layout(sections, load, name, separator).fixed_load == load


@given(data=st.data())
@settings(max_examples=examples(150), phases=[Phase.explicit, Phase.generate])
def test_the_smallest_change_is_the_smallest(data: st.DataObject) -> None:
    """A section shorter than the deficit by more than 8 is not looked at, but its absence also
    frees a separator, which may be longer than that."""
    name = "utf8-bytes"
    sections = [dataclasses.replace(s, shrink=0) for s in data.draw(boxes(max_size=4))]
    separator = data.draw(st.sampled_from(["", "\n\n", "-" * 20]))
    count = COUNTERS[name]
    load = count(joined(sections, separator))
    assume(load > 0)
    budget = data.draw(st.integers(0, load - 1))
    enough = [
        count(s.content)
        for i, s in enumerate(sections)
        if count(joined([*sections[:i], *sections[i + 1 :]], separator)) <= budget
    ]
    with pytest.raises(ContextCriticalOverflow) as caught:
        layout(sections, budget, name, separator)
    change = caught.value.smallest_change
    if enough:
        assert (change["change"], change.get("size")) == ("make_flexible", min(enough))
    else:
        assert change["change"] == "raise_budget"


# Counting functions nothing is known of.


class Sticky:
    """Super-additive: neighbours cost more together than apart, by their square root."""

    def __call__(self, text: str) -> int:
        return len(text) + int(len(text) ** 0.5) * (len(text) > 3)


class Punishing:
    """Each repetition of a character costs another token: what is cut changes what the rest costs."""

    def __call__(self, text: str) -> int:
        return len(text) + sum(text.count(c) for c in set(text) if text.count(c) > 2)


class Limited:
    """A counter that fails instead of being called for ever."""

    def __init__(self, count: Callable[[str], int], calls: int = 5_000) -> None:
        self.count, self.left = count, calls

    def __call__(self, text: str) -> int:
        self.left -= 1
        assert self.left > 0, "the counter is called without end"
        return self.count(text)


CALLABLES: dict[str, Callable[[str], int]] = {
    "len // 4": lambda text: len(text) // 4,
    "words": lambda text: len(text.split()),
    "constant overhead": lambda text: len(text) // 4 + 10 if text else 0,
    "overhead even for nothing": lambda text: len(text) // 4 + 3,
    "sub-additive: distinct characters": lambda text: len(set(text)),
    "super-additive: root": Sticky(),
    "super-additive: repetitions": Punishing(),
    "free": lambda _text: 0,
    "parity": lambda text: len(text) + len(text) % 2 * 3,
    "last character decides": lambda text: len(text) + (5 if text.endswith(("a", "\n", " ")) else 0),
}


@pytest.mark.parametrize("name", CALLABLES)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_a_plain_function_is_never_exceeded(name: str, data: st.DataObject) -> None:
    count = CALLABLES[name]
    sections = data.draw(boxes())
    separator = data.draw(st.sampled_from(SEPARATORS))
    budget = data.draw(st.integers(0, max(4, count(joined(sections, separator)) + 2)))
    reclaim = data.draw(st.booleans())
    try:
        result = layout(sections, budget, Limited(count), separator, reclaim=reclaim)
    except ContextCriticalOverflow as error:
        load = count(joined([s for s in sections if s.shrink == 0], separator))
        assert error.fixed_load == load > budget
        return
    assert count(result.text) <= budget or not result.text
    assert result.total == (count(result.text) if result.text else 0)
    assert result.joins + sum(result.sizes) == result.total
    assert result.text == separator.join(text for text in result.texts if text)
    assert not result.tokenizer.exact
    for section, part, text in zip(sections, result.sections, result.texts, strict=True):
        if section.shrink == 0:
            assert text.startswith(section.content)
        if part.decision in (Decision.TRUNCATED, Decision.COMPRESSED):
            assert count(text) >= section.min
    assert layout(sections, budget, count, separator, reclaim=reclaim).text == result.text


@pytest.mark.parametrize(
    ("count", "contents", "budget"),
    [
        (CALLABLES["len // 4"], ["abc"] * 5, 0),
        (CALLABLES["len // 4"], ["abc"] * 5, 2),
        (lambda text: len(text) // 100, ["a" * 99] * 50, 10),
        (lambda text: max(0, len(text) - 10), ["short"] * 20, 50),
    ],
)
def test_texts_that_cost_nothing_alone_do_not_hang_it(
    count: Callable[[str], int], contents: list[str], budget: int
) -> None:
    """A text whose count is 0 has no weight, so no correction ever makes the engine drop it."""
    sections = [Section(f"s{i}", content, shrink=1) for i, content in enumerate(contents)]
    assert count(layout(sections, budget, Limited(count), "").text) <= budget


@pytest.mark.parametrize(
    ("count", "contents", "separator"),
    [
        (CALLABLES["constant overhead"], ["x" * 40] * 10, "\n\n"),
        (CALLABLES["words"], ["a"] * 8, ""),
        (CALLABLES["sub-additive: distinct characters"], ["abcdef"] * 5, "-"),
        (COUNTERS["o200k_base"], ["a"] * 40, ""),
        ("code-aware", ["a"] * 8, ""),
    ],
    ids=["overhead", "words", "distinct characters", "o200k", "code-aware"],
)
def test_exactly_the_whole_changes_nothing_for_any_counter(
    count: Any, contents: list[str], separator: str
) -> None:
    """'Whatever fits as a whole is kept as a whole, and a budget of exactly the
    whole changes nothing'. With conservative pricing the whole is counted only where the parts are near."""
    sections = [Section(f"s{i}", content, shrink=1) for i, content in enumerate(contents)]
    text = separator.join(contents)
    result = layout(sections, COUNTERS.get(str(count), count)(text), count, separator)
    assert result.text == text
    assert not result.log


# The digest and the difference of two layouts.

BASE = Section(
    "a",
    "one  two three four",
    priority=400,
    min=2,
    grow=1,
    shrink=2,
    strategy="squeeze",
    role="user",
    extra=("more", "and more"),
)
OTHER = Section("b", "five six", role="user")
CHANGES: dict[str, Any] = {
    "id": "A",
    "content": "one  two three FOUR",
    "priority": 401,
    "min": 3,
    "grow": 2,
    "shrink": "2.5",
    "strategy": parse_pipeline("squeeze |> trim"),
    "role": "system",
    "extra": ("more", "and less"),
    "keep": "tail",
    "cut": "word",
    "marker": "[{tokens} tokens]",
    "forms": ("trim", Text("own")),
    "max": 10,
    "group": "h",
    "with_": "c",
    "items": ("one  two three four",),
}
DEGRADED = {"forms", "max", "group", "with_"}


def test_every_field_of_a_section_is_covered() -> None:
    assert set(CHANGES) == {f.name for f in dataclasses.fields(Section) if f.init}


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize("budget", [4, 12, 100])
def test_the_digest_changes_with_every_field_of_a_section(field: str, budget: int) -> None:
    def made(section: Section) -> Layout:
        if field not in DEGRADED:
            return layout([section, OTHER], budget, "o200k_base")
        groups = {"g": Group("g"), "h": Group("h")}
        others = [OTHER, Section("c", "seven", shrink=1)]
        return layout([section, *others], budget, "o200k_base", policy="degrade", groups=groups)

    base = dataclasses.replace(BASE, strategy=None) if field == "forms" else BASE
    changed = dataclasses.replace(base, **{field: CHANGES[field]})
    assert made(changed).digest != made(base).digest
    assert made(base).digest == made(Section.of(base.to_dict())).digest
    assert made(changed).digest == made(Section.of(changed.to_dict())).digest
    assert not made(base).diff(made(changed)).same


@pytest.mark.parametrize(
    "change",
    [
        {"budget": 101},
        {"separator": "\n"},
        {"reclaim": True},
        {"tokenizer": "cl100k_base"},
        {"sections": [OTHER, BASE]},
        {"sections": [BASE]},
        {"sections": [BASE, OTHER, Section("c", "")]},
    ],
    ids=str,
)
def test_the_digest_changes_with_every_input_of_a_layout(change: dict[str, Any]) -> None:
    given_: dict[str, Any] = {
        "sections": [BASE, OTHER],
        "budget": 100,
        "tokenizer": "o200k_base",
        "separator": "\n\n",
    }
    before, after = layout(**given_), layout(**(given_ | change))
    assert before.digest != after.digest
    assert not before.diff(after).same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([Section("ab", "c")], [Section("a", "bc")]),
        ([Section("a", "", extra=("b", "c"))], [Section("a", "", extra=("bc",))]),
        ([Section("a", "", extra=("", "b"))], [Section("a", "", extra=("b", ""))]),
        ([Section("a", "", role="tail")], [Section("a", "", keep="tail")]),
        ([Section("a", "", grow=1)], [Section("a", "", shrink=1)]),
        ([Section("a", "x"), Section("b", "")], [Section("a", ""), Section("b", "x")]),
    ],
)
def test_fields_do_not_run_into_each_other_in_the_digest(one: list[Section], other: list[Section]) -> None:
    assert layout(one, 9, "utf8-bytes", "").digest != layout(other, 9, "utf8-bytes", "").digest


def test_weights_that_are_equal_have_one_digest() -> None:
    digests = {
        layout([Section("a", "text", shrink=shrink)], 3, "utf8-bytes").digest
        for shrink in (0.5, "0.5", "0.50", Decimal("5e-1"), Fraction(1, 2))
    }
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["utf8-bytes", "o200k_base", "code-aware"])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_diff_of_a_rerun_is_empty_and_of_two_budgets_tells_the_first_byte(
    name: str, data: st.DataObject
) -> None:
    sections = data.draw(boxes(critical=False))
    separator = data.draw(separators)
    whole = COUNTERS[name](joined(sections, separator))
    a, b = (layout(sections, data.draw(st.integers(0, whole + 3)), name, separator) for _ in range(2))
    again = layout(sections, a.budget, name, separator)
    assert again.digest == a.digest
    assert a.diff(again).same
    found = a.diff(b)
    assert found.same == (a.budget == b.budget)
    assert found.first_field == (None if found.same else "budget")
    one, two = a.text.encode(), b.text.encode()
    if one == two:
        assert found.text is None
    else:
        assert found.text is not None
        byte = found.text.byte
        assert one[:byte] == two[:byte]
        # A character is not cut, so the first differing byte is within the four bytes that follow.
        assert one[byte : byte + 4] != two[byte : byte + 4]


def test_a_step_says_who_what_why_and_how_much() -> None:
    sections = [
        Section("a", "x" * 10, priority=1, shrink=1),
        Section("b", "  y" * 4, priority=2, shrink=1, strategy="trim"),
    ]
    result = layout(sections, 9, "utf8-bytes", "")
    assert [(s.section, s.action, s.before, s.after, s.over) for s in result.log] == [
        (0, Action.DROP, 10, 0, 13),
        (1, Action.COMPRESS, 12, 10, 3),
        (1, Action.TRUNCATE, 10, 9, 1),
    ]
    assert [s.decision for s in result.sections] == [Decision.DROPPED, Decision.TRUNCATED]
    assert "13" in result.log[0].why


def test_messages_have_the_roles_of_what_was_emitted() -> None:
    sections = [
        Section("a", "system text", role="system"),
        Section("b", "gone", role="user", shrink=1, priority=1),
        Section("c", "", role="user"),
        Section("d", "user text", role="user", shrink=1),
    ]
    assert layout(sections, 17, "utf8-bytes", "").messages() == [
        {"role": "system", "content": "system text"},
        {"role": "user", "content": "user t"},
    ]
    with pytest.raises(tokenbox.TokenboxError, match="'x' has no role"):
        layout([*sections, Section("x", "y")], 90, "utf8-bytes", "").messages()


def test_extra_items_that_cost_more_than_thought_never_push_out_what_fits() -> None:
    def count(text: str) -> int:
        return len(text) + (10 if "Z" in text and "a" in text else 0)

    sections = [
        {"id": "a", "content": "aaaa", "shrink": 1},
        {"id": "b", "content": "bbbb", "shrink": 1, "grow": 1, "extra": ["Z"]},
    ]
    result = layout(sections, 14, count)
    assert result.text == "aaaa\n\nbbbb"
    assert not result.log
    assert layout(sections, 23, count).text == "aaaa\n\nbbbb\n\nZ"
