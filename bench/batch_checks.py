"""Two long checks of batches: equal digests over all engines, and a simulated cluster of four nodes.

    python bench/batch_checks.py equal 100000 [inline process ray resume]
    python bench/batch_checks.py nodes 20000

`equal` compiles mixed rows (texts, chats, blocks, chunks, documents, errors) with every engine, or the named
ones; it kills workers in the middle of a run, kills a whole run and resumes it, prints a digest for each, and
writes them to bench/results/batch.md. `nodes` starts four raylets and a head on this machine, with
ray.cluster_utils, and prints the cost of a row and of a shard.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "bench")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenbox.batch.summary import BatchSummary

RESULTS = ROOT / "bench" / "results" / "batch.md"
SECTION = "## Equal digests"
SHARD = 64 << 10
OPTIONS: dict[str, Any] = {"task": "auto", "budget": "limit", "shard_size": SHARD}
NODES = 4
# Engine, workers, and a part of the command line of the worker to kill.
CASES = (
    ("inline", 1, None),
    ("process", 1, None),
    ("process", 2, None),
    ("process", 4, None),
    ("process", 2, "tokenbox.batch.worker"),
    ("ray", 1, None),
    ("ray", 2, None),
    ("ray", 4, None),
    ("ray", 2, "ShardActor"),
)


def main() -> int:
    what, rows = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        from tests.batch.rows import mixed, write_jsonl

        source = write_jsonl(Path(folder, "rows.jsonl"), mixed(rows))
        if what == "nodes":
            return _nodes(source, Path(folder))
        return _equal(source, Path(folder), rows, sys.argv[3:] or ["inline", "process", "ray", "resume"])


def _equal(source: Path, folder: Path, rows: int, wanted: Sequence[str]) -> int:
    from tokenbox.batch.engines import EngineName
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.runs import RunOptions
    from tokenbox.batch.runs import run as run_plan

    found: dict[str, BatchSummary] = {}
    for engine, workers, mark in CASES:
        if engine in wanted:
            plan = BatchPlan.of(task="auto", budget="limit")
            options = RunOptions(EngineName(engine), workers=workers, shard_size=SHARD, overwrite=True)
            killer = None if mark is None else _Killer(mark)
            summary = run_plan(source, folder / "out.jsonl", plan, options, watch=killer)
            if killer is not None and not killer.killed:
                raise RuntimeError(f"{engine}: the run ended before a worker was killed")
            _report(found, f"{engine} {workers}{'' if mark is None else ', one of them killed'}", summary)
    if "resume" in wanted:
        _report(found, "process 2, killed with -9, then resumed inline", _resumed(source, folder))
    equal = len({summary.digest for summary in found.values()}) == 1
    print("equal" if equal else "DIFFERENT")
    if RESULTS.exists():
        page = RESULTS.read_text(encoding="utf-8").partition(SECTION)[0].rstrip("\n")
        RESULTS.write_text(f"{page}\n\n{_section(found, rows, equal=equal)}", encoding="utf-8")
    return not equal


class _Killer:
    """Kills the first process whose command line contains ``mark``, after some events of the run."""

    def __init__(self, mark: str) -> None:
        self._mark, self._events, self.killed = mark, 0, False

    def __call__(self, _event: object) -> None:
        from tests.batch.test_ray import descendants

        self._events += 1
        if self.killed or self._events <= 20:
            return
        victim = next((pid for pid, line in descendants().items() if self._mark in line), None)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
            self.killed = True


def _section(found: Mapping[str, BatchSummary], rows: int, *, equal: bool) -> str:
    """Return the section for the page of results."""
    lines = [
        SECTION,
        "",
        (
            f"`python bench/batch_checks.py equal {rows}`: {rows:,} mixed rows (texts, chats, blocks, "
            "chunks, documents, and rows that fail). "
            f"{'All digests are equal.' if equal else '**The digests differ.**'}"
        ),
        "",
        "| engine and workers | rows | rows that fail | shards | done before | SHA-256 of the results |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {one.tally.rows:,} | {one.failed:,} | {one.shards} | {one.reused} "
        f"| `{one.digest[:16]}` |"
        for name, one in found.items()
    ]
    return "\n".join(lines) + "\n"


def _resumed(source: Path, folder: Path) -> BatchSummary:
    """Kill a run in the middle and resume it."""
    from tokenbox import batch

    script = (
        "import sys; from tokenbox import batch; "
        f"batch.run(sys.argv[1], sys.argv[2], engine='process', workers=2, overwrite=True, **{OPTIONS!r})"
    )
    out = folder / "killed.jsonl"
    process = subprocess.Popen([sys.executable, "-c", script, str(source), str(out)])
    records = folder / "killed.jsonl.batch" / "shards"
    while process.poll() is None and len(list(records.glob("0*.json"))) < 5:
        time.sleep(0.02)
    process.kill()
    process.wait()
    return batch.run(source, out, resume=True, **OPTIONS)


def _report(found: dict[str, BatchSummary], name: str, summary: BatchSummary) -> None:
    found[name] = summary
    reused = f", {summary.reused} of {summary.shards} shards done before" if summary.reused else ""
    print(
        f"{summary.digest}  {name}: {summary.tally.rows:,} rows, {summary.failed:,} errors{reused}",
        flush=True,
    )


def _nodes(source: Path, folder: Path) -> int:
    from bench_batch import _Seen
    from ray.cluster_utils import Cluster

    from tokenbox import batch
    from tokenbox.batch.on_ray import _ray

    wanted = batch.run(source, folder / "inline.jsonl", **OPTIONS)
    inline = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    ray = _ray()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=1)
        paths = {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
        ray.init(address=cluster.address, log_to_driver=False, runtime_env=paths)
        before, seen = time.process_time(), _Seen({})
        done = batch.run(source, folder / "nodes.jsonl", engine="ray", workers=NODES, **OPTIONS)
        driver = time.process_time() - before
        seen.look(os.getpid())
        nodes = len([node for node in ray.nodes() if node["Alive"]])
        ray.shutdown()
    finally:
        cluster.shutdown()
    rows, shards = done.tally.rows, done.shards
    record = {
        "same digest": done.digest == wanted.digest,
        "nodes": nodes,
        "rows": rows,
        "shards": shards,
        "inline, processor us per row": round(inline / rows * 1e6),
        "driver, processor ms per shard": round(driver / shards * 1e3, 2),
        "driver, processor us per row": round(driver / rows * 1e6, 1),
        "record through the object store, bytes per shard": len(_record(folder)),
    }
    print(json.dumps(record, indent=1))
    return done.digest != wanted.digest


def _record(folder: Path) -> bytes:
    return next((folder / "nodes.jsonl.batch" / "shards").glob("*.json")).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
