"""A long run of the gateway under a load it can hold, with faults: ``python bench/soak.py --minutes 20``.

Two gateways with keys and quotas, one database of PostgreSQL, quotas in Redis; the ways to both are cut and
silenced, an upstream fails in every way, clients leave and dawdle, settings are read anew, and one gateway is
killed and started again. In the end: was each request answered, is each that came to the upstream in the
ledger once, with its figures, and nothing else, was each quota charged what was used and never passed, and
did memory and open files stay where they were? The count is the soak's own (``soaking``). PostgreSQL and
Redis have to run (--postgres, --redis); they are left as they were. The table goes to bench/results/soak.md.
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
from soaking.asks import Ask, Manner, Mix
from soaking.clients import Clients, Seen, wrong_in
from soaking.count import Fate, Lived, fate_of
from soaking.fleet import (
    POLICIES,
    UPSTREAM_KEY,
    Database,
    Figures,
    Gateway,
    Keys,
    Levels,
    make_keys,
    new_gateway,
    write_config,
)
from soaking.memory import MORE_FILES, MORE_TASKS
from soaking.table import Findings, table
from soaking.ways import Way
from soaking.words import reserved_in, tokens_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
GATEWAYS = 2
SAMPLE_SECONDS = 2.0
# Most requests at a time: above it the soak waits, for it is not a test of how much a gateway can take.
MOST = 400
# From one fault of the stores to the next, and how long one lasts: in short runs, so that each has its turn.
BETWEEN_SECONDS, AWAY_SECONDS = 25.0, 8.0
# Answers that say that a store is away may come so long after it is back.
BACK_SECONDS = 10.0
REST_SECONDS = 45.0
KILLED_AFTER = 0.4
# A gateway has noticed by then that a client has left, and recorded it.
JUST_NOW_SECONDS = 2.0
# So many requests with slow answers are sent to a gateway right before it is killed.
AT_THE_KILLED = 12


@dataclass(frozen=True, slots=True)
class Away:
    """A time in which a store was not to be reached."""

    what: str
    how: str
    began: float
    ended: float


@dataclass
class Soak:
    """The load, the faults, and what clients saw."""

    options: argparse.Namespace
    folder: Path
    database: Database
    levels: Levels
    keys: Keys
    upstream: int
    gateways: list[Gateway] = field(default_factory=list)
    lives: dict[int, Lived] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    aways: list[Away] = field(default_factory=list)
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
        self.to_postgres = Way(self.database.host, self.database.port)
        self.to_redis = Way(self.levels.host, self.levels.port)
        self._asking: set[asyncio.Task[None]] = set()
        self._flying: dict[int, int] = {}
        self._away_since: dict[str, float] = {}
        self._doomed: set[int] = set()
        # The numbers and ends of clients that left, by gateway.
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
            gateway.life.idle = await self.figures_of(gateway)
        helpers = [asyncio.ensure_future(self.sample()), asyncio.ensure_future(self.faults())]
        try:
            await self.load()
            await helpers[1]
        finally:
            helpers[0].cancel()
            with suppress(asyncio.CancelledError):
                await helpers[0]
            await self.clients.close()
        await self.rest()
        for gateway in self.gateways:
            code = await asyncio.to_thread(gateway.stop)
            if code:
                self.wrong.append(f"gateway {gateway.number} ended with {code}")

    def end(self) -> None:
        """Whatever happened: no gateway stays."""
        for gateway in self.gateways:
            gateway.kill()

    # The load.

    async def load(self) -> None:
        seconds = self.options.minutes * 60
        until = time.monotonic() + seconds
        chance = self.mix.random
        while time.monotonic() < until:
            if len(self._asking) >= MOST:
                self.held_back += 1
                await asyncio.sleep(0.05)
                continue
            ask = self.mix.next()
            gateway = chance.choice([one for one in self.gateways if one.is_up])
            self.spawn(self.one(gateway, ask))
            await asyncio.sleep(chance.expovariate(self.options.rate))
        if self._asking:
            await asyncio.wait(self._asking)

    def spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def one(self, gateway: Gateway, ask: Ask) -> None:
        life = gateway.life
        life.requests += 1
        self._flying[ask.number] = gateway.number
        try:
            seen = await self.clients.ask(gateway.url, ask, self.keys.secrets[ask.key])
        finally:
            del self._flying[ask.number]
        fate = self.judge(ask, seen, killed=ask.number in self._doomed)
        if fate is Fate.LEFT:
            self._left[gateway.number].append((seen.ended, ask.number))
        self.lives[ask.number] = Lived(
            number=ask.number,
            kind=ask.kind,
            api=ask.api,
            key=ask.key,
            tokens=tokens_of(ask.body),
            reserved=reserved_in(ask.body),
            fate=fate,
            status=seen.status,
            code=seen.code,
            began=seen.began,
        )

    def judge(self, ask: Ask, seen: Seen, *, killed: bool) -> Fate:
        """What became of it; what is wrong with that is noted."""
        who = f"{ask.kind}, {ask.api}, {ask.key}, {ask.fault or ask.manner} ({ask.number})"
        if seen.data is None:
            if killed:
                return Fate.KILLED
            if ask.manner is Manner.LEAVES_SENDING:
                return Fate.HALF
            if ask.manner.leaves:
                self.given_up += ask.manner is Manner.READS_NOTHING and seen.error is not None
                return Fate.LEFT
            self.wrong.append(f"{who}: {seen.error}, after {seen.ended - seen.began:.1f} s, {seen.status}")
            return Fate.LOST
        self.slowest = max(self.slowest, (seen.ended - seen.began, ask.kind))
        if UPSTREAM_KEY.encode() in seen.data:
            self.wrong.append(f"{who}: the key of the upstream is in the answer")
        if (seen.status, seen.code) not in ask.allowed and not self.is_away(ask, seen):
            self.wrong.append(f"{who}: {seen.status} {seen.code} {seen.data[:300]!r}")
        elif seen.status == 200:
            if ask.has_quota and self.was_away("Redis", seen):
                self.served.append(who)
            if wrong := wrong_in(ask, seen):
                self.wrong.append(f"{who}: {wrong}")
        return fate_of(ask.fault, seen.status)

    def is_away(self, ask: Ask, seen: Seen) -> bool:
        """Whether it was refused because of a store that is away, and says so."""
        if (seen.status, seen.code) == (503, "quota_store_unavailable"):
            return ask.has_quota and self.touches("Redis", seen)
        if (seen.status, seen.code) == (503, "keys_unavailable"):
            # Keys that were good in the last five minutes still are; of a wrong one nobody knows.
            return ask.key == "nobody" and self.touches("PostgreSQL", seen)
        return False

    def touches(self, what: str, seen: Seen) -> bool:
        """Whether the store was away in some of the time in which it was asked, or shortly before."""
        since = self._away_since.get(what)
        return (since is not None and since < seen.ended) or any(
            away.what == what and away.began < seen.ended and seen.began < away.ended + BACK_SECONDS
            for away in self.aways
        )

    def was_away(self, what: str, seen: Seen) -> bool:
        """Whether it was asked and answered while the store was away."""
        since = self._away_since.get(what)
        return (since is not None and since < seen.began) or any(
            away.what == what and away.began < seen.began and seen.ended < away.ended for away in self.aways
        )

    # The faults.

    async def faults(self) -> None:
        seconds = self.options.minutes * 60
        between = min(BETWEEN_SECONDS, seconds / 9)
        away = min(AWAY_SECONDS, between / 2)
        began = time.monotonic()
        turns: list[Callable[[], Awaitable[None]]] = [
            lambda: self.away("Redis", "refuses connections", away),
            self.reload,
            lambda: self.away("PostgreSQL", "refuses connections", away),
            lambda: self.away("Redis", "is silent", away),
            self.drop,
            lambda: self.away("PostgreSQL", "is silent", away),
            self.reload,
        ]
        turn = 0
        was_killed = False
        while True:
            await asyncio.sleep(between * 0.9 - (away if turn else 0))
            passed = time.monotonic() - began
            if passed > seconds - away - 2:
                return
            if not was_killed and passed > seconds * KILLED_AFTER:
                was_killed = True
                await self.kill(self.gateways[-1])
                continue
            await turns[turn % len(turns)]()
            turn += 1

    async def away(self, what: str, how: str, seconds: float) -> None:
        way = self.to_redis if what == "Redis" else self.to_postgres
        self.events[f"{what} {how} for {seconds:.0f} s"] += 1
        if how == "is silent":
            way.silence()
        else:
            await way.close()
        began = self._away_since[what] = time.time()
        await asyncio.sleep(seconds)
        self.aways.append(Away(what, how, began, time.time()))
        del self._away_since[what]
        await way.open()

    async def drop(self) -> None:
        """Every connection to both stores breaks, and new ones are taken at once."""
        self.events["connections to both stores break"] += 1
        self.to_postgres.drop()
        self.to_redis.drop()

    async def reload(self) -> None:
        """Other settings by SIGHUP; a request that only one of them takes shows which are in force."""
        self.events["settings are read anew"] += 1
        self.policy += 1
        self.configure()
        asked = [gateway for gateway in self.gateways if gateway.is_up]
        for gateway in asked:
            gateway.reload()
        deadline = time.monotonic() + 10
        while not all(gateway.has_reloaded() for gateway in asked):
            if time.monotonic() > deadline:
                self.wrong.append("settings were not read anew within 10 s")
                return
            await asyncio.sleep(0.05)
        for gateway in asked:
            ask = self.mix.of("a probe after a reload")
            if POLICIES[self.policy % len(POLICIES)][1] < 6_000:
                ask.allowed = {(400, "context_length_exceeded")}
            self.spawn(self.one(gateway, ask))

    async def kill(self, gateway: Gateway) -> None:
        """While the database is away, so that its spool has what nobody else has."""
        self.events["a gateway is killed while PostgreSQL refuses connections, and started again"] += 1
        await self.to_postgres.close()
        self._away_since["PostgreSQL"] = began = time.time()
        await asyncio.sleep(min(3.0, self.options.minutes * 3))
        for _ in range(AT_THE_KILLED):
            self.spawn(self.one(gateway, self.mix.of("a slow upstream")))
        await asyncio.sleep(0.2)
        gateway.is_up = False
        self._doomed |= {number for number, where in self._flying.items() if where == gateway.number}
        self.in_flight_when_killed = len(self._doomed)
        just_now = time.time() - JUST_NOW_SECONDS
        for ended, number in self._left[gateway.number]:
            self.lives[number].was_cut = ended > just_now
        self.killed_at = time.time()
        await asyncio.to_thread(gateway.kill)
        gateway.reloads = 0
        gateway.log.rename(gateway.log.with_name("log.killed"))
        self.found_by_successor = gateway.files_waiting
        await self.to_postgres.open()
        self.aways.append(Away("PostgreSQL", "refuses connections", began, time.time()))
        del self._away_since["PostgreSQL"]
        await asyncio.to_thread(gateway.start)
        gateway.life.idle = await self.figures_of(gateway)

    def configure(self) -> None:
        for gateway in self.gateways:
            write_config(
                gateway,
                self.policy,
                database=self.database.by(self.to_postgres.port),
                quotas=self.levels.by(self.to_redis.port),
                upstream=self.upstream,
            )

    # What is measured.

    async def sample(self) -> None:
        while True:
            for gateway in self.gateways:
                if gateway.is_up:
                    gateway.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def figures_of(self, gateway: Gateway) -> Figures:
        async with aiohttp.ClientSession() as session, session.get(f"{gateway.url}/metrics") as answer:
            page = await answer.text()
        return Figures.of(page, gateway.open_files())

    async def rest(self) -> None:
        """After the load: until nothing waits in the spools, and what nobody uses is closed."""
        deadline = time.monotonic() + REST_SECONDS
        for gateway in self.gateways:
            life = gateway.life
            while True:
                life.rested = found = await self.figures_of(gateway)
                waits = found.files_waiting or found.running or found.tasks > life.idle.tasks + MORE_TASKS
                if not (waits or found.files > life.idle.files + MORE_FILES) or time.monotonic() > deadline:
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
        levels = Levels(options.redis)
        keys = make_keys(database.direct)
        ids = list(keys.ids.values())
        stack.callback(levels.forget, ids)
        port = free_port()
        notes = folder / "notes"
        command = [sys.executable, str(HERE / "soaking" / "upstream.py"), str(port), str(notes)]
        stub = stack.enter_context(running("upstream", command, port, name))
        soak = Soak(options, folder, database, levels, keys, port)
        stack.callback(soak.end)
        uvloop.run(soak.run())
        assert stub.process.poll() is None
        lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
        if options.samples:
            options.samples.write_text(
                json.dumps(
                    {f"{g.number}.{n}": life.samples for g in soak.gateways for n, life in enumerate(g.lives)}
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
