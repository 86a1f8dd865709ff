"""All cores of one machine: worker processes that are started, never forked, and replaced when killed.

A fork copies the locks of the tokenizers' threads and not the threads, so that a child may wait for ever.
Each worker is a new interpreter that speaks pickles over its standard input and output, and a thread here
waits for it. A worker reads its shards itself and writes them itself: no row passes through this process,
and a worker is given one shard at a time, so what is in memory is a chunk per worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.work import KILLS, Job, Mark, ShardRecord, bytes_of
from tokenbox.errors import TokenboxError
from tokenbox.named_code import allowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event

# What runs in a worker: the paths of this process, so that it imports the same tokenbox, and no file of the
# current folder in place of a module.
_START = (
    "import sys, pickle; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from tokenbox.batch.worker import main; main()"
)
# A worker is one of several: threads of its own would only take turns with theirs.
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
_TAIL = 2_000


class _WorkerGone(Exception):
    """The process ended in the middle of something. ``mark``: the last that it said."""

    def __init__(self, mark: Mark | None, status: int | None, said: str, *, started: bool) -> None:
        super().__init__(said)
        self.mark, self.status, self.said, self.started = mark, status, said, started


class _Worker:
    """A worker process."""

    def __init__(self, plan: BatchPlan, expected: int | None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # for the life of the worker
        self.process = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the process that the user sees; it ends the others
        )
        self._started = False
        self._greeting: tuple[Any, ...] = (sys.path, allowed(), (plan, expected))

    def run(self, job: Job) -> Iterator[Event]:
        """The events of one shard. Raises ``_WorkerGone``, or the error that the worker met."""
        mark: Mark | None = None
        try:
            for value in (*self._greeting, job):
                pickle.dump(value, self.process.stdin)  # type: ignore[arg-type]  # a pipe
            self._greeting = ()
            self.process.stdin.flush()  # type: ignore[union-attr]
            while True:
                event = pickle.load(self.process.stdout)  # type: ignore[arg-type]  # noqa: S301  # our own worker
                self._started = True
                if isinstance(event, TokenboxError):
                    raise event
                if isinstance(event, Mark):
                    mark = event
                yield event
                if isinstance(event, ShardRecord):
                    return
        except (EOFError, OSError, pickle.UnpicklingError, ValueError):
            raise _WorkerGone(mark, self._ended(), self._said(), started=self._started) from None

    def stop(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self._ended()
        for pipe in (self.process.stdin, self.process.stdout, self._stderr):
            with suppress(OSError):  # what was not sent is not needed any more
                pipe.close()  # type: ignore[union-attr]

    def _ended(self) -> int | None:
        self.process.kill()
        return self.process.wait()

    def _said(self) -> str:
        try:
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _TAIL))
            return self._stderr.read().decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            return ""


class ProcessEngine:
    """Compiles in ``workers`` processes of this machine."""

    def __init__(self, workers: int) -> None:
        self._count = workers

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        waiting = deque(jobs)
        events: queue.Queue[Event | BaseException | None] = queue.Queue(maxsize=1_000)
        count = min(self._count, len(jobs))
        crew = [_Crew(plan, bytes_of(jobs, count), waiting, events) for _ in range(count)]
        for one in crew:
            one.thread.start()
        left = len(crew)
        try:
            while left:
                event = events.get()
                if event is None:
                    left -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            waiting.clear()
            for one in crew:
                one.stop()
            while any(one.thread.is_alive() for one in crew):
                # A thread that waits for room to say something more.
                try:
                    events.get(timeout=0.01)
                except queue.Empty:
                    continue


class _Crew:
    """A thread with one worker at a time: the next one takes over where a worker was killed."""

    def __init__(
        self,
        plan: BatchPlan,
        expected: int | None,
        waiting: deque[Job],
        events: queue.Queue[Event | BaseException | None],
    ) -> None:
        self._plan, self._expected, self._waiting, self._events = plan, expected, waiting, events
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._stopped = False
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.stop()

    def _serve(self) -> None:
        try:
            while True:
                try:
                    job = self._waiting.popleft()
                except IndexError:
                    break
                self._compile(job)
        except BaseException as error:  # noqa: BLE001  # it is raised where the engine runs
            if not self._stopped:
                self._events.put(error)
        finally:
            if self._worker is not None:
                self._worker.stop()
            self._events.put(None)

    def _compile(self, job: Job) -> None:
        unstarted = 0
        while True:
            try:
                for event in self._ready().run(job):
                    self._events.put(event)
            except _WorkerGone as gone:
                if self._stopped:
                    raise
                self._drop()
                if gone.started:
                    job = job.after_kill(gone.mark)
                    continue
                unstarted += 1
                if unstarted == KILLS:
                    raise WorkersFailed(
                        f"{KILLS} workers ended before they did any work (status {gone.status}). "
                        f"The last one said: {gone.said[-500:] or 'nothing'}",
                        status=gone.status,
                    ) from None
            else:
                return

    def _ready(self) -> _Worker:
        with self._lock:
            if self._stopped:
                raise BatchError("the run was ended.")
            if self._worker is None:
                self._worker = _Worker(self._plan, self._expected)
            return self._worker

    def _drop(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None
