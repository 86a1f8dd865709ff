"""Quotas hold exactly: over replicas, on every store, and whatever happens to the store meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import partial
from http.client import HTTPConnection, HTTPException
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
import redis

from tests.gateway.running import auth, make_key, wait_until_up
from tests.gateway.stub import usage_of
from tests.services import Cuttable, free_port, redis_server
from tests.waiting import SECONDS, until
from tokenbox.catalog import Price
from tokenbox.gateway.accounts import QuotaAccounts, exceeded
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome
from tokenbox.ledger.quota import Bucket, Quota, QuotaLevel
from tokenbox.ledger.totals import Sum
from tokenbox.ledger.usage import Usage
from tokenbox.store.calls import CallSpan
from tokenbox.store.quotas import QuotaExceeded
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.gateway.running import Answer, Gateways, RunningGateway, Stub
    from tokenbox.ledger.quota import Take

PATH = "/v1/chat/completions"
# The stub counts as vLLM does, so that the prediction is exact.
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
[gateway]
keys = true
"""


def chat(number: int = 0, **more: object) -> dict[str, Any]:
    return {
        "model": "stub",
        "max_tokens": 3,
        "messages": [{"role": "user", "content": f"{number:04d}"}],
        **more,
    }


EACH = usage_of(chat())["total_tokens"]


STORES = ("sqlite", "postgresql", "redis")
Four = tuple[str, list["RunningGateway"]]
Shared = tuple["RunningGateway", str]  # with its database, or with a key


def stores_of(request: pytest.FixtureRequest, folder: Path) -> tuple[str, list[str]]:
    """Return an empty database, and the options for gateways that share it."""
    is_postgres = request.param == "postgresql"
    database = request.getfixturevalue("new_postgres")() if is_postgres else str(folder / "shared.db")
    options = ["--database", database]
    if request.param == "redis":
        options += ["--redis", request.getfixturevalue("redis_url")]
    return database, options


@pytest.mark.parametrize(
    ("quota", "used", "needs", "said"),
    [
        (
            "300 tokens/hour",
            299,
            1224,
            "is 300 tokens/hour, with 1 token left, and the request may use 1,224 tokens in all.",
        ),
        (
            "$0.01/day",
            8_550,
            142_680_000,
            "is $0.01/day, with $0.00999145 left, and the request may use $0.14268 in all.",
        ),
    ],
)
def test_a_refusal_names_the_unit_of_each_amount_once(quota: str, used: int, needs: int, said: str) -> None:
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    level = QuotaLevel(Bucket.at("k", Quota.parse(quota), now), used)
    assert said in exceeded(QuotaExceeded(level, needs), now).message


@pytest.mark.parametrize(
    ("needs", "advice", "waits", "retries"),
    [
        (299, "Try again in 30 seconds, or ask for less.", True, None),
        (300, "Try again in 30 seconds, or ask for less.", True, None),
        (
            301,
            "It can never fit, however long you wait: shorten the input or lower the output limit.",
            False,
            b"false",
        ),
    ],
)
def test_what_can_never_fit_its_quota_is_not_told_to_wait(
    needs: int, advice: str, waits: bool, retries: bytes | None
) -> None:
    now = datetime(2026, 11, 29, 12, 59, 30, tzinfo=UTC)
    level = QuotaLevel(Bucket.at("k", Quota.parse("300 tokens/hour"), now), 299)
    refusal = exceeded(QuotaExceeded(level, needs), now)
    assert refusal.message.endswith(advice)
    assert (dict(refusal.headers).get(b"retry-after") == b"30") is waits
    assert dict(refusal.headers).get(b"x-should-retry") == retries
    assert refusal.tokenbox is not None
    assert refusal.tokenbox["limit"] == 300
    assert refusal.tokenbox.get("resets_in") == (30 if waits else None)


class TakenQuotas:
    """A store of quotas that grants everything and remembers the takes."""

    def __init__(self) -> None:
        self.takes: list[Take] = []
        self.settled: list[Take] = []

    async def take(self, _reservation: str, takes: list[Take]) -> list[QuotaLevel]:
        self.takes += takes
        return []

    async def settle(self, _reservation: str, takes: list[Take]) -> None:
        self.settled += takes


