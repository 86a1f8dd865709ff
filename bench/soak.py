"""A long run of the gateway under a sustainable load, with faults: ``python bench/soak.py --minutes 20``.

Two gateways with keys and quotas share one PostgreSQL database and quotas in Redis. Connections to both
stores are cut and silenced, the upstream fails in every way, clients disconnect and read slowly, settings
are reloaded, and one gateway is killed and restarted. At the end it checks: Was each request answered? Does
the ledger contain each call of the upstream exactly once, with its figures, and nothing else? Was each quota
charged what was used and never exceeded? Are memory and open files stable? The expected figures are the
soak's own (``soaking``). PostgreSQL and Redis must be running (--postgres, --redis); the soak removes what
it created there. The table goes to bench/results/soak.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import uvloop
from bench_gateway import free_port, running
from soaking.audit import Ending, FinishedRequest, ending_of
from soaking.clients import Clients, Response, wrong_in
from soaking.fleet import (
    POLICIES,
    UPSTREAM_KEY,
    Database,
    Gateway,
    Keys,
    Metrics,
    QuotaStore,
    make_keys,
    new_gateway,
    write_config,
)
from soaking.memory import MORE_FILES, MORE_TASKS
from soaking.proxy import Proxy
from soaking.request_mix import Behaviour, Mix, Request
from soaking.table import Findings, table
from soaking.words import reserved_in, tokens_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
GATEWAYS = 2
SAMPLE_SECONDS = 2.0
# The soak is not a load test: it pauses at this number of requests in flight.
MAX_IN_FLIGHT = 400
# Time between faults of the stores, and their duration; shorter in short runs, so that all faults occur.
BETWEEN_SECONDS, OUTAGE_SECONDS = 25.0, 8.0
# A response may still report an outage this long after its end.
RECOVERY_SECONDS = 10.0
SETTLE_SECONDS = 45.0
KILLED_AFTER = 0.4  # of the run
# A gateway records within this time that a client has disconnected.
JUST_NOW_SECONDS = 2.0
# Requests with slow answers that are sent to a gateway right before it is killed.
SENT_BEFORE_KILL = 12


@dataclass(frozen=True, slots=True)
class Outage:
    """A period in which a store was unreachable."""

    store: str
    how: str
    began: float
    ended: float


@dataclass
class Soak:
    """The load, the faults, and the observations of the clients."""

    options: argparse.Namespace
    folder: Path
    database: Database
    quota_store: QuotaStore
    keys: Keys
    upstream: int
    gateways: list[Gateway] = field(default_factory=list)
    finished: dict[int, FinishedRequest] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    given_up: int = 0
    held_back: int = 0
    in_flight_when_killed: int = 0
    killed_at: float | None = None
    found_by_successor: int = 0
    slowest: tuple[float, str] = (0.0, "")
    policy: int = 0

    def __post_init__(self) -> None:
        self.mix = Mix(8)
        self.clients: Clients
        self.to_postgres = Proxy(self.database.host, self.database.port)
        self.to_redis = Proxy(self.quota_store.host, self.quota_store.port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[int, int] = {}
        self._down_since: dict[str, float] = {}
        self._cut_off: set[int] = set()
        # When clients disconnected, and the numbers of their requests, by gateway.
        self._left: dict[int, list[tuple[float, int]]] = {number: [] for number in range(GATEWAYS)}

    async def run(self) -> None:
        await self.to_postgres.open()
        await self.to_redis.open()
        for number in range(GATEWAYS):
            self.gateways.append(new_gateway(number, self.folder))
        self.configure()
        await asyncio.gather(*(asyncio.to_thread(gateway.start) for gateway in self.gateways))
        self.clients = Clients()
        for gateway in self.gateways:
            gateway.run.idle = await self.metrics_of(gateway)
        helpers = [asyncio.ensure_future(self.sample()), asyncio.ensure_future(self.faults())]
        try:
            await self.load()
            await helpers[1]
        finally:
            helpers[0].cancel()
            with suppress(asyncio.CancelledError):
                await helpers[0]
            await self.clients.close()
        await self.settle()
        for gateway in self.gateways:
            code = await asyncio.to_thread(gateway.stop)
            if code:
                self.wrong.append(f"gateway {gateway.number} ended with {code}")

    def end(self) -> None:
        """Kill the gateways that still run."""
        for gateway in self.gateways:
            gateway.kill()

    # The load.

    async def load(self) -> None:
        seconds = self.options.minutes * 60
        until = time.monotonic() + seconds
        chance = self.mix.random
        while time.monotonic() < until:
            if len(self._tasks) >= MAX_IN_FLIGHT:
                self.held_back += 1
                await asyncio.sleep(0.05)
                continue
            request = self.mix.next()
            gateway = chance.choice([one for one in self.gateways if one.is_up])
            self.spawn(self.send(gateway, request))
            await asyncio.sleep(chance.expovariate(self.options.rate))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def send(self, gateway: Gateway, request: Request) -> None:
        run = gateway.run
        run.requests += 1
        self._in_flight[request.number] = gateway.number
        try:
            response = await self.clients.send(gateway.url, request, self.keys.secrets[request.key])
        finally:
            del self._in_flight[request.number]
        ending = self.judge(request, response, killed=request.number in self._cut_off)
        if ending is Ending.LEFT:
            self._left[gateway.number].append((response.ended, request.number))
        self.finished[request.number] = FinishedRequest(
            number=request.number,
            kind=request.kind,
            api=request.api,
            key=request.key,
            tokens=tokens_of(request.body),
            reserved=reserved_in(request.body),
            ending=ending,
            status=response.status,
            code=response.code,
            began=response.began,
        )

    def judge(self, request: Request, response: Response, *, killed: bool) -> Ending:
        """Return how the request ended; record what is wrong with the response."""
        special = request.fault or request.behaviour
        about = f"{request.kind}, {request.api}, {request.key}, {special} ({request.number})"
        if response.data is None:
            if killed:
                return Ending.KILLED
            if request.behaviour is Behaviour.LEAVES_SENDING:
                return Ending.HALF
            if request.behaviour.leaves:
                self.given_up += request.behaviour is Behaviour.READS_NOTHING and response.error is not None
                return Ending.LEFT
            seconds = response.ended - response.began
            self.wrong.append(f"{about}: {response.error}, after {seconds:.1f} s, {response.status}")
            return Ending.LOST
        self.slowest = max(self.slowest, (response.ended - response.began, request.kind))
        if UPSTREAM_KEY.encode() in response.data:
            self.wrong.append(f"{about}: the key of the upstream is in the answer")
        is_allowed = (response.status, response.code) in request.allowed
        if not is_allowed and not self.reports_outage(request, response):
            self.wrong.append(f"{about}: {response.status} {response.code} {response.data[:300]!r}")
        elif response.status == 200:
            if request.has_quota and self.within_outage("Redis", response):
                self.served.append(about)
            if wrong := wrong_in(request, response):
                self.wrong.append(f"{about}: {wrong}")
        return ending_of(request.fault, response.status)

    def reports_outage(self, request: Request, response: Response) -> bool:
        """Return True if the error is that of a store, and the store was down."""
        if (response.status, response.code) == (503, "quota_store_unavailable"):
            return request.has_quota and self.overlaps_outage("Redis", response)
        if (response.status, response.code) == (503, "keys_unavailable"):
            # Valid keys are cached for five minutes; an unknown key cannot be checked.
            return request.key == "nobody" and self.overlaps_outage("PostgreSQL", response)
        return False

    def overlaps_outage(self, store: str, response: Response) -> bool:
        """Return True if the store was down during a part of the request, or shortly before."""
        since = self._down_since.get(store)
        return (since is not None and since < response.ended) or any(
            outage.store == store
            and outage.began < response.ended
            and response.began < outage.ended + RECOVERY_SECONDS
            for outage in self.outages
        )

    def within_outage(self, store: str, response: Response) -> bool:
        """Return True if the store was down during the whole request."""
        since = self._down_since.get(store)
        return (since is not None and since < response.began) or any(
            outage.store == store and outage.began < response.began and response.ended < outage.ended
            for outage in self.outages
        )

    # The faults.

    async def faults(self) -> None:
        seconds = self.options.minutes * 60
        between = min(BETWEEN_SECONDS, seconds / 9)
        duration = min(OUTAGE_SECONDS, between / 2)
        began = time.monotonic()
        turns: list[Callable[[], Awaitable[None]]] = [
            lambda: self.take_down("Redis", "refuses connections", duration),
            self.reload,
            lambda: self.take_down("PostgreSQL", "refuses connections", duration),
            lambda: self.take_down("Redis", "is silent", duration),
            self.drop,
            lambda: self.take_down("PostgreSQL", "is silent", duration),
            self.reload,
        ]
        turn = 0
        was_killed = False
        while True:
            await asyncio.sleep(between * 0.9 - (duration if turn else 0))
            passed = time.monotonic() - began
            if passed > seconds - duration - 2:
                return
            if not was_killed and passed > seconds * KILLED_AFTER:
                was_killed = True
                await self.kill(self.gateways[-1])
                continue
            await turns[turn % len(turns)]()
            turn += 1

    async def take_down(self, store: str, how: str, seconds: float) -> None:
        proxy = self.to_redis if store == "Redis" else self.to_postgres
        self.events[f"{store} {how} for {seconds:.0f} s"] += 1
        if how == "is silent":
            proxy.silence()
        else:
            await proxy.close()
        began = self._down_since[store] = time.time()
        await asyncio.sleep(seconds)
        self.outages.append(Outage(store, how, began, time.time()))
        del self._down_since[store]
        await proxy.open()

    async def drop(self) -> None:
        """Break all connections to both stores; new ones succeed at once."""
        self.events["connections to both stores break"] += 1
        self.to_postgres.drop()
        self.to_redis.drop()

    async def reload(self) -> None:
        """Reload other settings by SIGHUP, and probe with a request that only one of them allows."""
        self.events["settings are reloaded"] += 1
        self.policy += 1
        self.configure()
        reloading = [gateway for gateway in self.gateways if gateway.is_up]
        for gateway in reloading:
            gateway.reload()
        deadline = time.monotonic() + 10
        while not all(gateway.has_reloaded() for gateway in reloading):
            if time.monotonic() > deadline:
                self.wrong.append("settings were not reloaded within 10 s")
                return
            await asyncio.sleep(0.05)
        for gateway in reloading:
            request = self.mix.of("a probe after a reload")
            if POLICIES[self.policy % len(POLICIES)][1] < 6_000:
                request.allowed = {(400, "context_length_exceeded")}
            self.spawn(self.send(gateway, request))

    async def kill(self, gateway: Gateway) -> None:
        """Kill the gateway while the database is down, so that only its spool contains the last calls."""
        self.events["a gateway is killed while PostgreSQL refuses connections, and started again"] += 1
        await self.to_postgres.close()
        self._down_since["PostgreSQL"] = began = time.time()
        await asyncio.sleep(min(3.0, self.options.minutes * 3))
        for _ in range(SENT_BEFORE_KILL):
            self.spawn(self.send(gateway, self.mix.of("a slow upstream")))
        await asyncio.sleep(0.2)
        gateway.is_up = False
        self._cut_off |= {number for number, where in self._in_flight.items() if where == gateway.number}
        self.in_flight_when_killed = len(self._cut_off)
        just_now = time.time() - JUST_NOW_SECONDS
        for ended, number in self._left[gateway.number]:
            self.finished[number].was_cut = ended > just_now
        self.killed_at = time.time()
        await asyncio.to_thread(gateway.kill)
        gateway.reloads = 0
        gateway.log.rename(gateway.log.with_name("log.killed"))
        self.found_by_successor = gateway.files_waiting
        await self.to_postgres.open()
        self.outages.append(Outage("PostgreSQL", "refuses connections", began, time.time()))
        del self._down_since["PostgreSQL"]
        await asyncio.to_thread(gateway.start)
        gateway.run.idle = await self.metrics_of(gateway)

    def configure(self) -> None:
        for gateway in self.gateways:
            write_config(
                gateway,
                self.policy,
                database=self.database.by(self.to_postgres.port),
                quotas=self.quota_store.by(self.to_redis.port),
                upstream=self.upstream,
            )

    # What is measured.

    async def sample(self) -> None:
        while True:
            for gateway in self.gateways:
                if gateway.is_up:
                    gateway.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def metrics_of(self, gateway: Gateway) -> Metrics:
        async with aiohttp.ClientSession() as session, session.get(f"{gateway.url}/metrics") as answer:
            page = await answer.text()
        return Metrics.of(page, gateway.open_files())

    async def settle(self) -> None:
        """Wait after the load until the spools are empty and unused connections are closed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        for gateway in self.gateways:
            run = gateway.run
            while True:
                run.at_rest = found = await self.metrics_of(gateway)
                waits = found.files_waiting or found.running or found.tasks > run.idle.tasks + MORE_TASKS
                if not (waits or found.files > run.idle.files + MORE_FILES) or time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=60, help="requests per second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--postgres", default="postgresql://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/0")
    parser.add_argument("--samples", type=Path, help="a file for all samples of memory, as JSON")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        database = Database(options.postgres)
        stack.callback(database.drop)
        quota_store = QuotaStore(options.redis)
        keys = make_keys(database.direct)
        ids = list(keys.ids.values())
        stack.callback(quota_store.forget, ids)
        port = free_port()
        notes = folder / "notes"
        command = [sys.executable, str(HERE / "soaking" / "upstream.py"), str(port), str(notes)]
        stub = stack.enter_context(running("upstream", command, port, name))
        soak = Soak(options, folder, database, quota_store, keys, port)
        stack.callback(soak.end)
        uvloop.run(soak.run())
        assert stub.process.poll() is None
        lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
        if options.samples:
            options.samples.write_text(
                json.dumps(
                    {f"{g.number}.{n}": run.samples for g in soak.gateways for n, run in enumerate(g.runs)}
                )
            )
        findings = Findings.of(soak, lines, (before, os.getloadavg()[0]))
    text = table(findings)
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "soak.md").write_text(text, encoding="utf-8")
    return int("**NO**" in text)


if __name__ == "__main__":
    sys.exit(main())
