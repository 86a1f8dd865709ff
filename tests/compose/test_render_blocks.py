"""Blocks into a budget: never over it, as the slow reference does it, at every budget that matters."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference_ladder
from tests.compose.block_lists import block_lists, with_priorities
from tests.compose.independent import COUNTERS
from tests.effort import examples
from tokenbox.compose.blocks import BlockLayout, Verbosity, render_blocks
from tokenbox.content.block_kinds import BlockType, FormatHint, Lang, MediaType, Priority, TurnRole
from tokenbox.content.blocks import (
    AnnotationBlock,
    CodeBlock,
    ConversationBlock,
    DocumentBlock,
    ImageBlock,
    UnknownBlock,
)
from tokenbox.engine.ladder import Form, Rule
from tokenbox.errors import (
    ContextCriticalOverflow,
    EmptyInput,
    InvalidBudget,
    InvalidContent,
    RenderError,
    TokenizerError,
)
from tokenbox.render.registry import BUILTIN, RENDERERS
from tokenbox.render.templates import Framed, Markup
from tokenbox.render.xml import XML
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.content.blocks import Block

modes = st.sampled_from(BUILTIN)
COUNTED = ["utf8-bytes", "chars4", "o200k_base", "code-aware", "facet-units"]


def rendered(
    blocks: list[Block],
    tokenizer: str | Callable[[str], int],
    budget: int | None,
    mode: str,
    *,
    soft: bool = False,
    cache: CountCache | None = None,
) -> BlockLayout | None:
    """The layout, or None where nothing fits."""
    try:
        return render_blocks(blocks, tokenizer, budget, mode, soft=soft, cache=cache)
    except (EmptyInput, ContextCriticalOverflow):
        return None


def assert_sound(result: BlockLayout, count: Callable[[str], int]) -> None:
    assert result.total == count(result.text)
    assert result.budget is not None
    assert result.total <= result.budget
    assert result.over == 0


# Properties


@pytest.mark.parametrize("name", COUNTED)
@given(block_lists, st.integers(0, 400), modes)
def test_a_hard_budget_is_never_exceeded_by_an_independent_count(
    name: str, blocks: list[Block], budget: int, mode: str
) -> None:
    result = rendered(blocks, name, budget, mode)
    if result is not None:
        assert_sound(result, COUNTERS[name])


@given(block_lists, st.integers(0, 60), modes)
def test_nor_by_a_counter_of_which_nothing_is_known(blocks: list[Block], budget: int, mode: str) -> None:
    def words(text: str) -> int:
        return len(text.split())

    result = rendered(blocks, words, budget, mode)
    if result is not None:
        assert result.pricing == "conservative"
        assert_sound(result, words)


@pytest.mark.parametrize("name", ["utf8-bytes", "chars4", "o200k_base"])
@given(block_lists, st.integers(0, 400), modes)
def test_the_slow_reference_decides_the_same(name: str, blocks: list[Block], budget: int, mode: str) -> None:
    try:
        text, forms = reference_ladder.lay_out(blocks, budget, COUNTERS[name], mode)
    except reference_ladder.Overflow:
        with pytest.raises(ContextCriticalOverflow):
            render_blocks(blocks, name, budget, mode)
        return
    if not text:
        with pytest.raises(EmptyInput):
            render_blocks(blocks, name, budget, mode)
        return
    result = render_blocks(blocks, name, budget, mode)
    assert ([block.form.value for block in result.blocks], result.text) == (forms, text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["utf8-bytes", "o200k_base"])
@given(block_lists, modes)
def test_an_exact_fit_changes_nothing_and_one_less_does(name: str, blocks: list[Block], mode: str) -> None:
    ample = render_blocks(blocks, name, 10**6, mode)
    assert {step.rule for step in ample.log} <= {Rule.CLASS}
    exact = render_blocks(blocks, name, ample.total, mode)
    assert exact.text == ample.text
    less = rendered(blocks, name, ample.total - 1, mode)
    assert less is None or less.text != ample.text


@pytest.mark.slow
@given(block_lists, st.integers(0, 300), modes, st.booleans())
def test_the_same_input_has_the_same_digest(blocks: list[Block], budget: int, mode: str, soft: bool) -> None:
    one = rendered(blocks, "o200k_base", budget, mode, soft=soft)
    two = rendered(blocks, "o200k_base", budget, mode, soft=soft, cache=CountCache())
    assert one == two
    if one is not None:
        assert two is not None
        assert one.digest == two.digest


@given(block_lists, st.integers(0, 300), modes)
def test_soft_agrees_with_the_slow_reference(blocks: list[Block], budget: int, mode: str) -> None:
    count = COUNTERS["utf8-bytes"]
    try:
        expected: tuple[str, list[str]] | None = reference_ladder.lay_out_soft(blocks, budget, count, mode)
    except reference_ladder.Overflow:
        expected = None
    result = rendered(blocks, "utf8-bytes", budget, mode, soft=True)
    if expected is None or not expected[0]:
        assert result is None
    else:
        assert result is not None
        assert result.text == expected[0]


def test_the_smallest_change_of_a_soft_budget_is_enough_and_says_why() -> None:
    blocks: list[Block] = [
        DocumentBlock(name, b"x" * 40, FormatHint.MARKDOWN) for name in ("first", "second", "third")
    ]
    blocks += [AnnotationBlock.of_priority(place, Priority.CRITICAL) for place in range(3)]
    with pytest.raises(ContextCriticalOverflow, match="which soft lets the largest one exceed by") as caught:
        render_blocks(blocks, "utf8-bytes", 10, soft=True)
    enough = caught.value.smallest_change["minimum_budget"]
    assert isinstance(enough, int)
    assert render_blocks(blocks, "utf8-bytes", enough, soft=True).total > enough
    with pytest.raises(ContextCriticalOverflow):
        render_blocks(blocks, "utf8-bytes", enough - 1, soft=True)


# Many blocks


def test_thousands_of_tiny_blocks_fit_because_placeholders_merge() -> None:
    blocks: list[Block] = [
        CodeBlock(Lang.PYTHON, f"src/module_{i}.py", b"x = 1\n" * 30) for i in range(3_000)
    ]
    result = render_blocks(blocks, "o200k_base", 2_000)
    assert_sound(result, COUNTERS["o200k_base"])
    (line,) = result.merged
    shown = [block for block in result.blocks if block.form is not Form.MERGED]
    assert (line.priority, line.blocks + len(shown)) == (Priority.NORMAL, 3_000)
    assert line.tokens == sum(block.base_size for block in result.blocks if block.form is Form.MERGED)
    assert shown == list(result.blocks[: len(shown)])
    assert f'<omitted priority="normal" blocks="{line.blocks}" tokens="{line.tokens}" />' in result.text
    assert result.total > 1_950


def test_a_block_no_larger_than_its_placeholder_has_none() -> None:
    blocks: list[Block] = [ConversationBlock(TurnRole.USER, b"ok") for _ in range(400)]
    result = render_blocks(blocks, "o200k_base", 1_000, "minimal")
    assert_sound(result, COUNTERS["o200k_base"])
    assert {block.form for block in result.blocks} == {Form.FULL, Form.MERGED}


def test_the_least_urgent_class_is_merged_first_and_its_line_goes_first() -> None:
    files: list[Block] = [CodeBlock(Lang.GO, f"{i}.go", b"word " * 400) for i in range(6)]
    blocks = with_priorities(files, [Priority.HIGH] * 2 + [Priority.NORMAL] * 2 + [Priority.LOW] * 2)
    lines = []
    for budget in range(130, 10, -1):
        result = rendered(blocks, "o200k_base", budget, "minimal")
        if result is not None:
            assert_sound(result, COUNTERS["o200k_base"])
            lines.append(tuple(line.priority.display for line in result.merged))
    assert list(dict.fromkeys(lines)) == [
        (),
        ("low",),
        ("normal", "low"),
        ("high", "normal", "low"),
        ("high", "normal"),
        ("high",),
    ]


# Goldens: budgets 0, 1, exact fit, exact fit - 1


def example() -> list[Block]:
    """The example of the wire format's section 9.2, with real words."""

    def text(size: int) -> bytes:
        return (b"The quick brown fox jumps over the lazy dog. " * 20)[:size]

    return with_priorities(
        [
            CodeBlock(Lang.RUST, "a.rs", text(300), summary="Opens the pool."),
            CodeBlock(Lang.RUST, "b.rs", text(300)),
            CodeBlock(Lang.RUST, "c.rs", text(300), summary="Closes the pool again."),
            CodeBlock(Lang.RUST, "d.rs", text(300)),
            CodeBlock(Lang.RUST, "e.rs", text(300)),
        ],
        [Priority.NORMAL, Priority.BACKGROUND, Priority.HIGH, Priority.CRITICAL, Priority.LOW],
    )


