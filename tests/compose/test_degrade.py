"""The policy ``degrade``: against its slow reference, and the cases that people ask for."""

# ruff: noqa: PT017  # an overflow is one of two right answers
from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests import reference_box, reference_degrade
from tests.compose.independent import COUNTERS, SEPARATORS
from tests.compose.test_layout_properties import boxes, budget_near, joined, separators
from tests.effort import examples
from tests.growth import growth
from tokenbox import ContextCriticalOverflow, Decision, Layout, Section, layout
from tokenbox.content.group import Group
from tokenbox.content.request import read_request
from tokenbox.content.section import Text
from tokenbox.errors import InvalidSection
from tokenbox.tokenizers import get

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WORDS = (
    "a",
    "bc",
    "def ",
    "  ",
    "\n",
    "\n\n",
    "word. ",
    "\u4e2d\u6587",
    "e\u0301",
    "\U0001f468\u200d\U0001f469",
    "xyz\r\n",
    "One! ",
    "Dr. ",
    "So? Two.\n",
)
FORMS = (
    "head(1)",
    "squeeze",
    "uppercase",
    "head(tokens=3)",
    "trim",
    Text(""),
    Text("short"),
    Text("a bit longer"),
)


def some_text(choice: random.Random) -> str:
    return "".join(choice.choices(WORDS, k=choice.randrange(9)))


def some_document(choice: random.Random) -> tuple[list[Section], dict[str, Group], str]:
    """Sections and groups of all kinds, as small as what goes wrong is."""
    names = [f"g{k}" for k in range(choice.randrange(3))]
    groups = {
        name: Group(
            name,
            min=choice.choice([0, 0, 4, 9]),
            max=choice.choice([None, None, 6, 12, "30%", "100%"]),  # type: ignore[arg-type]
            priority=choice.choice([100, 500, 500, 900]),
            parent=choice.choice([None, *names[:k]]),
        )
        for k, name in enumerate(names)
    }
    sections: list[Section] = []
    for i in range(choice.randrange(7)):
        critical = choice.randrange(6) == 0
        partners = [s.id for s in sections if s.critical == critical]
        content: Any = some_text(choice)
        if choice.randrange(8) == 0:
            content = [some_text(choice).strip() for _ in range(choice.randrange(4))]
        elif choice.randrange(8) == 0:
            content = {f"k{n}": some_text(choice) for n in range(choice.randrange(4))}
        sections.append(
            Section(
                f"s{i}",
                content,
                priority=choice.choice([100, 100, 500, 900]),
                min=choice.choice([0, 0, 0, 1, 3, 6]),
                shrink=0 if critical else choice.choice([1, 1, 2, "0.5"]),  # type: ignore[arg-type]
                grow=choice.choice([0, 0, 1, 2]),
                extra=tuple(some_text(choice) for _ in range(choice.choice([0, 0, 2]))),
                keep=choice.choice(["head", "head", "tail", "middle", "ends"]),
                forms=choice.sample(FORMS, choice.choice([0, 0, 1, 2, 3])),
                max=choice.choice([None, None, None, 2, 8, "20%"]),
                group=choice.choice([None, *names]),
                with_=choice.choice([None, None, None, *partners]),
                cut=choice.choice(["grapheme", "grapheme", "word", "sentence", "line", "never"]),
                role=choice.choice(["system", "user", "user", "assistant"]),
                marker=choice.choice(["", "", "", "~", "[{tokens}]"]),
            )
        )
    return sections, groups, choice.choice(SEPARATORS)


def against_reference(
    sections: Sequence[Section],
    groups: Mapping[str, Group],
    budget: int,
    name: str,
    separator: str,
    *,
    as_messages: bool = False,
) -> Layout | None:
    counter = CHAT if as_messages else get(name)
    whole = cost_of_messages if as_messages else None
    try:
        result = layout(sections, budget, counter, separator, policy="degrade", groups=groups)
    except ContextCriticalOverflow as error:
        with pytest.raises(reference_box.Overflow):
            reference_degrade.solve(sections, groups, budget, get(name), separator, whole)
        assert error.fixed_load > budget
        return None
    expected = reference_degrade.solve(sections, groups, budget, get(name), separator, whole)
    assert list(result.texts) == expected.texts
    assert [section.decision.value for section in result.sections] == expected.decisions
    counted = cost_of_messages(sections, result.texts) if as_messages else COUNTERS[name](result.text)
    assert result.total == expected.total == counted <= budget
    return result


