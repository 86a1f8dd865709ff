"""N texts into half of their tokens: tokenbox beside the libraries that also pack into a budget."""

from __future__ import annotations

import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import table_layout
from workers import Failed, TooSlow, Worker, python_version

LIMIT = 20.0  # seconds for one packing; a slower library is reported and not tried at a larger N
SLACK = 60.0  # seconds to make texts and inputs, for each question to a worker

COUNTERS = ("cheap", "o200k")
SIZES = (100, 1_000, 10_000, 100_000)
REPEATS = {100: 15, 1_000: 9, 10_000: 7, 100_000: 3}
RELAYOUT = 10_000

OURS = [
    {"name": "tokenbox", "module": "ours", "engine": "tiktoken", "form": "sections"},
    {"name": "tokenbox, dicts", "module": "ours", "engine": "tiktoken", "form": "dicts"},
]
OURS_FAST = [
    {"name": "tokenbox fast", "module": "ours", "engine": "fast", "form": "sections"},
    {"name": "tokenbox fast, dicts", "module": "ours", "engine": "fast", "form": "dicts"},
]
PEERS = [
    {"name": "contextcram", "module": "contextcram"},
    {"name": "cendor-contextkit", "module": "contextkit"},
    {"name": "llm-ctxpack", "module": "ctxpack"},
    {"name": "langchain-core", "module": "langchain"},
    {"name": "prompt-poet", "module": "promptpoet", "environment": "prompt-poet"},
    {"name": "llama-index", "module": "llamaindex"},
    {"name": "litellm", "module": "litellm"},
]

table = table_layout.table


def run(*, quick: bool) -> dict[str, Any]:
    sizes = SIZES[:3] if quick else SIZES
    results = empty(quick=quick)
    for counter in COUNTERS:
        results["workloads"][counter] = workloads(counter, sizes)
        libraries = OURS + (OURS_FAST if counter == "o200k" else []) + PEERS
        pack(libraries, counter, sizes, results, quick=quick)
        for library in OURS + (OURS_FAST if counter == "o200k" else []):
            results["relayout"].append(relayout(library, counter, results))
    for engine in ("tiktoken", "fast"):
        results["micro"][engine] = micro(engine, 3 if quick else 9)
    results["load"] = list(os.getloadavg())
    return results


def empty(*, quick: bool) -> dict[str, Any]:
    """Return results without measurements."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "libraries": {},
        "workloads": {},
        "cells": [],
        "relayout": [],
        "micro": {},
        "limit": LIMIT,
        "quick": quick,
    }


def machine() -> dict[str, Any]:
    model = "unknown processor"
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip()
            for line in information.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "cpus": os.cpu_count(),
        "processor": model,
        "system": f"{platform.system()} {platform.machine()}",
        "python": python_version(),
        "load_before": list(os.getloadavg()),
    }


def workloads(counter: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the tokens of all texts for each size, and half of them as the budget."""
    found: dict[str, Any] = {}
    with Worker({"name": "totals"}) as worker:
        for n in sizes:
            one = worker.ask(300, kind="totals", counter=counter, n=n)
            found[str(n)] = {**one, "budget": one["total"] // 2}
    return found


def pack(
    libraries: list[dict[str, str]],
    counter: str,
    sizes: tuple[int, ...],
    results: dict[str, Any],
    *,
    quick: bool,
) -> None:
    """Measure every library at every size, one repeat each in turn: a busy minute affects all alike."""
    workers = {library["name"]: Worker(library) for library in libraries}
    try:
        for name in list(workers):
            try:
                results["libraries"][name] = workers[name].ask(120, kind="describe", counter=counter)
            except (Failed, TooSlow) as error:
                say(f"{name} cannot be measured: {error}")
                results["libraries"].setdefault(name, {"unit": f"failed: {error}"[:200], "versions": {}})
                workers.pop(name).close()
        for n in sizes:
            size(workers, counter, n, results, repeats=min(REPEATS[n], 3) if quick else REPEATS[n])
    finally:
        for worker in workers.values():
            worker.close()


def size(workers: dict[str, Worker], counter: str, n: int, results: dict[str, Any], *, repeats: int) -> None:
    budget = results["workloads"][counter][str(n)]["budget"]
    cells = {name: cell(name, counter, n, budget) for name in workers}
    results["cells"].extend(cells.values())
    for repeat in range(repeats):
        for name in list(workers):
            if repeat and cells[name]["pack"][0] > LIMIT / 4 and repeat > 1:
                continue  # slow packings need fewer repeats
            ask(workers, cells[name], kind="timed", counter=counter, n=n, variant=1 + repeat, budget=budget)
    for name in list(workers):
        ask(workers, cells[name], kind="recorded", counter=counter, n=n, variant=1 + repeats, budget=budget)
    for name, one in cells.items():
        shown = [f"{seconds * 1000:.1f}" for seconds in one["pack"]]
        say(f"{counter} {n:>7,} {name:22} {' '.join(shown)} ms {one.get('problem', '')}")


def cell(name: str, counter: str, n: int, budget: int) -> dict[str, Any]:
    return {"library": name, "counter": counter, "n": n, "budget": budget, "build": [], "pack": [], "cpu": []}


def ask(workers: dict[str, Worker], one: dict[str, Any], **question: object) -> None:
    """Add an answer to its cell; stop the worker of a library that is too slow or fails."""
    name = one["library"]
    measured = question["kind"] == "timed"
    try:
        limit = LIMIT if measured else 2 * LIMIT
        given = workers[name].ask(limit + SLACK, limit=limit, **question)
    except (TooSlow, Failed) as error:
        problem = f"over {LIMIT:.0f} s" if isinstance(error, TooSlow) else str(error)
        one["problem" if measured else "unrecorded"] = problem
        workers.pop(name).close()
        return
    if not measured:
        one.update(given)
        return
    for key in ("build", "pack", "cpu"):
        one[key].append(given[key])
    if given["pack"] > LIMIT:
        one["problem"] = f"over {LIMIT:.0f} s"
        workers.pop(name).close()


def relayout(library: dict[str, str], counter: str, results: dict[str, Any]) -> dict[str, Any]:
    """Measure first layouts and layouts after an edit, in three new processes."""
    found: dict[str, Any] = {"library": library["name"], "counter": counter, "first": [], "again": []}
    budget = results["workloads"][counter][str(RELAYOUT)]["budget"]
    for turn in range(3):
        with Worker(library) as worker:
            try:
                worker.ask(120, kind="describe", counter=counter)
                given = worker.ask(
                    120, kind="relayout", counter=counter, n=RELAYOUT, variant=40 + turn, budget=budget
                )
            except (Failed, TooSlow) as error:
                found["problem"] = str(error) or "too slow"
                break
            found["first"].append(given["first"])
            found["again"].extend(given["again"])
    return found


def micro(engine: str, rounds: int) -> dict[str, Any]:
    with Worker({"name": f"tokenbox {engine}"}) as worker:
        try:
            return worker.ask(300, kind="micro", engine=engine, rounds=rounds)
        except (Failed, TooSlow) as error:
            return {"error": str(error) or "too slow"}


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
