"""A conversation kept within its budget, turn by turn and cold: tokenbox beside libraries that also trim."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench_layout import machine
from workers import ENVIRONMENTS, HERE, SOURCE, rank_files

LIBRARIES = ("tokenbox", "langchain-core", "litellm", "llama-index-core")
SIZES = (100, 1_000, 10_000)
TURNS = {100: 30, 1_000: 15, 10_000: 15}
COLD = {100: 5, 1_000: 3, 10_000: 1}
LIMIT = 60.0  # seconds for all repeats of a row; slower ones are reported as over the limit
PER_TURN = 100e-6
MARK = 10_000
# Limits of a turn with a chat format: seconds, and times a turn that counts bare texts.
FORMATTED_TURN = 1e-3
TIMES_A_TEXT = 10
# Lists that are cut in steps: the marks, the limit, and the number of lists by N.
LOW_WATER = ("0.95", "0.7", "0.5", "auto")
TIMES_UNCUT = 2
LISTS = {100: 60, 1_000: 20, 10_000: 6}


def run(*, quick: bool) -> dict[str, Any]:
    sizes = SIZES[:2] if quick else SIZES
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "load": list(os.getloadavg()),
        "rows": [],
    }
    slow: set[tuple[str, str]] = set()
    for n in sizes:
        for what, repeats in (("turn", TURNS[n]), ("cold", COLD[n])):
            for library in LIBRARIES:
                row: dict[str, Any] = {"library": library, "n": n, "what": what}
                answer = None if (library, what) in slow else ask(library, n, repeats, what)
                if answer is None:
                    slow.add((library, what))
                results["rows"].append(row | (answer or {"over": LIMIT}))
    results["formats"] = formats(sizes)
    results["steps"] = steps(sizes)
    return results


def formats(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Measure turns by counter: bare texts, OpenAI's published rules, a chat template."""
    sys.path.insert(0, str(HERE.parent))
    from tests.llama import model
    from tokenbox import ChatFormat

    with tempfile.TemporaryDirectory() as folder:
        made = model.write(Path(folder) / "model", model.TOOLS)
        counters: dict[str, Any] = {
            "texts": "o200k_base",
            "gpt-4o": ChatFormat.openai("gpt-4o"),
            "llama.cpp template": ChatFormat.open(made.gguf),
            "transformers template": ChatFormat.open(made.folder),
        }
        return [
            {"format": name, "n": n, "full": full, "seconds": formatted_turns(counter, n, full=full)}
            for n in sizes
            for name, counter in counters.items()
            for full in (False, True)
        ]