CHAT = tokenbox.ChatFormat.openai("gpt-4o")


def cost_of_messages(sections: Sequence[Section], texts: Sequence[str]) -> int:
    sent = [{"role": s.role, "content": text} for s, text in zip(sections, texts, strict=True) if text]
    return CHAT.count_request(read_request(sent)).total if sent else 0


def check_promises(result: Layout, count: Callable[[str], int]) -> None:
    sizes = dict(zip((s.id for s in result.inputs), result.sizes, strict=True))
    for section, part in zip(result.inputs, result.sections, strict=True):
        if section.critical:
            assert part.text.startswith(section.content)
            continue
        if part.decision in (Decision.TRUNCATED, Decision.COMPRESSED):
            assert part.size >= section.min
        if isinstance(section.max, int):
            assert part.size <= section.max
        if section.with_ is not None and sizes[section.with_] and section.content:
            partner = next(s for s in result.sections if s.id == section.with_)
            assert (part.decision is Decision.DROPPED) == (partner.decision is Decision.DROPPED)
        assert part.size == count(part.text)
        before = part.base_size
        for step in part.steps:
            assert step.before == before or step.action is tokenbox.Action.RECLAIM
            before = step.after
        assert before == part.size


@pytest.mark.parametrize(
    ("name", "as_messages", "documents"),
    [
        ("utf8-bytes", False, 400),
        ("chars4", False, 100),
        ("o200k_base", False, 100),
        ("o200k_base", True, 100),
        pytest.param("utf8-bytes", False, 2_000, marks=pytest.mark.slow),
        pytest.param("o200k_base", False, 700, marks=pytest.mark.slow),
        pytest.param("o200k_base", True, 700, marks=pytest.mark.slow),
    ],
)
def test_random_documents_equal_the_slow_reference(name: str, as_messages: bool, documents: int) -> None:
    """Tens of thousands of them with ``TOKENBOX_HYPOTHESIS=deep``."""
    for seed in range(examples(documents)):
        choice = random.Random(f"{name} {documents} {seed}")
        sections, groups, separator = some_document(choice)
        whole = COUNTERS[name](joined(sections, separator))
        if as_messages:
            whole = cost_of_messages(sections, [section.content for section in sections])
        budget = choice.randrange(whole + 4)
        try:
            result = against_reference(sections, groups, budget, name, separator, as_messages=as_messages)
            if result is not None:
                check_promises(result, COUNTERS[name])
        except AssertionError as error:
            error.add_note(f"seed {seed}, budget {budget}, separator {separator!r}")
            raise


def test_the_smallest_change_is_one_that_can_be_made() -> None:
    sections = [Section("a", "x" * 9, with_="b"), Section("b", "x" * 9), Section("c", "x" * 12)]
    with pytest.raises(ContextCriticalOverflow) as caught:
        layout(sections, 29, "utf8-bytes", "", policy="degrade")
    assert caught.value.smallest_change["id"] == "c"
    flexible = [*sections[:2], Section("c", "x" * 12, shrink=1)]
    assert layout(flexible, 29, "utf8-bytes", "", policy="degrade").total == 29


STDLIB = ("configparser.py", "csv.py", "plistlib.py", "shlex.py", "calendar.py")


def test_five_files_with_outlines_are_all_there() -> None:
    """Dropping two of them, when the outlines of all fit, is what the letter of the model does."""
    library = Path(json.__file__).parents[1]
    sections = [
        Section(name, (library / name).read_text(encoding="utf-8"), shrink=1, strategy="outline('python')")
        for name in STDLIB
    ]
    letter = layout(sections, 6_000, "o200k_base")
    result = layout(sections, 6_000, "o200k_base", policy="degrade")
    assert [section.decision.value for section in letter.sections].count("dropped") >= 2
    assert [section.decision.value for section in result.sections].count("dropped") == 0
    assert all(section.text for section in result.sections)


