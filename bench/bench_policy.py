"""The guard before every request: the time of ``ctx.enforce`` for a request of 100,000 tokens."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import workload
from bench_layout import say

from tokenbox import ctx, tokenizers
from tokenbox.compose.remembered import COUNTS
from tokenbox.config import load

if TYPE_CHECKING:
    from tokenbox.config import Config
    from tokenbox.policy import Enforcement
    from tokenbox.tokenizers.protocol import Tokenizer

ITEMS = 1_050  # of about 100 tokens
# Numbers of chunks of equal size; one chunk is a plain text.
SHAPES = (1, 10, 100, 1_000)
ENGINES = ("tiktoken", "fast")
WARM_TARGET = 0.001  # seconds
COLD_TARGET = 1.2  # times one plain count
MODEL = "gpt-5"


def run(*, quick: bool) -> dict[str, Any]:
    rounds = 5 if quick else 25
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.machine(),
            "python": platform.python_version(),
        },
        "rows": [],
        "quick": quick,
    }
    tokenizers.enable_baseline("gpt-bpe")
    with tempfile.TemporaryDirectory() as folder:
        config = load(folder, {"TOKENBOX_USER_CONFIG": ""})
        for engine in ENGINES:
            try:
                tokenizer = tokenizers.get("o200k_base", engine=engine)
                tokenizer.count("loaded before")
            except Exception as error:  # noqa: BLE001  # a missing engine becomes a row of the table
                results["rows"].append({"engine": engine, "error": f"{error}"[:200]})
                continue
            for chunks in SHAPES:
                results["rows"].append(measure(tokenizer, engine, chunks, rounds, config))
                say(f"policy {engine} {chunks} chunks: {results['rows'][-1]}")
    results["load"] = list(os.getloadavg())
    return results


def measure(tokenizer: Tokenizer, engine: str, chunks: int, rounds: int, config: Config) -> dict[str, Any]:
    """Return medians in seconds. Every round has new texts, so the caches contain only what they should."""
    times: dict[str, list[float]] = {"plain": [], "cold": [], "again": [], "other": [], "ratio": []}
    per = ITEMS // chunks
    tokens = 0
    for turn in range(rounds):
        items = workload.items(ITEMS, turn)
        texts = [
            workload.SEPARATOR.join(item.text for item in items[i * per : (i + 1) * per])
            for i in range(chunks)
        ]
        whole = workload.SEPARATOR.join(texts)
        COUNTS.clear()
        clock = time.perf_counter

        def enforce(given: list[str]) -> Enforcement:
            return ctx.enforce(MODEL, given, "text", 1_000, tokenizer=tokenizer, config=config)

        order = (("plain", whole), ("cold", texts)) if turn % 2 else (("cold", texts), ("plain", whole))
        seconds: dict[str, float] = {}
        for name, given in order:
            start = clock()
            counted = tokenizer.count(given) if name == "plain" else enforce(given).tokens_in
            seconds[name] = clock() - start
            tokens = counted
        start = clock()
        again = enforce(texts)
        seconds["again"] = clock() - start
        # The same texts in another request: each text was counted before, but not the whole.
        turned = [*texts[1:], texts[0]]
        start = clock()
        enforce(turned)
        seconds["other"] = clock() - start
        if again.tokens_in != tokenizer.count(whole):
            raise AssertionError("a count is wrong")
        for name, value in seconds.items():
            times[name].append(value)
        times["ratio"].append(seconds["cold"] / seconds["plain"])
    return {
        "engine": engine,
        "chunks": chunks,
        "tokens": tokens,
        **{name: statistics.median(values) for name, values in times.items()},
    }


def table(results: dict[str, Any]) -> str:
    load = ", ".join(f"{value:.1f}" for value in results["load"])
    where = f"{results['machine']['cpus']} CPUs ({results['machine']['system']})"
    lines = [
        "# The gate: `ctx.enforce` on a request of about 100,000 tokens",
        "",
        f"{results['when']}, {where}, Python {results['machine']['python']}, load {load}.",
        "Medians, in milliseconds.",
        "",
        "*Again*: the same request. *Counted*: another request of texts that were counted before.",
        "*Cold*: nothing was counted. Targets: again and counted under 1 ms; cold at most 1.2 times",
        "one plain count of the same text.",
        "",
        "| engine | chunks | tokens | again | counted | met | cold | plain count | ratio | met |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|---|",
    ]
    for row in results["rows"]:
        if "error" in row:
            lines.append(f"| {row['engine']} | {row['error']} | | | | | | | | |")
            continue
        warm = max(row["again"], row["other"]) < WARM_TARGET
        cold = row["ratio"] <= COLD_TARGET
        lines.append(
            f"| {row['engine']} | {row['chunks']:,} | {row['tokens']:,} | {row['again'] * 1000:.3f} | "
            f"{row['other'] * 1000:.3f} | {'yes' if warm else 'no'} | {row['cold'] * 1000:.2f} | "
            f"{row['plain'] * 1000:.2f} | {row['ratio']:.2f} | {'yes' if cold else 'no'} |"
        )
    return "\n".join(lines) + "\n"
