"""The engine for Ray, on a cluster or on this machine: actors of Ray Data compile shards, one per core.

Like a worker process, an actor loads the vocabulary once, and reads and writes its shards itself. Only jobs
and records go through Ray's object store, so that the size of rows does not affect the driver or the store.

Rule 1: actors never take all CPUs, because Ray Data's own tasks need one.
Rule 2: the watcher has the mark of a chunk before it is compiled, which shows the row that kills workers. Ray
restarts a killed actor, on any node, and gives it the job again.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.process import ONE_THREAD, cores
from tokenbox.batch.work import Mark, ShardRecord, bytes_of, compile_shard
from tokenbox.errors import MissingExtra, TokenboxError
from tokenbox.named_code import allow, allowed

if TYPE_CHECKING:
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job

# Set before Ray is imported: no usage statistics, no progress bar, and no warning on stderr that Ray Data
# gives its actors arguments through the object store. By default Ray's workers have a niceness of 15: on a
# busy machine they get next to no time, and Ray ends the run because it makes no progress.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_worker_niceness": "0",
}
_NAMESPACE = "tokenbox"
_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 10
# Workers per watcher: a worker makes about ten marks a second, and an actor takes about a thousand calls.
_WORKERS_PER_WATCHER = 64


def _ray() -> Any:  # noqa: ANN401  # a module
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import pyarrow  # noqa: F401, ICN001  # Ray Data needs it
        import ray  # an extra
    except ImportError:
        raise MissingExtra.of("the engine ray", "ray") from None
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


class Watcher:
    """Keeps the last mark of every shard. If a job begins again, its worker was killed at that mark.

    A separate actor without a CPU, which outlives the workers.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._marks: dict[int, Mark] = {}
        self._new: dict[int, Mark] = {}

    def begin(self, job: Job) -> Job:
        """Return the job with the strikes of its earlier attempts. Raises ``WorkersFailed``."""
        number = job.shard.number
        if number in self._jobs:
            job = self._jobs[number].after_kill(self._marks.get(number))
            self._marks.pop(number, None)
        self._jobs[number] = job
        return job

    def mark(self, mark: Mark) -> None:
        self._marks[mark.shard] = mark
        self._new[mark.shard] = mark

    def end(self, number: int) -> None:
        self._jobs.pop(number, None)
        self._marks.pop(number, None)

    def taken(self) -> list[Mark]:
        """Return the last mark of each shard with a new one since the last call."""
        marks, self._new = list(self._new.values()), {}
        return marks


