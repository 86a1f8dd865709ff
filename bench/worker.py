"""One library in one process: reads a question per line from stdin and prints an answer per line.

With a process of its own, a library that takes too long can be killed, and no library warms the caches or
fills the memory of another. run.py asks one worker at a time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import counters
import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Run = Callable[[], tuple[list[str], str]]
    Prepare = Callable[[Sequence[workload.Item], int], Run]

WARM_UP = 60
WARM_UP_VARIANT = 99
BUSY_WAIT = 0.02  # seconds


def preparer(library: dict[str, str], counter: str, recorder: counters.Recorder | None) -> Prepare:
    """Return the function that prepares this library's inputs; its counter records calls for ``recorder``."""
    if library["module"] == "ours":
        ours = importlib.import_module("ours")
        tokenizer = ours.tokenizer(counter, library["engine"], recorder)
        return lambda items, budget: ours.prepare(items, budget, tokenizer, library["form"])
    plain = counters.counter(counter)
    given = plain if recorder is None else counters.recorded(plain, recorder)
    peer = importlib.import_module(f"peers.{library['module']}")
    return lambda items, budget: peer.prepare(items, budget, given)


def describe(library: dict[str, str], counter: str) -> dict[str, Any]:
    """Warm up; return versions and unit for the table."""
    preparer(library, counter, None)(workload.items(WARM_UP, WARM_UP_VARIANT), WARM_UP * 50)()
    ours = library["module"] == "ours"
    module = importlib.import_module("ours" if ours else f"peers.{library['module']}")
    names = ("tiktoken", "fastokens") if ours else module.DISTRIBUTIONS
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    if ours:
        versions = {"tokenbox": importlib.import_module("tokenbox").__version__, **versions}
    return {"unit": module.UNIT, "versions": versions}


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let SIGALRM kill this process after ``seconds``; the signal also stops native code."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def settle() -> None:
    """Collect the garbage of the preparation and bring the processor up to speed."""
    gc.collect()
    end = time.perf_counter() + BUSY_WAIT
    while time.perf_counter() < end:
        pass


def timed(
    library: dict[str, str], counter: str, n: int, variant: int, budget: int, limit: float
) -> dict[str, Any]:
    """Return seconds to build the library's own inputs, and seconds to pack them, once."""
    prepare = preparer(library, counter, None)
    items = workload.items(n, variant)
    settle()
    start = time.perf_counter()
    run = prepare(items, budget)
    built = time.perf_counter()
    settle()
    resumed, cpu = time.perf_counter(), time.process_time()
    with limited(limit):
        run()
    done, cpu_done = time.perf_counter(), time.process_time()
    return {"build": built - start, "pack": done - resumed, "cpu": cpu_done - cpu}


def recorded(
    library: dict[str, str], counter: str, n: int, variant: int, budget: int, limit: float
) -> dict[str, Any]:
    """Return the recorded calls of the counter, and the independent count of the library's output."""
    recorder = counters.Recorder()
    items = workload.items(n, variant)
    run = preparer(library, counter, recorder)(items, budget)
    recorder.calls = recorder.texts = recorder.characters = 0
    with limited(limit):
        texts, separator = run()
    whole = separator.join(texts)
    return {
        "calls": recorder.calls,
        "texts": recorder.texts,
        "characters": recorder.characters,
        "input": sum(len(item.text) for item in items),
        "output": len(whole),
        # counted by tiktoken, independent of the library
        "whole": counters.counter(counter).count(whole),
    }


def relayout(library: dict[str, str], counter: str, n: int, variant: int, budget: int) -> dict[str, Any]:
    """Return seconds of a first layout, and of five more, each after the edit of another section."""
    ours = importlib.import_module("ours")
    layout = partial(
        importlib.import_module("tokenbox").layout,
        budget=budget,
        tokenizer=ours.tokenizer(counter, library["engine"], None),
    )
    make = ours.FORMS[library["form"]]
    items = workload.items(n, variant)
    inputs = [make(item) for item in items]
    settle()
    start = time.perf_counter()
    layout(inputs).text  # noqa: B018
    first = time.perf_counter() - start
    again = []
    for edit in range(1, 6):
        place = (n * edit) // 6
        inputs[place] = make(workload.changed(items[place], edit))
        start = time.perf_counter()
        layout(inputs).text  # noqa: B018
        again.append(time.perf_counter() - start)
    return {"first": first, "again": again}


def totals(counter: str, n: int) -> dict[str, Any]:
    """Return the tokens of all items of a workload, joined."""
    items = workload.items(n, 0)
    texts = [item.text for item in items]
    count = counters.counter(counter).count
    return {
        "total": count(workload.SEPARATOR.join(texts)),
        "mean": sum(map(count, texts)) / n,
        "characters": sum(map(len, texts)),
        "corpus": workload.fingerprint(),
    }


def answer(library: dict[str, str], question: dict[str, Any]) -> dict[str, Any]:
    kind = question.pop("kind")
    if kind == "totals":
        return totals(**question)
    if kind == "micro":
        return importlib.import_module("micro").measure(**question)
    return {"describe": describe, "timed": timed, "recorded": recorded, "relayout": relayout}[kind](
        library, **question
    )


def main() -> None:
    library = json.loads(sys.argv[1])
    # A library may print to stdout, so answers go to a copy of it.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            given = answer(library, json.loads(line))
        except Exception as error:  # noqa: BLE001  # a library that fails is a result
            given = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps(given), file=out, flush=True)


if __name__ == "__main__":
    main()
