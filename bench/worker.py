"""One library in one process: reads a question per line on stdin, answers with a line on stdout.

Its own process, so that a library that takes too long can be ended, and that none warms the caches
or fills the memory of another. run.py asks one worker at a time.
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
AWAKE = 0.02  # seconds


def preparer(library: dict[str, str], counter: str, recorder: counters.Recorder | None) -> Prepare:
    """How this library gets its inputs, with a counter that notes its calls if ``recorder`` is given."""
    if library["module"] == "ours":
        ours = importlib.import_module("ours")
        tokenizer = ours.tokenizer(counter, library["engine"], recorder)
        return lambda items, budget: ours.prepare(items, budget, tokenizer, library["form"])
    plain = counters.counter(counter)
    given = plain if recorder is None else counters.recorded(plain, recorder)
    peer = importlib.import_module(f"peers.{library['module']}")
    return lambda items, budget: peer.prepare(items, budget, given)


def describe(library: dict[str, str], counter: str) -> dict[str, Any]:
    """Warm up, and say what is measured: versions and unit."""
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
    """End this process if that takes longer: by the signal itself, which also stops foreign code."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def rest() -> None:
    """Leave no garbage of the preparation to the measurement, and wake the processor up."""
    gc.collect()
    end = time.perf_counter() + AWAKE
    while time.perf_counter() < end:
        pass


def timed(
    library: dict[str, str], counter: str, n: int, variant: int, budget: int, limit: float
) -> dict[str, Any]:
    """Seconds to make the library's own inputs, and seconds to pack them, once."""
    prepare = preparer(library, counter, None)
    items = workload.items(n, variant)
    rest()
    start = time.perf_counter()
    run = prepare(items, budget)
    built = time.perf_counter()
    rest()
    resumed, cpu = time.perf_counter(), time.process_time()
    with limited(limit):
        run()
    done, cpu_done = time.perf_counter(), time.process_time()
    return {"build": built - start, "pack": done - resumed, "cpu": cpu_done - cpu}


def recorded(
    library: dict[str, str], counter: str, n: int, variant: int, budget: int, limit: float
) -> dict[str, Any]:
    """What the library asked of the counter, and what the whole that it gives really measures."""
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
        # counted here, by tiktoken itself, whatever the library has said
        "whole": counters.counter(counter).count(whole),
    }


def relayout(library: dict[str, str], counter: str, n: int, variant: int, budget: int) -> dict[str, Any]:
    """Seconds of a first layout, and of the next ones, each after one more section was edited."""
    ours = importlib.import_module("ours")
    layout = partial(
        importlib.import_module("tokenbox").layout,
        budget=budget,
        tokenizer=ours.tokenizer(counter, library["engine"], None),
    )
    make = ours.FORMS[library["form"]]
    items = workload.items(n, variant)
    inputs = [make(item) for item in items]
    rest()
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
    """What all items of a workload measure together, joined."""
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
    # A library may print; the answers have the real stdout to themselves.
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
