"""Worker processes: the same bytes as without them, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.batch.rows import mixed, read_jsonl, write_jsonl
from tests.waiting import until
from tokenbox import batch
from tokenbox.batch import process
from tokenbox.batch.engines import EngineName
from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.plan import BatchPlan
from tokenbox.batch.process import run_processes
from tokenbox.batch.runs import RunOptions
from tokenbox.batch.runs import run as run_plan
from tokenbox.batch.shards import RowFormat, shard_input
from tokenbox.batch.work import Job, Mark, bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.batch.work import Event

PLAN = BatchPlan.of(task="auto", budget="limit")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("in") / "rows.jsonl", mixed(400))


@pytest.fixture(scope="module")
def wanted(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("out") / "inline.jsonl"
    batch.run(rows, out, task="auto", budget="limit", shard_size=8_000)
    return out.read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_processes_write_the_same_bytes(rows: Path, wanted: bytes, tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out.jsonl"
    found = batch.run(
        rows, out, task="auto", budget="limit", shard_size=8_000, engine="process", workers=workers
    )
    assert out.read_bytes() == wanted
    assert (found.engine, found.workers) == ("process", workers)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_shard_done_again(
    rows: Path, wanted: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[Any] = []

    class Seen(process.ProcessWorker):  # whom to kill
        def __init__(self, plan: BatchPlan, expected: int | None) -> None:
            super().__init__(plan, expected)
            workers.append(self._process)

    monkeypatch.setattr(process, "ProcessWorker", Seen)
    killed: list[int] = []

    def watch(event: Event) -> None:
        compiling = isinstance(event, Mark) and event.first < event.last
        if compiling and event.shard in {1, 3} - {*killed}:  # type: ignore[union-attr]  # a mark
            killed.append(event.shard)  # type: ignore[union-attr]
            os.kill(workers[-1].pid, signal.SIGKILL)

    options = RunOptions(engine=EngineName.PROCESS, workers=1, shard_size=8_000)
    run_plan(rows, tmp_path / "out.jsonl", PLAN, options, watch=watch)
    assert (tmp_path / "out.jsonl").read_bytes() == wanted
    assert len(workers) >= 2
    assert all(worker.poll() is not None for worker in workers)


KILLER = """
import os, signal
from tokenbox.batch import compiler
before = compiler.RowCompiler.compile_row
def compile_row(self, row):
    if isinstance(row, dict) and row.get("id") == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    return before(self, row)
compiler.RowCompiler.compile_row = compile_row
"""


@pytest.mark.slow
def test_a_row_that_kills_its_workers_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [{"id": number, "text": "hello " * number} for number in range(60)]
    given[20]["id"] = given[45]["id"] = "killer"
    source = write_jsonl(tmp_path / "in.jsonl", given)
    started: list[int] = []

    class Seen(process.ProcessWorker):
        def __init__(self, plan: BatchPlan, expected: int | None) -> None:
            super().__init__(plan, expected)
            started.append(self._process.pid)

    monkeypatch.setattr(process, "ProcessWorker", Seen)
    start = process._START.replace("serve_jobs()", f"exec({KILLER!r}); serve_jobs()")  # noqa: SLF001
    monkeypatch.setattr(process, "_START", start)
    found = batch.run(source, tmp_path / "out.jsonl", task="layout", budget=9, engine="process", workers=2)
    rows = read_jsonl(tmp_path / "out.jsonl")
    aside = [place for place, row in enumerate(rows) if row["error"] is not None]
    assert aside == [20, 45]
    assert [row["id"] for row in rows] == [row["id"] for row in given]
    assert found.tally.errors == {"row_kills_workers": 2}
    # One together with its neighbours, then two alone for each of the two rows; and the one that finished.
    assert len(started) == 6


def test_workers_that_cannot_start_are_one_error(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_START", "raise SystemExit('no such thing')")
    with pytest.raises(WorkersFailed, match=r"\(status 1\).*no such thing") as failed:
        batch.run(rows, tmp_path / "out.jsonl", task="count", engine="process", workers=2)
    assert failed.value.details == {"status": 1}


def test_an_engine_that_is_closed_leaves_nobody(rows: Path, tmp_path: Path) -> None:
    from tokenbox.batch.output import OutputPlaces
    from tokenbox.batch.runs import _jobs
    from tokenbox.batch.shards import RowFormat, shard_input

    sharded = shard_input(str(rows), shard_size=8_000)
    places = OutputPlaces.of(str(tmp_path / "out"), None, RowFormat.JSONL)
    engine = run_processes(2, PLAN, _jobs(sharded, PLAN, places, RunOptions(), None, None))
    next(engine)
    engine.close()  # type: ignore[attr-defined]  # a generator
    children = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    assert not any("tokenbox.batch.process" in child for child in children)


RUN = """
import sys
from tokenbox import batch
if __name__ == "__main__":
    batch.run(sys.argv[1], sys.argv[2], task="auto", budget="limit", shard_size=8_000, engine=sys.argv[3],
              workers=2 if sys.argv[3] == "process" else None, resume=True)