@pytest.mark.parametrize(
    ("was_sent", "used_nothing", "charged"), [(False, False, 0), (True, False, 1_003), (True, True, 0)]
)
def test_what_was_not_sent_or_refused_costs_nothing(was_sent: bool, used_nothing: bool, charged: int) -> None:
    store, times = TakenQuotas(), [datetime(2026, 11, 29, 23, 59, 59, tzinfo=UTC)]
    accounts = QuotaAccounts(cast("Any", store), lambda: times[-1], lambda *_: None)
    given: Any = SimpleNamespace(
        key="k",
        was_sent=was_sent,
        outcome=CallOutcome(used_nothing=used_nothing),
        body={},
        choices=1,
        fallbacks=(),
        input=[],
        protocol=SimpleNamespace(api=None),
        input_at_most=1_000,
        reserved=3,
        quotas=(("k", Quota.parse("5000 tokens/day")),),
    )

    async def ask() -> None:
        async with accounts.reserved(given, given, given, given):
            pass

    asyncio.run(ask())
    assert [take.amount for take in store.settled] == [charged]
    times.append(datetime(2026, 11, 30, tzinfo=UTC))  # the day's last window has ended
    asyncio.run(ask())
    assert [take.bucket.starts.day for take in store.takes] == [29, 30]


DEAR_TO_READ = Price(Decimal(100), Decimal(1), source="a")
DEAR_TO_WRITE = Price(Decimal(1), Decimal(300), source="b")


@pytest.mark.parametrize("prices", [(DEAR_TO_READ, DEAR_TO_WRITE), (DEAR_TO_WRITE, DEAR_TO_READ)])
@pytest.mark.parametrize("usage", [Usage(900, 1), Usage(1, 3), Usage(1_000, 3)])
def test_of_several_models_the_one_that_costs_most_is_reserved_and_charged(
    prices: tuple[Price, ...], usage: Usage
) -> None:
    store, now = TakenQuotas(), datetime(2026, 11, 29, tzinfo=UTC)
    of_models = dict(zip(("one", "other"), prices, strict=True))
    accounts = QuotaAccounts(cast("Any", store), lambda: now, lambda model, _: of_models.get(model))
    given = SimpleNamespace(
        key="k",
        was_sent=True,
        outcome=CallOutcome(usage=usage),
        model="one",
        models=("one", "other"),
        body={},
        choices=1,
        fallbacks=("other",),
        input=[],
        protocol=SimpleNamespace(api=None),
        input_at_most=1_000,
        reserved=3,
        quotas=(("k", Quota.parse("$5/day")),),
    )

    async def ask() -> None:
        request: Any = given
        async with accounts.reserved(request, request, request, request):
            pass

    asyncio.run(ask())
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    in_thousands = max(read * 100 + written, read + written * 300)
    assert [take.amount for take in store.settled] == [in_thousands * 1_000]
    assert store.takes[0].amount >= store.settled[0].amount
    given.models = ("one", "unpriced")
    with pytest.raises(Refusal) as refused:
        asyncio.run(ask())
    assert refused.value.code == "model_unpriced"


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[str]]:
    return stores_of(request, tmp_path)


@pytest.fixture(scope="module", params=STORES)
def four(
    request: pytest.FixtureRequest,
    shared_gateways: Gateways,
    upstream: Stub,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Four]:
    """Yield a database, and four gateways that share it for the tests of the module."""
    database, options = stores_of(request, tmp_path_factory.mktemp("stores"))
    config = CONFIG.format(url=upstream.url) + PRICES
    gateways = [shared_gateways(options=options, config=config, wait=False) for _ in range(4)]
    for gateway in gateways:
        wait_until_up(gateway)
    yield database, gateways
    assert [gateway.stop() for gateway in gateways] == [0] * 4


# Dollars per million tokens: no request of the stub costs a whole number of nanodollars.
PRICES = """
[catalog.stub]
price_input = "0.3333"
price_output = "1.7777"
"""


@pytest.mark.slow
def test_four_gateways_use_a_quota_up_and_not_a_token_more(
    shared_gateways: Gateways, upstream: Stub, four: Four
) -> None:
    database, gateways = four
    limit = 40 * EACH + EACH - 1  # forty requests, and not enough left for another
    key = make_key(shared_gateways, database, "--quota", f"{limit} tokens/month")
    before = len(upstream.seen)

    def ask(number: int) -> Answer:
        return gateways[number % 4].post(PATH, chat(number), **auth(key))

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(120)))
    good = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(good) + len(refused) == 120, {answer.status for answer in answers}
    # Every refusal was right when it was made: what was under way then has since been settled below it.
    spent = sum(answer.json["usage"]["total_tokens"] for answer in good)
    # A request reserves what it uses here, so nothing is ever given back, and nothing can be left over.
    assert spent == 40 * EACH <= limit
    assert len(upstream.seen) - before == 40

    def left() -> int:
        last = gateways[0].post(PATH, chat(), **auth(key))
        assert last.status == 429
        return int(last.json["tokenbox"]["left"])

    # What a gateway held ahead goes back within a second.
    until(lambda: left() == limit - spent)
    last = gateways[0].post(PATH, chat(), **auth(key))
    assert int(last.headers["retry-after"]) > 0
    assert last.headers["x-ratelimit-remaining-tokens"] == str(limit - spent)
    assert last.headers["x-should-retry"] == "false"


