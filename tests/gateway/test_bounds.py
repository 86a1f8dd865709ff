"""What clients and stores that are away may take of memory, connections and time: so much, and no more."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from redis import Redis

from tests import loops
from tests.waiting import SECONDS
from tokenbox.catalog import Price, PriceTier
from tokenbox.gateway.accounts import QuotaAccounts
from tokenbox.gateway.authentication import RETRY_SECONDS, STALE_SECONDS, KeyAuthenticator
from tokenbox.gateway.body_memory import BodyMemory, BodyReservation
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.incoming import Incoming
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.services import GatewayServices, Stores
from tokenbox.gateway.settings import RequestLimits
from tokenbox.integers import MAX_INTEGER
from tokenbox.ledger.quota import Bucket, InvalidQuota, Quota, Take
from tokenbox.ledger.usage import Usage
from tokenbox.models import resolve
from tokenbox.store.errors import StoreUnavailable
from tokenbox.store.keys import GatewayKey
from tokenbox.store.leases import LeasedQuotas
from tokenbox.store.quotas import QuotaExceeded, QuotaStoreError
from tokenbox.store.redis_quotas import CONNECTIONS, RedisQuotas
from tokenbox.store.threads import StoreThreads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = GatewayKey("k1", "somebody", (), (), (), "", None, None)


def test_names_of_models_do_not_multiply_what_is_remembered_of_messages() -> None:
    """Models that are counted alike share a counter, or at least what it remembers of texts."""
    counters = {id(resolve(f"gpt-4o-{number}").counter) for number in range(50)}
    assert len(counters) == 1
    assert resolve("gpt-4").counter is not resolve("gpt-4o").counter


class Store:
    """Keys that can be away, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.key: GatewayKey | None = KEY

    def find(self, secret: str) -> GatewayKey | None:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("nobody answers")
        return self.key


class SomeClient:
    """Fulfils :class:`~tokenbox.gateway.asgi.Client`."""

    on_disconnect: Callable[[], None] | None = None
    is_late = False


def incoming(secret: str) -> Incoming:
    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing of the body is read")

    headers = {b"authorization": b"Bearer " + secret.encode()}
    return Incoming("POST", "/", b"", headers, SomeClient(), BodyReservation(BodyMemory(1)), receive)


def test_while_the_store_is_away_good_keys_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("tokenbox.gateway.authentication.time.monotonic", lambda: now)
    store, threads = Store(), StoreThreads()
    authenticator = KeyAuthenticator(store, lambda: NOW, threads)  # type: ignore[arg-type]  # it only finds

    async def admitted(secret: str = "tbk_good") -> str | None:
        return (await authenticator.admit(incoming(secret))).key_id

    async def story() -> None:
        nonlocal now
        assert await admitted() == "k1"
        now += 1.9
        assert await admitted() == "k1"
        assert store.asked == 1  # a key is known for two seconds, and then it may have been revoked
        now += 0.1
        assert await admitted() == "k1"
        assert store.asked == 2
        now += 10
        store.is_away = True
        assert [await admitted() for _ in range(20)] == ["k1"] * 20
        assert store.asked == 3  # twice when it was there, once when it was not
        now += RETRY_SECONDS
        assert [await admitted() for _ in range(20)] == ["k1"] * 20
        assert store.asked == 4
        with pytest.raises(Refusal, match="cannot be checked now"):
            await admitted("tbk_unknown")
        # It is back, and the key was revoked meanwhile.
        store.is_away, store.key = False, None
        now += RETRY_SECONDS
        with pytest.raises(Refusal, match="not known here"):
            await admitted()
        # A key that was good too long ago is not good any more.
        store.key = KEY
        now += 10
        assert await admitted() == "k1"
        store.is_away = True
        now += STALE_SECONDS
        with pytest.raises(Refusal, match="cannot be checked now"):
            await admitted()

    loops.run(story())
    threads.close()


def test_whoever_leaves_while_redis_is_asked_is_noticed(redis_url: str) -> None:
    bucket = Bucket.at(f"test{uuid4().hex}", Quota.parse("1000000 tokens/day"), NOW)

    async def story() -> None:
        quotas = RedisQuotas(redis_url)
        await quotas.ping()

        async def request(number: int) -> None:
            name = f"{bucket.key_id}.{number}"
            await quotas.hold(name, Take(bucket, 1))
            await quotas.settle(name, [Take(bucket, 1)])
            await asyncio.sleep(3600)  # the answer

        for number in range(300):
            task = asyncio.create_task(request(number))
            for _ in range(number % 15):  # wherever it is by then
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, SECONDS)
        await quotas.close()

    loops.run(story())
    with Redis.from_url(redis_url) as redis:
        for name in redis.scan_iter(f"*{bucket.key_id}*", count=1000):
            redis.delete(name)


def test_a_quota_holds_if_the_clock_of_redis_is_ahead(redis_url: str) -> None:
    """What was taken was to be forgotten an hour after the window, by the clock of Redis: at once."""
    behind = datetime.now(UTC) - timedelta(hours=5)
    bucket = Bucket.at(f"test{uuid4().hex}", Quota.parse("10 tokens/minute"), behind)

    async def story() -> None:
        quotas = RedisQuotas(redis_url)
        assert (await quotas.hold(f"{bucket.key_id}.1", Take(bucket, 6))).used == 6
        with pytest.raises(QuotaExceeded):
            await quotas.hold(f"{bucket.key_id}.2", Take(bucket, 6))
        await quotas.close()

    loops.run(story())
    with Redis.from_url(redis_url) as redis:
        names = list(redis.scan_iter(f"*{bucket.key_id}*", count=1000))
        assert all(0 < redis.ttl(name) <= 3660 for name in names)
        redis.delete(*names)


