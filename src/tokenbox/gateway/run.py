"""The running gateway: a server, its signals, and what is said at its start."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvicorn

from tokenbox.errors import TokenboxError
from tokenbox.gateway.build import Stores, admin_of, gateway_of, now
from tokenbox.gateway.configured import is_loopback
from tokenbox.gateway.log import OtherLogs, RequestLog
from tokenbox.gateway.server import config_of
from tokenbox.gateway.traces import asks_for_traces
from tokenbox.gateway.workers import Supervisor, listening
from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from tokenbox.gateway.app import Gateway
    from tokenbox.gateway.build import GatewayServices
    from tokenbox.gateway.settings import GatewaySettings

# M_MMAP_THRESHOLD in bytes and M_ARENA_MAX, as mallopt(3) numbers them.
_MALLOC = ((-3, 128 << 10), (-8, 2))
# Objects made since the last look that cause the next; of those, how many looks at the young until the old.
_COLLECT = (10_000, 20, 20)


class GatewayProblem(TokenboxError):
    """The gateway cannot be started as asked."""

    code = "gateway"


def run(
    settings: GatewaySettings,
    again: Callable[[], GatewaySettings],
    say: Callable[[str], object],
    log: Callable[[str], object],
    *,
    quiet: bool = False,
) -> None:
    """Serve until a signal says to stop; SIGHUP reads the settings again, with ``again``.

    ``say`` is told where it listens, ``log`` gets a line for whatever happens. Raises
    :class:`GatewayProblem` and what the stores raise.
    """
    check(settings)
    check_keys(settings)
    lines = RequestLog(log, requests=not quiet)
    host, port = settings.host, settings.port
    sockets = _listening(host, port, settings.workers)
    admin = None
    if settings.admin_port is not None:
        (admin,) = _listening(settings.admin_host, settings.admin_port, 1)
    asks_for_traces(os.environ)  # before it says that it listens
    say(_hello(settings))
    with TemporaryDirectory(prefix="tokenbox-", ignore_cleanup_errors=True) as folder:

        def work(number: int) -> int:
            for other, one in enumerate(sockets):
                if other != number:
                    one.close()
            workers = None if settings.workers == 1 else Path(folder)
            _work(_Place(settings, again, number, sockets[number], admin, workers), lines)
            return 0

        if settings.workers == 1:
            work(0)
            return
        limits = settings.limits
        grace = limits.drain_seconds + limits.grace_seconds
        ours = [*sockets, *([] if admin is None else [admin])]
        supervisor = Supervisor(settings.workers, work, lines, grace, ours)
        if supervisor.run():
            raise GatewayProblem("the workers cannot start. The log says why.")


def _listening(host: str, port: int, count: int) -> list[socket.socket]:
    """Sockets on that port. Raises :class:`GatewayProblem`."""
    try:
        return listening(host, port, count)
    except OSError:
        raise GatewayProblem(
            f"{_address(host, port)} cannot be listened on: another program has it, or this user "
            "may not. Choose another port."
        ) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _hello(settings: GatewaySettings) -> str:
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
class _Place:
    """What one worker is given. ``again`` reads the settings; ``admin`` is one socket that all share."""

    settings: GatewaySettings
    again: Callable[[], GatewaySettings]
    number: int
    listener: socket.socket
    admin: socket.socket | None
    folder: Path | None


def _work(place: _Place, lines: RequestLog) -> None:
    """Serve, in this process, until a signal says to stop."""
    settings = place.settings.of_worker(place.number)
    stores = Stores.open(settings)
    logging.getLogger().addHandler(OtherLogs(lines))
    gateway, standing = gateway_of(settings, stores, lines, place.folder)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(gateway, standing, place))


class GatewayServer(uvicorn.Server):
    """uvicorn's raises the signal again once it has stopped; one that stopped as asked has ended well.

    Before it stops it may drain: for ``drain_seconds`` it answers on, while ``draining`` has said that it is
    not ready any more, so that whoever spreads the requests sends no more of them.
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


class Quiet(uvicorn.Server):
    """The operator's listener, which ends with the gateway, and hears no signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def check(settings: GatewaySettings) -> None:
    """Raises :class:`GatewayProblem` for settings that no gateway should run with."""
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
    """Raises :class:`GatewayProblem` where others reach the gateway and there is no key that is good.

    Raises what the store raises, too.
    """
    with open_store(settings.database) as store:
        if is_loopback(settings.host) or any(key.valid_at(now()) for key in store.keys.all()):
            return
    raise GatewayProblem(
        f"others reach {settings.host}, and there is no key that is good. Make one with `tokenbox gateway "
        "keys create NAME`, in the same --database, or listen on 127.0.0.1."
    )


async def _serve(gateway: Gateway, standing: GatewayServices, place: _Place) -> None:
    limits = place.settings.limits

    def reload() -> None:
        try:
            settings = place.again()
            check(settings)
        except TokenboxError as error:
            standing.log.write("not_reloaded", error=error.message, code=error.code)
            return
        workers = replace(settings, workers=place.settings.workers)  # their number needs a restart
        standing.reload(workers.of_worker(place.number))

    _spare_the_collector()
    give_memory_back()
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    server = GatewayServer(config_of(gateway, limits), limits.drain_seconds, standing.drain)
    operators = None
    if place.admin is not None:
        config = config_of(admin_of(standing), limits, lifespan="off")
        operators = asyncio.create_task(Quiet(config).serve(sockets=[place.admin]))
    with suppress(SystemExit):  # uvicorn's way to say that the application did not start
        await server.serve(sockets=[place.listener])
    if operators is not None:
        operators.cancel()
        with suppress(asyncio.CancelledError):
            await operators


def _spare_the_collector() -> None:
    """What is here at the start stays, and requests make few cycles: look seldom, and not at all of it."""
    gc.freeze()
    gc.set_threshold(*_COLLECT)


def give_memory_back() -> None:
    """Have large blocks, such as bodies, go back to the system when they are freed, where glibc allocates.

    By itself it keeps blocks of a size that was freed before in its heap, and a heap of its own for each
    thread: after some bodies of 500 kB the process holds 60 MB of holes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another allocator
        return
    for parameter, value in _MALLOC:
        mallopt(parameter, value)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  # not on every platform
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