HOUR = {"type": "ephemeral", "ttl": "1h"}


def cost_of(usage: dict[str, int]) -> Decimal:
    """Dollars, exactly, and by other arithmetic than that of the ledger."""
    return (
        usage["prompt_tokens"] * Decimal("0.3333") + usage["completion_tokens"] * Decimal("1.7777")
    ) / 10**6


def in_nanodollars(dollars: Decimal) -> int:
    """What a quota is charged: a part of one counts as a whole one."""
    return int((dollars * 10**9).to_integral_value(ROUND_CEILING))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unused", "dollars"), [(0, "0.0006"), (200, "0.002")], ids=["all is used", "most is given back"]
)
def test_four_gateways_spend_a_quota_of_money_and_nothing_more(
    shared_gateways: Gateways, upstream: Stub, four: Four, unused: int, dollars: str
) -> None:
    """Requests of many sizes, all at once. ``unused``: tokens that each reserves for its answer in vain."""
    database, gateways = four
    limit = Decimal(dollars)
    key = make_key(shared_gateways, database, "--quota", f"${limit}/month")
    before = len(upstream.seen)

    def ask(number: int) -> Answer:
        messages = [{"role": "user", "content": "x" * (number * 37 % 101)}]
        body = chat(messages=messages, max_tokens=3 + unused)
        return gateways[number % 4].post(PATH, body, **auth(key))

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(160)))
    # What is under way at the same time reserves its part: alone, a request finds all that is left.
    while True:
        answers.append(ask(len(answers)))
        if answers[-1].status != 200:
            break
    good = [answer.json["usage"] for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(good) + len(refused) == len(answers), {answer.status for answer in answers}
    assert len(upstream.seen) - before == len(good) > 10
    spent = sum(map(cost_of, good), Decimal(0))
    charged = sum(in_nanodollars(cost_of(usage)) for usage in good)
    assert spent * 10**9 <= charged <= limit * 10**9
    # All come to the same opinion of what is left, and it is what was not charged. What a gateway holds is
    # left for itself at once, and for the others when it has given it back, within a second.
    left = limit * 10**9 - charged
    for gateway in gateways:
        until(partial(is_left, gateway, key, left))
        refusal = gateway.post(PATH, chat(max_tokens=2000), **auth(key))
        assert (refusal.status, refusal.json["tokenbox"]["unit"]) == (429, "nanodollars")
        assert refusal.json["tokenbox"]["left"] == left
        assert int(refusal.headers["x-ratelimit-remaining-nanodollars"]) == left
    with open_store(database) as store:
        found = store.keys.find(key)
        assert found is not None
        span = CallSpan(session=found.id)
        until(lambda: store.calls.totals(span).calls == len(good))
        until(lambda: store.calls.totals(span).cost == Sum(spent))


def is_left(gateway: RunningGateway, key: str, amount: Decimal) -> bool:
    """Whether so much is left of a quota, by the refusal of a request that is too much for it."""
    refusal = gateway.post(PATH, chat(max_tokens=2000), **auth(key))
    return bool(refusal.json["tokenbox"]["left"] == amount)


@pytest.fixture(scope="module")
def plain(shared_gateways: Gateways, upstream: Stub) -> Shared:
    """A gateway of which a test needs only a key of its own."""
    database = str(shared_gateways.folder / "plain.db")
    return shared_gateways(options=["--database", database], config=CONFIG.format(url=upstream.url)), database


@pytest.fixture(scope="module")
def priced(shared_gateways: Gateways, upstream: Stub) -> Shared:
    """The same with prices."""
    database = str(shared_gateways.folder / "priced.db")
    config = CONFIG.format(url=upstream.url) + PRICES
    return shared_gateways(options=["--database", database], config=config), database


@pytest.mark.slow
def test_what_has_no_price_is_not_sent_under_a_quota_of_money(
    shared_gateways: Gateways, upstream: Stub, plain: Shared
) -> None:
    gateway, database = plain
    key = make_key(shared_gateways, database, "--quota", "$1/month")
    refusal = gateway.post(PATH, chat(), **auth(key))
    assert (refusal.status, refusal.json["error"]["code"]) == (403, "model_unpriced")
    assert len(upstream.seen) == upstream.mark


def test_what_was_reserved_and_not_used_is_given_back(start_gateway: Gateways, upstream: Stub) -> None:
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "1000 tokens/month")
    gateway = start_gateway(options=["--database", database], config=CONFIG.format(url=upstream.url))
    used = 0
    for number in range(60):  # each reserves 500 for its answer, and gets 3
        answer = gateway.post(PATH, chat(number, max_tokens=500), **auth(key))
        if used + EACH - 3 + 500 > 1000:
            assert answer.status == 429
            break
        assert answer.status == 200
        assert int(answer.headers["x-ratelimit-remaining-tokens"]) == 1000 - used - (EACH - 3 + 500)
        used += answer.json["usage"]["total_tokens"]
    else:
        pytest.fail("the quota was never used up")
    # Nothing is charged for what the upstream refused; all that was reserved, for an answer that broke off,
    # an error within the server or a usage of 0.
    for fault, charged in (
        ("rate_limited", 0),
        ("server_error", EACH),
        ("redirect", 0),
        ("reset_before", EACH),
        ("half_a_chunk", EACH),
        ("zero_usage", EACH),
    ):
        gateway.post(PATH, chat(metadata={"fault": fault}, stream=fault == "half_a_chunk"), **auth(key))
        used += charged
        refusal = gateway.post(PATH, chat(max_tokens=1000), **auth(key))
        assert refusal.json["tokenbox"]["left"] == 1000 - used, fault


