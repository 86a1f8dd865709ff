"""Several worker processes on one port, and their supervisor.

Rule 1: the supervisor opens every socket before it forks. So a port in use is reported at once, and
connections of a worker that ends wait at its socket for the next one.

Rule 2: the supervisor runs no event loop and no thread, opens no store, and answers nothing.

Rule 3: a signal goes to every worker. On SIGHUP each reloads the settings, and no connection is dropped.

Rule 4: the workers tell each other their metrics, each on a socket in a shared folder. A worker that ends
leaves its figures in a file there, so that sums never fall. The figures of a killed worker are lost.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from tokenbox.files import OWN, replace
from tokenbox.gateway.asgi import json_bytes, json_object
from tokenbox.gateway.metrics import METRICS, Snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tokenbox.gateway.log import RequestLog

_BACKLOG = 2048
_PR_SET_PDEATHSIG = 1
# A worker that ends within these seconds after its start has failed.
_TOO_SOON = 2.0
# After this many failures in a row the gateway stops.
_MOST_FAILURES = 3
# Time beyond that for requests: for the spool, the stores and the proofs.
_MORE_SECONDS = 15.0


def listening(host: str, port: int, count: int) -> list[socket.socket]:
    """Open ``count`` sockets that listen on one port; the kernel distributes connections.

    Raises ``OSError``, also if another program of this user shares the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            listener = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if count > 1:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
            listener.settimeout(0)
    except BaseException:
        for listener in sockets:
            listener.close()
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
    """Keeps ``count`` workers running. ``work`` runs in each, with its number, and returns the exit status.

    ``grace`` is the number of seconds that workers have to finish after a signal to stop. ``sockets`` are
    those that the workers listen on. They are closed here when the gateway stops, so that no client waits at
    them.
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
        """Run until a signal stops it. Returns the exit status of a worker that failed, else 0."""
        self._workers = [_Worker(number) for number in range(self.count)]
        # Blocked signals are taken one at a time below, so that none is missed between two rounds.
        watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        try:
            for worker in self._workers:
                self._start(worker, before)
            while any(worker.pid for worker in self._workers):
                self._wait(watched, before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._failed

    def _wait(self, watched: Collection[int], before: Collection[int]) -> None:
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
            for listener in self.sockets:
                listener.close()
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
        except BaseException as error:  # noqa: BLE001  # the parent's code must not run in a child
            self.log.write(
                "worker_failed", worker=number, error=type(error).__name__, message=str(error)[:500]
            )
        finally:
            os._exit(status)


def _end_with_parent() -> None:
    """On Linux, have this worker stop like by SIGTERM if its supervisor is killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


# A worker whose event loop is blocked for longer is left out of the page.
_SECONDS = 2.0
_SOCKET, _ENDED = ".sock", ".ended"


class Peers:
    """The other workers, for the worker whose own figures are ``own``.

    ``folder`` is shared by the workers. Its path has to be short, as the path of a socket has at most 107
    bytes.
    """

    def __init__(self, folder: Path, own: Callable[[], Snapshot]) -> None:
        self._folder = folder
        self._own = own
        self._path = folder / f"{os.getpid()}{_SOCKET}"
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._answer, str(self._path))

    def close(self) -> None:
        """Leave the last figures in a file, without gauges, which are no longer true."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        kept = {n: rows for n, rows in self._own().items() if not METRICS[n].is_gauge}
        with suppress(OSError):
            replace(self._folder / f"{uuid.uuid4().hex}{_ENDED}", json_bytes(kept), new=OWN, sync=False)

    async def snapshots(self) -> list[Snapshot]:
        """Return the figures of all other workers, and of those that have ended."""
        sockets = [path for path in self._folder.glob(f"*{_SOCKET}") if path != self._path]
        answers = await asyncio.gather(*map(_request, sockets))
        ended = [_read(path) for path in self._folder.glob(f"*{_ENDED}")]
        return [found for found in (*answers, *ended) if found is not None]

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json_bytes(self._own()))
        with suppress(OSError):
            await writer.drain()
        writer.close()


async def _request(path: Path) -> Snapshot | None:
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                data = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return json_object(data)


def _read(path: Path) -> Snapshot | None:
    try:
        return json_object(path.read_bytes())
    except OSError:
        return None
