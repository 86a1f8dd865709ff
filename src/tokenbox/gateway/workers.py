"""Several processes on one port, and the one that looks after them.

Rule 1: the supervisor opens every socket before it forks, so that a port that is taken is said at once, and
a worker that ends keeps its place: connections wait there for the next one.
Rule 2: the supervisor runs no event loop and no thread, has no store open, and answers nothing.
Rule 3: a signal goes to every worker. SIGHUP: each reads the settings again, and no connection is dropped.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tokenbox.gateway.log import RequestLog

_BACKLOG = 2048
# A worker that ends so soon after its start did not work at all.
_TOO_SOON = 2.0
# So often in a row, and starting it again is of no use.
_MOST_FAILURES = 3
# Beyond the time that requests have to finish: for the spool, the stores and the proofs.
_MORE_SECONDS = 15.0


def listening(host: str, port: int, count: int) -> list[socket.socket]:
    """``count`` sockets that listen on one port; the kernel spreads connections over them.

    Raises ``OSError``, also where another program of this user shares the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if count > 1:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind((host, port))
            one.listen(_BACKLOG)
            one.settimeout(0)
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets


@dataclass(slots=True)
class _Worker:
    number: int
    pid: int = 0
    started: float = 0.0
    failures: int = 0


@dataclass(slots=True)
class Supervisor:
    """Keeps ``count`` workers running. ``work`` is what each does, by its number: it returns its exit status.

    ``grace``: how many seconds workers have to finish after a signal to stop. ``sockets``: those that the
    workers listen on. At the end they are closed here, so that nobody waits at them.
    """

    count: int
    work: Callable[[int], int]
    log: RequestLog
    grace: float
    sockets: Sequence[socket.socket] = ()
    _workers: list[_Worker] = field(default_factory=list)
    _stopping_since: float | None = None
    _failed: int = 0

    def run(self) -> int:
        """Until a signal says to stop. The exit status: that of a worker that could not work, else 0."""
        self._workers = [_Worker(number) for number in range(self.count)]
        # Blocked, they are taken one at a time below, and no worker ends unseen between two looks.
        watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        try:
            for worker in self._workers:
                self._start(worker, before)
            while any(worker.pid for worker in self._workers):
                self._look(watched, before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._failed

    def _look(self, watched: Collection[int], before: Collection[int]) -> None:
        found = signal.sigtimedwait(watched, 1.0)
        if found is not None and found.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._stop()
        elif found is not None and found.si_signo == signal.SIGHUP:
            self._send(signal.SIGHUP)
        for worker in self._workers:
            if worker.pid:
                self._reap(worker, before)
        since = self._stopping_since
        if since is not None and time.monotonic() - since > self.grace + _MORE_SECONDS:
            self._send(signal.SIGKILL)

    def _stop(self) -> None:
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            for one in self.sockets:
                one.close()
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, number)

    def _reap(self, worker: _Worker, before: Collection[int]) -> None:
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        if not pid:
            return
        worker.pid = 0
        code = os.waitstatus_to_exitcode(status)
        lived = time.monotonic() - worker.started
        if self._stopping_since is not None:
            return
        self.log.write("worker_ended", worker=worker.number, pid=pid, status=code, seconds=round(lived, 1))
        worker.failures = worker.failures + 1 if lived < _TOO_SOON else 0
        if worker.failures >= _MOST_FAILURES:
            self._failed = code if code > 0 else 1
            self._stop()
        else:
            self._start(worker, before)

    def _start(self, worker: _Worker, before: Collection[int]) -> None:
        worker.started = time.monotonic()
        pid = os.fork()
        if not pid:
            self._child(worker.number, before)
        worker.pid = pid
        self.log.write("worker_started", worker=worker.number, pid=pid)

    def _child(self, number: int, before: Collection[int]) -> NoReturn:
        status = 1
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _end_with_parent()
            status = self.work(number)
        except BaseException as error:  # noqa: BLE001  # nothing of the parent's may run in a child
            self.log.write(
                "worker_failed", worker=number, error=type(error).__name__, message=str(error)[:500]
            )
        finally:
            os._exit(status)


def _end_with_parent() -> None:
    """On Linux, a worker whose supervisor was killed is told to stop, as if by an operator."""
    with suppress(OSError, AttributeError, ImportError):
        import ctypes  # noqa: PLC0415  # once per worker

        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None, use_errno=True).prctl(set_death_signal, int(signal.SIGTERM), 0, 0, 0)
