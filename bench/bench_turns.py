"""Sessions of the shell on a llama.cpp server: the prompt tokens sent and processed, by low-water mark."""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any

from workers import HERE, SOURCE

BUDGET, TURNS = 1_200, 25
CONTEXT = 8_192
OUTPUT = 40
"""The tokens of each answer: the tests' model never stops by itself."""
WORDS = "the tide rises at noon and falls by evening while boats wait in harbour for wind".split()
MARKS = ("1", "0.9", "0.75", "0.6", "0.5", "0.25", "0.01")
AT_LEAST = 0.5
"""``auto`` never frees more than half of the budget, so it is compared with these marks and larger ones."""
MOST = 1.1


def run(*, quick: bool) -> dict[str, Any]:
    sys.path[:0] = [str(SOURCE), str(HERE.parent)]
    from tests.llama import model

    seeds = range(1 if quick else 5)
    with tempfile.TemporaryDirectory() as folder:
        made = model.write(Path(folder) / "model", model.TOOLS)
        rows = [
            {"low_water": low_water, "sessions": [session(low_water, seed, made) for seed in seeds]}
            for low_water in (*MARKS, "auto")
        ]
    return {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "quick": quick, "rows": rows}


def session(low_water: str, seed: int, made: Any) -> dict[str, int]:  # noqa: ANN401  # a tests.llama.model.Model
    """Return the prompt tokens of a session, with a server of its own, whose cache is empty."""
    from tests.llama.server import serve

    llama = serve(made, CONTEXT, 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return talk(low_water, seed, llama.url, Path(folder))
    finally:
        llama.kill()


def talk(low_water: str, seed: int, url: str, folder: Path) -> dict[str, int]:
    from tests.shell.conftest import RecordingScreen
    from tokenbox.config import load
    from tokenbox.shell.build import Environment, ShellOptions, begin
    from tokenbox.shell.loop import take
    from tokenbox.store.stores import open_store

    settings = folder / "user.toml"
    settings.write_text("")
    variables = {"PATH": os.defpath, "TOKENBOX_USER_CONFIG": str(settings)}
    flags = {"policy.reserve_out": OUTPUT, "shell.token_budget": BUDGET, "shell.low_water": low_water}
    ids, seconds, start = itertools.count(), itertools.count(), datetime(2026, 11, 21, tzinfo=UTC)
    environment = Environment(
        str(folder),
        variables,
        lambda: start + timedelta(seconds=next(seconds)),
        lambda: f"id{next(ids):04}",
        folder / "memory.txt",
        lambda: open_store(folder / "tokenbox.db"),
        lambda _seconds: None,
    )
    screen, rng = RecordingScreen(), random.Random(seed)
    shell = begin(screen, load(folder, variables, flags), environment, ShellOptions(url, None, resume=False))
    try:
        for number in range(TURNS):
            shell.prompt()
            take(shell, f"Question {number}: {' '.join(rng.choices(WORDS, k=rng.randint(10, 90)))}")
        if screen.problems:
            raise SystemExit(f"low water {low_water}: {screen.problems[0].message}")
        total = shell.record.spent()
    finally:
        shell.close()
    return {"calls": total.calls, "sent": total.input.known, "cached": total.cached.known}


def table(results: dict[str, Any]) -> str:
    found = {row["low_water"]: figures(row["sessions"]) for row in results["rows"]}
    auto = found["auto"]
    peers = [one for name, one in found.items() if name != "auto" and float(name) >= AT_LEAST]
    best = {key: min(one[key] for one in peers) for key in ("processed", "sent")}
    lines = [
        f"| {name} | {one['sent']:,.0f} | {one['processed']:,.0f} | {one['sent'] / TURNS:,.0f} |"
        for name, one in found.items()
    ]
    targets = [
        f"| {name}, `auto` | at most {MOST} times the least of low_water {AT_LEAST} to 1 | "
        f"{auto[key]:,.0f} | {best[key]:,.0f} | {auto[key] / best[key]:.2f}x | "
        f"{'met' if auto[key] <= MOST * best[key] else '**LOST**'} |"
        for name, key in (("processed", "processed"), ("sent", "sent"))
    ]
    least = min(one["processed"] for name, one in found.items() if name != "auto")
    sessions = len(results["rows"][0]["sessions"])
    quick = " A quick run." if results["quick"] else ""
    return f"""# A session of the shell, by low-water mark

`bench/run.py turns`, {results["when"]}.{quick} {TURNS} turns of `tokenbox shell` under a budget of {BUDGET:,}
tokens with the llama.cpp server of the tests: means of {sessions} sessions. *Sent*: the prompt
tokens of all requests. *Processed*: those that were not in the server's cache, by its own figures.
*Context*: what a request has on average.

| low_water | sent | processed | context |
|---|---|---|---|
{chr(10).join(lines)}

| | target | ours | best | ratio | |
|---|---|---|---|---|---|
{chr(10).join(targets)}

Marks below {AT_LEAST} free nearly everything each time, so they process less and the model sees less: the
least of all is {least:,.0f}, and `auto` processes {auto["processed"] / least:.2f} times that.
"""


def figures(sessions: list[dict[str, int]]) -> dict[str, float]:
    return {
        "sent": mean(one["sent"] for one in sessions),
        "processed": mean(one["sent"] - one["cached"] for one in sessions),
    }
