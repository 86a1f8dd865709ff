"""What is known of workers that are killed, without a Ray."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tokenbox.batch.errors import WorkersFailed
from tokenbox.batch.on_ray import RayEngine, Watcher
from tokenbox.batch.shards import RowFormat, Shard
from tokenbox.batch.work import Job, Mark


def job(number: int) -> Job:
    return Job(Shard(number, RowFormat.JSONL, ("a",), 0, 9), "part", "record", RowFormat.JSONL)


def test_the_watcher_tells_a_killed_worker_from_a_new_one() -> None:
    watcher = Watcher()
    assert watcher.begin(job(1)).strikes == {}
    watcher.mark(Mark(1, 4, 6))
    assert watcher.begin(job(1)).strikes == {4: 1, 5: 1}
    watcher.mark(Mark(1, 5, 6))
    assert watcher.begin(job(1)).strikes == {4: 1, 5: 2}
    watcher.end(1)
    assert watcher.begin(job(1)).strikes == {}
    assert watcher.taken() == [Mark(1, 5, 6)]
    assert watcher.taken() == []
    for _ in range(2):
        watcher.begin(job(1))
    with pytest.raises(WorkersFailed):
        watcher.begin(job(1))


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
    assert (started["address"], started["num_cpus"], started["include_dashboard"]) == ("local", 4, False)
    assert ended == {}
