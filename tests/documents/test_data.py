"""Documents that are parsed already, and the finished document."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tokenbox import ContextCriticalOverflow, Layout, Section
from tokenbox.documents import DocumentCode, LayoutDocument, parse_document
from tokenbox.errors import DocumentError, InvalidBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent


def parse(data: object) -> LayoutDocument:
    return parse_document(data, base=HERE)


def one(**fields: object) -> Section:
    return parse({"sections": [{"id": "a", "content": "x", **fields}]}).sections[0]


def refused(data: object) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse(data)
    assert caught.value.line is None
    assert len(str(caught.value)) < 400
    return caught.value


def test_defaults_are_those_of_the_library() -> None:
    assert parse({"sections": []}) == LayoutDocument(())
    assert one() == Section("a", "x")
    document = LayoutDocument(())
    assert (document.budget, document.tokenizer, document.separator, document.reclaim) == (
        None,
        "o200k_base",
        "\n\n",
        False,
    )


def test_what_a_section_states_goes_before_the_defaults() -> None:
    data = {
        "defaults": {"priority": 1, "min": 2, "grow": 3, "shrink": 4, "role": "user", "keep": "tail"},
        "sections": [
            {"id": "a", "content": "x"},
            {
                "id": "b",
                "content": "x",
                "priority": 0,
                "min": 0,
                "grow": 0,
                "shrink": 0,
                "role": None,
                "keep": "head",
            },
        ],
    }
    a, b = parse(data).sections
    assert (a.priority, a.min, a.grow, a.shrink, a.role, a.keep.value) == (1, 2, 3, 4, "user", "tail")
    assert b == Section("b", "x", priority=0)


def test_any_mapping_and_sequence_will_do() -> None:
    data = MappingProxyType({"sections": (MappingProxyType({"id": "a", "content": "x", "extra": ("y",)}),)})
    assert parse(data).sections == (Section("a", "x", extra=("y",)),)


def test_a_section_record_reads_back() -> None:
    section = Section("a", "é", 3, 1, Fraction(1, 3), "0.1", "squeeze", "user", ("y",), "tail")
    assert parse({"sections": [section.to_dict()]}).sections == (section,)


def test_the_data_is_left_as_it_was() -> None:
    data = {"defaults": {"shrink": 1}, "sections": [{"id": "a", "content": "x"}]}
    parse(data)
    assert data == {"defaults": {"shrink": 1}, "sections": [{"id": "a", "content": "x"}]}


@pytest.mark.parametrize(
    ("value", "weight"),
    [
        (0.1, Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        ("1e-3", Fraction(1, 1000)),
        (2.0, 2),
        ("+.5", Fraction(1, 2)),
    ],
)
def test_floats_are_what_they_look_like(value: object, weight: Fraction) -> None:
    assert one(grow=value).grow == weight


@pytest.mark.parametrize("value", [8000, 8000.0, Decimal("8e3")])
def test_a_whole_number_is_whole_however_it_is_written(value: object) -> None:
    budget = parse({"budget": value, "sections": []}).budget
    assert budget == 8000
    assert type(budget) is int


NO_WEIGHTS: list[object] = [
    *(True, None, [], {}, b"1", 1j),
    *(-1, -0.5, "-1", math.nan, math.inf, "nan", "Infinity", "", " 1", "1_0", "1/0", "1e1001", "٣"),
    *("0." + "1" * 2000, 10**2000, Decimal("NaN"), Decimal("sNaN")),
]


@pytest.mark.parametrize("value", NO_WEIGHTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("key", ["grow", "shrink"])
def test_what_is_no_weight(key: str, value: object) -> None:
    error = refused({"sections": [{"id": "a", "content": "x", key: value}]})
    assert (error.code, error.path) == (DocumentCode.BAD_VALUE, f"sections[0].{key}")


NO_WHOLE_NUMBERS: list[object] = [
    *(True, False, None, "1", [], 1.5, Decimal("0.1")),
    *(2**53, -(2**53), math.nan, math.inf, Decimal("sNaN"), Decimal("1e999999"), 10**5000),
]


@pytest.mark.parametrize("value", NO_WHOLE_NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("key", ["min", "priority", "budget"])
def test_what_is_no_whole_number(key: str, value: object) -> None:
    where = {key: value} if key == "budget" else {"defaults": {key: value}}
    error = refused({"sections": [], **where})
    path = key if key == "budget" else f"defaults.{key}"
    assert (error.code, error.path) == (DocumentCode.BAD_VALUE, path)


def test_a_group_of_the_name_of_a_section_is_refused_at_its_place() -> None:
    """It was the error of a section, without the file and the key."""
    error = refused({"groups": {"a": {}}, "sections": [{"id": "a", "content": "x", "group": "a"}]})
    assert (error.code, error.path) == (DocumentCode.BAD_VALUE, "sections[0].group")


def test_priority_may_be_negative_and_min_may_not() -> None:
    assert one(priority=-5).priority == -5
    assert refused({"sections": [], "defaults": {"min": -1}}).code == DocumentCode.BAD_VALUE


@pytest.mark.parametrize("value", [1, None, b"x", datetime(2024, 1, 1, tzinfo=UTC), object()])
def test_what_is_no_text(value: object) -> None:
    error = refused({"sections": [{"id": "a", "content": value}]})
    assert (error.code, error.path) == (DocumentCode.WRONG_TYPE, "sections[0].content")


@pytest.mark.parametrize(
    "data", [None, 1, "x", [], b"{}", {1: 2}, {"sections": None}, {"sections": "ab"}, {None: 1}]
)
def test_what_is_no_document(data: object) -> None:
    assert refused(data).code == DocumentCode.WRONG_TYPE


def test_the_path_of_a_strange_key_is_readable() -> None:
    error = refused({"sections": [{"id": "a", "content": "x", "two words\n": 1}]})
    assert error.path == r"sections[0].'two words\n'"
    assert refused({"x" * 10_000: 1}).code == DocumentCode.UNKNOWN_KEY


def test_data_that_contains_itself() -> None:
    data: dict[str, object] = {}
    data["sections"] = [data]
    assert refused(data).path == "sections[0].sections"


def test_names_go_into_the_error() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document({}, base=HERE, name="<stdin>")
    assert str(caught.value).startswith("<stdin> at sections: ")


# The document, laid out.


def document(**keys: object) -> LayoutDocument:
    sections = [{"id": "a", "content": "aaaa"}, {"id": "b", "content": "bbbb", "shrink": 1}]
    return parse({"sections": sections, "tokenizer": "utf8-bytes", "separator": "-", **keys})


def test_a_document_lays_itself_out() -> None:
    asked: Mapping[str, object] = document(budget=7).layout().to_dict()
    assert asked == tokenbox.layout(document().sections, 7, "utf8-bytes", "-").to_dict()
    assert asked["text"] == "aaaa-bb"


def test_what_the_caller_gives_goes_first() -> None:
    assert document(budget=9).layout(4).text == "aaaa"
    assert document(budget=9).layout(0 + 9, "chars4").tokenizer.name == "chars4"
    assert document(budget=100).layout(tokenizer=lambda text: 2 * len(text)).total == 18
    with pytest.raises(ContextCriticalOverflow):
        document(budget=9).layout(0)
    with pytest.raises(InvalidBudget):
        document(budget=9).layout(-1)


def test_no_budget_anywhere_is_an_error_that_says_so() -> None:
    with pytest.raises(DocumentError, match="no budget, and none was given") as caught:
        document().layout()
    assert (caught.value.code, caught.value.path) == (DocumentCode.MISSING_KEY, "budget")


def test_reclaim_is_passed_on() -> None:
    assert document(budget=9, reclaim=True).layout().reclaim is True
    assert document(budget=9).layout().reclaim is False


def test_whatif_over_a_document() -> None:
    small, exact = document(budget=1).whatif([3, 9])
    assert isinstance(small, ContextCriticalOverflow)
    assert isinstance(exact, Layout)
    assert exact.text == "aaaa-bbbb"
