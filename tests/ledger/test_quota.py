"""Quotas are read exactly, money is rounded up, and windows are those of the calendar in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.ledger.quota import (
    Bucket,
    InvalidQuota,
    Quota,
    QuotaLevel,
    QuotaUnit,
    QuotaWindow,
    dollars_of,
    nanodollars,
)

if TYPE_CHECKING:
    from decimal import Decimal

LARGEST = 2**52


at = partial(datetime, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "now", "start", "end"),
    [
        ("minute", at(2026, 11, 29, 23, 59, 59, 7), at(2026, 11, 29, 23, 59), at(2026, 11, 30)),
        ("hour", at(2026, 11, 29, 23, 59, 59, 7), at(2026, 11, 29, 23), at(2026, 11, 30)),
        ("day", at(2026, 2, 28, 12), at(2026, 2, 28), at(2026, 3, 1)),
        ("week", at(2026, 11, 29, 23), at(2026, 11, 23), at(2026, 11, 30)),  # a Sunday: weeks begin on Monday
        ("week", at(2026, 11, 30), at(2026, 11, 30), at(2026, 12, 7)),
        ("month", at(2026, 2, 28, 23), at(2026, 2, 1), at(2026, 3, 1)),
        ("month", at(2026, 12, 31, 23), at(2026, 12, 1), at(2027, 1, 1)),
    ],
)
def test_a_window_is_that_of_the_calendar(window: str, now: datetime, start: datetime, end: datetime) -> None:
    found = QuotaWindow(window)
    for moment in (now, now.astimezone(timezone(timedelta(hours=9)))):
        assert (found.start(moment), found.end(moment)) == (start, end)


@given(st.sampled_from(QuotaWindow), st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001
def test_windows_follow_each_other(window: QuotaWindow, moment: datetime) -> None:
    now = moment.replace(tzinfo=UTC)
    bucket = Bucket.at("k", Quota(QuotaUnit.TOKENS, 1, window), now)
    assert bucket.starts <= now < bucket.ends
    assert window.start(bucket.ends) == bucket.ends
    assert window.start(bucket.ends - timedelta(microseconds=1)) == bucket.starts


@pytest.mark.parametrize(
    ("text", "unit", "limit", "again"),
    [
        ("100_000 tokens/day", QuotaUnit.TOKENS, 100_000, "100000 tokens/day"),
        ("1,500tok / per hour", QuotaUnit.TOKENS, 1_500, "1500 tokens/hour"),
        ("$5/month", QuotaUnit.NANODOLLARS, 5 * 10**9, "$5/month"),
        ("5/month", QuotaUnit.NANODOLLARS, 5 * 10**9, "$5/month"),  # an amount without a unit is money
        ("0.25 USD/week", QuotaUnit.NANODOLLARS, 25 * 10**7, "$0.25/week"),
        (f"{LARGEST} tokens/minute", QuotaUnit.TOKENS, LARGEST, f"{LARGEST} tokens/minute"),
    ],
)
def test_a_quota_is_read_and_written(text: str, unit: QuotaUnit, limit: int, again: str) -> None:
    quota = Quota.parse(text)
    assert (quota.unit, quota.limit, str(quota)) == (unit, limit, again)
    assert Quota.parse(str(quota)) == quota


@pytest.mark.parametrize(
    "text", ["", "5", "$/day", "-5 tokens/day", "5 tokens/year", f"{LARGEST + 1} tokens/day", "$1e3/day"]
)
def test_what_is_no_quota_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuota):
        Quota.parse(text)


@given(st.decimals(0, 10**6, places=15))
def test_money_is_rounded_up_to_a_nanodollar(amount: Decimal) -> None:
    units = nanodollars(amount)
    assert dollars_of(units - 1) < amount <= dollars_of(units)


BUCKETS = st.builds(
    Bucket.at,
    st.sampled_from(("k1", "k11", "user:k1", "team:k1")),
    st.builds(Quota, st.sampled_from(QuotaUnit), st.just(10), st.sampled_from(QuotaWindow)),
    st.sampled_from((at(2026, 6, 1), at(2026, 6, 1, 0, 1), at(2026, 6, 8, 1), at(2027, 6, 1))),
)


@given(BUCKETS, BUCKETS)
def test_no_two_windows_share_a_bucket(one: Bucket, other: Bucket) -> None:
    assert (one.name == other.name) == (one == other)
    raised = Bucket(one.key_id, Quota(one.quota.unit, 20, one.quota.window), one.starts)
    assert raised.name == one.name, "a limit may change, and what was used stays"


def test_what_is_left_is_never_below_nothing() -> None:
    bucket = Bucket.at("k", Quota.parse("10 tokens/day"), at(2026, 11, 29))
    assert [QuotaLevel(bucket, used).left for used in (0, 9, 10, 11)] == [10, 1, 0, 0]
