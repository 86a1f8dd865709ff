"""Blocks of quotas held by processes: exact at the limit, and never over."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.store.conftest import WAITING
from tests.waiting import until
from tokenbox.ledger.quota import Bucket, Quota, QuotaLevel, Take
from tokenbox.store import leases
from tokenbox.store.leases import LeasedQuotas
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError, SqlQuotas
from tokenbox.store.redis_quotas import RedisQuotas
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tokenbox.store.quotas import QuotaStore

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def bucket(limit: int, key: str = "k") -> Bucket:
    return Bucket.at(key, Quota.parse(f"{limit} tokens/day"), NOW)


class Shared:
    """A store of quotas in memory, which may fail before or after it did what it was asked."""

    def __init__(self, faults: random.Random | None = None) -> None:
        self.rows: dict[tuple[str, str], int] = {}
        self.used: dict[str, int] = {}
        self.asked = 0
        self.late: list[tuple[str, Take]] = []  # holds that it executes later
        self.fenced: set[str] = set()
        self._faults = faults

    async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
        await self._come()
        if self._faults is not None and self._faults.random() < 0.1:
            self.late.append((reservation, take))
            raise QuotaStoreError("it does not answer in time")
        if reservation in self.fenced:
            raise QuotaStoreError("it is settled")
        name = take.bucket.name
        difference = take.amount - self.rows.get((reservation, name), 0)
        used = self.used.get(name, 0)
        if check and difference > 0 and used + difference > take.bucket.quota.limit:
            raise QuotaExceeded(QuotaLevel(take.bucket, used), difference)
        self.rows[reservation, name] = take.amount
        self.used[name] = used + difference
        await self._go()
        return QuotaLevel(take.bucket, self.used[name])

    async def settle(self, reservation: str, takes: Sequence[Take], *, fence: bool = False) -> None:
        await self._come()
        if fence:
            self.fenced.add(reservation)
        used = {take.bucket.name: take.amount for take in takes}
        for key in [key for key in self.rows if key[0] == reservation]:
            self.used[key[1]] += used.get(key[1], 0) - self.rows.pop(key)
        await self._go()

    async def levels(self, buckets: Sequence[Bucket]) -> list[QuotaLevel]:
        return [QuotaLevel(one, self.used.get(one.name, 0)) for one in buckets]

    async def ping(self) -> None: ...

    async def close(self) -> None: ...

    async def _come(self) -> None:
        self.asked += 1
        await asyncio.sleep(0)
        if self._faults is not None and self._faults.random() < 0.2:
            raise QuotaStoreError("it does not answer")

    async def _go(self) -> None:
        if self._faults is not None and self._faults.random() < 0.2:
            raise QuotaStoreError("its answer was lost")


def later(_: str, __: Sequence[Take]) -> None:
    raise AssertionError("the store answered")


def test_a_request_alone_is_charged_what_it_used() -> None:
    async def it() -> None:
        store, day = Shared(), bucket(1000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        (level,) = await quotas.take("a", [Take(day, 400)])
        assert level.left == 600
        await quotas.settle("a", [Take(day, 30)])
        assert store.used[day.name] == 30
        with pytest.raises(QuotaExceeded) as refused:
            await quotas.take("b", [Take(day, 971)])
        assert (refused.value.level.left, refused.value.amount) == (970, 971)
        assert (await quotas.take("c", [Take(day, 970)]))[0].left == 0
        await quotas.settle("c", [Take(day, 970)])
        await quotas.close()
        assert (store.used[day.name], store.rows) == (1000, {})

    asyncio.run(it())


def test_many_requests_ask_the_store_seldom() -> None:
    async def it() -> None:
        store, day = Shared(), bucket(10_000_000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)

        async def one(number: int) -> None:
            await quotas.take(str(number), [Take(day, 100)])
            await asyncio.sleep(0)
            await quotas.settle(str(number), [Take(day, 10)])

        for _ in range(100):
            await asyncio.gather(*(one(number) for number in range(20)))
        assert store.asked < 100, "2,000 requests"
        await quotas.close()
        assert store.used[day.name] == 20_000

    asyncio.run(it())


def test_what_is_spare_goes_back_although_the_store_is_busy_with_the_same_lease() -> None:
    """Else other processes would see it as used until the cleaner runs, within a second."""

    async def it() -> None:
        store, day = Shared(), bucket(1000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        for name in ("a", "b"):
            await quotas.take(name, [Take(day, 400)])
        asked = store.asked
        giving_back = asyncio.create_task(quotas.settle("a", [Take(day, 30)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the store is told of the first, and not of the second
        assert store.asked == asked + 1
        await quotas.settle("b", [Take(day, 40)])
        assert store.used[day.name] == 70
        await giving_back
        assert store.asked == asked + 2
        await quotas.close()

    asyncio.run(it())


def test_a_question_that_has_just_ended_holds_nobody_up() -> None:
    """Its end is noticed in a later turn of the loop: until then it is not waited for."""

    async def it() -> None:
        store, day = Shared(), bucket(1000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        await quotas.take("a", [Take(day, 1)])
        ended = asyncio.create_task(asyncio.sleep(0))
        await ended
        quotas._leases[day.name].request = ended  # noqa: SLF001  # type: ignore[assignment]
        await quotas.take("b", [Take(day, 900)])
        await quotas.close()

    asyncio.run(it())


def test_a_process_that_is_killed_leaves_two_blocks_charged_at_most() -> None:
    """Large requests that used little end among small ones: what they did not use is not kept for those."""

    async def it() -> None:
        store, day, now = Shared(), bucket(1_000_000), 0.0
        quotas = LeasedQuotas(store, lambda: now, later)
        for number in range(40):
            now += leases.SECOND
            await quotas.take(f"large {number}", [Take(day, 10_000)])
        now += 2 * leases.SECOND
        for number in range(2 * leases.FREQUENT):
            await quotas.take(f"small {number}", [Take(day, 100)])
            await quotas.settle(f"small {number}", [Take(day, 100)])
        for number in range(40):
            await quotas.settle(f"large {number}", [Take(day, 1)])
        used = 40 + 2 * leases.FREQUENT * 100
        block = 2 * leases.FREQUENT * 100  # all that was taken in the last second
        assert used <= store.used[day.name] <= used + 2 * block  # and now it is killed

    asyncio.run(it())


def test_a_silent_store_lets_pass_what_it_has_reserved_and_nothing_more() -> None:
    """What ended requests did not use serves others until the store is missed: it holds that for them."""

    class Silent(Shared):
        is_silent = False

        async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
            if self.is_silent:
                await asyncio.sleep(0.05)
                raise QuotaStoreError("it does not answer")
            return await super().hold(reservation, take, check=check)

    async def it() -> None:
        store, day = Silent(), bucket(100_000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        for name in ("a", "b"):
            await quotas.take(name, [Take(day, 1_000)])
        store.is_silent = True
        giving_back = asyncio.create_task(quotas.settle("a", [Take(day, 30)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        giving_more = asyncio.create_task(quotas.settle("b", [Take(day, 30)]))
        await asyncio.sleep(0)
        served = 9  # 1,000 less the 30 that were used
        for number in range(served):
            await quotas.take(f"small {number}", [Take(day, 100)])
        with pytest.raises(QuotaStoreError):
            await quotas.take("one more", [Take(day, 100)])
        await asyncio.gather(giving_back, giving_more)
        spent = 30 + 30 + served * 100
        assert spent <= sum(store.rows.values()) == store.used[day.name] == 2_000
        store.is_silent = False
        for number in range(served):
            await quotas.settle(f"small {number}", [Take(day, 100)])
        await quotas.close()
        assert store.used[day.name] == spent

    asyncio.run(it())


def test_a_refusal_does_not_wait_for_a_store_that_is_away() -> None:
    class Away(Shared):
        async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
            if take.bucket.name == small.name:
                self.asked += 1
                raise QuotaStoreError("it does not answer")
            return await super().hold(reservation, take, check=check)

    small = bucket(10, "small")

    async def it() -> None:
        store, large = Away(), bucket(1000, "large")
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        with pytest.raises(QuotaStoreError):
            await quotas.take("a", [Take(large, 100), Take(small, 1)])
        assert store.asked == 2
        await quotas.close()
        assert store.used[large.name] == 0

    asyncio.run(it())


def test_all_of_a_requests_quotas_are_taken_or_none() -> None:
    async def it() -> None:
        store, large, small = Shared(), bucket(1000, "large"), bucket(10, "small")
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        store.used[small.name] = 1  # of another process
        with pytest.raises(QuotaExceeded):
            await quotas.take("a", [Take(large, 100), Take(small, 10)])
        store.used[small.name] = 0
        assert store.used[large.name] == 0, "it is there for other processes at once"
        await quotas.take("b", [Take(large, 1000), Take(small, 10)])
        await quotas.settle("b", [])
        await quotas.close()
        assert store.used == {large.name: 0, small.name: 0}

    asyncio.run(it())


def test_a_refused_request_is_told_what_it_asked_for() -> None:
    """Also if another one settles before the store answers: 50 of 100 fit later, 140 never."""

    async def it() -> None:
        store, day = Shared(), bucket(100)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        await quotas.take("a", [Take(day, 90)])
        store.used[day.name] += 10  # of another process
        taking = asyncio.create_task(quotas.take("b", [Take(day, 50)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the store is asked
        await quotas.settle("a", [])
        with pytest.raises(QuotaExceeded) as refused:
            await taking
        assert refused.value.amount == 50
        await quotas.close()

    asyncio.run(it())


def test_a_request_is_told_first_of_a_quota_that_it_can_never_fit() -> None:
    async def it() -> None:
        full, small = bucket(100, "full"), bucket(10, "small")
        quotas = LeasedQuotas(Shared(), lambda: 0.0, later)
        await quotas.take("a", [Take(full, 100)])
        with pytest.raises(QuotaExceeded) as refused:
            await quotas.take("b", [Take(full, 50), Take(small, 50)])
        assert refused.value.level.bucket == small
        await quotas.settle("a", [])
        await quotas.close()

    asyncio.run(it())


def test_a_store_that_does_not_answer_is_not_waited_for_at_the_end_of_each_lease() -> None:
    class Away(Shared):
        async def settle(self, reservation: str, takes: Sequence[Take], *, fence: bool = False) -> None:
            self.asked += 1
            raise QuotaStoreError("it does not answer")

    async def it() -> None:
        kept: list[tuple[str, int]] = []
        store = Away()
        quotas = LeasedQuotas(
            store,
            lambda: 0.0,
            lambda _, takes: kept.extend((take.bucket.key_id, take.amount) for take in takes),
        )
        for key in "abc":
            await quotas.take(key, [Take(bucket(100, key), 10)])
        before = store.asked
        await quotas.close()
        assert store.asked == before + 1
        assert sorted(kept) == [("a", 10), ("b", 10), ("c", 10)]

    asyncio.run(it())


def test_usage_beyond_what_was_taken_is_charged_at_once() -> None:
    async def it() -> None:
        store, day = Shared(), bucket(1000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        await quotas.take("a", [Take(day, 10)])
        await quotas.settle("a", [Take(day, 25)])
        assert store.used[day.name] == 25, "other processes see it"
        await quotas.close()

    asyncio.run(it())


def test_a_process_holds_a_small_share_of_what_is_left_ahead() -> None:
    async def it() -> None:
        store, day = Shared(), bucket(3_200)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        for number in range(64):
            await quotas.take(str(number), [Take(day, 10)])
            await quotas.settle(str(number), [Take(day, 10)])
            spent = 10 * (number + 1)
            assert store.used[day.name] - spent <= 2 * (3_200 - spent) // leases.SHARE
        await quotas.close()

    asyncio.run(it())


def test_a_lost_lease_is_charged_what_its_open_requests_use(monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(Shared):
        loses = False

        async def hold(self, reservation: str, take: Take, *, check: bool = True) -> QuotaLevel:
            level = await super().hold(reservation, take, check=check)
            if self.loses:
                raise QuotaStoreError("its answer was lost")
            return level

    async def it() -> None:
        monkeypatch.setattr(leases, "SECOND", 0.01)
        monkeypatch.setattr(leases, "RETRY_SECONDS", 0.0)
        store, day = Losing(), bucket(1000)
        quotas = LeasedQuotas(store, lambda: 0.0, later)
        await quotas.take("a", [Take(day, 400)])
        store.loses = True
        with pytest.raises(QuotaStoreError):
            await quotas.take("b", [Take(day, 100)])
        store.loses = False
        await asyncio.sleep(0.1)  # the cleaner comes by several times
        await quotas.settle("a", [Take(day, 30)])
        await quotas.close()
        assert store.used[day.name] == 30

    asyncio.run(it())


def test_what_nobody_takes_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def it() -> None:
        monkeypatch.setattr(leases, "SECOND", 0.01)
        store, day = Shared(), bucket(100_000)
        clock = 0.0
        quotas = LeasedQuotas(store, lambda: clock, later)
        for number in range(50):
            await quotas.take(str(number), [Take(day, 100)])
            await quotas.settle(str(number), [Take(day, 10)])
        assert store.used[day.name] > 500
        clock = 10.0
        for _ in range(1000):
            if not store.rows:
                break
            await asyncio.sleep(0.01)
        assert (store.used[day.name], store.rows) == (500, {})
        await quotas.close()

    asyncio.run(it())


@given(st.integers(0, 2**32), st.integers(1, 4), st.booleans())
@settings(max_examples=examples(60))
def test_processes_together_are_never_over(seed: int, processes: int, faulty: bool) -> None:
    """Also where the store fails, and clients leave while it is asked. In the end it is exact."""
    rng = random.Random(seed)
    limit = rng.choice([50, 1000, 100_000])
    store, day = Shared(rng if faulty else None), bucket(limit)
    used, most, kept = 0, 0, []

    async def client(quotas: LeasedQuotas, number: str, clock: list[float]) -> None:
        nonlocal used, most
        amount = rng.randint(1, 60)
        try:
            await quotas.take(number, [Take(day, amount)])
        except (QuotaExceeded, QuotaStoreError):
            return
        most += amount
        assert used + most <= limit
        await asyncio.sleep(0)
        spent = rng.randint(0, amount)
        most, used = most - amount, used + spent
        clock[0] += 0.05
        await quotas.settle(number, [Take(day, spent)])

    async def all_of_them() -> None:
        clocks = [[0.0] for _ in range(processes)]
        each = [
            LeasedQuotas(store, lambda clock=clock: clock[0], lambda name, takes: kept.append((name, takes)))  # type: ignore[misc]
            for clock in clocks
        ]
        for turn in range(10):
            tasks = [
                asyncio.create_task(client(quotas, f"{turn}/{number}", clock))
                for quotas, clock in zip(each, clocks, strict=True)
                for number in range(6)
            ]
            await asyncio.sleep(0)
            leaves = rng.choice(tasks) if rng.random() < 0.3 else None
            if leaves is not None and not leaves.done():
                leaves.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, AssertionError):
                    raise result
        for quotas in each:
            await quotas.close()

    asyncio.run(all_of_them())
    store._faults = None  # noqa: SLF001  # it answers again
    for name, takes in kept:
        asyncio.run(store.settle(name, takes, fence=True))
    for name, take in store.late:
        with suppress(QuotaStoreError, QuotaExceeded):
            asyncio.run(store.hold(name, take))
    assert store.used.get(day.name, 0) <= limit
    assert store.rows == {}


def on(where: str, ask: Callable[[QuotaStore], Coroutine[Any, Any, None]]) -> None:
    """Ask the quotas at this address."""
    if where.startswith("redis:"):
        asyncio.run(ask(RedisQuotas(where)))
    else:
        with open_store(where) as store:
            asyncio.run(ask(SqlQuotas(store.database)))


@pytest.mark.parametrize("where", ["sqlite", "postgresql", "redis"], indirect=True)
def test_a_bucket_is_used_to_its_last_token_and_no_further(where: str) -> None:
    async def it(quotas: QuotaStore) -> None:
        one, other, day = uuid4().hex, uuid4().hex, bucket(1000, uuid4().hex)
        await quotas.hold(one, Take(day, 600))
        assert (await quotas.hold(other, Take(day, 400))).left == 0
        for name, amount in ((uuid4().hex, 1), (one, 601), (other, 401)):
            with pytest.raises(QuotaExceeded) as refused:
                await quotas.hold(name, Take(day, amount))
            assert refused.value.level.used == 1000
        assert (await quotas.hold(one, Take(day, 700), check=False)).used == 1100
        await quotas.close()

    on(where, it)


@pytest.mark.parametrize("where", ["sqlite", "postgresql", "redis"], indirect=True)
@pytest.mark.parametrize("held", [0, 30])
def test_a_hold_that_comes_after_the_end_of_its_lease_takes_nothing(where: str, held: int) -> None:
    """It was given up, and its lease was settled, before the store executed it."""

    async def it(quotas: QuotaStore) -> None:
        name, day = uuid4().hex, bucket(1000, uuid4().hex)
        if held:
            await quotas.hold(name, Take(day, held))
        for _ in range(2):
            await quotas.settle(name, [Take(day, 20)], fence=True)
            with pytest.raises(QuotaStoreError):
                await quotas.hold(name, Take(day, 50))
        (level,) = await quotas.levels([day])
        assert level.used == (20 if held else 0)  # what nothing was held for is not charged
        await quotas.close()

    on(where, it)


def test_a_lease_is_settled_after_a_hold_of_it_that_postgresql_still_executes(shared_postgres: str) -> None:
    name, day = uuid4().hex, bucket(1000, uuid4().hex)
    with open_store(shared_postgres) as one, open_store(shared_postgres) as other:
        SqlQuotas(one.database).hold_now(name, Take(day, 30))
        with ThreadPoolExecutor() as threads, one.database.writing() as transaction:
            holding = cast("Any", SimpleNamespace(writing=lambda: nullcontext(transaction)))
            SqlQuotas(holding).hold_now(name, Take(day, 100))  # and its commit has not come yet
            settled = threads.submit(SqlQuotas(other.database).settle_now, name, [Take(day, 20)], fence=True)
            until(lambda: transaction.rows(WAITING), "the settlement to wait")
        settled.result()
        (level,) = SqlQuotas(other.database).levels_now([day])
        assert level.used == 20


def test_a_postgresql_that_answers_and_cannot_be_written_is_not_ready(shared_postgres: str) -> None:
    """Such as one that a failover has left behind."""
    with open_store(shared_postgres) as store:
        asyncio.run(SqlQuotas(store.database).ping())
    replica = f"{shared_postgres}?options=-c%20default_transaction_read_only%3Don"
    with open_store(replica) as store, pytest.raises(QuotaStoreError, match="the primary server"):
        asyncio.run(SqlQuotas(store.database).ping())
