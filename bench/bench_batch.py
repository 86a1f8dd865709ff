"""Rows per second by engine, beside plain tiktoken in a Ray map and in datasets.map.

    python bench/bench_batch.py rows ROWS [count|layout|inline|process|ray|loop|datasets ...]
    python bench/bench_batch.py table

`rows` measures the start-up and ROWS rows of every cell whose name has one of the words, in the order of
CELLS, and keeps each result as a file in build/batch; a cell with a file is not measured again, so that a
run may be interrupted and continued. `table` writes bench/results/batch.md from these files, and removes the
inputs, 1.8 GB for 10^6 rows. `make bench`
measures 10^4 and 10^5 rows in about 10 minutes; 10^6 rows take 20 minutes more, on a free machine with 2
processors.

Each cell runs in its own process. Processor time and memory are read from /proc, for all processes that it
starts, also Ray's: unlike wall time, they are meaningful on a busy machine. Everything runs in the
environment of the tests.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import tiktoken

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "batch.md"
SECTION = "## Equal digests"
KEPT = ROOT / "build" / "batch"
WORKERS = 2
SIZES = (10_000, 100_000, 1_000_000)
USUAL = SIZES[:2]  # the sizes of `make bench`
QUICK = (1_000, 4_000)
EMPTY = 64  # rows of a run that measures start-up
BUDGET = 120
TICKS = os.sysconf("SC_CLK_TCK")

# Set before the first measurement.
PROCESS_TARGET, RAY_TARGET, COUNT_TARGET, MEMORY_TARGET = 1.7, 1.5, 1.15, 1.25

ENGINES = ("inline", "process", "ray")
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
# The work of a cell, so that the reader knows what is compared.
WORK = {
    "count, tiktoken, a loop": "reads JSON lines, encodes, writes `id` and `total` as JSON lines",
    "count, tokenbox": (
        "reads JSON lines, counts, writes `id`, `total`, `exact`, `digest` (SHA-256 of the text) and `error` "
        "as JSON lines; digests of every shard's input, results and file; joins the parts into one file"
    ),
    "count, tiktoken, Ray map": (
        "`read_json`, `map_batches` with an actor per worker and 256 rows, `write_json` of `id` and `total`"
    ),
    "count, tiktoken, datasets.map": "`from_json`, `map` in batches of 1,000, `to_json` with all columns",
    "count, tokenbox, datasets.map": "the same with `Compile`, whose results have four columns more",
    "layout, tokenbox": f"as count, with a text cut to {BUDGET} tokens, and the decisions",
}

Record = dict[str, Any]


def run(*, quick: bool) -> dict[str, Any]:
    """Measure every cell again at the usual sizes. Kept results of other sizes are in the table, too."""
    sizes = QUICK if quick else USUAL
    folder = KEPT / "quick" if quick else KEPT
    for size in (EMPTY, *sizes):
        shutil.rmtree(folder / f"{size}", ignore_errors=True)
    for size in sizes:
        measure(size, list(CELLS), folder)
    _remove_rows(folder)
    return {"rows": kept(folder)}


def measure(size: int, names: Sequence[str], folder: Path = KEPT) -> None:
    """Measure the start-up and ``size`` rows of these cells, except for the ones with a result."""
    for rows in (EMPTY, size):
        source = folder / f"rows-{rows}.jsonl"
        for name in names:
            target = folder / f"{rows}" / f"{'-'.join(CELLS[name])}.json"
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if not source.exists():
                _write(source, rows)
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            load = os.getloadavg()[0]
            measured = _measure([*CELLS[name], str(source), str(out / "out")])
            record = {
                "what": name,
                "rows": rows,
                "bytes": source.stat().st_size,
                **measured,
                "load": round(max(load, os.getloadavg()[0]), 1),
                "when": datetime.now(UTC).strftime("%Y-%m-%d"),
            }
            target.write_text(json.dumps(record), encoding="utf-8")
            print(json.dumps(record), file=sys.stderr, flush=True)
            shutil.rmtree(out)


def _remove_rows(folder: Path = KEPT) -> None:
    """Remove the inputs: 1.8 GB for 10^6 rows."""
    for path in folder.glob("rows-*"):
        path.unlink()


def kept(folder: Path = KEPT) -> list[Record]:
    """Return the kept results."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9]*/*.json"))]