def formatted_turns(counter: Any, n: int, *, full: bool) -> list[float]:  # noqa: ANN401  # a name or a format
    """Return the seconds of turns: question, budget, answer. ``full``: every turn evicts something."""
    from tokenbox import Conversation

    conversation = Conversation(
        "You are terse.", counter, token_budget=10**9, markers=counter != "o200k_base"
    )
    for k in range(n // 2):
        conversation.user(f"question {k}: when is high tide, and where?")
        conversation.assistant(f"answer {k}: at 17:04, in Brest.")
    if full:
        conversation.token_budget = conversation.estimate_tokens()
    conversation.enforce_budget()
    seconds = []
    gc.collect()
    for k in range(TURNS[n]):
        start = time.perf_counter()
        conversation.user(f"question {n + k}: when is high tide, and where?")
        conversation.enforce_budget()
        conversation.assistant("At 18:11.")
        conversation.estimate_tokens()
        seconds.append(time.perf_counter() - start)
    return seconds


def steps(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Measure ``fit`` of a list into half of its tokens, at once (1) and in steps, in turn."""
    from tokenbox import fit

    rows: list[dict[str, Any]] = []
    for n in sizes:
        messages = [
            {
                "role": ("user", "assistant")[k % 2],
                "content": f"question {k}: when is high tide, and where? " * 4,
            }
            for k in range(n)
        ]
        budget = fit(messages, None, "gpt-4o").total // 2
        seconds: dict[str, list[float]] = {"1": [], **{mark: [] for mark in LOW_WATER}}
        for _ in range(LISTS[n]):
            for mark, taken in seconds.items():
                gc.collect()
                start = time.perf_counter()
                fit(messages, budget, "gpt-4o", low_water=mark)
                taken.append(time.perf_counter() - start)
        rows += [{"n": n, "low_water": mark, "seconds": taken} for mark, taken in seconds.items()]
    return rows


def table_of_steps(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of lists cut in steps, with the target, met or LOST."""
    found = {(row["n"], row["low_water"]): median(row["seconds"]) for row in rows}
    lines = [
        "`fit` of N messages for gpt-4o, counted before, into half of their tokens, by `low_water`. Below 1,",
        "every request of the list is replayed.",
        "",
        "| N | 1 | " + " | ".join(LOW_WATER) + " |",
        "|---|---|" + "---|" * len(LOW_WATER),
    ]
    for n in dict.fromkeys(row["n"] for row in rows):
        whole = found[n, "1"]
        cells = (f"{duration(found[n, mark])}, {found[n, mark] / whole:.2f}x" for mark in LOW_WATER)
        lines.append(f"| {n:,} | {duration(whole)} | {' | '.join(cells)} |")
    worst = max(taken / found[n, "1"] for (n, _), taken in found.items())
    name = f"`fit` in steps: at most {TIMES_UNCUT} times of it without, at every N"
    lines += ["", "| target | ours | |", "|---|---|---|"]
    return [*lines, verdict(name, f"{worst:.2f}x", met=worst <= TIMES_UNCUT), ""]


def table_of_formats(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of turns by counter, with the targets, met or LOST."""
    names = list(dict.fromkeys(row["format"] for row in rows))
    found = {(row["format"], row["n"], row["full"]): median(row["seconds"]) for row in rows}
    lines = [
        "A turn by what counts: a question, the budget kept, an answer. *Full*: each turn evicts.",
        "",
        "| N | what | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for n, full in dict.fromkeys((row["n"], row["full"]) for row in rows):
        cells = " | ".join(duration(found[name, n, full]) for name in names)
        lines.append(f"| {n:,} | {'full' if full else 'turn'} | {cells} |")
    lines += ["", "| target | ours | |", "|---|---|---|"]
    for (name, n, full), taken in found.items():
        if name == "texts" or n < max(row["n"] for row in rows):
            continue
        most = min(FORMATTED_TURN, TIMES_A_TEXT * found["texts", n, full])
        about = f"a {'full ' if full else ''}turn at {n:,} messages, {name}: at most {duration(most)}"
        lines.append(verdict(about, duration(taken), met=taken <= most))
    return [*lines, ""]


def versions() -> dict[str, str]:
    code = (
        "import json, sys; from importlib.metadata import version; "
        "print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
    )
    python = ENVIRONMENTS["peers"] / "bin" / "python"
    done = subprocess.run([python, "-c", code, *LIBRARIES[1:]], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return {"tokenbox": version("tokenbox-llm"), **found}


def ask(library: str, n: int, repeats: int, what: str) -> dict[str, Any] | None:
    """Return the answer of a worker, or None if it takes too long."""
    arguments = [library, str(n), str(repeats), what]
    try:
        done = subprocess.run(
            [ENVIRONMENTS["peers"] / "bin" / "python", HERE / "conversation_worker.py", *arguments],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "TIKTOKEN_CACHE_DIR": str(rank_files())},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    machine_name = results["machine"].get("processor", "")
    load = ", ".join(f"{value:.1f}" for value in results["load"])
    lines = [
        "# Conversations, beside other libraries",
        "",
        f"{results['when']}, {machine_name}, load {load} when it began.",
        "A conversation of N messages of about 100 o200k tokens. *Turn*: one more message, and the budget",
        "is kept, with room; median. *Cold*: N messages that no one has seen, into half of their tokens;",
        "median, and the characters tokenized as a multiple of those there are.",
        ", ".join(f"{name} {number}" for name, number in results["versions"].items()) + ".",
        "",
        "| N | what | " + " | ".join(LIBRARIES) + " | ours to the best peer |",
        "|---|---|" + "---|" * (len(LIBRARIES) + 1),
    ]
    for n, what in dict.fromkeys((row["n"], row["what"]) for row in results["rows"]):
        rows = {row["library"]: row for row in results["rows"] if (row["n"], row["what"]) == (n, what)}
        cells = " | ".join(shown(rows[library]) for library in LIBRARIES)
        ours, best = seconds(rows["tokenbox"]), min(map(seconds, (rows[name] for name in LIBRARIES[1:])))
        lines.append(f"| {n:,} | {what} | {cells} | {ours / best:.3f}x |")
    lines += ["", *targets(results), "", *table_of_formats(results["formats"])]
    return "\n".join([*lines, *table_of_steps(results["steps"])]) + "\n"


def targets(results: dict[str, Any]) -> list[str]:
    """Return the targets, met or LOST."""
    lines = ["| target | ours | |", "|---|---|---|"]
    for row in results["rows"]:
        if row["library"] != "tokenbox" or row["n"] != MARK:
            continue
        if row["what"] == "turn":
            name = f"enforce_budget at {MARK:,} messages, nothing evicted: under {PER_TURN * 1e6:.0f} us"
            taken = median(row["enforcing"])
            lines.append(verdict(name, duration(taken), met=taken < PER_TURN))
        else:
            name = f"{MARK:,} messages cold: the corpus tokenized once"
            lines.append(verdict(name, f"{row['corpus']:.2f}x", met=row["corpus"] <= 1.0))
    return lines if len(lines) > 2 else []


def verdict(name: str, value: str, *, met: bool) -> str:
    return f"| {name} | {value} | {'met' if met else '**LOST**'} |"


def seconds(row: dict[str, Any]) -> float:
    return median(row["seconds"]) if "seconds" in row else float("inf")


def shown(row: dict[str, Any]) -> str:
    if "seconds" not in row:
        return f"over {row['over']:.0f} s" if "over" in row else f"fails: {row['error']}"
    corpus = f", {row['corpus']:,.2f}x" if "corpus" in row else ""
    return duration(seconds(row)) + corpus


def duration(value: float) -> str:
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.1f} s"