def test_a_summary_whose_model_cannot_be_reached_costs_nothing(
    start_gateway: Gateways, upstream: Stub
) -> None:
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "100000 tokens/month", "--mode", "fit")
    config = CONFIG.format(url=upstream.url) + (
        'fit = ["compact"]\nsummary_model = "short"\n'
        f'[upstreams.away]\nurl = "http://127.0.0.1:{free_port()}"\nkind = "openai"\nmodels = ["short"]\n'
        "[models.stub]\nmax_ctx = 300\n[models.short]\nmax_ctx = 40000\n"
    )
    gateway = start_gateway(options=["--database", database], config=config)
    messages = [{"role": role, "content": "word " * 30} for role in ["user", "assistant"] * 10 + ["user"]]
    answer = gateway.post(PATH, chat(messages=messages), **auth(key))
    assert answer.status == 200, answer.data
    assert "evict" in answer.headers["x-tokenbox-fit"]
    assert '"refused":"summary_failed"' in gateway.log
    used = answer.json["usage"]["total_tokens"]

    def left() -> int:
        refusal = gateway.post(PATH, chat(max_tokens=1_000_000), x_tokenbox_mode="observe", **auth(key))
        return int(refusal.json["tokenbox"].get("left", -1))

    until(lambda: left() == 100_000 - used)


def test_a_client_that_leaves_is_charged_what_was_reserved_once(
    start_gateway: Gateways, upstream: Stub
) -> None:
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "1000 tokens/month")
    gateway = start_gateway(options=["--database", database], config=CONFIG.format(url=upstream.url))
    body = json.dumps(chat(metadata={"fault": "silent"})).encode()
    for _ in range(3):
        started = len(upstream.started)
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n"
                b"content-length: %d\r\n\r\n%s" % (key.encode(), len(body), body)
            )
            until(lambda: len(upstream.started) > started)  # noqa: B023  # used at once
    until(lambda: gateway.metric("tokenbox_upstream_running") == 0)

    def left() -> int:
        refusal = gateway.post(PATH, chat(max_tokens=1000), **auth(key))
        return int(refusal.json["tokenbox"]["left"])

    assert left() == 1000 - 3 * EACH


def test_the_first_event_of_a_stream_is_no_account_of_its_output(
    start_gateway: Gateways, upstream: Stub
) -> None:
    """Anthropic's says of the output what there is by then, one token. Who leaves after it pays for all."""
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "100000 tokens/month")
    gateway = start_gateway(options=["--database", database], config=CONFIG.format(url=upstream.url))
    path = "/v1/messages"

    def left() -> int:
        refusal = gateway.post(path, chat(max_tokens=200_000), x_api_key=key, x_tokenbox_mode="observe")
        return int(refusal.json["tokenbox"]["left"])

    whole = gateway.post(path, chat(max_tokens=900, stream=True), x_api_key=key)
    assert b"message_stop" in whole.data
    reported = usage_of(chat())["prompt_tokens"] + 3
    assert left() == 100_000 - reported
    for fault in ("half_a_chunk", "ends_early"):
        before = left()
        broken = chat(max_tokens=900, stream=True, metadata={"fault": fault})
        answer = gateway.post(path, broken, x_api_key=key)
        assert b"message_start" in answer.data
        assert b"message_stop" not in answer.data
        reserved = int(answer.headers["x-tokenbox-input-tokens"]) + 900
        # The stub reports another input there, so that its counts are estimates from then on.
        is_exact = answer.headers["x-tokenbox-estimated"] == "false"
        assert before - left() == reserved if is_exact else before - left() > reserved, fault


