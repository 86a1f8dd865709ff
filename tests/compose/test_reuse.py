"""Laying out again after a change: what comes again is not measured, and the result is the same."""

from __future__ import annotations

import gc
import random
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tokenbox import Section
from tokenbox.compose import columns, counting, seamed
from tokenbox.compose.reuse import LastResult, Measurements, ParsedSections
from tokenbox.errors import InvalidSection

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox import Layout

WORDS = ("one", " two", "\n\nthree.", " four!", "/five", "  six", "seven)", " the ", "")
CHANGES = ("replace", "insert", "remove", "swap")
COUNTERS = ("o200k_base", "utf8-bytes", "code-aware")


def mapping(**fields: object) -> dict[str, object]:
    return fields


def made(n: int, form: Callable[..., Any], seed: int = 1) -> list[Any]:
    choose = random.Random(seed)
    return [
        form(
            id=f"s{i}", content=f"{i}" + "".join(choose.choices(WORDS, k=9)), priority=i % 5, shrink=1 + i % 3
        )
        for i in range(n)
    ]


def fresh(given: list[Any], budget: int, counter: Any) -> Layout:  # noqa: ANN401
    """The layout where nothing is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        last = Measurements()
        patch.setattr(counting, "MEASUREMENTS", last)
        patch.setattr(seamed, "MEASUREMENTS", last)
        patch.setattr(columns, "PARSED", ParsedSections())
        patch.setattr(columns, "_UNIQUE", LastResult())
        patch.setattr(columns, "_RANKED", LastResult())
        patch.setattr(counting, "DEFAULT_CACHE", tokenbox.tokenizers.CountCache())
        return tokenbox.layout(given, budget, counter)


@settings(max_examples=examples(30))
@given(
    st.sampled_from([Section, mapping]),
    st.sampled_from(COUNTERS),
    st.lists(
        st.tuples(st.sampled_from(["replace", "insert", "remove", "swap"]), st.integers(0, 200)), max_size=6
    ),
)
def test_after_any_change_the_layout_is_that_of_a_fresh_start(
    form: Callable[..., Any], counter: str, changes: list[tuple[str, int]]
) -> None:
    inputs = made(60, form)
    for number, (change, where) in enumerate([("insert", 0), *changes]):
        place = where % len(inputs)
        new = form(id=f"new{number}", content=f"/{number} new text. " * number, priority=number, shrink=1)
        if change == "replace":
            inputs[place] = new
        elif change == "insert":
            inputs.insert(place, new)
        elif change == "remove":
            del inputs[place]
        else:
            inputs[place], inputs[0] = inputs[0], inputs[place]
        budget = 60 * (number + 5)
        again, first = tokenbox.layout(inputs, budget, counter), fresh(inputs, budget, counter)
        assert again.to_dict() == first.to_dict()


def test_a_function_is_asked_for_what_is_new() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    inputs = made(500, Section)
    assert len(tokenbox.layout(inputs, 10_000, count).base_sizes) == 500
    assert len(asked) >= 500
    asked.clear()
    inputs[250] = Section("other", "an other text", shrink=1)
    again = tokenbox.layout(inputs, 10_000, count)
    assert len(asked) < 20
    assert again.to_dict() == fresh(inputs, 10_000, count).to_dict()


def test_a_function_that_changed_its_mind_is_asked_again() -> None:
    each = 1

    def count(text: str) -> int:
        return each * len(text)

    inputs = made(500, Section)
    tokenbox.layout(inputs, 10_000, count)
    each = 2
    assert tokenbox.layout(inputs, 10_000, count).to_dict() == fresh(inputs, 10_000, count).to_dict()


def test_a_method_is_known_by_its_object() -> None:
    class Weigher:
        def __init__(self, each: int) -> None:
            self.each, self.asked = each, 0

        def count(self, text: str) -> int:
            self.asked += 1
            return self.each * len(text)

    one, two = Weigher(1), Weigher(2)
    inputs = made(500, Section)
    for weigher in (one, two, one):
        weigher.asked = 0
        assert tokenbox.layout(inputs, 20_000, weigher.count).base_sizes[7] == weigher.each * len(
            inputs[7].content
        )
    assert one.asked < 20


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_an_equal_value_of_another_type_is_not_the_same(value: object) -> None:
    inputs = made(100, mapping)
    inputs[50]["priority"] = 1
    tokenbox.layout(inputs, 1_000, "utf8-bytes")
    inputs[50]["priority"] = value
    with pytest.raises(InvalidSection):
        tokenbox.layout(inputs, 1_000, "utf8-bytes")


def test_a_mapping_changed_in_place_is_seen() -> None:
    inputs = made(100, mapping)
    inputs[99]["content"] = content = ["one", "two"]
    lay_out = partial(tokenbox.layout, inputs, 100_000, "utf8-bytes")
    assert lay_out().texts[99] == "one\ntwo"
    content.append("three")
    assert lay_out().texts[99] == "one\ntwo\nthree"
    inputs[3]["content"] = "other"
    del inputs[4]["shrink"]
    inputs[5]["role"] = "user"
    found = lay_out().inputs
    assert (found[3].content, found[4].shrink, found[5].role) == ("other", 0, "user")


def test_an_id_that_comes_twice_is_refused_however_much_is_known() -> None:
    for form in (Section, mapping):
        inputs = made(100, form)
        tokenbox.layout(inputs, 1_000, "utf8-bytes")
        inputs[50] = form(id="s3", content="again", shrink=1)
        with pytest.raises(InvalidSection, match="s3"):
            tokenbox.layout(inputs, 1_000, "utf8-bytes")


@pytest.mark.parametrize("counter", ["o200k_base", len])
def test_a_layout_that_is_not_kept_is_freed_at_once(counter: str | Callable[[str], int]) -> None:
    inputs = made(100, Section)
    section = weakref.ref(inputs[50])
    gc.disable()
    try:
        tokenbox.layout(inputs, 300, counter)
        inputs.clear()
        assert section() is None, "nothing refers to itself, which only the garbage collector would free"
    finally:
        gc.enable()