@pytest.mark.parametrize("mode", BUILTIN)
def test_golden_at_every_budget_that_matters(mode: str, golden: Callable[[str, str], None]) -> None:
    exact = render_blocks(example(), "o200k_base", 10**6, mode).total
    parts = []
    for label, budget in [
        ("0", 0),
        ("1", 1),
        ("120", 120),
        ("200", 200),
        ("exact - 1", exact - 1),
        ("exact", exact),
    ]:
        for soft in (False, True):
            try:
                result = render_blocks(example(), "o200k_base", budget, mode, soft=soft)
                body = f"{result.explain()}\n\n{result.text}"
            except (EmptyInput, ContextCriticalOverflow) as error:
                body = f"{error.code}: {error}"
            parts.append(f"===== budget {label}{' soft' if soft else ''}\n{body}\n")
    golden(f"blocks/example.{mode}.txt", "\n".join(parts))


# Options


def test_filtered_types_cost_nothing_and_annotations_still_count_them() -> None:
    blocks: list[Block] = [
        ConversationBlock(TurnRole.USER, b"word " * 500),
        CodeBlock(Lang.GO, "a.go", b"x"),
        AnnotationBlock.of_priority(1, Priority.CRITICAL),
        UnknownBlock(0x42, b"u"),
    ]
    for types in (["code"], [BlockType.CODE], [1]):
        result = render_blocks(blocks, "utf8-bytes", 60, include_types=types)
        assert [(block.index, block.priority) for block in result.blocks] == [(1, Priority.CRITICAL)]
    assert "unknown 0x42" in render_blocks(blocks, "utf8-bytes", include_types=[0x42], mode="minimal").text


