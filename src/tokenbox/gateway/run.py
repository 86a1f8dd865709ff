"""Run the gateway: its servers, signals and workers."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvicorn

from tokenbox.config.trust import is_loopback
from tokenbox.errors import TokenboxError
from tokenbox.gateway.application import Gateway, admin_of, gateway_of
from tokenbox.gateway.log import LibraryLogHandler, RequestLog
from tokenbox.gateway.server import config_of
from tokenbox.gateway.services import GatewayServices, Stores, now
from tokenbox.gateway.traces import asks_for_traces
from tokenbox.gateway.workers import Supervisor, listening
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    import socket

    from tokenbox.gateway.settings import GatewaySettings

# M_MMAP_THRESHOLD in bytes and M_ARENA_MAX, as mallopt(3) numbers them.
_MALLOC = ((-3, 128 << 10), (-8, 2))
# Thresholds of the garbage collector: rare collections, as requests create few cycles.
_GC_THRESHOLDS = (10_000, 20, 20)


class GatewayProblem(TokenboxError, code="gateway"):
    """The gateway cannot be started as asked."""


def run(
    settings: GatewaySettings,
    read_again: Callable[[], GatewaySettings],
    announce: Callable[[str], object],
    log: Callable[[str], object],
    *,
    quiet: bool = False,
) -> None:
    """Serve until a signal stops it. SIGHUP reloads the settings with ``read_again``.

    ``announce`` receives the address, ``log`` the lines of the log. Raises :class:`GatewayProblem` and the
    errors of the stores.
    """
    check(settings)
    check_keys(settings)
    lines = RequestLog(log, requests=not quiet)
    host, port = settings.host, settings.port
    sockets = _listening(host, port, settings.workers)
    admin = None
    if settings.admin_port is not None:
        (admin,) = _listening(settings.admin_host, settings.admin_port, 1)
    asks_for_traces(os.environ)  # raises for a missing package, before the address is announced
    announce(_banner(settings))
    with TemporaryDirectory(prefix="tokenbox-", ignore_cleanup_errors=True) as folder:

        def work(number: int) -> int:
            for other, listener in enumerate(sockets):
                if other != number:
                    listener.close()
            workers = None if settings.workers == 1 else Path(folder)
            _work(_WorkerContext(settings, read_again, number, sockets[number], admin, workers), lines)
            return 0

        if settings.workers == 1:
            work(0)
            return
        limits = settings.limits
        grace = limits.drain_seconds + limits.grace_seconds
        listeners = [*sockets, *([] if admin is None else [admin])]
        supervisor = Supervisor(settings.workers, work, lines, grace, listeners)
        if supervisor.run():
            raise GatewayProblem("the workers cannot start. The log says why.")


def _listening(host: str, port: int, count: int) -> list[socket.socket]:
    """Open sockets on that port. Raises :class:`GatewayProblem`."""
    try:
        return listening(host, port, count)
    except OSError:
        raise GatewayProblem(
            f"cannot listen on {_address(host, port)}: another program uses it, or this user "
            f"may not. Choose another port, such as --port {port + 1 if port < 65535 else 8640}."
        ) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _banner(settings: GatewaySettings) -> str:
    workers = "" if settings.workers == 1 else f" with {settings.workers} workers"
    admin = ""
    if settings.admin_port is not None:
        admin = f", for the operator on http://{_address(settings.admin_host, settings.admin_port)}"
    return (
        f"tokenbox gateway on http://{_address(settings.host, settings.port)}{workers}, "
        f"mode {settings.mode}, {'with' if settings.keys_required else 'without'} keys, in front of "
        f"{', '.join(f'{upstream.name} ({upstream.url})' for upstream in settings.upstreams)}{admin}\n"
    )


@dataclass(frozen=True, slots=True)
class _WorkerContext:
    """The context of one worker. ``read_again`` reads the settings; all workers share ``admin``, a socket."""

    settings: GatewaySettings
    read_again: Callable[[], GatewaySettings]
    number: int
    listener: socket.socket
    admin: socket.socket | None
    folder: Path | None


def _work(worker: _WorkerContext, lines: RequestLog) -> None:
    """Serve in this process until a signal stops it."""
    settings = worker.settings.of_worker(worker.number, worker.settings.workers)
    stores = Stores.open(settings)
    logging.getLogger().addHandler(LibraryLogHandler(lines))
    gateway, services = gateway_of(settings, stores, lines, worker.folder)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(gateway, services, worker))


class GatewayServer(uvicorn.Server):
    """A server that drains before it stops, and whose process ends normally then.

    uvicorn's own server would raise the signal again. For ``drain_seconds`` after SIGTERM it still answers,
    after ``draining`` has reported that it is not ready, so that a load balancer turns away.
    """

    def __init__(
        self, config: uvicorn.Config, drain_seconds: float = 0, draining: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._draining = draining

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self._stop, name)
        yield
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)

    def _stop(self, name: signal.Signals) -> None:
        if self._draining is not None:
            self._draining()
        if self._drain_seconds and name is signal.SIGTERM:
            loop = asyncio.get_running_loop()
            loop.call_later(self._drain_seconds, self.handle_exit, name, None)
            self._drain_seconds = 0  # a second signal stops it now
        else:
            self.handle_exit(name, None)


class AdminServer(uvicorn.Server):
    """The operator's listener. It ends with the gateway and handles no signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def check(settings: GatewaySettings) -> None:
    """Raise :class:`GatewayProblem` for settings that no gateway should run with."""
    if not settings.upstreams:
        raise GatewayProblem(
            "no upstream is configured. Add one: tokenbox config set upstreams.local.url http://127.0.0.1:8080"
        )
    if not settings.keys_required and not is_loopback(settings.host):
        raise GatewayProblem(
            f"without keys the gateway is open to everybody who reaches {settings.host}. Make keys with "
            "`tokenbox gateway keys create`, or listen on 127.0.0.1."
        )
    if settings.workers > 1 and not hasattr(signal, "sigtimedwait"):
        raise GatewayProblem("this system cannot run several workers. Leave gateway.workers at 1.")
    for upstream in settings.upstreams:
        if upstream.concurrency < settings.workers:
            raise GatewayProblem(
                f"upstreams.{upstream.name}.concurrency is {upstream.concurrency}, and each of "
                f"{settings.workers} workers needs a place there. Set gateway.workers to "
                f"{upstream.concurrency} or less."
            )


