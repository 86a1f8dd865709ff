"""Rows per second by engine, beside plain tiktoken in a Ray map and in datasets.map.

Each cell runs in its own process. Processor time and memory are read from /proc, for all processes that it
starts, also Ray's: unlike wall time, they are meaningful on a busy machine. `BENCH_BATCH_ROWS=10000,100000`
selects the sizes. Everything runs in the environment of the tests.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tiktoken

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "batch.md"
SECTION = "## Equal digests"
WORKERS = 2
SIZES = (10_000, 100_000, 1_000_000)
QUICK = (1_000, 4_000)
EMPTY = 64  # rows of a run that measures start-up
BUDGET = 120
TICKS = os.sysconf("SC_CLK_TCK")

# Set before the first measurement.
PROCESS_TARGET, RAY_TARGET, COUNT_TARGET, MEMORY_TARGET = 1.7, 1.5, 1.15, 1.25

CELLS = {
    "count, tiktoken, a loop": ("count", "loop"),
    "count, tokenbox, inline": ("count", "inline"),
    "count, tokenbox, process": ("count", "process"),
    "count, tiktoken, Ray map": ("count", "ray_peer"),
    "count, tokenbox, ray": ("count", "ray"),
    "count, tiktoken, datasets.map": ("count", "datasets_peer"),
    "count, tokenbox, datasets.map": ("count", "datasets"),
    "layout, tokenbox, inline": ("layout", "inline"),
    "layout, tokenbox, process": ("layout", "process"),
    "layout, tokenbox, ray": ("layout", "ray"),
}


def run(*, quick: bool) -> dict[str, Any]:
    named = os.environ.get("BENCH_BATCH_ROWS")
    sizes = tuple(map(int, named.split(","))) if named else QUICK if quick else SIZES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (EMPTY, *sizes):
            source = Path(folder, f"{size}.jsonl")
            data = _write(source, size)
            for name, cell in CELLS.items():
                measured = _measure([*cell, str(source), str(Path(folder, "out"))])
                rows.append({"what": name, "rows": size, "bytes": data, **measured})
                print(rows[-1], file=sys.stderr, flush=True)
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processors": os.cpu_count(),
        "load": [round(one, 1) for one in os.getloadavg()],
        "sizes": sizes,
        "rows": rows,
    }


def _write(path: Path, rows: int) -> int:
    """Write rows of 60 to 460 words; return the size of the file in bytes."""
    chance = random.Random(rows)
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            text = " ".join(chance.choices(words, k=chance.randint(60, 460)))
            file.write(json.dumps({"id": number, "text": text}, ensure_ascii=False) + "\n")
    return path.stat().st_size


@dataclass
class _Seen:
    """Processor seconds of each process of a tree, and the peak of their total memory."""

    seconds: dict[int, float]
    peak: int = 0

    def look(self, root: int) -> None:
        parents, used, memory = {}, {}, {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                pid = int(place.name)
                parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
                memory[pid] = int((place / "statm").read_text().split()[1]) * 4_096
            except (OSError, IndexError):
                continue
        total = 0
        for pid in parents:
            above = pid
            while above in parents and above != root:
                above = parents[above]
            if above == root:
                self.seconds[pid] = max(self.seconds.get(pid, 0.0), used[pid])
                total += memory[pid]
        self.peak = max(self.peak, total)


def _measure(arguments: list[str]) -> dict[str, Any]:
    seen = _Seen({})
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HF_HUB_OFFLINE": "1"}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(HERE / "bench_batch.py"), *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None:
        seen.look(process.pid)
        time.sleep(0.1)
    if process.returncode:
        assert process.stderr is not None
        raise RuntimeError(process.stderr.read().decode()[-2_000:])
    return {
        "wall_s": round(time.monotonic() - began, 2),
        "processor_s": round(sum(seen.seconds.values()), 2),
        "peak_mb": seen.peak // 1_000_000,
    }


# In the process of a cell.


def _cell(task: str, how: str, source: str, out: str) -> None:
    if how in {"inline", "process", "ray"}:
        from tokenbox import batch

        small = Path(source).stat().st_size < 1 << 20
        batch.run(
            source,
            f"{out}.jsonl",
            task=task,
            budget=BUDGET,
            engine=how,
            workers=None if how == "inline" else WORKERS,
            # A small input would be one shard for one worker; the run for start-up has to start all of them.
            shard_size=Path(source).stat().st_size // (2 * WORKERS) if small else None,
            overwrite=True,
        )
    else:
        _PEERS[how](source, out)


def _tiktoken() -> tiktoken.Encoding:
    """Return tiktoken's own encoding of the same vocabulary, for the peers."""
    import tiktoken

    from tokenbox.tokenizers.published import BASELINES
    from tokenbox.tokenizers.vocabularies import load

    spec = BASELINES["o200k_base"]
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=spec.pattern,
        mergeable_ranks=load("o200k_base"),
        special_tokens=dict(spec.special_tokens),
    )


def _loop(source: str, out: str) -> None:
    encoding = _tiktoken()
    with Path(source).open(encoding="utf-8") as rows, Path(out).open("w", encoding="utf-8") as results:
        for line in rows:
            row = json.loads(line)
            total = len(encoding.encode_ordinary(row["text"]))
            results.write(json.dumps({"id": row["id"], "total": total}) + "\n")