def test_embeddings_cost_what_their_input_costs(start_gateway: Gateways, upstream: Stub) -> None:
    """Their models have no price of output, and answers to them say nothing of it."""
    database = start_gateway.folder / "own.db"
    key = make_key(start_gateway, str(database), "--quota", "$1/month")
    prices = "[catalog.stub]\nprice_input = 2\n"
    config = CONFIG.format(url=upstream.url) + prices
    gateway = start_gateway(options=["--database", str(database)], config=config)
    answer = gateway.post("/v1/embeddings", {"model": "stub", "input": "word " * 100}, **auth(key))
    assert answer.status == 200, answer.data
    tokens = answer.json["usage"]["prompt_tokens"]
    refused = gateway.post(PATH, chat(), **auth(key))
    assert refused.json["error"]["code"] == "model_unpriced"  # its answers have tokens
    gateway.stop()
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT input_tokens, output_tokens, cost, exact FROM tokenbox_calls")
        ((input_tokens, output_tokens, cost, exact),) = rows
    assert (input_tokens, output_tokens, exact) == (tokens, 0, 1)
    assert Decimal(cost) == Decimal(2 * tokens) / 10**6


@pytest.fixture
def away(new_postgres: Callable[[], str]) -> Iterator[tuple[Cuttable, str, str]]:
    """A way to PostgreSQL, the address of a database by it, and its direct address."""
    direct = new_postgres()
    with psycopg.connect(direct) as connection:
        port = connection.info.port
    way = Cuttable(port)
    yield way, f"postgresql://postgres@127.0.0.1:{way.port}/{direct.rpartition('/')[2]}", direct
    way.close()


@pytest.mark.slow
def test_while_postgresql_is_silent_quotas_are_closed_nothing_hangs_and_nothing_is_lost(
    start_gateway: Gateways, upstream: Stub, away: tuple[Cuttable, str, str]
) -> None:
    way, database, direct = away
    key = make_key(start_gateway, direct, "--quota", "100000 tokens/month")
    free = make_key(start_gateway, direct)
    gateway = start_gateway(options=["--database", database], config=CONFIG.format(url=upstream.url))
    for number in range(5):
        assert gateway.post(PATH, chat(number), **auth(key)).status == 200
        assert gateway.post(PATH, chat(number), **auth(free)).status == 200
    way.silence()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: gateway.post(PATH, chat(n), **auth(key)), range(12)))
    assert {answer.status for answer in answers} == {503}, answers
    assert all(answer.headers["retry-after"] for answer in answers)
    assert '"refused":"quota_store_unavailable","cause":"' in gateway.log
    # Who has no quota is served: the key was good a moment ago, and records wait in the spool.
    assert gateway.post(PATH, chat(), **auth(free)).status == 200
    assert gateway.get("/readyz").status == 503
    assert gateway.get("/healthz").status == 200
    way.mend()
    until(lambda: gateway.post(PATH, chat(), **auth(key)).status == 200)
    gateway.stop()
    # What a busy machine had no time to record waits in the spool for the next start.
    start_gateway(options=["--database", database], config=CONFIG.format(url=upstream.url))
    sent = len(upstream.seen) - upstream.mark  # the stub's own count
    until(lambda: counts_in(direct) == (sent, 0))


def counts_in(database: str) -> tuple[int, int]:
    """How many calls are in the ledger, and how many reservations were not settled."""
    with psycopg.connect(database) as connection:
        calls = connection.execute("SELECT count(*) FROM tokenbox_calls").fetchone()
        reservations = connection.execute(
            "SELECT count(*) FROM tokenbox_quota_reservations WHERE amount >= 0"
        ).fetchone()
    assert calls is not None
    assert reservations is not None
    return calls[0], reservations[0]


@pytest.fixture(autouse=True)
def _mark(upstream: Stub) -> None:
    upstream.mark = len(upstream.seen)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path / "redis")
    server.start()
    yield server
    server.kill()