def check_keys(settings: GatewaySettings) -> None:
    """Raise :class:`GatewayProblem` if the gateway is reachable from elsewhere and has no valid key.

    Raises the errors of the store, too.
    """
    with open_store(settings.database) as store:
        if is_loopback(settings.host) or any(key.valid_at(now()) for key in store.keys.all()):
            return
    raise GatewayProblem(
        f"others reach {settings.host}, and there is no valid key. Make one with `tokenbox gateway "
        "keys create NAME`, in the same --database, or listen on 127.0.0.1."
    )


def _check_files(before: GatewaySettings, settings: GatewaySettings) -> None:
    """Refuse settings if a file of those in use is gone. Its limits and policies would no longer hold."""
    for file in before.files:
        if file not in settings.files:
            raise GatewayProblem(
                f"{file} is gone, so its settings stay. Put it back, or restart the gateway to do without it."
            )


async def _serve(gateway: Gateway, services: GatewayServices, worker: _WorkerContext) -> None:
    limits = worker.settings.limits

    def reload() -> None:
        try:
            settings = worker.read_again()
            _check_files(services.settings, settings)
            check(settings)
        except TokenboxError as error:
            services.log.write("not_reloaded", error=error.message, code=error.code)
            return
        services.reload(settings.of_worker(worker.number, worker.settings.workers))

    gc.freeze()  # the objects of the start are not collected
    gc.set_threshold(*_GC_THRESHOLDS)
    return_freed_memory()
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    server = GatewayServer(config_of(gateway, limits), limits.drain_seconds, services.drain)
    admin = None
    if worker.admin is not None:
        config = config_of(admin_of(services), limits, lifespan="off")
        admin = asyncio.create_task(AdminServer(config).serve(sockets=[worker.admin]))
    with suppress(SystemExit):  # uvicorn exits if the application did not start
        await server.serve(sockets=[worker.listener])
    if admin is not None:
        admin.cancel()
        with suppress(asyncio.CancelledError):
            await admin


def return_freed_memory() -> None:
    """Make glibc return large freed blocks, such as bodies, to the system.

    By default it keeps freed blocks in its heap, with a heap per thread: after some bodies of 500 kB the
    process holds 60 MB of holes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another allocator
        return
    for parameter, value in _MALLOC:
        mallopt(parameter, value)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # not on every platform
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
