"""Workers that are killed or do not start, without processes and without a Ray."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import pytest

from tokenbox.batch.errors import WorkersFailed
from tokenbox.batch.on_ray import RayEngine
from tokenbox.batch.plan import BatchPlan
from tokenbox.batch.shards import RowFormat, Shard
from tokenbox.batch.tally import Tally
from tokenbox.batch.work import Job, Mark, ShardRecord
from tokenbox.batch.workers import Worker, WorkerDied, run_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.batch.work import Event
    from tokenbox.errors import TokenboxError


def job(number: int) -> Job:
    return Job(Shard(number, RowFormat.JSONL, ("a",), 0, 9), "part", "record", RowFormat.JSONL)


def test_the_rows_that_were_compiled_when_workers_were_killed_are_known() -> None:
    killed = job(1).after_kill(Mark(1, 4, 6))
    assert killed.kills == {4: 1, 5: 1}
    assert killed.after_kill(Mark(1, 5, 6)).kills == {4: 1, 5: 2}
    reading = Mark(1, 6, 6)
    with pytest.raises(WorkersFailed, match="at its row 6"):
        killed.after_kill(reading).after_kill(reading).after_kill(reading)


class Fake:
    """A worker that may be killed at the first rows of a job. Its records have the kills as bytes."""

    def __init__(self, *, dies: bool) -> None:
        self.dies = dies
        self.stopped = False

    def wait(self) -> None: ...

    def events(self, job: Job) -> Iterator[Event | TokenboxError]:
        yield Mark(job.shard.number, 0, 2)
        if self.dies:
            raise WorkerDied(": killed")
        yield ShardRecord(job.shard.number, "", "", "", len(job.kills), Tally())

    def stop(self) -> None:
        self.stopped = True


def test_a_killed_worker_is_replaced_and_no_worker_is_left() -> None:
    workers: list[Fake] = []

    def start() -> Worker:
        workers.append(Fake(dies=not workers))
        return workers[-1]

    events = list(run_workers(start, 1, [job(1), job(2)]))
    records = [event for event in events if isinstance(event, ShardRecord)]
    assert [(record.number, record.bytes) for record in records] == [(1, 2), (2, 0)]
    assert len(workers) == 2
    assert all(worker.stopped for worker in workers)


def test_a_worker_that_never_starts_holds_up_nobody() -> None:
    """A cluster may have fewer processors than the run has workers."""
    stopped = threading.Event()

    class Waiting(Fake):
        def wait(self) -> None:
            stopped.wait()
            raise WorkerDied(": stopped")

        def stop(self) -> None:
            stopped.set()

    workers: list[Worker] = [Waiting(dies=False), Fake(dies=False)]
    events = list(run_workers(workers.pop, 2, [job(number) for number in range(3)]))
    assert sum(isinstance(event, ShardRecord) for event in events) == 3
    assert stopped.is_set()


def test_a_run_without_an_address_joins_no_ray_of_somebody_else() -> None:
    class Recorded:
        asked: ClassVar[list[dict[str, object]]] = []

        def is_initialized(self) -> bool:
            return False

        def init(self, **options: object) -> None:
            self.asked.append(options)

        def shutdown(self) -> None:
            self.asked.append({})

    engine = RayEngine(3, None)
    engine._ray = Recorded()  # noqa: SLF001
    with engine._connected():  # noqa: SLF001
        pass
    started, ended = Recorded.asked
    assert (started["address"], started["num_cpus"], started["include_dashboard"]) == ("local", 3, False)
    assert ended == {}


def test_a_cluster_that_is_gone_is_one_error() -> None:
    class Gone:
        exceptions = SimpleNamespace(RayError=ValueError)

        def is_initialized(self) -> bool:
            return True

        def remote(self, **_: object) -> object:
            raise RuntimeError("the cluster is gone")

    engine = RayEngine(2, None)
    engine._ray = Gone()  # noqa: SLF001
    with pytest.raises(WorkersFailed, match="Ray ended the run: the cluster is gone"):
        list(engine.run(BatchPlan(), [job(1), job(2)]))
