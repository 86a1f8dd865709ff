"""A long run of the gateway under a load it can hold, with faults: ``python bench/soak.py --minutes 20``.

An upstream that fails in every way, clients that leave, a store that is away for seconds. At the end: was
each request answered, is each that was sent in the ledger once, and nothing else, and did the memory stay
flat? Each request has an output limit of its own, so that the ledger's entries can be told apart.
The table goes to bench/results/soak.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import aiohttp
from bench_gateway import PARTS, Running, free_port, running

RESULTS = Path(__file__).resolve().parent / "results"
CONFIG = """
[upstreams.stub]
url = "http://127.0.0.1:{port}"
kind = "openai"

[models."gpt-4o"]
max_ctx = 1000000000
"""
# How a request goes, and how often.
KINDS = {
    "whole": 40,
    "stream": 25,
    "over the limit": 5,
    "the client leaves": 8,
    "reset": 4,
    "reset in the stream": 4,
    "ends early": 3,
    "garbled": 3,
    "500": 3,
    "429": 3,
    "slow": 2,
}
STREAMED = {"stream", "the client leaves", "reset in the stream", "ends early"}
# What the client must see: statuses, and whether the answer must be whole.
EXPECTED = {
    "whole": {200},
    "stream": {200},
    "over the limit": {400},
    "reset": {502},
    "reset in the stream": {200},
    "ends early": {200},
    "garbled": {502},
    "500": {500},
    "429": {429},
    "slow": {200},
}
TOO_MUCH = 1_000_000_001
PATIENCE = 30.0
AWAY_EVERY, AWAY_SECONDS = 45.0, 6.0
SAMPLE_SECONDS = 2.0
# Of what the memory may grow by after the warm-up: allocators breathe.
FLAT_MB = 8.0


class Soak:
    """The load, and what came of it. ``sent`` has the numbers of the requests that the upstream is to see."""

    def __init__(self, url: str, seconds: float, rate: float) -> None:
        self.url = url
        self.until = time.monotonic() + seconds
        self.rate = rate
        self.random = random.Random(8)
        self.number = 0
        self.asked: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.numbers: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.memory: list[tuple[float, float]] = []
        self.away = 0

    async def run(self, server: Running, database: Path) -> None:
        tasks: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            helpers = [
                asyncio.create_task(self.sample(server, began)),
                asyncio.create_task(self.take_away(database)),
            ]
            while time.monotonic() < self.until:
                kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
                self.number += 1
                task = asyncio.create_task(self.one(session, kind, self.number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                await asyncio.sleep(self.random.expovariate(self.rate))
            if tasks:
                await asyncio.wait(tasks, timeout=PATIENCE)
            for helper in helpers:
                helper.cancel()

    async def one(self, session: aiohttp.ClientSession, kind: str, number: int) -> None:
        self.asked[kind] += 1
        self.numbers[kind].add(number)
        words = " ".join(str(self.random.random()) for _ in range(100))
        body = {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": f"{number} {words}"}],
            "max_tokens": TOO_MUCH if kind == "over the limit" else number,
            "stream": kind in STREAMED,
            "metadata": {"kind": kind},
        }
        try:
            async with asyncio.timeout(PATIENCE):
                async with session.post(f"{self.url}/v1/chat/completions", json=body) as answer:
                    if kind == "the client leaves":
                        await answer.content.readany()
                        answer.close()
                        return
                    data = await answer.read()
            self.check(kind, number, answer.status, data)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self.wrong.append(f"{kind} {number}: no answer ({type(error).__name__}: {error})")

    def check(self, kind: str, number: int, status: int, data: bytes) -> None:
        if status not in EXPECTED[kind]:
            self.wrong.append(f"{kind} {number}: {status} {data[:200]!r}")
        elif kind == "stream" and not data.endswith(b"data: [DONE]\n\n"):
            self.wrong.append(f"{kind} {number}: the stream is not whole")
        elif kind in ("reset in the stream", "ends early") and b'"error"' not in data[-500:]:
            self.wrong.append(f"{kind} {number}: broken off without a word: {data[-100:]!r}")

    async def sample(self, server: Running, began: float) -> None:
        while True:
            self.memory.append((time.monotonic() - began, server.memory_mb()))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def take_away(self, database: Path) -> None:
        """Hold the store's only lock, as a store that is away does."""
        while True:
            await asyncio.sleep(AWAY_EVERY)
            with suppress(sqlite3.Error):
                held = sqlite3.connect(database, timeout=5, isolation_level=None)
                try:
                    held.execute("BEGIN EXCLUSIVE")
                    self.away += 1
                    await asyncio.sleep(AWAY_SECONDS)
                finally:
                    held.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=60, help="requests per second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        port, own = free_port(), free_port()
        seen = Path(folder, "seen")
        command = [sys.executable, PARTS / "faults.py", str(port), seen]
        stub = stack.enter_context(running("upstream", command, port, folder))
        state = Path(folder, "gateway")
        (state / ".tokenbox").mkdir(parents=True)
        (state / ".tokenbox" / "config.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
        database = state / "ledger.db"
        command = [sys.executable, "-m", "tokenbox", "serve", "--port", str(own), "--quiet"]
        with ExitStack() as gateway:
            command += ["--database", str(database)]
            server = gateway.enter_context(running("gateway", command, own, str(state)))
            soak = Soak(server.url, options.minutes * 60, options.rate)
            asyncio.run(soak.run(server, database))
        assert stub.process.poll() is None
        arrived = Counter(int(line) for line in seen.read_text(encoding="ascii").split())
        recorded = entries(database)
        left = sum(1 for _ in Path(state / "state").rglob("*.jsonl"))
    text = table(soak, arrived, recorded, left, options, (before, os.getloadavg()[0]))
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "soak.md").write_text(text, encoding="utf-8")
    return int("**NO**" in text)


