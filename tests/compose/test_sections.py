"""Sections: every field is checked, weights are exact, nothing can be changed."""

# ruff: noqa: ANN401  # values of the wrong type are the point
from __future__ import annotations

import dataclasses
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox import Decision, Keep, Section, layout
from tokenbox.content.weight import exact_weight, weight_text
from tokenbox.errors import InvalidBudget, InvalidSection, LayoutError, TokenboxError


class Float(float):
    """A float that shows itself differently, as numpy's do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float({float(self)!r})"


class Text(str):
    __slots__ = ()


NESTED: list[Any] = []
for _ in range(200_000):
    NESTED = [NESTED]
WRONG: list[tuple[str, Any]] = [
    *(("max", value) for value in ("1/0%", "101%", "30", -1, 0.5)),
    *(
        ("content", value)
        for value in (None, 5, b"bytes", {"a"}, [float("nan")], [Ellipsis], Text("a"), NESTED, {10**5000: 1})
    ),
    *(("priority", value) for value in (None, "5", 5.0, True, 2**53, -(2**53), Decimal(5))),
    *(("min", value) for value in (None, "5", 5.0, True, -1, 2**53)),
    *(
        (name, value)
        for name in ("grow", "shrink")
        for value in (
            None,
            "",
            "a",
            "nan",
            "inf",
            "-inf",
            -1,
            -0.5,
            "-0.1",
            float("nan"),
            float("inf"),
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            True,
            False,
            "1e999999999",
            "1." + "1" * 200_000,
            "x" * 100_000,
            "1e-999999999",
            Decimal("1e2000"),
            [1],
            1j,
            Fraction(-1, 3),
            b"1",
        )
    ),
    *(("role", value) for value in (5, "", b"user", ["user"])),
    *(("extra", value) for value in (None, "text", 5, [5], [None], {"a"}, [b"x"], ["a", 5])),
    *(("keep", value) for value in (None, "front", "", 5, "HEAD", ["head"])),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={n}" for n, (name, _) in enumerate(WRONG)])
def test_a_wrong_field_is_named_with_its_section(name: str, value: Any) -> None:
    given_ = {"id": "my section", "content": "text", name: value}
    for make in (
        lambda: Section(**given_),
        lambda: Section.of(given_),
        lambda: layout([given_], 9, "chars4"),
    ):
        with pytest.raises(InvalidSection) as caught:
            make()
        assert caught.value.code == "invalid_section"
        assert "my section" in str(caught.value)
        assert name in str(caught.value)
        assert caught.value.details["field"] == name
        assert caught.value.details["id"] == "my section"


@pytest.mark.parametrize("value", [5, b"trim", ["trim"], 1.5, True])
def test_a_wrong_strategy_is_named_with_its_section(value: Any) -> None:
    """The one field whose error names neither its section nor itself in ``details``."""
    with pytest.raises(InvalidSection) as caught:
        Section("my section", "text", strategy=value)
    assert "my section" in str(caught.value)
    assert caught.value.details["field"] == "strategy"


@pytest.mark.parametrize("value", ["nope", "trim |>", "head(", ""])
def test_a_strategy_that_does_not_parse_is_a_lens_error(value: Any) -> None:
    with pytest.raises(TokenboxError) as caught:
        Section("my section", "text", strategy=value)
    assert caught.value.code in ("unknown_lens", "lens_syntax", "invalid_section")


@pytest.mark.parametrize("value", [None, "", 5, b"a", True, Text("a")])
def test_a_wrong_id(value: Any) -> None:
    with pytest.raises(InvalidSection, match="id") as caught:
        Section(value, "text")
    assert caught.value.details["field"] == "id"


@pytest.mark.parametrize(
    "given_",
    [
        {"id": "my section", "content": "a\ud800"},
        {"id": "my section", "content": "", "role": "\udfff"},
        {"id": "my section", "content": "", "extra": ["fine", "\ud800"]},
        {"id": "my section\ud800", "content": ""},
    ],
    ids=["content", "role", "extra", "id"],
)
def test_lone_surrogates_are_refused(given_: dict[str, Any]) -> None:
    with pytest.raises(TokenboxError, match="surrogate"):
        Section.of(given_)


@pytest.mark.parametrize("field", ["content", "role", "extra"])
def test_lone_surrogates_are_named_with_their_section(field: str) -> None:
    """Of a hundred sections, the error does not say which one, nor which field."""
    bad: Any = ["\ud800"] if field == "extra" else "\ud800"
    with pytest.raises(TokenboxError) as caught:
        Section.of({"id": "my section", "content": "", field: bad})
    assert "my section" in str(caught.value)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("key", "near"), [("prioritty", "priority"), ("contnt", "content"), ("Min", "min"), ("shrnk", "shrink")]
)
def test_an_unknown_key_is_answered_with_the_nearest(key: str, near: str) -> None:
    with pytest.raises(InvalidSection, match=f"'a'.*{key}.*{near}") as caught:
        Section.of({"id": "a", "content": "", key: 1})
    assert caught.value.details["field"] == key


@pytest.mark.parametrize("key", ["zzz", 5, None, "_digest", "base_size"])
def test_an_unknown_key_without_a_near_one(key: Any) -> None:
    with pytest.raises(InvalidSection, match="no field"):
        Section.of({"id": "a", "content": "", key: 1})


@pytest.mark.parametrize(("given_", "field"), [({}, "id"), ({"content": ""}, "id"), ({"id": "a"}, "content")])
def test_a_missing_key(given_: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSection, match=field):
        Section.of(given_, 3)


@pytest.mark.parametrize("value", [None, 5, "text", ("id", "content"), [("id", "a")]])
def test_what_is_no_section(value: Any) -> None:
    with pytest.raises(InvalidSection, match="section 1"):
        layout([Section("a", ""), value], 9, "chars4")


def test_duplicate_ids() -> None:
    with pytest.raises(InvalidSection, match="'b'") as caught:
        layout([{"id": name, "content": ""} for name in "abcb"], 9, "chars4")
    assert caught.value.details["id"] == "b"


@pytest.mark.parametrize("budget", [-1, 1.0, "5", None, True, 2**53, Decimal(5)])
def test_a_wrong_budget(budget: Any) -> None:
    with pytest.raises(InvalidBudget, match="budget") as caught:
        layout([], budget, "chars4")
    assert caught.value.code == "invalid_budget"


@pytest.mark.parametrize("separator", [None, 5, b"\n", "\ud800"])
def test_a_wrong_separator(separator: Any) -> None:
    with pytest.raises(TokenboxError, match="separator"):
        layout([], 5, "chars4", separator)


@pytest.mark.parametrize(
    "weight",
    [10**5000, Fraction(1, 10**5000), "0." + "1" * 5000, Decimal("1." + "3" * 5000)],
    ids=["int", "Fraction", "text", "Decimal"],
)
def test_a_weight_of_thousands_of_digits(weight: Any) -> None:
    """Accepted, and then a bare ValueError from ``digest`` and ``to_dict``."""
    try:
        section = Section("a", "text", shrink=weight)
    except InvalidSection:
        return
    assert layout([section], 9, "chars4").to_dict()["digest"]
    assert section.to_dict()["shrink"]


def test_a_subclass_of_float_is_a_float() -> None:
    """Weights are read by ``repr``, which a subclass (numpy.float64) may have changed."""
    assert Section("a", "", shrink=Float(0.1)).shrink == Fraction(1, 10)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        (0.30000000000000004, Fraction("0.30000000000000004")),
        ("1e3", 1000),
        (1e22, 10**22),
        (2.0, 2),
        ("2.50", Fraction(5, 2)),
        (Fraction(1, 3), Fraction(1, 3)),
        (-0.0, 0),
    ],
)
def test_weights_are_read_exactly(value: Any, exact: Any) -> None:
    weight = exact_weight(value)
    assert weight == exact
    assert type(weight) is (int if Fraction(exact).denominator == 1 else Fraction)
    assert Section("a", "", grow=value, shrink=value).grow == exact
    assert Section("a", "", shrink=value).critical == (exact == 0)


def test_shares_of_grow_have_a_bounded_denominator() -> None:
    """300 fractions of 900 digits took 16 seconds."""
    many = [Section(f"s{i}", "a", grow=Fraction(1, 10**899 + i), extra=["b"]) for i in range(2)]
    with pytest.raises(InvalidSection, match=r"2 different denominators of grow .* 1,000 digits") as caught:
        layout(many, 10, "utf8-bytes")
    assert caught.value.details["field"] == "grow"
    assert layout(many[:1], 10, "utf8-bytes").text == "a\n\nb"
    decimals = [Section(f"s{i}", "a", grow=f"1e-{i}", extra=["b"]) for i in range(1_001)]
    assert layout(decimals, 10**6, "utf8-bytes").sections[-1].decision is Decision.EXPANDED


@given(st.decimals(min_value=0, allow_nan=False, allow_infinity=False, places=12, max_value=10**15))
def test_decimal_weights_come_back_from_their_text(value: Decimal) -> None:
    assert exact_weight(weight_text(exact_weight(value))) == Fraction(value)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_float_weights_come_back_from_their_text(value: float) -> None:
    text = weight_text(exact_weight(value))
    assert float(text) == value
    assert exact_weight(text) == Fraction(repr(value))
    assert "e" not in text.lower()


@given(st.fractions(min_value=0, max_denominator=10**6))
def test_fractions_have_an_exact_text(value: Fraction) -> None:
    assert Fraction(weight_text(value)) == value


@pytest.mark.parametrize("shrink", [1, 0.25, "0.1", Fraction(7, 8), Fraction(1, 3)])
def test_a_section_comes_back_from_its_dict(shrink: Any) -> None:
    """``to_dict`` writes a third as "1/3", which no decimal can say."""
    section = Section(
        "a",
        "text",
        7,
        1,
        2,
        shrink,
        "squeeze |> trim",
        "user",
        ("x", "y"),
        "tail",
    )
    assert Section.of(section.to_dict()) == section


def test_a_section_cannot_be_changed() -> None:
    items = ["x"]
    section = Section("a", "text", extra=items, keep="ends")
    items.append("y")
    assert section.extra == ("x",)
    assert section.keep is Keep.ENDS
    for field in dataclasses.fields(Section):
        if field.init:
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(section, field.name, "b")
    with pytest.raises((AttributeError, TypeError)):
        section.colour = "red"  # type: ignore[attr-defined]
    assert hash(section) == hash(dataclasses.replace(section))


@pytest.mark.parametrize("keep", ["head", "tail", "middle", "ends"])
def test_keep_may_be_written_as_a_word(keep: Any) -> None:
    section = Section("a", "text", keep=keep)
    assert section.keep is Keep(keep)
    assert section.to_dict()["keep"] == keep
    assert (
        layout([section], 9, "chars4").digest
        == layout([Section("a", "text", keep=Keep(keep))], 9, "chars4").digest
    )


def test_errors_are_layout_errors() -> None:
    assert issubclass(InvalidSection, LayoutError)
    assert issubclass(InvalidBudget, LayoutError)


def test_the_result_of_a_strategy_is_not_replaced_by_a_longer_cut() -> None:
    section = Section("a", "x\n" + "y" * 18, shrink=1, strategy="head(1)")
    assert layout([section], 10, "utf8-bytes", reclaim=True).text == "x\n"


@pytest.mark.parametrize("budget", [1, 300, 3_000, 30_000])
@pytest.mark.parametrize("items", [["ab"] * 4_000, ["", "abc", "", *["", "a", "bcd"] * 1_000]])
def test_the_items_that_fit_are_found_in_few_counts(items: list[str], budget: int) -> None:
    """Each item counted the section from its start: 10,000 items of three words took two seconds."""
    read = 0

    def count(text: str) -> int:
        nonlocal read
        read += len(text)
        return len(text)

    fits = 0
    while fits < len(items) and len("--".join(filter(None, ("x", *items[: fits + 1])))) <= budget:
        fits += 1
    result = layout([{"id": "a", "content": "x", "grow": 1, "extra": items}], budget, count, separator="--")
    assert result.text == "--".join(filter(None, ("x", *items[:fits])))
    assert read < 30 * (budget + 100)