def test_a_silent_redis_has_so_many_connections_and_nobody_waits_long() -> None:
    open_now = most = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        while await reader.read(65_536):
            pass
        open_now -= 1
        writer.close()

    async def story() -> list[Any]:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        quotas = RedisQuotas(f"redis://127.0.0.1:{port}/0", seconds=0.2)
        take = Take(Bucket.at("k1", Quota.parse("100 tokens/day"), NOW), 1)
        questions = (quotas.hold(f"r{number}", take) for number in range(5 * CONNECTIONS))
        found = await asyncio.gather(*questions, return_exceptions=True)
        await quotas.close()
        server.close()
        return found

    found = loops.run(story())
    assert {type(one) for one in found} == {QuotaStoreError}
    # The server may see the next connection before the end of the one that it replaces.
    assert 0 < most <= 2 * CONNECTIONS


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "redis"])
def test_an_absurd_request_is_over_a_quota_in_every_store(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What it may use is more than a store can count."""
    where = request.getfixturevalue("new_postgres")() if store == "postgresql" else tmp_path / "store.db"
    redis = request.getfixturevalue("redis_url") if store == "redis" else None
    body = {"model": "m", "messages": [], "max_tokens": 2**53 - 1, "n": 128}
    call = read_call(CHAT, json.dumps(body).encode(), RequestLimits())
    admission: Any = SimpleNamespace(input_at_most=2**53 - 1, reserved=2**53 - 1)
    key = uuid4().hex
    attempt: Any = SimpleNamespace(key=key, outcome=CallOutcome(), was_sent=False)

    async def ask(quota: str) -> None:
        grant: Any = SimpleNamespace(key_id=key, quotas=((key, Quota.parse(quota)),))
        price = Price(Decimal(10), Decimal(30))
        settings: Any = SimpleNamespace(database=where, redis=redis, state=tmp_path / "spool")
        stores = Stores.open(settings)
        leases = LeasedQuotas(stores.quotas, time.monotonic, lambda *_: None)
        accounts = QuotaAccounts(leases, lambda: NOW, lambda *_: price)
        try:
            with pytest.raises(Refusal) as refused:
                async with accounts.reserved(attempt, call, admission, grant):
                    pass
            assert refused.value.status == 429
        finally:
            await leases.close()
            stores.store.close()

    for quota in ("4000000000000000 tokens/day", "$4000000/day"):
        loops.run(ask(quota))


def test_a_request_is_charged_the_rates_of_its_size(tmp_path: Path) -> None:
    """What is reserved for an estimate is at the rates of its upper bound."""
    tiered = Price(Decimal(1), Decimal(1), tiers=(PriceTier(1_000, Decimal(2), Decimal(2)),))
    call = read_call(CHAT, json.dumps({"model": "m", "messages": []}).encode(), RequestLimits())
    admission: Any = SimpleNamespace(input_at_most=1_500, reserved=500)

    async def charged(usage: Usage, price: Price = tiered) -> list[int]:
        key = uuid4().hex
        bucket = Bucket.at(key, Quota.parse("$1/day"), NOW)
        grant: Any = SimpleNamespace(key_id=key, quotas=((key, bucket.quota),))
        attempt: Any = SimpleNamespace(key=key, outcome=CallOutcome(usage=usage), was_sent=True)
        settings: Any = SimpleNamespace(database=tmp_path / "store.db", redis=None, state=tmp_path / "spool")
        stores = Stores.open(settings)
        leases = LeasedQuotas(stores.quotas, time.monotonic, lambda *_: None)
        accounts = QuotaAccounts(leases, lambda: NOW, lambda *_: price)
        found = []
        try:
            async with accounts.reserved(attempt, call, admission, grant) as account:
                found += [level.used for level in account.levels]
            found += [level.used for level in await stores.quotas.levels([bucket])]
        finally:
            await leases.close()
            stores.store.close()
        return found

    assert loops.run(charged(Usage(1_000, 100, 0))) == [4_000_000, 1_100_000]
    assert loops.run(charged(Usage(1_001, 100, 0))) == [4_000_000, 2_202_000]
    # A cost that Redis cannot add exactly is the largest that it can, so that the quota is used up.
    dear = Price(Decimal(1), Decimal(1_000))
    assert loops.run(charged(Usage(1, 10**12), dear))[1:] == [MAX_INTEGER]


@pytest.mark.parametrize("amount", ["9" * 5_000 + " tokens", "$" + "9" * 5_000, "$1." + "9" * 5_000])
def test_an_endless_number_is_no_quota(amount: str) -> None:
    with pytest.raises(InvalidQuota):
        Quota.parse(f"{amount}/day")


@pytest.mark.parametrize("data", [5, True, {"id": "m"}, None, "m", [5, {"id": 6}]])
def test_what_lists_no_models_lists_none(data: object) -> None:
    async def answer(*_: object, **__: object) -> tuple[int, object]:
        return 200, {"data": data}

    async def with_kind(_: object) -> None: ...

    upstream: Any = SimpleNamespace(json=answer, kind=None, settings=SimpleNamespace(models=()))
    services: Any = SimpleNamespace(models=SimpleNamespace(with_kind=with_kind))
    grant: Any = SimpleNamespace(client_auth=(), allows=lambda _: True)
    assert loops.run(GatewayServices.upstream_models(services, upstream, grant)) == []