class OwnRedis:
    """A Redis of the test's own, which keeps what it has on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(redis_server(), "--port", str(self.port), "--dir", str(self.folder)),
                *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            ],
            stdout=subprocess.DEVNULL,
        )

        def answers() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as client:
                client.sendall(b"PING\r\n")
                return client.recv(5) == b"+PONG"
            return False

        until(answers)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["closed", "open"])
def test_redis_goes_away_and_comes_back(
    start_gateway: Gateways, upstream: Stub, own_redis: OwnRedis, policy: str
) -> None:
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "10000 tokens/month")
    options = ["--database", database, "--redis", own_redis.url]
    config = CONFIG.format(url=upstream.url) + f'when_away = "{policy}"\n'
    gateway = start_gateway(options=options, config=config)
    assert gateway.post(PATH, chat(), **auth(key)).status == 200

    def used() -> int:
        refusal = gateway.post(PATH, chat(max_tokens=7900), **auth(key))
        assert refusal.status == 429, refusal.data
        return 10000 - int(refusal.json["tokenbox"]["left"])

    for _ in range(200):  # until 7,900 more are too many
        if gateway.post(PATH, chat(max_tokens=7900), **auth(key)).status == 429:
            break
        for number in range(8):
            gateway.post(PATH, chat(number, metadata={"fault": "reset_before"}, max_tokens=90), **auth(key))
    before = used()
    # It stops in the middle of a request: what that used is settled when it is back, and once.
    started = len(upstream.started)
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        body = json.dumps(chat(metadata={"fault": "silent"})).encode()
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n"
            b"content-length: %d\r\n\r\n%s" % (key.encode(), len(body), body)
        )
        until(lambda: len(upstream.started) > started)
        own_redis.kill()
    # The gateway may still hold a block of the quota, which is reserved: that is spent, then it is closed.
    allowed = {200, 503} if policy == "closed" else {200}
    answers = [gateway.post(PATH, chat(), **auth(key)).status]
    assert answers[-1] in allowed
    assert gateway.get("/readyz").status == 503
    own_redis.start()
    until(lambda: gateway.get("/readyz").status == 200)
    assert before + EACH <= used() <= before + EACH * (1 + answers.count(200))
    # Stopped, and still there: connections are taken and nothing answers.
    own_redis.process.send_signal(signal.SIGSTOP)
    answers.append(gateway.post(PATH, chat(), **auth(key)).status)
    assert answers[-1] in allowed
    until(lambda: gateway.get("/readyz").status == 503)  # what was found before holds for a while
    own_redis.process.send_signal(signal.SIGCONT)
    until(lambda: gateway.get("/readyz").status == 200)
    # What nobody waited for may be done all the same once it goes on, and is settled then.
    until(lambda: before + EACH <= used() <= before + EACH * (1 + answers.count(200)))
    # It answers and cannot be written, such as one that a failover has left behind.
    with redis.Redis(port=own_redis.port) as operator:
        operator.config_set("min-replicas-to-write", 1)
    until(lambda: gateway.get("/readyz").status == 503)


def test_a_killed_gateway_loses_no_record_and_doubles_none(
    start_gateway: Gateways, upstream: Stub, tmp_path: Path
) -> None:
    database, state = str(tmp_path / "own.db"), str(tmp_path / "spool")
    config = CONFIG.format(url=upstream.url).replace("keys = true", f'keys = false\nstate = "{state}"')
    gateway = start_gateway(options=["--database", database], config=config)
    stop = threading.Event()

    def hammer() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with suppress(OSError, HTTPException):  # before an answer, and in one
                gateway.post(PATH, chat(number))

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(upstream.seen) - upstream.mark > 60)
    gateway.process.kill()
    stop.set()
    for thread in threads:
        thread.join()
    sent = len(upstream.seen) - upstream.mark
    # The next one that starts finds what was left.
    after = start_gateway(options=["--database", database], config=config)
    until(lambda: after.metric("tokenbox_spool_files_waiting") == 0)
    after.stop()
    with closing(sqlite3.connect(database)) as connection:
        (recorded,) = connection.execute("SELECT count(*) FROM tokenbox_calls").fetchone()
        (whole,) = connection.execute(
            "SELECT count(*) FROM tokenbox_calls WHERE finished IS NOT NULL"
        ).fetchone()
    # What was recorded and not sent yet is at most one for each of the four.
    assert sent <= recorded <= sent + 4
    assert recorded - 4 <= whole <= recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stores", "fault"),
    [("sqlite", "silent"), ("sqlite", "stalls"), ("postgresql", "stalls"), ("redis", "silent")],
    indirect=["stores"],
)
def test_what_a_killed_gateway_had_under_way_stays_charged_and_is_in_the_ledger_once(
    start_gateway: Gateways, upstream: Stub, stores: tuple[str, list[str]], tmp_path: Path, fault: str
) -> None:
    """Nobody knows what the upstream used; what had ended before is charged as it was."""
    database, options = stores
    limit, reserved = 100_000, 970
    key = make_key(start_gateway, database, "--quota", f"{limit} tokens/month")
    state = f'state = "{tmp_path / "spool"}"\n'
    config = CONFIG.format(url=upstream.url) + state

    def left_and_recorded(gateway: RunningGateway) -> tuple[int, int, int]:
        """What is left, and how many calls are in the ledger, of which how many never ended."""
        until(lambda: gateway.metric("tokenbox_spool_files_waiting") == 0)
        refusal = gateway.post(PATH, chat(max_tokens=limit), **auth(key), x_tokenbox_mode="observe")
        assert refusal.status == 429
        with open_store(database) as store:
            totals = store.calls.totals()
        return int(refusal.json["tokenbox"]["left"]), totals.calls, totals.unfinished

    killed = start_gateway(options=options, config=config)
    assert killed.post(PATH, chat(), **auth(key)).status == 200
    started = len(upstream.started)
    body = chat(metadata={"fault": fault}, stream=fault == "stalls", max_tokens=reserved)
    connection = HTTPConnection(killed.url.removeprefix("http://"), timeout=SECONDS)
    connection.request("POST", PATH, json.dumps(body), {"content-type": "application/json", **auth(key)})
    until(lambda: len(upstream.started) > started)
    if fault == "stalls":
        assert connection.getresponse().read(20)
    killed.process.kill()
    killed.process.wait()
    connection.close()
    expected = (limit - EACH - (EACH - 3 + reserved), 2, 1)
    following = start_gateway(options=options, config=config)
    assert left_and_recorded(following) == expected
    assert following.stop() == 0
    gateway = start_gateway(options=options, config=config)
    assert left_and_recorded(gateway) == expected  # it finds nothing any more
    # Somebody else's requests go on, and what is left can be used.
    assert gateway.post(PATH, chat(), **auth(key)).status == 200
    assert left_and_recorded(gateway) == (expected[0] - EACH, 3, 1)


@pytest.fixture(scope="module")
def small(shared_gateways: Gateways, plain: Shared) -> Shared:
    """A gateway, and a key that may use next to nothing."""
    return plain[0], make_key(shared_gateways, plain[1], "--quota", "100 tokens/month")


@pytest.mark.parametrize(
    "more",
    [
        {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
        {"modalities": ["image", "text"]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": ""}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": HOUR}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}, "cache_control": HOUR}]},
        {"prompt_cache_options": {"ttl": "12h"}},
    ],
    ids=str,
)
@pytest.mark.slow
def test_what_has_a_price_of_its_own_is_not_sent_under_a_quota_of_money(
    shared_gateways: Gateways, upstream: Stub, priced: Shared, more: dict[str, Any]
) -> None:
    gateway, database = priced
    key = make_key(shared_gateways, database, "--quota", "$1/month")
    before = len(upstream.seen)
    assert gateway.post(PATH, {**chat(), "modalities": ["text"]}, **auth(key)).status == 200
    refusal = gateway.post(PATH, {**chat(), **more}, **auth(key))
    assert (refusal.status, refusal.json["error"]["code"]) == (403, "model_unpriced")
    assert len(upstream.seen) == before + 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_cache_of_an_hour_costs_its_own_price_and_fits_what_was_reserved(
    start_gateway: Gateways, upstream: Stub, stream: bool
) -> None:
    database = str(start_gateway.folder / "own.db")
    key = make_key(start_gateway, database, "--quota", "$1/month")
    more = 'price_cached_input = "0.03"\nprice_cache_write = "0.4"\nprice_cache_write_1h = "7"\n'
    config = CONFIG.format(url=upstream.url) + PRICES + more
    gateway = start_gateway(options=["--database", database], config=config)
    block = {"type": "text", "text": "a" * 400, "cache_control": HOUR}
    body = chat(messages=[{"role": "user", "content": [block]}], stream=stream)
    assert gateway.post("/v1/messages", body, **auth(key)).status == 200
    day_long = chat(messages=[{"role": "user", "content": [{**block, "cache_control": {"ttl": "24h"}}]}])
    assert gateway.post("/v1/messages", day_long, **auth(key)).status == 403
    with open_store(database) as store:
        until(lambda: store.calls.totals().unfinished == 0 and store.calls.totals().calls == 1)
        (call,) = store.calls.each()
    assert call.usage.input_tokens == call.usage.cache_write_1h_tokens
    assert call.usage.input_tokens is not None
    dollars = (call.usage.input_tokens * 7 + 3 * Decimal("1.7777")) / 10**6
    assert (call.cost.dollars, call.cost.exact) == (dollars, True)
    assert call.predicted.at_most is not None
    assert call.predicted.at_most >= dollars


@pytest.mark.slow
def test_what_is_predicted_may_be_charged_as_output(shared_gateways: Gateways, priced: Shared) -> None:
    gateway, database = priced
    key = make_key(shared_gateways, database, "--quota", "$0.000001/month")
    needs = []
    for field in ("x_unknown", "prediction"):
        text = {"type": "content", "content": "word " * 200}
        refusal = gateway.post(PATH, {**chat(), field: text}, **auth(key))
        assert refusal.status == 429, refusal.data
        needs.append(refusal.json["tokenbox"]["needs"])
    assert needs[1] > needs[0] + 1_000


@pytest.mark.parametrize(
    ("path", "body", "reserved"),
    [
        ("/v1/completions", {"prompt": "hi", "n": 2, "best_of": 5, "max_tokens": 30}, 150),
        ("/v1/completions", {"prompt": ["a", "b", [1, 2]], "n": 2, "max_tokens": 30}, 180),
        (PATH, {"messages": [], "n_cmpl": 4, "max_tokens": 30}, 120),
        (PATH, {"messages": [], "max_tokens": 3, "n_predict": 150}, 150),
        # Without a limit, in whatever way it is said.
        (PATH, {"messages": [], "max_tokens": 3, "n_predict": -1}, 4096),
        ("/v1/responses", {"input": "hi", "max_output_tokens": 3, "max_tokens": -1}, 4096),
    ],
    ids=str,
)
def test_a_request_takes_all_that_it_may_make(
    small: Shared, upstream: Stub, path: str, body: dict[str, Any], reserved: int
) -> None:
    gateway, key = small
    before = len(upstream.seen)
    refused = gateway.post(path, {"model": "stub", **body}, **auth(key))
    assert refused.status == 429, refused.data
    needs = refused.json["tokenbox"]["needs"]
    beside = needs - int(refused.headers["x-tokenbox-input-tokens"])
    # Of an estimate its bound is reserved, which is more than what the header says.
    assert beside == reserved or (refused.headers["x-tokenbox-estimated"] == "true" and beside > reserved)
    assert len(upstream.seen) == before


@pytest.mark.parametrize(
    ("path", "more", "runs"),
    [
        ("/v1/messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}, 2),
        ("/v1/messages", {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, 1),
        ("/v1/messages", {"compaction": {"type": "summarize"}}, 2),
        ("/v1/messages", {"fallbacks": [{"model": "stub"}, {"model": "small"}, {"model": "other"}]}, 3),
        ("/v1/responses", {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]}, 2),
        ("/v1/responses", {"input": [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]}, 2),
    ],
    ids=str,
)
def test_each_run_of_a_model_is_reserved(small: Shared, path: str, more: dict[str, Any], runs: int) -> None:
    gateway, key = small
    limit, said = ("max_output_tokens", "input") if path.endswith("responses") else ("max_tokens", "messages")
    plain = {"model": "stub", limit: 3_000, said: [{"role": "user", "content": "hi"}]}
    needs = []
    for body in (plain, {**plain, **more}):
        refused = gateway.post(path, body, **auth(key))
        assert refused.status == 429, refused.data
        needs.append(refused.json["tokenbox"]["needs"])
    # What the field itself may cost is less than a run.
    assert runs * needs[0] <= needs[1] < (runs + 1) * needs[0]


@pytest.mark.slow
def test_no_limit_is_left_that_says_there_is_none(
    start_gateway: Gateways, upstream: Stub, plain: Shared
) -> None:
    gateway, database = plain
    key = make_key(start_gateway, database, "--quota", "100000 tokens/month")
    body = {"model": "stub", "messages": [], "max_tokens": 3, "n_predict": -1}
    assert gateway.post(PATH, body, **auth(key)).status == 200
    sent = upstream.seen[-1]
    assert (sent["max_tokens"], sent["n_predict"]) == (3, 4096)
    openai = CONFIG.format(url=upstream.url).replace('kind = "vllm"', 'kind = "openai"')
    gateway = start_gateway(options=["--database", database], config=openai + "[policy]\nmax_ctx = 8000\n")
    assert gateway.post(PATH, {"model": "gpt-5", "messages": []}, **auth(key)).status == 200
    sent = upstream.seen[-1]
    assert sent["max_completion_tokens"] == 4096
    assert "max_tokens" not in sent  # which OpenAI's models that think refuse


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ({"n_predict": 3}, {"n_predict": 3, "max_tokens": 3}),  # llama.cpp's own, which vLLM ignores
        ({"max_tokens": 3}, {"max_tokens": 3}),
        ({"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
    ],
)
def test_a_limit_that_the_server_ignores_is_none(
    quoted: Shared, upstream: Stub, limit: dict[str, int], sent: dict[str, int]
) -> None:
    gateway, key = quoted
    body = {name: value for name, value in chat().items() if name != "max_tokens"}
    assert gateway.post(PATH, {**body, **limit}, **auth(key)).status == 200
    assert {name: value for name, value in upstream.seen[-1].items() if name not in body} == sent


@pytest.fixture(scope="module")
def quoted(shared_gateways: Gateways, plain: Shared) -> Shared:
    """A gateway, and a key with a quota that is never used up."""
    return plain[0], make_key(shared_gateways, plain[1], "--quota", "1000000000 tokens/day")
