"""What differs between two layouts, as objects and as records read back from JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox.compose.diff import LayoutValues, diff, first_change
from tokenbox.errors import LayoutError

SECTIONS: list[dict[str, object]] = [
    {"id": "rules", "content": "Answer in English."},
    {"id": "notes", "content": "one two three four", "shrink": 1},
]
TEXTS = st.text(st.sampled_from("ab\né中👩"), max_size=40)


def made(
    budget: int = 100, sections: list[dict[str, object]] = SECTIONS, **options: object
) -> tokenbox.Layout:
    return tokenbox.layout(sections, budget, "utf8-bytes", **options)  # type: ignore[arg-type]


def saved(layout: tokenbox.Layout) -> LayoutValues:
    return LayoutValues.from_dict(json.loads(json.dumps(layout.to_dict())))


@given(TEXTS, TEXTS, TEXTS)
def test_first_change_is_where_the_texts_part(common: str, a: str, b: str) -> None:
    change = first_change(common + a, common + b)
    if a == b:
        assert change is None
        return
    assert change is not None
    old, new = (common + a).encode(), (common + b).encode()
    assert old[: change.byte] == new[: change.byte]
    head = old[: change.byte].decode()
    assert change.line == head.count("\n") + 1
    assert head.endswith(change.common)
    assert (common + a)[len(head) :].startswith(change.before)
    assert (common + b)[len(head) :].startswith(change.after)
    assert change.before[:1] != change.after[:1]


@pytest.mark.parametrize("length", [4_095, 4_096, 4_097, 20_000])
def test_first_change_of_long_texts(length: int) -> None:
    change = first_change("x" * length + "a", "x" * length + "b")
    assert change is not None
    assert change.byte == length


def test_nothing_differs_from_itself_or_its_record() -> None:
    layout = made()
    for other in (layout, made(), saved(layout)):
        assert diff(layout, other).same
        assert diff(other, layout).first_field is None
        assert str(diff(layout, other)) == "no difference"


def test_budget_is_the_first_to_differ() -> None:
    change = diff(made(100), made(30))
    assert (change.same, change.first_field) == (False, "budget")
    assert [(value.field, value.before, value.after) for value in change.values] == [
        ("budget", 100, 30),
        ("total", 38, 30),
    ]
    (section,) = change.sections
    assert (section.id, section.what) == ("notes", ("decision", "size", "text"))
    assert change.text is not None
    assert change.text.byte == 30


@pytest.mark.parametrize(
    ("sections", "what"),
    [
        ([{**SECTIONS[0]}, {**SECTIONS[1], "priority": 7}], {"notes": ("priority",)}),
        ([{**SECTIONS[0]}, {**SECTIONS[1], "keep": "tail", "min": 1}], {"notes": ("min", "keep")}),
        ([SECTIONS[1], SECTIONS[0]], {"notes": ("place",), "rules": ("place",)}),
        ([SECTIONS[0]], {"notes": ("removed",)}),
        ([*SECTIONS, {"id": "new", "content": ""}], {"new": ("added",)}),
        (
            [{**SECTIONS[0], "content": "Answer in Spanish."}, SECTIONS[1]],
            {"rules": ("text", "content")},
        ),
    ],
)
def test_what_differs_in_a_section(
    sections: list[dict[str, object]], what: dict[str, tuple[str, ...]]
) -> None:
    change = diff(made(), made(sections=sections))
    assert {section.id: section.what for section in change.sections} == what
    assert not change.same


def test_options_differ_though_the_text_does_not() -> None:
    change = diff(made(), made(reclaim=True))
    assert (change.first_field, change.text) == ("reclaim", None)
    assert "the text is the same" in str(change)


def test_a_record_that_knows_less_still_sees_the_digest() -> None:
    """The dropped content changed: nothing that a record shows differs, but its digest does."""
    a = made(18)
    b = made(18, [SECTIONS[0], {**SECTIONS[1], "content": "one two three five"}])
    assert a.text == b.text
    assert diff(a, b).first_field == "sections['notes'].content"
    by_record = diff(saved(a), saved(b))
    assert (by_record.same, by_record.first_field) == (False, "digest")
    assert "the digests differ" in str(by_record)


def test_an_estimate_is_marked() -> None:
    estimate = tokenbox.layout(SECTIONS, 100, "chars4")
    text = str(diff(made(), estimate))
    assert "38" in text
    assert "-> ~9" in text
    assert "kept 18" in text
    assert "-> kept ~4" in text


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other/1"},
        {"budget": "100"},
        {"budget": True},
        {"text": None},
        {"tokenizer": None},
        {"tokenizer": {"name": "x"}},
        {"sections": {}},
        {"sections": [1]},
        {"sections": [{"id": "a", "decision": "kept", "base_size": 1}]},
        {"sections": [{"id": "a", "decision": "eaten", "base_size": 1, "size": 1}]},
        {"sections": [{"id": "a", "decision": "kept", "base_size": 1, "size": 1}] * 2},
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LayoutError, match="not a saved layout: "):
        LayoutValues.from_dict({**made().to_dict(), **change})


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(LayoutError, match="not a saved layout: it is not an object"):
        LayoutValues.from_dict(value)


def test_the_repr_of_a_difference_does_not_repeat_the_texts() -> None:
    text = "word " * 400
    laid_out = tokenbox.layout([{"id": "a", "content": text, "shrink": 1}], 900, "utf8-bytes")
    assert text[:100] not in repr(laid_out.diff(laid_out.whatif([500])[0]))  # type: ignore[arg-type]  # it fits