def entries(database: Path) -> Counter[int]:
    """How often each request is in the ledger."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT reserved_output FROM tokenbox_calls").fetchall()
    return Counter(row[0] for row in rows)


def table(
    soak: Soak,
    arrived: Counter[int],
    recorded: Counter[int],
    left: int,
    options: argparse.Namespace,
    load: tuple[float, float],
) -> str:
    warm = min(120.0, options.minutes * 60 / 4)
    after = [mb for at, mb in soak.memory if at >= warm]
    third = max(1, len(after) // 3)
    first, last = median(after[:third]), median(after[-third:])
    lost = sorted(set(arrived) - set(recorded))
    invented = sorted(set(recorded) - set(arrived))
    twice = sorted(number for number, times in recorded.items() if times > 1)
    # Whoever leaves may leave before the request was sent on.
    must = set().union(
        *(soak.numbers[kind] for kind in KINDS if kind not in ("over the limit", "the client leaves"))
    )
    unsent = sorted(must - set(arrived))
    refused = sorted(soak.numbers["over the limit"] & set(arrived))
    checks = [
        ("requests without an answer, or with another than expected", len(soak.wrong)),
        ("requests that did not reach the upstream", len(unsent)),
        ("refused requests that did", len(refused)),
        ("requests at the upstream that are not in the ledger", len(lost)),
        ("entries of the ledger twice", len(twice)),
        ("entries without a request", len(invented)),
        ("files left in the spool", left),
    ]
    asked = ", ".join(f"{kind} {times:,}" for kind, times in sorted(soak.asked.items()))
    lines = [
        "# Soak",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, {options.minutes:g} minutes at {options.rate:g} requests/s, "
            f"{os.cpu_count()} CPUs, load {load[0]:.1f} before, {load[1]:.1f} after. "
            f"{soak.number:,} requests: {asked}. "
            f"The store was away {soak.away} times for {AWAY_SECONDS:g} seconds."
        ),
        "",
        "| what | wanted | found | met |",
        "|---|---|---|---|",
        *(f"| {what} | 0 | {found:,} | {'yes' if found == 0 else '**NO**'} |" for what, found in checks),
        (
            f"| memory, medians of the first and last third after {warm:.0f} s | +{FLAT_MB:g} MB at most | "
            f"{first:.0f} MB, {last:.0f} MB | {'yes' if last - first <= FLAT_MB else '**NO**'} |"
        ),
        "",
    ]
    wrong = [f"* {text}" for text in soak.wrong[:10]]
    return "\n".join([*lines, *wrong, *([""] if wrong else [])])


if __name__ == "__main__":
    sys.exit(main())