"""


@pytest.mark.parametrize("engine", ["process", "inline"])
@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_where_it_was(
    rows: Path, wanted: bytes, tmp_path: Path, engine: str
) -> None:
    out = tmp_path / "out.jsonl"
    running = subprocess.Popen([sys.executable, "-c", RUN, str(rows), str(out), engine])
    records = tmp_path / "out.jsonl.batch" / "shards"
    try:
        until(lambda: len(list(records.glob("0*.json"))) >= 2 or running.poll() is not None)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert not out.exists()
    found = batch.run(rows, out, task="auto", budget="limit", resume=True)
    assert found.reused >= 2
    assert out.read_bytes() == wanted


@pytest.mark.parametrize("engine", ["process", "inline"])
@pytest.mark.slow
def test_a_command_that_is_terminated_says_how_to_go_on(
    rows: Path, wanted: bytes, tmp_path: Path, engine: str
) -> None:
    out = tmp_path / "out.jsonl"
    workers = ["--workers", "2"] if engine == "process" else []
    command = [sys.executable, "-m", "tokenbox", "batch", str(rows), "-o", str(out), "--task", "auto"]
    options = ["--budget", "limit", "--shard-size", "8000", "--engine", engine, *workers]
    running = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    records = tmp_path / "out.jsonl.batch" / "shards"
    try:
        until(lambda: len(list(records.glob("0*.json"))) >= 2 or running.poll() is not None)
    finally:
        running.terminate()
        _, said = running.communicate()
    assert (running.returncode, said) == (
        130,
        "interrupted. The finished shards are kept; continue with --resume\n",
    )
    assert not out.exists()
    found = batch.run(rows, out, task="auto", budget="limit", resume=True)
    assert found.reused >= 2
    assert out.read_bytes() == wanted


def test_an_unwritable_output_is_one_error(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for engine in ("inline", "process"):
        with pytest.raises(BatchError, match="cannot be written"):
            batch.run(rows, tmp_path / "file" / "out.jsonl", task="count", engine=engine, workers=1)


def test_a_plan_and_an_error_travel() -> None:
    import pickle

    assert pickle.loads(pickle.dumps(PLAN)) == PLAN
    assert json.loads(json.dumps(PLAN.to_dict())) == PLAN.to_dict()


def test_each_worker_knows_how_much_it_has_to_read(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", mixed(300))
    plan = shard_input(str(source), None, 8_000)
    jobs = [Job(shard, "", "", RowFormat.JSONL) for shard in plan.shards]
    size = source.stat().st_size
    assert (bytes_of(jobs), bytes_of(jobs, 4)) == (size, size // 4)
    compressed = replace(jobs[0], shard=replace(jobs[0].shard, stop=None))
    rows_of_parquet = replace(jobs[0], shard=replace(jobs[0].shard, format=RowFormat.PARQUET))
    assert bytes_of([*jobs, compressed]) is None
    assert bytes_of([*jobs, rows_of_parquet]) is None
