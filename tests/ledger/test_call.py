"""Records of calls: the same data there and back, and one error for anything else."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.calls import CLAUDE, NOON, calls
from tokenbox.ledger import Call, InvalidCall, InvalidTime, LedgerError, Outcome, Prediction, Usage
from tokenbox.ledger.call import parse_time, time_text
from tokenbox.ledger.when import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(call=calls())
def test_there_and_back(call: Call) -> None:
    assert Call.from_dict(json.loads(json.dumps(call.to_dict()))) == call
    assert pickle.loads(pickle.dumps(call)) == copy.deepcopy(call) == call


def test_a_record_of_before_caches_of_an_hour_is_read() -> None:
    record = Call("a", NOON, "claude").end(NOON, Usage(7, 3, 0, None, 7), CLAUDE).to_dict()
    assert isinstance(record["usage"], dict)
    old = {**record, "usage": {k: v for k, v in record["usage"].items() if k != "cache_write_1h_tokens"}}
    assert Call.from_dict(old).to_dict() == record
    assert record["usage"]["cache_write_1h_tokens"] is None


@pytest.mark.slow
@given(call=calls(), path=st.integers(0, 40), value=json_values)
def test_a_damaged_record_is_an_error_of_ours(call: Call, path: int, value: object) -> None:
    record = call.to_dict()
    inner = [record, *(part for part in record.values() if isinstance(part, dict))]
    places: list[tuple[dict[str, object], str]] = [(part, key) for part in inner for key in part]
    part, key = places[path % len(places)]
    part[key] = value
    try:
        again = Call.from_dict(record)
    except LedgerError:
        return
    assert Call.from_dict(again.to_dict()) == again


@given(record=json_values)
def test_anything_else_is_an_error_of_ours(record: object) -> None:
    with pytest.raises(InvalidCall):
        Call.from_dict(record)


FAR = "0001-01-01T00:00:00+14:00"  # before the first year, in UTC


def test_a_time_that_is_in_no_year_of_utc_is_an_error_of_ours() -> None:
    record = Call("a", NOON, "m").to_dict()
    with pytest.raises(InvalidCall, match="is not a time"):
        Call.from_dict({**record, "started": FAR})
    with pytest.raises(InvalidCall, match="started of a call"):
        Call("a", datetime.fromisoformat(FAR), "m")


def test_a_number_that_python_does_not_print_is_an_error_of_ours() -> None:
    with pytest.raises(InvalidCall, match="a value of type int"):
        Prediction(10**5000)
    with pytest.raises(InvalidCall, match="a value of type int"):
        Call("a", NOON, 10**5000)  # type: ignore[arg-type]


def test_what_lacks_is_named() -> None:
    record = Call("a", NOON, "m").to_dict()
    del record["model"]
    with pytest.raises(InvalidCall, match="lacks 'model'"):
        Call.from_dict(record)


@pytest.mark.parametrize(
    "wrong",
    [
        {"call_id": ""},
        {"call_id": "a\0b"},
        {"call_id": "a\ud800"},
        {"call_id": "x" * 501},
        {"model": ""},
        {"model": None},
        {"started": datetime(2026, 11, 21)},  # noqa: DTZ001  # that is the point
        {"finished": NOON},
        {"outcome": Outcome.DONE},
    ],
)
def test_what_is_no_call_is_refused(wrong: Mapping[str, object]) -> None:
    good = {"id": "a", "started": NOON, "model": "m"}
    renamed = {"id" if name == "call_id" else name: value for name, value in wrong.items()}
    with pytest.raises(InvalidCall):
        Call(**{**good, **renamed})  # type: ignore[arg-type]  # that is the point


def test_a_prediction_is_a_number_of_tokens() -> None:
    with pytest.raises(InvalidCall, match="predicted input_tokens is -1"):
        Prediction(-1)


def test_names_are_kept_as_every_database_can_hold_them() -> None:
    call = Call("a", NOON, "m\0n\ud800", project="p" * 600)
    assert call.model == "m\ufffdn\ufffd\ufffd\ufffd"
    assert call.project == "p" * 500


@given(
    first=st.datetimes(timezones=st.just(UTC)),
    second=st.datetimes(timezones=st.just(UTC)),
)
def test_texts_of_times_sort_as_times_do(first: datetime, second: datetime) -> None:
    assert parse_time(time_text(first)) == first
    assert (time_text(first) < time_text(second)) == (first < second)


def test_times_are_kept_in_utc() -> None:
    east = datetime(2026, 11, 21, 1, 30, tzinfo=timezone(timedelta(hours=9)))
    assert Call("a", east, "m").to_dict()["started"] == "2026-11-20T16:30:00.000000Z"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-11-01", "2026-11-01T00:00:00.000000Z"),
        ("2026-11-01T12:30", "2026-11-01T12:30:00.000000Z"),
        ("2026-11-01t12:30:01.5z", "2026-11-01T12:30:01.500000Z"),
        ("2026-11-01T12:30+02:00", "2026-11-01T10:30:00.000000Z"),
        ("today", "2026-11-21T00:00:00.000000Z"),
        (" Yesterday ", "2026-11-20T00:00:00.000000Z"),
        ("90m", "2026-11-21T10:30:00.000000Z"),
        ("12h", "2026-11-21T00:00:00.000000Z"),
        ("7d", "2026-11-14T12:00:00.000000Z"),
        ("2w", "2026-11-07T12:00:00.000000Z"),
    ],
)
def test_a_moment_is_a_day_a_time_or_a_span_before_now(said: str, meant: str) -> None:
    assert time_text(moment(said, NOON)) == meant


@pytest.mark.parametrize(
    "said", ["", "7", "d", "7y", "soon", "2026-13-01", "999999w", "-1d", "²d", "2026-11"]
)
def test_what_is_no_moment(said: str) -> None:
    with pytest.raises(InvalidTime, match="Give a day as 2026-11-01"):
        moment(said, NOON)


@given(said=st.text(max_size=12))
def test_any_text_is_a_moment_or_an_error_of_ours(said: str) -> None:
    try:
        assert moment(said, NOON).tzinfo is UTC
    except InvalidTime:
        return
