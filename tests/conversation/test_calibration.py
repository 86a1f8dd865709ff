"""Counts compared with ``usage``."""

from __future__ import annotations

import pytest

from tokenbox.compose.requests import By, Count
from tokenbox.conversation.calibration import Calibration, CountedFor, unread

EXACT = Count(100, exact=True, at_most=100, by=By.TEMPLATE)
ESTIMATE = Count(100, exact=False, at_most=140, by=By.MARKERS)
HERE = CountedFor("f1", "tiny", "http://127.0.0.1:1")
ELSEWHERE = CountedFor("f1", "tiny", "http://127.0.0.1:2")


def test_the_first_difference_takes_exact_from_its_kind_alone_and_is_returned_once() -> None:
    calibration = Calibration()
    assert calibration.compare(HERE, EXACT, 100) is None
    assert calibration.trusts(HERE)
    difference = calibration.compare(HERE, EXACT, 107)
    assert difference is not None
    assert (difference.predicted, difference.reported) == (100, 107)
    assert "tiny" in str(difference)
    assert "107" in str(difference)
    assert calibration.compare(HERE, EXACT, 108) is None
    assert not calibration.trusts(HERE)
    assert calibration.trusts(ELSEWHERE)
    # Equal counts do not give it back.
    calibration.compare(HERE, EXACT, 100)
    assert not calibration.trusts(HERE)


def test_a_usage_of_zero_is_no_usage() -> None:
    calibration = Calibration()
    assert unread(EXACT, 0) is None
    assert unread(EXACT, 60) == 40
    assert calibration.compare(HERE, EXACT, 0) is None
    assert calibration.trusts(HERE)
    assert not calibration.records()


@pytest.mark.parametrize(
    ("total", "reported", "missing"),
    [
        (3_000, 1_500, 1_500),
        (2_048, 1_024, 1_024),
        (2_047, 1_024, None),  # less than 1,024 tokens
        (5_000, 3_000, None),  # less than half
        (1_500, 400, 1_100),
        (1_000, 100, None),
        (1_000, 2_000, None),
    ],
)
def test_of_an_estimate_half_must_be_missing(total: int, reported: int, missing: int | None) -> None:
    assert unread(Count(total, exact=False, at_most=9_999, by=By.MARKERS), reported) == missing


def test_a_checked_count_is_marked_and_bounded_above_what_was_seen() -> None:
    calibration = Calibration()
    assert calibration.checked(HERE, EXACT, bound=120) is EXACT
    calibration.compare(HERE, EXACT, 107)
    checked = calibration.checked(HERE, EXACT, bound=120)
    assert (checked.total, checked.exact, checked.at_most, checked.by) == (100, False, 120, By.TEMPLATE)
    calibration.compare(HERE, EXACT, 150)
    assert calibration.checked(HERE, EXACT, bound=120).at_most == 150
    assert calibration.checked(ELSEWHERE, EXACT, bound=120) is EXACT


def test_estimates_and_silent_servers_take_nothing() -> None:
    calibration = Calibration()
    assert calibration.compare(HERE, EXACT, None) is None
    assert calibration.records() == {}
    assert calibration.compare(HERE, ESTIMATE, 90) is None
    assert calibration.trusts(HERE)
    record = calibration.records()[HERE]
    assert (record.compared, record.equal, record.shortfall) == (1, 0, 0)
    assert calibration.checked(HERE, ESTIMATE, bound=120) is ESTIMATE


def test_records_are_copies() -> None:
    calibration = Calibration()
    calibration.compare(HERE, EXACT, 100)
    calibration.records()[HERE].equal = 50
    assert calibration.records()[HERE].equal == 1


def test_names_of_many_models_do_not_fill_the_memory_and_no_difference_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tokenbox.conversation.calibration._MAX_RECORDS", 50)
    calibration = Calibration()
    calibration.compare(HERE, EXACT, 107)
    for number in range(49):
        calibration.compare(CountedFor("f1", f"first {number}", "http://127.0.0.1:1"), EXACT, 100)
    assert len(calibration.records()) == 50
    for number in range(500):
        calibration.compare(CountedFor("f1", f"model {number}", "http://127.0.0.1:1"), EXACT, 100)
    assert len(calibration.records()) <= 50
    assert not calibration.trusts(HERE)
