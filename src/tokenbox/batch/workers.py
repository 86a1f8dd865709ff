"""Workers that compile shards: a thread serves each one, and replaces it when it is killed.

A worker is a process of this machine or an actor of Ray. It reads and writes its shards itself, one at a
time: no row passes through this process, and memory holds one chunk per worker. The mark of a chunk arrives
before the chunk is compiled, which shows the row that kills workers.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.work import KILLS, Mark, ShardRecord, compile_shard
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.batch.compiler import RowCompiler
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job

# There is a worker per core, so each uses one thread.
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


class WorkerDied(Exception):
    """A worker ended unexpectedly. The text follows ``3 workers ended before doing any work``.

    ``details``: those of the error if no worker starts.
    """

    def __init__(self, text: str, **details: object) -> None:
        super().__init__(text)
        self.details = details


class Worker(Protocol):
    """A worker that was started."""

    def wait(self) -> None:
        """Return when it runs. Raises :class:`WorkerDied`."""

    def events(self, job: Job) -> Iterator[Event | TokenboxError]:
        """Yield the events of one shard, or an error instead. Raises :class:`WorkerDied`."""
        ...

    def stop(self) -> None: ...


def events_of(job: Job, plan: BatchPlan, compiler: RowCompiler) -> Iterator[Event | TokenboxError]:
    """Compile a shard in a worker. Yields an error that ends the run: raised, it would look like a kill."""
    try:
        yield from compile_shard(job, plan, compiler)
    except TokenboxError as error:
        yield error
    except Exception as error:  # noqa: BLE001  # as above
        yield BatchError(f"{type(error).__name__}: {error}. This is a bug in tokenbox.")


def run_workers(start: Callable[[], Worker], count: int, jobs: Sequence[Job]) -> Iterator[Event]:
    """Compile the jobs in ``count`` workers, and yield their events. Closing the iterator stops them."""
    pending = deque(jobs)
    events: queue.Queue[Event | BaseException] = queue.Queue(maxsize=1_000)
    threads = [_WorkerThread(start, pending, events) for _ in range(count)]
    for one in threads:
        one.thread.start()
    left = len(jobs)
    try:
        while left:
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            left -= isinstance(event, ShardRecord)
            yield event
    finally:
        pending.clear()
        for one in threads:
            one.stop()
        while any(one.thread.is_alive() for one in threads):
            # A thread may be blocked by the full queue.
            with suppress(queue.Empty):
                events.get(timeout=0.01)


class _WorkerThread:
    """A thread with one worker at a time."""

    def __init__(
        self, start: Callable[[], Worker], pending: deque[Job], events: queue.Queue[Event | BaseException]
    ) -> None:
        self._start, self._pending, self._events = start, pending, events
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._stopped = False
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.stop()

    def _serve(self) -> None:
        try:
            with suppress(WorkerDied):  # then it is replaced
                self._running_worker().wait()  # a busy cluster may start only some of the workers
            while True:
                try:
                    job = self._pending.popleft()
                except IndexError:
                    break
                self._compile(job)
        except BaseException as error:  # noqa: BLE001  # ``run_workers`` raises it
            if not self._stopped:
                self._events.put(error)
        finally:
            self._drop()

    def _compile(self, job: Job) -> None:
        failed_starts = 0
        while True:
            mark = None
            try:
                for event in self._running_worker().events(job):
                    if isinstance(event, TokenboxError):
                        raise event
                    if isinstance(event, Mark):
                        mark = event
                    self._events.put(event)
            except WorkerDied as death:
                if self._stopped:
                    raise
                self._drop()
                if mark is not None:
                    job = job.after_kill(mark)
                    continue
                failed_starts += 1
                if failed_starts == KILLS:
                    message = f"{KILLS} workers ended before doing any work{death}"
                    raise WorkersFailed(message, **death.details) from None
            else:
                return

    def _running_worker(self) -> Worker:
        with self._lock:
            if self._stopped:
                raise BatchError("the run was stopped.")
            if self._worker is None:
                self._worker = self._start()
            return self._worker

    def _drop(self) -> None:
        with self._lock:  # two threads that close a pipe at once raise a ValueError
            if self._worker is not None:
                self._worker.stop()
                self._worker = None
