"""Plain mappings are read by column; the sections are those that ``Section.of`` makes of them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tokenbox import Section
from tokenbox.compose.columns import SectionColumns
from tokenbox.errors import InvalidSection, TokenboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

IDS = st.sampled_from(["a", "b", "cé", "", "\ud800", 7, None])
CONTENTS = st.sampled_from(["", "text", "日本", "\udfff", ["one", "two"], 5, None])
NUMBERS = st.sampled_from([0, 1, 500, -1, 2**53, -(2**53), 10**400, True, 1.0, 0.5, "1", "0.5", None])
FIELDS = {
    "id": st.one_of(st.text("abcdefgh", min_size=1), IDS),
    "content": st.one_of(st.text(max_size=5), CONTENTS),
    "priority": st.one_of(st.integers(0, 9), NUMBERS),
    "min": st.one_of(st.integers(0, 9), NUMBERS),
    "grow": st.one_of(st.integers(0, 9), NUMBERS),
    "shrink": st.one_of(st.integers(0, 9), NUMBERS),
    "role": st.sampled_from(["user", None]),
    "colour": st.just("red"),
}


@st.composite
def mappings(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = ["id", "content", *draw(st.lists(st.sampled_from(list(FIELDS)[2:6]), unique=True))]
    made = [
        draw(st.fixed_dictionaries({name: FIELDS[name] for name in names}))
        for _ in range(draw(st.integers(1, 4)))
    ]
    if draw(st.booleans()):
        change, name = draw(st.sampled_from(made)), draw(st.sampled_from(list(FIELDS)))
        change.pop(name, None)
        if draw(st.booleans()):
            change[draw(st.sampled_from(list(FIELDS)))] = 1
    return made


def one_by_one(given: Sequence[dict[str, object]]) -> list[Section] | str:
    try:
        return list(SectionColumns.of([Section.of(one, i) for i, one in enumerate(given)]))
    except TokenboxError as error:
        return str(error)


def by_column(given: Sequence[dict[str, object]]) -> list[Section] | str:
    try:
        return list(SectionColumns.of(list(given)))
    except TokenboxError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(mappings())
def test_the_same_sections_and_errors_as_one_by_one(given: list[dict[str, object]]) -> None:
    assert by_column(given) == one_by_one(given)


def test_a_layout_of_mappings_has_their_values_at_the_call() -> None:
    given: list[dict[str, Any]] = [
        {"id": f"s{i}", "content": f"text {i}", "priority": i, "shrink": 1} for i in range(40)
    ]
    columns = SectionColumns.of(given)
    found = tokenbox.layout(given, 100, "utf8-bytes")
    expected = tokenbox.layout([Section(**one) for one in given], 100, "utf8-bytes")
    given[39]["content"] = "other"
    assert found == expected
    assert found.inputs[39] == columns[39] == Section("s39", "text 39", 39, shrink=1)
    assert found.digest == expected.digest
    assert pickle.loads(pickle.dumps(found)) == expected


@pytest.mark.parametrize("grow", [0, 1])
def test_mappings_that_grow_or_fit(grow: int) -> None:
    given = [{"id": f"s{i}", "content": f"text {i}", "grow": grow} for i in range(40)]
    found = tokenbox.layout(given, 10_000, "utf8-bytes")
    assert found.text == "\n\n".join(f"text {i}" for i in range(40))


def test_a_duplicate_among_many_ids_is_found_at_once() -> None:
    """Each id was looked up in a copy of all before it: minutes for these."""
    ids = [*map(str, range(100_000)), "99999"]
    with pytest.raises(InvalidSection, match="two sections have the id '99999'"):
        SectionColumns.of([{"id": name, "content": "x"} for name in ids])
