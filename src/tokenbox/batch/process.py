"""The engine for all cores of one machine: worker processes.

Workers are never forked: a fork copies the locks of the tokenizers' threads but not the threads, so that the
child may deadlock. Each worker is a new interpreter, which runs :func:`serve_jobs` and exchanges pickles over
its standard input and output with a thread here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.work import ShardRecord, bytes_of
from tokenbox.batch.workers import ONE_THREAD, WorkerDied, events_of, run_workers
from tokenbox.named_code import allow, allowed

if TYPE_CHECKING:
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job
    from tokenbox.errors import TokenboxError

# The program of a worker. It takes the module paths of this process, so that it imports the same tokenbox,
# and never a module from the current folder.
_START = (
    "import sys, pickle; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from tokenbox.batch.process import serve_jobs; serve_jobs()"
)
_STDERR_TAIL = 2_000
_STDERR_SHOWN = 500


def cores() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessWorker:
    """A worker process."""

    def __init__(self, plan: BatchPlan, expected: int | None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # for the life of the worker
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C goes to this process only, which stops the workers
        )
        self._unsent: tuple[Any, ...] = (sys.path, allowed(), (plan, expected))

    def wait(self) -> None:
        """Do nothing: a process is there at once."""

    def events(self, job: Job) -> Iterator[Event | TokenboxError]:
        try:
            for value in (*self._unsent, job):
                pickle.dump(value, self._process.stdin)  # type: ignore[arg-type]  # a pipe
            self._unsent = ()
            self._process.stdin.flush()  # type: ignore[union-attr]
            event = None
            while not isinstance(event, ShardRecord):
                event = pickle.load(self._process.stdout)  # type: ignore[arg-type]  # noqa: S301  # our own worker
                yield event
        except (EOFError, OSError, pickle.UnpicklingError, ValueError):
            status, written = self._kill(), self._last_stderr()[-_STDERR_SHOWN:] or "nothing"
            raise WorkerDied(
                f" (status {status}). The last one wrote to stderr: {written}", status=status
            ) from None

    def stop(self) -> None:
        """Kill the process and close its pipes."""
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            with suppress(OSError):  # closing flushes, which fails for a dead process
                pipe.close()  # type: ignore[union-attr]

    def _kill(self) -> int:
        self._process.kill()
        return self._process.wait()

    def _last_stderr(self) -> str:
        try:
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            return self._stderr.read().decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            return ""


def run_processes(workers: int, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
    """Compile in ``workers`` processes of this machine."""
    count = min(workers, len(jobs))
    return run_workers(lambda: ProcessWorker(plan, bytes_of(jobs, count)), count, jobs)


def serve_jobs() -> None:
    """Compile jobs from stdin until it ends, in a worker process; write marks and records to stdout."""
    jobs = sys.stdin.buffer
    # Other code may print, which must not get between the pickles.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    allow(*pickle.load(jobs))  # noqa: S301  # from the process that started this one
    plan, expected = pickle.load(jobs)  # noqa: S301  # from the process that started this one
    compiler = RowCompiler(plan, expected)
    with suppress(EOFError, BrokenPipeError):
        while True:
            job = pickle.load(jobs)  # noqa: S301  # from the process that started this one
            for event in events_of(job, plan, compiler):
                pickle.dump(event, out)
                out.flush()
