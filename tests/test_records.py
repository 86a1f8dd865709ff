"""Records that are made of fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tokenbox.records import AsRecord, plain, to_record


class Colour(Enum):
    RED = "red"


class Step(NamedTuple):
    before: int
    after: int

    def to_dict(self) -> dict[str, object]:
        return {"before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Inner(AsRecord):
    colour: Colour | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer(AsRecord):
    inner: Inner
    by_name: dict[str, Inner]
    steps: tuple[Step, ...]
    hidden: int = 1

    @property
    def total(self) -> int:
        return len(self.steps)


OUTER = Outer(Inner(Colour.RED, ("a", "b")), {"x": Inner(None)}, (Step(1, 2),))


def test_a_record_has_all_fields_in_their_order() -> None:
    record = OUTER.to_dict()
    assert list(record) == ["inner", "by_name", "steps", "hidden"]
    assert record == {
        "inner": {"colour": "red", "names": ["a", "b"]},
        "by_name": {"x": {"colour": None, "names": []}},
        "steps": [{"before": 1, "after": 2}],  # a named tuple with a to_dict is no list
        "hidden": 1,
    }


def test_a_record_has_the_names_that_are_asked_for_and_what_is_given() -> None:
    record = to_record(OUTER, "schema total hidden", schema="tests/1", hidden=None)
    assert list(record.items()) == [("schema", "tests/1"), ("total", 1), ("hidden", None)]


def test_a_name_with_a_question_mark_is_left_out_if_it_is_not_there() -> None:
    inner = Inner(None)
    assert to_record(inner, "colour? names? more?", more=None) == {}
    assert to_record(inner, "colour names? more?", more=0) == {"colour": None, "more": 0}
    assert to_record(OUTER.inner, "colour? names?") == {"colour": "red", "names": ["a", "b"]}


def test_what_is_no_record_stays_what_it_is() -> None:
    given = object()
    assert plain(given) is given
    assert [plain(value) for value in (None, True, 0, "", b"")] == [None, True, 0, "", b""]
