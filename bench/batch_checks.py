"""Long checks of batches: equal digests over all engines, a simulated cluster, large inputs, and S3.

    python bench/batch_checks.py equal 100000 [inline process ray resume]
    python bench/batch_checks.py nodes 20000
    python bench/batch_checks.py large
    python bench/batch_checks.py s3

`equal` compiles mixed rows (texts, chats, blocks, chunks, documents, errors) with every engine, or the named
ones; it kills workers in the middle of a run, kills a whole run and resumes it, prints a digest for each, and
writes them to bench/results/batch.md. `nodes` starts four raylets and a head on this machine, with
ray.cluster_utils, and prints the cost of a row and of a shard. `large` compiles 2.2 GB of JSON lines and of
Parquet (one row group, more text than Arrow's 32-bit offsets reach), and a row of 300 MB in each format, each
in a process whose peak of memory has a limit; it needs 5 GB of disk. `s3` starts a server of the S3 API
(moto) in an environment of its own, and reads, writes, kills and resumes at `s3://`, once through Arrow and
once through s3fs.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "bench")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.batch.storage import Storage
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
    ("process", 2, "tokenbox.batch.process"),
    ("ray", 1, None),
    ("ray", 2, None),
    ("ray", 4, None),
    ("ray", 2, "ShardActor"),
)


def main() -> int:
    what = sys.argv[1]
    if what in ALONE:
        return ALONE[what](*sys.argv[2:])
    rows = int(sys.argv[2])
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


# Large inputs.

TOKENIZER = "tests.batch.rows:words"
TEXT = "word " * 4_400
HUGE = 60_000_000  # words of the row of 300 MB
# The name of the input, the errors of its rows, and the limit of the memory, in MB.
LARGE = {
    "rows.jsonl": (0, 150),
    "rows.parquet": (0, 400),
    "row.jsonl": (1, 300),
    "row.csv": (1, 600),
    "row.parquet": (1, 1_500),
    "texts": (1, 150),
}


def _large() -> int:
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (errors, limit) in LARGE.items():
            subprocess.run([sys.executable, __file__, "make-large", folder, name], check=True)
            done = subprocess.run(
                [sys.executable, __file__, "one-large", folder, name], check=True, capture_output=True
            )
            found = json.loads(done.stdout)
            good = found["rows with errors"] == errors and found["peak MB"] <= limit
            print(name, json.dumps(found), f"limit {limit} MB:", "good" if good else "BAD", flush=True)
            status |= not good
    return status


def _make_large(folder: str, name: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(folder, name)
    huge = "" if name.startswith("rows") else "word " * HUGE
    match name:
        case "rows.jsonl":
            lines = "".join(json.dumps({"id": n, "text": f"{TEXT}{n}"}) + "\n" for n in range(1_000))
            with place.open("w") as file:
                for _ in range(100):
                    file.write(lines)
        case "rows.parquet":
            texts = pa.array([f"{TEXT}{n}" for n in range(1_000)])
            table = pa.table({"text": pa.chunked_array([texts] * 100)})
            pq.write_table(table, place, row_group_size=100_000, use_dictionary=False, compression="zstd")
        case "row.jsonl":
            place.write_text(f'{{"text": "a"}}\n{{"text": "{huge}"}}\n{{"text": "b"}}\n')
        case "row.csv":
            place.write_text(f'text,n\na,1\n"{huge}",2\nb,3\n')
        case "row.parquet":
            pq.write_table(pa.table({"text": ["a", huge, "b"]}), place)
        case _:
            place.mkdir()
            for number, text in enumerate(("a", huge, "b")):
                (place / f"{number}.txt").write_text(text)
    return 0


def _one_large(folder: str, name: str) -> int:
    from tokenbox import batch, named_code

    named_code.allow(TOKENIZER)
    suffix = "parquet" if name.endswith("parquet") else "jsonl"
    output = Path(folder, f"out.{suffix}")
    done = batch.run(
        Path(folder, name), output, task="count", tokenizer=TOKENIZER, engine="inline", overwrite=True
    )
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "rows": done.tally.rows,
        "rows with errors": done.failed,
        "shards": done.shards,
        "peak MB": used.ru_maxrss // 1_000,
        "processor s": round(used.ru_utime + used.ru_stime, 1),
    }
    print(json.dumps(found))
    return 0


# S3.

S3 = ROOT / "build" / "s3"
S3_PACKAGES = ("moto[s3]", "flask", "flask-cors", "s3fs", f"{ROOT}[batch]")
S3_ROWS = 4_000


def _s3() -> int:
    python = S3 / "bin" / "python"
    if not (S3 / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", S3], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *S3_PACKAGES], check=True)
        (S3 / "ready").touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "check",
        "AWS_SECRET_ACCESS_KEY": "check",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    server = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # This environment has no s3fs, so that Arrow opens the addresses; that of the server has it.
        return max(
            subprocess.run([one, __file__, "one-s3", name], env=environment, check=False).returncode
            for name, one in (("arrow", sys.executable), ("s3fs", str(python)))
        )
    finally:
        server.terminate()
        server.wait()


def _one_s3(name: str) -> int:
    from tests.batch.rows import mixed, write_jsonl
    from tokenbox import batch
    from tokenbox.batch.storage import storage_of

    bucket = f"s3://{name}"
    _create_bucket(name)
    storage = storage_of(f"{bucket}/rows/in.jsonl")
    good = (name == "arrow") == ("Arrow" in repr(storage.__dict__))
    with tempfile.TemporaryDirectory() as folder:
        source = write_jsonl(Path(folder, "in.jsonl"), mixed(S3_ROWS))
        wanted = batch.run(source, Path(folder, "out.jsonl"), **OPTIONS)
        with storage.create(f"{bucket}/rows/in.jsonl") as file:
            file.write(source.read_bytes())
    for given, output, form in (
        (f"{bucket}/rows/in.jsonl", f"{bucket}/out.jsonl", None),
        (f"{bucket}/rows/", f"{bucket}/out/", "parquet"),
        (f"{bucket}/rows/*.jsonl", f"{bucket}/killed.jsonl", None),
    ):
        if "killed" in output:
            _kill(given, output, storage)
        done = batch.run(
            given,
            output,
            engine="process",
            workers=2,
            output_format=form,
            resume="killed" in output,
            **OPTIONS,
        )
        again = batch.run(given, output, output_format=form, resume=True, **OPTIONS)
        same = done.digest == again.digest == wanted.digest and again.reused == again.shards
        kept = f", {done.reused} of {done.shards} shards done before" if done.reused else ""
        print(f"{name}: {output} {'equal' if same else 'DIFFERENT'}{kept}", flush=True)
        good = good and same and bool(done.reused) == ("killed" in output)
    return not good


def _create_bucket(name: str) -> None:
    """Create a bucket; the server takes every key."""
    request = urllib.request.Request(f"{os.environ['AWS_ENDPOINT_URL']}/{name}", method="PUT")
    for _ in range(100):
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.URLError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("the server of S3 does not start")


def _kill(source: str, output: str, storage: Storage) -> None:
    """Kill a run with -9 after its first records."""
    script = (
        "import sys; from tokenbox import batch; "
        f"batch.run(sys.argv[1], sys.argv[2], engine='process', workers=2, **{OPTIONS!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", script, source, output])
    while process.poll() is None and not storage.is_file(f"{output}.batch/shards/00002.json"):
        time.sleep(0.05)
    process.kill()
    process.wait()


ALONE: Mapping[str, Callable[..., int]] = {
    "large": _large,
    "make-large": _make_large,
    "one-large": _one_large,
    "s3": _s3,
    "one-s3": _one_s3,
}

if __name__ == "__main__":
    sys.exit(main())