def test_four_documents_are_four_shortened_ones() -> None:
    sections = [Section(f"d{i}", f"Document {i} says one thing. " * 250, shrink=1, min=200) for i in range(4)]
    letter = layout(sections, 1_500, "o200k_base", reclaim=True)
    result = layout(sections, 1_500, "o200k_base", policy="degrade")
    assert [section.decision.value for section in letter.sections].count("dropped") == 3
    assert [section.decision.value for section in result.sections] == ["truncated"] * 4
    assert result.sizes[:3] == (200, 200, 200)
    assert result.total == 1_500


def warned(*sections: dict[str, object]) -> list[str]:
    return [warning.code for warning in layout(sections, 100, "utf8-bytes").warnings]


def test_what_has_no_effect_is_said() -> None:
    assert warned({"id": "a", "content": "x", "min": 3, "strategy": "trim"}) == [
        "critical_strategy",
        "critical_min",
    ]
    assert warned({"id": "a", "content": "x", "shrink": 1, "min": 3}) == ["min_above_size"]
    assert warned({"id": "a", "content": "x", "extra": ["y"]}) == ["extra_without_grow"]
    assert warned({"id": "a", "content": "xyz", "shrink": 1, "min": 3, "grow": 1, "extra": ["y"]}) == []


@pytest.mark.parametrize("policy", ["facet", "degrade"])
def test_a_form_that_a_minimum_keeps_out_is_named(policy: str) -> None:
    lines = "same line\n" * 50
    section = {"id": "a", "content": lines, "shrink": 1, "strategy": "dedup_lines"}
    small = layout([section], 100, "utf8-bytes", policy=policy)
    kept = layout([{**section, "min": 60}], 100, "utf8-bytes", policy=policy)
    whole = layout([{**section, "min": 60}], 1_000, "utf8-bytes", policy=policy)
    assert small.sections[0].decision.value == "compressed"
    assert (kept.sections[0].decision.value, kept.total) == ("truncated", 100)
    assert [(one.code, one.message) for one in kept.warnings] == [
        (
            "form_below_min",
            f"section 'a': its form dedup_lines has {small.total} tokens, and min is 60: it was not taken.",
        )
    ]
    assert small.warnings == whole.warnings == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"forms": ["trim"]}, "forms needs policy='degrade'"),
        ({"max": 3}, "max needs policy='degrade'"),
        ({"group": "g"}, "group needs policy='degrade'"),
        ({"with": "b"}, "with needs policy='degrade'"),
    ],
)
def test_the_letter_of_the_model_has_no_such_fields(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSection, match=said):
        layout([{"id": "a", "content": "x", "shrink": 1, **fields}], 3, "utf8-bytes")


@pytest.mark.parametrize(
    ("content", "cut", "keep", "budget", "text"),
    [
        ("one two three", "word", "head", 9, "one two"),
        ("one two three", "word", "tail", 9, "two three"),
        ("one two three", "word", "head", 2, ""),
        ("One is. Two is. Three.", "sentence", "head", 18, "One is. Two is."),
        ("One is. Two is. Three.", "sentence", "tail", 10, "Three."),
        ("a\nbb\nccc\n", "line", "head", 6, "a\nbb\n"),
        ("a\nbb\nccc\n", "line", "ends", 7, "a\nccc\n"),
        ("a\n\u200dbb\n", "line", "head", 5, "a\n"),  # a line end is a border whatever follows
        ("a\nbb\nccc\n", "never", "head", 8, ""),
        (["a", "bb", "ccc"], "grapheme", "head", 6, "a\nbb\n"),
        (["a", "bb", "ccc"], "grapheme", "tail", 6, "bb\nccc"),
        ({"k": [1, 2], "m": "x"}, "grapheme", "head", 12, "k: [1, 2]\n"),
    ],
)
@pytest.mark.parametrize("policy", ["facet", "degrade"])
def test_cuts_fall_where_the_author_says(
    content: object, cut: str, keep: str, budget: int, text: str, policy: str
) -> None:
    section = {"id": "a", "content": content, "shrink": 1, "cut": cut, "keep": keep}
    assert layout([section], budget, "utf8-bytes", policy=policy).text == text