def _write(path: Path, rows: int) -> None:
    """Write rows of 60 to 460 words."""
    chance = random.Random(rows)
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        for number in range(rows):
            text = " ".join(chance.choices(words, k=chance.randint(60, 460)))
            file.write(json.dumps({"id": number, "text": text}, ensure_ascii=False) + "\n")
    draft.replace(path)


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
    if how in ENGINES:
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

    from tokenbox.tokenizers.vocabularies import BASELINES, load

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
    cells = {(one["what"], one["rows"]): one for one in results["rows"] if one["what"] in CELLS}
    sizes = sorted({rows for _, rows in cells} - {EMPTY})
    used = [one for (_, rows), one in cells.items() if rows != EMPTY]
    loads = sorted(one["load"] for one in used)
    day = max(one["when"] for one in used)
    heads = "what | rows | wall s | processor s | start | us/row | rows per processor second | MB/s | peak MB"
    lines = [
        "# Batch",
        "",
        (
            f"`make bench` and `python bench/bench_batch.py rows 1000000`, {day}, {os.cpu_count()} "
            f"processors, load average {loads[0]} to {loads[-1]}. With a load above the number of "
            "processors, wall times say what was left of the machine; processor times say what work costs."
        ),
        "",
        (
            f"Rows of 60 to 460 words, 1.8 KB on average. Every engine has {WORKERS} workers. *Start* is the "
            f"processor time of a run with {EMPTY} rows; from *us/row* on, it is left out. A process that "
            "has 50 MB or more to read also loads the fast engine of its tokenizer: 1.6 s of one core, which "
            "is part of us/row, and about 100 MB, once. Memory is the sum over all processes, and "
            "shared pages are counted in each."
        ),
        "",
        f"| {heads} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for what in CELLS:
            row = cells.get((what, size))
            if row is None:
                continue
            start = cells[what, EMPTY]["processor_s"]
            work = row["processor_s"] - start
            each = f"{work / size * 1e6:,.0f}" if work > 0 else "-"
            rate = f"{size / work:,.0f}" if work > 0 else "-"
            megabytes = f"{row['bytes'] / work / 1e6:,.1f}" if work > 0 else "-"
            lines.append(
                f"| {what} | {size:,} | {row['wall_s']:,} | {row['processor_s']:,} | {start} | {each} "
                f"| {rate} | {megabytes} | {row['peak_mb']:,} |"
            )
    lines += ["", "| what | does |", "|---|---|", *[f"| {what} | {work} |" for what, work in WORK.items()]]
    lines += ["", "## Targets", "", "| what | target | found | |", "|---|---|---|---|"]
    lines += [
        f"| {what} | {target} | {found} | {'met' if met else '**LOST**'} |"
        for what, target, found, met in _targets(cells, sizes)
    ]
    for size in SIZES:
        missing = [what for what in CELLS if (what, size) not in cells]
        if missing:
            every = "everything" if len(missing) == len(CELLS) else "; ".join(missing)
            lines += ["", f"Not run at {size:,} rows: {every}."]
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    _, section, checked = before.partition(SECTION)  # written by batch_checks.py
    return "\n".join(lines) + "\n" + (f"\n{section}{checked}" if section else "")


def _work(cells: Mapping[tuple[str, int], Record], what: str, size: int) -> float:
    """Return processor seconds without start-up."""
    return float(cells[what, size]["processor_s"] - cells[what, EMPTY]["processor_s"])


def _targets(
    cells: Mapping[tuple[str, int], Record], sizes: Sequence[int]
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield each target with what was found at the largest size that has both of its cells."""
    bare = "layout, tokenbox, inline"
    for engine, target in (("process", PROCESS_TARGET), ("ray", RAY_TARGET)):
        ours = f"layout, tokenbox, {engine}"
        for size in _largest(cells, sizes, ours, bare):
            found = WORKERS * _work(cells, bare, size) / max(_work(cells, ours, size), 1e-9)
            name = (
                f"layouts, {engine} on {WORKERS} free cores beside inline, by processor time, {size:,} rows"
            )
            yield name, f">= {target}x", f"{found:.2f}x", found >= target
    for ours, bare in (
        ("count, tokenbox, inline", "count, tiktoken, a loop"),
        ("count, tokenbox, ray", "count, tiktoken, Ray map"),
        ("count, tokenbox, datasets.map", "count, tiktoken, datasets.map"),
    ):
        for size in _largest(cells, sizes, ours, bare):
            found = _work(cells, ours, size) / max(_work(cells, bare, size), 1e-9)
            name = f"{ours} beside {bare}, processor time, {size:,} rows"
            yield name, f"<= {COUNT_TARGET}x", f"{found:.2f}x", found <= COUNT_TARGET
    for what in (f"{task}, tokenbox, {engine}" for task in ("count", "layout") for engine in ENGINES):
        for before, size in list(pairwise(size for size in sizes if (what, size) in cells))[-1:]:
            found = cells[what, size]["peak_mb"] / cells[what, before]["peak_mb"]
            name = f"{what}: peak memory at {size:,} rows beside {before:,}"
            yield name, f"<= {MEMORY_TARGET}x", f"{found:.2f}x", found <= MEMORY_TARGET


def _largest(cells: Mapping[tuple[str, int], Record], sizes: Sequence[int], *names: str) -> list[int]:
    """Return the largest size with all of these cells, or nothing."""
    return [size for size in sizes if all((name, size) in cells for name in names)][-1:]


def main() -> None:
    if sys.argv[1] == "table":
        RESULTS.write_text(table({"rows": kept()}), encoding="utf-8")
        _remove_rows()
    elif sys.argv[1] == "rows":
        words = sys.argv[3:]
        wanted = [what for what in CELLS if not words or any(word in what for word in words)]
        measure(int(sys.argv[2].replace("_", "")), wanted)
    else:
        _cell(*sys.argv[1:5])


if __name__ == "__main__":
    main()