class ShardActor:
    """The actor that Ray Data calls. It has one compiler for all its shards."""

    def __init__(
        self, plan: BatchPlan, expected: int | None, watchers: Sequence[Any], code: Collection[str]
    ) -> None:
        allow(*code)
        os.environ.update(ONE_THREAD)
        self._plan, self._watchers = plan, watchers
        self._compiler = RowCompiler(plan, expected)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the record for a batch of one job, or the error that ends the run."""
        return {"result": [pickle.dumps(self._compile(pickle.loads(batch["job"][0])))]}  # noqa: S301  # our own

    def _compile(self, job: Job) -> Event | TokenboxError | None:
        ray = _ray()
        watcher = self._watchers[job.shard.number % len(self._watchers)]
        try:
            job = ray.get(watcher.begin.remote(job))
            record: Event | None = None
            for event in compile_shard(job, self._plan, self._compiler):
                record = event
                if isinstance(event, Mark):
                    received = watcher.mark.remote(event)
                    if event.first < event.last:
                        ray.get(received)
            ray.get(watcher.end.remote(job.shard.number))
        except TokenboxError as error:
            return error
        except ray.exceptions.RayTaskError as error:
            return error.cause if isinstance(error.cause, TokenboxError) else BatchError(str(error))
        return record


class RayEngine:
    """Compiles on the cluster at ``address``, or on a local Ray that ends with the run.

    ``workers``: actors with one CPU each. Default: one less than the CPUs of the cluster.
    """

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._address = address
        self._ray = _ray()
        self.workers = workers or max(1, cores())
        self._given = workers is not None

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        if not jobs:
            return
        ray = self._ray
        with self._connected():
            if self._address is not None and not self._given:
                self.workers = max(1, int(ray.cluster_resources().get("CPU", 2)) - 1)
            watcher = ray.remote(num_cpus=0, max_restarts=0)(Watcher)
            watchers = [watcher.remote() for _ in range(-(-self.workers // _WORKERS_PER_WATCHER))]
            yield from self._events(plan, jobs, watchers)

    def _events(self, plan: BatchPlan, jobs: Sequence[Job], watchers: Sequence[Any]) -> Iterator[Event]:
        """Yield the records of Ray Data, and the marks of the watchers."""
        results = self._start(plan, jobs, watchers)
        polled = time.monotonic()
        while True:
            if time.monotonic() - polled > _POLL_SECONDS:
                polled = time.monotonic()
                for marks in self._ray.get([watcher.taken.remote() for watcher in watchers]):
                    yield from marks
            try:
                found = results.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if found is None:
                return
            if isinstance(found, TokenboxError):
                raise found
            if isinstance(found, BaseException):
                raise WorkersFailed(f"Ray ended the run: {str(found)[:500]}") from None
            yield found

    def _start(
        self, plan: BatchPlan, jobs: Sequence[Job], watchers: Sequence[Any]
    ) -> queue.Queue[ShardRecord | BaseException | None]:
        """Start a thread that puts the records into a queue, then None or the error that ended it."""
        data = self._ray.data
        count = min(self.workers, len(jobs))
        rows = data.from_items([{"job": pickle.dumps(job)} for job in jobs], override_num_blocks=len(jobs))
        done = rows.map_batches(
            ShardActor,
            batch_size=1,
            batch_format="numpy",
            fn_constructor_kwargs={
                "plan": plan,
                "expected": bytes_of(jobs, count),
                "watchers": watchers,
                "code": allowed(),
            },
            compute=data.ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=2),
            num_cpus=1,
        )
        results: queue.Queue[ShardRecord | BaseException | None] = queue.Queue()

        def collect() -> None:
            try:
                for row in done.iter_rows():
                    results.put(pickle.loads(row["result"]))  # noqa: S301  # our own
                results.put(None)
            except BaseException as error:  # noqa: BLE001  # ``_events`` raises it
                results.put(error)

        threading.Thread(target=collect, daemon=True).start()
        return results

    @staticmethod
    def _check_reachable(address: str) -> None:
        """Raise if nothing listens at the address: Ray itself would retry for minutes."""
        host, found, port = address.rpartition("://")[2].rpartition(":")
        if not found or not port.isdigit():
            return
        try:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise _no_ray(address, error) from None

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Connect to the cluster for the duration of the context; keep an existing connection."""
        ray = self._ray
        if ray.is_initialized():
            yield
            return
        options: dict[str, Any] = {
            "namespace": _NAMESPACE,
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if self._address is None:
            # `local` starts a new Ray even if another one runs on this machine. It has one CPU more than the
            # workers take, for the tasks of Ray Data.
            options |= {
                "address": "local",
                "num_cpus": self.workers + 1,
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",
            }
        else:
            self._check_reachable(self._address)
            options["address"] = self._address
        try:
            ray.init(
                runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}}, **options
            )
        except Exception as error:  # noqa: BLE001  # on a busy machine it raises a bare Exception after 30 s
            raise _no_ray(self._address, error) from None
        try:
            yield
        finally:
            ray.shutdown()


def _no_ray(address: str | None, error: Exception) -> BatchError:
    where = "on this machine" if address is None else f"at {address}"
    reason = str(error)[:300].rstrip(". ")
    hint = " Run it again, or without Ray: --engine process" if address is None else ""
    return BatchError(f"cannot connect to Ray {where}: {reason}.{hint}", address=address)
