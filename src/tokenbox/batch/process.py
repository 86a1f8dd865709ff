"""The engine for all cores of one machine: worker processes, which are replaced when killed.

Workers are never forked: a fork copies the locks of the tokenizers' threads but not the threads, so that the
child may deadlock. Each worker is a new interpreter, which runs :func:`serve_jobs` and exchanges pickles over
its standard input and output with a thread here. It reads and writes its shards itself, one at a time: no row
passes through this process, and memory holds one chunk per worker.
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import BatchError, WorkersFailed
from tokenbox.batch.work import KILLS, Job, Mark, ShardRecord, bytes_of, compile_shard
from tokenbox.errors import TokenboxError
from tokenbox.named_code import allow, allowed

if TYPE_CHECKING:
    from typing import BinaryIO

    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event

# The program of a worker. It takes the module paths of this process, so that it imports the same tokenbox,
# and never a module from the current folder.
_START = (
    "import sys, pickle; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from tokenbox.batch.process import serve_jobs; serve_jobs()"
)
# There is a worker per core, so each uses one thread.
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
_STDERR_TAIL = 2_000


def cores() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _WorkerDied(Exception):
    """A worker process ended unexpectedly, after its last ``mark``."""

    def __init__(self, mark: Mark | None, status: int | None, stderr: str, *, started: bool) -> None:
        super().__init__(stderr)
        self.mark, self.status, self.stderr, self.started = mark, status, stderr, started


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
            start_new_session=True,  # Ctrl-C goes to this process only, which stops the workers
        )
        self._started = False
        self._unsent: tuple[Any, ...] = (sys.path, allowed(), (plan, expected))

    def run(self, job: Job) -> Iterator[Event]:
        """Yield the events of one shard. Raises ``_WorkerDied``, or an error of the worker."""
        mark: Mark | None = None
        try:
            for value in (*self._unsent, job):
                pickle.dump(value, self.process.stdin)  # type: ignore[arg-type]  # a pipe
            self._unsent = ()
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
            raise _WorkerDied(mark, self._kill(), self._last_stderr(), started=self._started) from None

    def stop(self) -> None:
        """Kill the process and close its pipes."""
        self._kill()
        for pipe in (self.process.stdin, self.process.stdout, self._stderr):
            with suppress(OSError):  # closing flushes, which fails for a dead process
                pipe.close()  # type: ignore[union-attr]

    def _kill(self) -> int:
        self.process.kill()
        return self.process.wait()

    def _last_stderr(self) -> str:
        try:
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            return self._stderr.read().decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            return ""


class ProcessEngine:
    """Compiles in ``workers`` processes of this machine."""

    def __init__(self, workers: int) -> None:
        self._count = workers

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        pending = deque(jobs)
        events: queue.Queue[Event | BaseException | None] = queue.Queue(maxsize=1_000)
        count = min(self._count, len(jobs))
        threads = [_WorkerThread(plan, bytes_of(jobs, count), pending, events) for _ in range(count)]
        for worker in threads:
            worker.thread.start()
        running = count
        try:
            while running:
                event = events.get()
                if event is None:
                    running -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    yield event
        finally:
            pending.clear()
            for worker in threads:
                worker.stop()
            while any(worker.thread.is_alive() for worker in threads):
                # A thread may be blocked by the full queue.
                with suppress(queue.Empty):
                    events.get(timeout=0.01)


class _WorkerThread:
    """A thread with one worker at a time, which is replaced when it is killed."""

    def __init__(
        self,
        plan: BatchPlan,
        expected: int | None,
        pending: deque[Job],
        events: queue.Queue[Event | BaseException | None],
    ) -> None:
        self._plan, self._expected, self._pending, self._events = plan, expected, pending, events
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
                    job = self._pending.popleft()
                except IndexError:
                    break
                self._compile(job)
        except BaseException as error:  # noqa: BLE001  # ``ProcessEngine.run`` raises it
            if not self._stopped:
                self._events.put(error)
        finally:
            self._drop()
            self._events.put(None)

    def _compile(self, job: Job) -> None:
        failed_starts = 0
        while True:
            try:
                for event in self._running_worker().run(job):
                    self._events.put(event)
            except _WorkerDied as death:
                if self._stopped:
                    raise
                self._drop()
                if death.started:
                    job = job.after_kill(death.mark)
                    continue
                failed_starts += 1
                if failed_starts == KILLS:
                    raise WorkersFailed(
                        f"{KILLS} workers ended before doing any work (status {death.status}). "
                        f"The last one wrote to stderr: {death.stderr[-500:] or 'nothing'}",
                        status=death.status,
                    ) from None
            else:
                return

    def _running_worker(self) -> _Worker:
        with self._lock:
            if self._stopped:
                raise BatchError("the run was stopped.")
            if self._worker is None:
                self._worker = _Worker(self._plan, self._expected)
            return self._worker

    def _drop(self) -> None:
        with self._lock:  # two threads that close a pipe at once raise a ValueError
            if self._worker is not None:
                self._worker.stop()
                self._worker = None


def serve_jobs() -> None:
    """Compile jobs from stdin until it ends, in a worker process; write marks and records to stdout."""
    jobs = sys.stdin.buffer
    # Other code may print, which must not get between the pickles.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    allow(*pickle.load(jobs))  # noqa: S301  # from the process that started this one
    plan, expected = pickle.load(jobs)  # noqa: S301  # from the process that started this one
    compiler = RowCompiler(plan, expected)
    while True:
        try:
            job = pickle.load(jobs)  # noqa: S301  # from the process that started this one
        except EOFError:
            return
        try:
            for event in compile_shard(job, plan, compiler):
                _send(event, out)
        except BrokenPipeError:
            return
        except TokenboxError as error:
            _send(error, out)
        except Exception as error:  # noqa: BLE001  # a bug must not look like a killed worker
            _send(BatchError(f"{type(error).__name__}: {error}. This is a bug in tokenbox."), out)


def _send(value: Any, out: BinaryIO) -> None:  # noqa: ANN401  # an event or an error
    pickle.dump(value, out)
    out.flush()