def test_a_marker_is_counted_and_part_of_the_size() -> None:
    section = Section("a", "one two three four", shrink=1, cut="word", marker=" [{tokens} left out]")
    assert layout([section], 17, "utf8-bytes").text == "one [15 left out]"
    assert layout([section], 16, "utf8-bytes").text == ""
    middle = Section("a", "abcdefghijklmnopqrstuvwxyz", shrink=1, keep="ends", marker="[{tokens}]")
    assert layout([middle], 12, "utf8-bytes").text == "abcd[18]wxyz"
    estimate = Section("a", "abcdefgh" * 20, shrink=1, marker="[{tokens}]")
    assert layout([estimate], 12, "chars4").text.endswith("[~29]")


@pytest.mark.parametrize("name", ["utf8-bytes", "chars4", "o200k_base"])
@given(data=st.data())
@settings(max_examples=examples(150))
def test_with_one_form_and_no_minimum_it_is_facet_with_reclaim(name: str, data: st.DataObject) -> None:
    drawn, separator = data.draw(boxes(with_strategy=False)), data.draw(separators)
    sections = [Section.of({**section.to_dict(), "min": 0}) for section in drawn]
    budget = budget_near(data.draw, COUNTERS[name](joined(sections, separator)))
    try:
        expected = reference_box.solve(sections, budget, get(name), separator, reclaim=True)
    except reference_box.Overflow:
        return
    result = layout(sections, budget, name, separator, policy="degrade")
    assert list(result.texts) == expected.texts
    assert [section.decision.value for section in result.sections] == expected.decisions


def test_sections_that_leave_together_leave_no_group_below_its_minimum() -> None:
    """Without either of them the group is large enough, without both it is not."""
    fields: dict[str, Any] = {"shrink": 1, "group": "g"}
    sections = [
        Section("a", "a" * 10, **fields),
        Section("b", "b" * 10, with_="a", **fields),
        Section("c", "c" * 10, priority=900, **fields),
    ]
    for budget in range(31):
        result = layout(
            sections, budget, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", min=20)}
        )
        assert result.total == 0 or 20 <= result.total <= budget
        result = layout(
            sections[:2], budget, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", min=15)}
        )
        assert result.total == 0 or 15 <= result.total <= budget


