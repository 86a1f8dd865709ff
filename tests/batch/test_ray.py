"""A Ray that these tests start and stop: the same bytes as in one process, whoever is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from tests.batch.deadly import DEADLY, arm
from tests.batch.rows import mixed, read_jsonl, write_jsonl
from tests.waiting import until
from tokenbox import batch, named_code
from tokenbox.batch import Compile
from tokenbox.batch.engines import EngineName
from tokenbox.batch.errors import BatchError
from tokenbox.batch.on_ray import _ray
from tokenbox.batch.plan import BatchPlan
from tokenbox.batch.runs import RunOptions
from tokenbox.batch.runs import run as run_plan
from tokenbox.cli import main
from tokenbox.errors import CodeNotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.batch.work import Event

# Ray closes files and sockets of its own when they are collected.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
OPTIONS: dict[str, Any] = {"task": "auto", "budget": "limit", "shard_size": 8_000}


def descendants() -> dict[int, str]:
    """The processes that this one started, and those that they started, with their command lines."""
    parents, lines = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
        except (OSError, IndexError):
            continue
    found: dict[int, str] = {}
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != pid and pid in lines:  # it may have ended between the two files
            found[pid] = lines[pid]
    return found


def rays() -> list[str]:
    return [line for line in descendants().values() if "raylet" in line or "gcs_server" in line]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("in") / "rows.jsonl", mixed(300))


@pytest.fixture(scope="module")
def wanted(source: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("out") / "inline.jsonl"
    batch.run(source, out, **OPTIONS)
    return out.read_bytes()


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A Ray on this machine for these tests; no process of it is left after them."""
    module = _ray()
    environment = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    module.init(
        "local",
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": environment, "worker_process_setup_hook": arm},
    )
    yield module
    module.shutdown()
    until(lambda: not rays(), "the end of Ray")


@pytest.mark.usefixtures("ray")
def test_two_actors_of_which_one_is_killed(source: Path, wanted: bytes, tmp_path: Path) -> None:
    killed: list[int] = []

    def watch(_: Event) -> None:
        actors = [pid for pid, line in descendants().items() if "ShardActor" in line]
        if not killed and actors:
            os.kill(actors[0], signal.SIGKILL)
            killed.append(actors[0])

    options = RunOptions(engine=EngineName.RAY, workers=2, shard_size=8_000)
    plan = BatchPlan.of(task="auto", budget="limit")
    two = run_plan(source, tmp_path / "two.jsonl", plan, options, watch=watch)
    assert killed
    assert (two.engine, two.workers) == ("ray", 2)
    assert (tmp_path / "two.jsonl").read_bytes() == wanted
    again = batch.run(source, tmp_path / "two.jsonl", resume=True, engine="inline", **OPTIONS)
    assert (again.reused, again.digest) == (two.shards, two.digest)


@pytest.mark.usefixtures("ray")
def test_actors_run_the_code_that_this_process_may_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = BatchPlan.of(task="count", tokenizer="tests.batch.rows:words")
    monkeypatch.setattr(named_code, "_allowed", set())
    with pytest.raises(CodeNotAllowed):
        run_plan(source, tmp_path / "no.jsonl", plan, RunOptions(engine=EngineName.RAY, workers=1))
    named_code.allow("tests.batch.rows:words")
    one = run_plan(source, tmp_path / "ray.jsonl", plan, RunOptions(engine=EngineName.RAY, workers=1))
    two = run_plan(source, tmp_path / "inline.jsonl", plan, RunOptions(engine=EngineName.INLINE))
    assert one.digest == two.digest


@pytest.mark.usefixtures("ray")
def test_rows_that_fail_fast_end_the_run(source: Path, tmp_path: Path) -> None:
    with pytest.raises(BatchError, match="failed"):
        batch.run(source, tmp_path / "out.jsonl", engine="ray", workers=1, fail_fast=True, **OPTIONS)


def test_compile_in_a_pipeline_that_reads_parquet(ray: Any, tmp_path: Path) -> None:  # noqa: ANN401  # a module
    """With as many actors as Ray has CPUs but one, so that the reader has its own."""
    rows = [{"id": number, "text": "one two three four " * (number % 5 + 1)} for number in range(200)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet", row_group_size=50)
    data = ray.data.read_parquet(str(tmp_path / "in.parquet"), override_num_blocks=4)
    done = data.map_batches(
        Compile,
        fn_constructor_args=["layout"],
        fn_constructor_kwargs={"budget": 6},
        batch_size=32,
        concurrency=2,
    )
    found = sorted(done.take_all(), key=lambda row: row["id"])
    local = Compile("layout", budget=6)(rows)
    assert [row["compiled_text"] for row in found] == [row["compiled_text"] for row in local]
    assert [row["compiled_digest"] for row in found] == [row["compiled_digest"] for row in local]


def test_workers_are_as_nice_as_this_process(ray: Any) -> None:  # noqa: ANN401  # a module
    """With Ray's own default, a busy machine leaves them no time."""
    assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)


@pytest.mark.usefixtures("ray")
def test_a_row_that_kills_actors_is_set_aside(tmp_path: Path) -> None:
    rows = [{"id": number, "text": "hello " * number} for number in range(30)]
    rows[11]["text"] = DEADLY
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    found = batch.run(source, tmp_path / "out.jsonl", task="layout", budget=9, engine="ray", workers=2)
    assert found.workers == found.shards == 1  # not the number that was allowed
    assert found.tally.errors == {"row_kills_workers": 1}
    assert [row["error"] is not None for row in read_jsonl(tmp_path / "out.jsonl")].index(True) == 11


def test_a_run_starts_and_ends_a_ray_of_its_own(source: Path, wanted: bytes, tmp_path: Path) -> None:
    """Last, when the Ray of the other tests is gone: in a process of its own, as a command has it."""
    script = (
        "import sys; from tokenbox.cli import main; from tests.batch.test_ray import rays; import ray; "
        "status = main(sys.argv[1:]); assert not ray.is_initialized(); "
        "print('left:', rays()); sys.exit(status)"
    )
    arguments = [
        "batch",
        str(source),
        "-o",
        str(tmp_path / "out.jsonl"),
        "--task",
        "auto",
        "--budget",
        "limit",
    ]
    command = [sys.executable, "-c", script, *arguments, "--shard-size", "8000", "--engine", "ray"]
    ran = (
        subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False)
        for _ in range(5)
    )
    # Beside a load, Ray gives up after 30 seconds.
    ended = next(one for one in ran if "cannot connect to Ray on this machine" not in one.stderr)
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (5, "left: []"), ended.stderr
    assert "rows failed" in ended.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == wanted


def test_a_ray_that_does_not_start_in_time_is_one_message(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.")  # noqa: TRY002  # as Ray raises it

    monkeypatch.setattr(_ray(), "is_initialized", lambda: False)
    monkeypatch.setattr(_ray(), "init", init)
    status = main(["batch", str(source), "-o", str(tmp_path / "o"), "--engine", "ray", "--task", "count"])
    said = capsys.readouterr().err
    assert status == 2
    assert "timed out during startup" in said
    assert "--engine process" in said
    assert "Traceback" not in said


def test_a_cluster_that_is_not_there_is_one_message(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ray(), "is_initialized", lambda: False)  # the Ray of the other tests is not meant
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    status = main(["batch", str(source), "-o", str(tmp_path / "o"), "--address", address])
    said = capsys.readouterr().err
    assert status == 2
    assert "cannot connect to Ray at" in said
    assert "Traceback" not in said