class _Counted:
    def __init__(self) -> None:
        self.encoding = _tiktoken()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        totals = [len(self.encoding.encode_ordinary(text)) for text in batch["text"]]
        return {"id": batch["id"], "total": totals}


def _ray_peer(source: str, out: str) -> None:
    import ray

    ray.init("local", num_cpus=WORKERS + 1, include_dashboard=False, log_to_driver=False)
    data = ray.data.read_json(source, lines=True, override_num_blocks=8)
    done = data.map_batches(_Counted, batch_size=256, concurrency=WORKERS)
    done.write_json(f"{out}.ray")


def _datasets_peer(source: str, out: str) -> None:
    from datasets import Dataset

    encoding = _tiktoken()

    def count(batch: dict[str, Any]) -> dict[str, Any]:
        return {"total": [len(encoding.encode_ordinary(text)) for text in batch["text"]]}

    Dataset.from_json(source, cache_dir=f"{out}.cache").map(count, batched=True, new_fingerprint="a").to_json(
        f"{out}.datasets"
    )


def _datasets(source: str, out: str) -> None:
    from datasets import Dataset

    from tokenbox.batch import Compile

    data = Dataset.from_json(source, cache_dir=f"{out}.cache").with_format("arrow")
    data.map(Compile("count"), batched=True).to_json(f"{out}.datasets")


_PEERS = {"loop": _loop, "ray_peer": _ray_peer, "datasets_peer": _datasets_peer, "datasets": _datasets}


# The table.


def table(results: dict[str, Any]) -> str:
    cells = {(row["what"], row["rows"]): row for row in results["rows"]}
    sizes = results["sizes"]
    heads = "what | rows | wall s | processor s | us/row | rows per processor second | MB/s | peak MB"
    lines = [
        "# Batch",
        "",
        (
            f"`make bench`, {results['when']}, {results['processors']} processors, load average at the end "
            f"{', '.join(map(str, results['load']))}. With a load above the number of processors, wall times "
            "say what was left of the machine; processor times say what the work costs."
        ),
        "",
        (
            f"Rows of 60 to 460 words. Every engine has {WORKERS} workers. From *us/row* on, start-up is "
            f"left out: the processor time of a run with {EMPTY} rows. Memory is the sum over all processes, "
            "and shared pages are counted in each."
        ),
        "",
        f"| {heads} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for what in CELLS:
            row = cells[what, size]
            work = _work(cells, what, size)
            each = f"{work / size * 1e6:,.0f}" if work > 0 else "-"
            rate = f"{size / work:,.0f}" if work > 0 else "-"
            megabytes = f"{row['bytes'] / work / 1e6:,.1f}" if work > 0 else "-"
            lines.append(
                f"| {what} | {size:,} | {row['wall_s']:,} | {row['processor_s']:,} | {each} | {rate} "
                f"| {megabytes} | {row['peak_mb']:,} |"
            )
    lines += ["", "## Targets", "", "| what | target | found | |", "|---|---|---|---|"]
    lines += [
        f"| {what} | {target} | {found} | {'met' if met else '**LOST**'} |"
        for what, target, found, met in _targets(cells, sizes)
    ]
    missing = [f"{size:,}" for size in SIZES if size not in sizes]
    if missing:
        lines += ["", f"Not run: {' and '.join(missing)} rows."]
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    _, section, checked = before.partition(SECTION)  # written by batch_checks.py
    return "\n".join(lines) + "\n" + (f"\n{section}{checked}" if section else "")


def _work(cells: dict[tuple[str, int], Any], what: str, size: int) -> float:
    """Return processor seconds without start-up."""
    return cells[what, size]["processor_s"] - cells[what, EMPTY]["processor_s"]


def _targets(cells: dict[tuple[str, int], Any], sizes: Sequence[int]) -> Iterator[tuple[str, str, str, bool]]:
    largest = max(sizes)
    inline = _work(cells, "layout, tokenbox, inline", largest)
    for name, target in (("process", PROCESS_TARGET), ("ray", RAY_TARGET)):
        found = WORKERS * inline / max(_work(cells, f"layout, tokenbox, {name}", largest), 1e-9)
        yield (
            f"layouts, {name} on {WORKERS} free cores beside inline, by processor time, {largest:,} rows",
            f">= {target}x",
            f"{found:.2f}x",
            found >= target,
        )
    for ours, bare in (
        ("count, tokenbox, inline", "count, tiktoken, a loop"),
        ("count, tokenbox, ray", "count, tiktoken, Ray map"),
        ("count, tokenbox, datasets.map", "count, tiktoken, datasets.map"),
    ):
        found = _work(cells, ours, largest) / max(_work(cells, bare, largest), 1e-9)
        yield (
            f"{ours} beside {bare}, processor time, {largest:,} rows",
            f"<= {COUNT_TARGET}x",
            f"{found:.2f}x",
            found <= COUNT_TARGET,
        )
    if len(sizes) > 1:
        before = sorted(sizes)[-2]
        for what in ("layout, tokenbox, inline", "layout, tokenbox, process", "layout, tokenbox, ray"):
            found = cells[what, largest]["peak_mb"] / max(cells[what, before]["peak_mb"], 1)
            yield (
                f"{what}: peak memory at {largest:,} rows beside {before:,}",
                f"<= {MEMORY_TARGET}x",
                f"{found:.2f}x",
                found <= MEMORY_TARGET,
            )


if __name__ == "__main__":
    _cell(*sys.argv[1:5])