@pytest.mark.parametrize("types", [["annotation"], [], ["image"]])
def test_nothing_left_is_an_error(types: list[str]) -> None:
    blocks = [CodeBlock(Lang.GO, "a.go", b"x"), AnnotationBlock.of_priority(0, Priority.LOW)]
    with pytest.raises(EmptyInput):
        render_blocks(blocks, "utf8-bytes", include_types=types)


def test_no_blocks_and_everything_omitted_are_errors() -> None:
    with pytest.raises(EmptyInput):
        render_blocks([], "utf8-bytes")
    with pytest.raises(EmptyInput):
        render_blocks([CodeBlock(Lang.GO, "a.go", b"x" * 99)], "utf8-bytes", 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget": -1}, InvalidBudget),
        ({"budget": True}, InvalidBudget),
        ({"budget": 1.5}, InvalidBudget),
        ({"mode": "html"}, RenderError),
        ({"verbosity": "loud"}, RenderError),
        ({"include_types": ["kode"]}, RenderError),
        ({"include_types": [256]}, RenderError),
    ],
)
def test_bad_options_are_typed_errors(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        render_blocks([CodeBlock(Lang.GO, "a.go", b"x")], "utf8-bytes", **options)


def test_content_that_is_not_utf8_fails_only_where_it_would_be_shown() -> None:
    bad = CodeBlock(Lang.GO, "bad.go", b"\xff" * 4_000, summary="Bytes.")
    blocks = [CodeBlock(Lang.GO, "a.go", b"x"), bad]
    with pytest.raises(InvalidContent) as caught:
        render_blocks(blocks, "o200k_base")
    assert caught.value.details["index"] == 1
    assert "Bytes." in render_blocks(blocks, "o200k_base", verbosity="summary").text
    assert (
        'path="bad.go" tokens="1000"'
        in render_blocks([blocks[0], CodeBlock(Lang.GO, "bad.go", b"\xff" * 4_000)], "o200k_base", 80).text
    )


@pytest.mark.parametrize("budget", [None, 200])
def test_a_binary_image_becomes_a_placeholder(budget: int | None) -> None:
    image = ImageBlock(MediaType.PNG, "a cat", b"\x89PNG\xff" * 80)
    result = render_blocks([image, CodeBlock(Lang.GO, "a.go", b"x")], "o200k_base", budget)
    assert '<omitted type="image" desc="a cat" tokens="100" />' in result.text
    assert [block.form for block in result.blocks] == [Form.PLACEHOLDER, Form.FULL]


# Summaries made on demand


def test_a_summary_is_made_only_where_it_can_matter_and_once() -> None:
    asked: list[int] = []

    def summarize(index: int, room: int) -> str | None:
        assert room > 0
        asked.append(index)
        return f"outline {index}"

    blocks: list[Block] = [CodeBlock(Lang.GO, f"{i}.go", b"word " * 200) for i in range(4)]
    blocks[1] = CodeBlock(Lang.GO, "1.go", b"word " * 200, summary="its own")
    assert render_blocks(blocks, "o200k_base", 5_000, summarize=summarize).over == 0
    assert asked == []
    result = render_blocks(blocks, "o200k_base", 340, summarize=summarize)
    assert [block.form.value for block in result.blocks] == ["full", "summary", "summary", "summary"]
    assert asked == [2, 3]
    assert "outline 2" in result.text
    assert result.inputs[2].summary == "outline 2"


class Watched(Markup):
    """A mode that remembers what it rendered."""

    __slots__ = ("rendered",)

    rendered: list[tuple[str, str]]

    def _note(self, form: str, block: Block) -> None:
        assert isinstance(block, CodeBlock)
        self.rendered.append((form, block.path))

    def full(self, block: Block) -> Framed:
        self._note("full", block)
        return Markup.full(self, block)

    def placeholder(self, block: Block, tokens: int) -> Framed:
        self._note("placeholder", block)
        return Markup.placeholder(self, block, tokens)


@pytest.mark.parametrize("wrong", [5, b"a summary"])
def test_a_summary_that_is_no_text_is_named(wrong: object) -> None:
    blocks = [CodeBlock(Lang.GO, "a.go", b"word " * 100)]
    with pytest.raises(RenderError, match=r"summarize returned .* for block 0"):
        render_blocks(blocks, "o200k_base", 50, summarize=lambda _index, _room: wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [400, 3_000, 9_000, 100_000])
def test_each_form_is_rendered_at_most_once_and_only_if_it_can_matter(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(**{field.name: getattr(XML, field.name) for field in fields(XML)})
    object.__setattr__(watched, "rendered", [])
    monkeypatch.setitem(RENDERERS, "xml", watched)
    small: list[Block] = [CodeBlock(Lang.GO, f"small/{i}.go", b"word " * (20 + i)) for i in range(30)]
    large: list[Block] = [CodeBlock(Lang.GO, f"large/{i}.go", b"word " * 20_000) for i in range(9)]
    result = render_blocks(small + large, "o200k_base", budget)
    assert len(set(watched.rendered)) == len(watched.rendered)
    # What counts far more than there is room for is never rendered in full.
    assert [path for form, path in watched.rendered if form == "full" and path.startswith("large")] == [
        block.description for block in result.blocks if block.form is Form.FULL and block.base_size >= 20_000
    ]


# Records


def test_the_record_is_plain_data_and_says_which_rule_yielded() -> None:
    result = render_blocks(example(), "o200k_base", 200)
    record = result.to_dict()
    assert record["digest"] == result.digest
    assert record["pricing"] == "exact"
    forms = {block.description: block.form.value for block in result.blocks}
    assert forms["d.rs"] == "full"
    assert all(block.why for block in result.blocks if block.form is not Form.FULL)
    assert not result.blocks[3].why
    assert [line.to_dict() for line in result.merged] == record["merged"]


def test_overflow_lists_every_critical_block_and_the_smallest_change() -> None:
    blocks = with_priorities(
        [CodeBlock(Lang.GO, "a.go", b"a" * 100), CodeBlock(Lang.GO, "b.go", b"b" * 300)],
        [Priority.CRITICAL] * 2,
    )
    with pytest.raises(ContextCriticalOverflow) as caught:
        render_blocks(blocks, "utf8-bytes", 300)
    error = caught.value
    assert [name for name, _ in error.critical] == ["code a.go", "code b.go"]
    assert error.fixed_load == len(render_blocks(blocks, "utf8-bytes", 10**6).text)
    assert error.smallest_change["id"] == "code b.go"
    assert render_blocks(blocks[:3], "utf8-bytes", 300).total <= 300
    assert render_blocks(blocks, "utf8-bytes", error.fixed_load).over == 0


def test_an_inconsistent_counter_is_an_error_and_no_endless_search() -> None:
    calls = 0

    def growing(text: str) -> int:
        nonlocal calls
        calls += 1
        return calls * 1_000 if text else 0

    with pytest.raises((TokenizerError, ContextCriticalOverflow, EmptyInput)):
        render_blocks(
            with_priorities([CodeBlock(Lang.GO, "a.go", b"x")], [Priority.CRITICAL]), growing, 5_000
        )


@settings(max_examples=examples(30))
@given(block_lists, st.sampled_from([Verbosity.FULL, Verbosity.SUMMARY]), modes)
def test_full_and_summary_ignore_the_budget(blocks: list[Block], verbosity: Verbosity, mode: str) -> None:
    result = render_blocks(blocks, "o200k_base", 1, mode, verbosity=verbosity)
    assert result.text == render_blocks(blocks, "o200k_base", None, mode, verbosity=verbosity).text
    assert result.over == COUNTERS["o200k_base"](result.text) - 1