def test_a_group_is_cut_to_exactly_its_minimum() -> None:
    sections = [Section(name, name * 20, shrink=1, group="g") for name in "ab"]
    found = layout(sections, 25, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", min=25)})
    assert found.text == "a" * 5 + "b" * 20
    assert [len(one.steps) for one in found.sections] == [1, 0]


def test_a_group_of_exactly_its_minimum_stays() -> None:
    sections = [
        Section("a", "a" * 10, min=10, priority=1, shrink=1, group="g"),
        Section("b", "b" * 20, min=20, shrink=1, group="g"),
    ]
    found = layout(sections, 20, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", min=20)})
    assert found.text == "b" * 20


def test_a_smaller_form_gives_way_again_up_to_the_maximum_of_its_group() -> None:
    sections = [
        Section("c", "ccccc"),
        Section("b", "b" * 30, shrink=1, min=30),
        Section("a", "a" * 20, priority=1, shrink=1, min=5, forms=(Text("short"),), group="g"),
    ]
    found = layout(sections, 25, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", max=20)})
    assert found.text == "ccccc" + "a" * 20


def test_a_maximum_of_zero_is_not_no_maximum() -> None:
    bounded = Section("a", "abc", shrink=1, max=0)
    free = Section("a", "abc", shrink=1)
    assert Section.of(bounded.to_dict()) == bounded
    digests = {layout([one], 0, "utf8-bytes", policy="degrade").digest for one in (bounded, free)}
    assert len(digests) == 2


def test_extra_items_whose_price_is_too_low_end_the_search() -> None:
    """The price of each join is corrected by what the whole showed, but most joins leave with the maxima."""
    bounded = [Section(f"s{i}", "x", shrink=1, max=0) for i in range(10)]
    growing = Section("a", "a", shrink=1, grow=1, extra=[f"b c {i}" for i in range(9)])
    result = layout([*bounded, growing], 11, lambda text: len(text.split()), policy="degrade")
    assert result.text.startswith("a\n\nb c 0")
    assert result.total == len(result.text.split()) <= 11


@pytest.mark.parametrize(
    ("bound", "said"),
    [({"max": 4}, "it was 8 over its maximum"), ({"group": "g"}, "its group was 8 over its")],
)
def test_a_drop_for_a_maximum_does_not_speak_of_the_budget(bound: dict[str, Any], said: str) -> None:
    section = Section("a", "one two. fin", shrink=1, cut="sentence", **bound)
    result = layout([section], 99, "utf8-bytes", policy="degrade", groups={"g": Group("g", max=4)})
    assert next(step.why for step in result.sections[0].steps).startswith(said)
    pair = [
        Section("a", "one two. fin", shrink=1, cut="sentence", **bound),
        Section("b", "c", with_="a", shrink=1),
    ]
    result = layout(pair, 99, "utf8-bytes", policy="degrade", groups={"g": Group("g", max=4)})
    assert "budget" not in "".join(step.why for part in result.sections for step in part.steps)


@pytest.mark.parametrize("bound", [{"max": 1_500}, {"min": 1_000}, {"max": 1_500, "min": 1_000}])
@pytest.mark.parametrize("together", [False, True])
def test_bounds_of_a_large_group_take_linear_time(bound: dict[str, int], *, together: bool) -> None:
    """Each question for the size of a group added up all its sections: a minute for 8,000 of them."""

    def run_with(n: int) -> Layout:
        sections = [
            Section(
                f"s{i}",
                f"{i:010}",
                shrink=1,
                group="g",
                with_=f"s{i - 1}" if together and i % 2 else None,
            )
            for i in range(n)
        ]
        scaled: dict[str, Any] = {name: value * n // 200 for name, value in bound.items()}
        return layout(sections, 6 * n, "utf8-bytes", "", policy="degrade", groups={"g": Group("g", **scaled)})

    assert growth(run_with, 200) < 2.5


def test_groups_may_be_nested_64_deep() -> None:
    """Checking a chain of 1,000 took ten seconds, and eight times as long for each twice as many."""
    groups = {f"g{i}": {"parent": f"g{i + 1}"} for i in range(63)} | {"g63": {}}
    section = Section("a", "x", shrink=1, group="g0")
    assert layout([section], 1, "utf8-bytes", policy="degrade", groups=groups).total == 1
    groups |= {"g63": {"parent": "g64"}, "g64": {}}
    with pytest.raises(InvalidSection, match="group 'g0' is inside more than 63 others") as raised:
        layout([section], 1, "utf8-bytes", policy="degrade", groups=groups)
    assert raised.value.details["id"] == "g0"


@pytest.mark.parametrize("bound", [{"min": 1}, {"group": "g"}])
def test_a_text_that_counts_nothing_is_dropped_for_the_sake_of_its_separator(bound: dict[str, Any]) -> None:
    """With a minimum it was never dropped, and the search for a layout that fits did not end."""
    sections = [Section("a", "x" * 80), Section("b", "ok", shrink=1, **bound)]
    result = layout(
        sections, 20, lambda text: len(text) // 4, policy="degrade", groups={"g": Group("g", min=1)}
    )
    assert result.text == "x" * 80
    assert result.sections[1].decision is Decision.DROPPED


def test_a_function_that_counts_extra_items_as_more_in_the_whole_is_not_accused() -> None:
    # No flexible section is left, and the critical one took an item in that made the whole too large.
    sections = [
        {"id": "kept", "content": "a", "grow": 1, "extra": ["bbb"]},
        {"id": "out", "content": "c", "shrink": 1, "max": 0},
    ]
    made = layout(sections, 1, lambda text: (len(text) + 2) // 3, "", policy="degrade")
    assert (made.text, made.total) == ("a", 1)
