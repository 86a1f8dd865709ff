"""The running gateway: a server, its signals, and what is said at its start."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import uvicorn

from tokenbox.errors import TokenboxError
from tokenbox.gateway.build import Stores, gateway_of, now
from tokenbox.gateway.configured import is_loopback
from tokenbox.gateway.log import Log, OtherLogs
from tokenbox.gateway.server import config_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenbox.gateway.build import Standing
    from tokenbox.gateway.settings import Settings

# Objects made since the last look that cause the next; of those, how many looks at the young until the old.
_COLLECT = (10_000, 20, 20)


class GatewayProblem(TokenboxError):
    """The gateway cannot be started as asked."""

    code = "gateway"


def run(
    settings: Settings,
    again: Callable[[], Settings],
    say: Callable[[str], object],
    log: Callable[[str], object],
    *,
    quiet: bool = False,
) -> None:
    """Serve until a signal says to stop; SIGHUP reads the settings anew, with ``again``.

    ``say`` is told where it listens, ``log`` gets a line for whatever happens. Raises
    :class:`GatewayProblem` and what the stores raise.
    """
    check(settings)
    stores = Stores.open(settings)
    try:
        check_keys(settings, stores)
    except BaseException:
        stores.store.close()
        raise
    lines = Log(log, requests=not quiet)
    logging.getLogger().addHandler(OtherLogs(lines))
    gateway, standing = gateway_of(settings, stores, lines)
    server = Server(config_of(gateway, settings.limits, settings.host, settings.port))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(
        f"tokenbox gateway on http://{host}:{settings.port}, mode {settings.mode}, "
        f"{'with' if settings.keys_required else 'without'} keys, in front of "
        f"{', '.join(f'{upstream.name} ({upstream.url})' for upstream in settings.upstreams)}\n"
    )
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(server, standing, again))
    if not server.started:
        raise GatewayProblem(
            f"{host}:{settings.port} cannot be listened on: another program has it, or this user "
            "may not. Choose another --port."
        )


class Server(uvicorn.Server):
    """uvicorn's raises the signal again once it has stopped; one that stopped as asked has ended well."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self.handle_exit, name, None)
        yield
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


def check(settings: Settings) -> None:
    """Raises :class:`GatewayProblem` for settings that no gateway should run with."""
    if not settings.keys_required and not is_loopback(settings.host):
        raise GatewayProblem(
            f"without keys the gateway is open to everybody who reaches {settings.host}. Make keys with "
            "`tokenbox gateway keys create`, or listen on 127.0.0.1."
        )


def check_keys(settings: Settings, stores: Stores) -> None:
    """Raises :class:`GatewayProblem` where others reach the gateway and there is no key that is good."""
    if is_loopback(settings.host) or any(key.valid_at(now()) for key in stores.store.keys.all()):
        return
    raise GatewayProblem(
        f"others reach {settings.host}, and there is no key that is good. Make one with `tokenbox gateway "
        "keys create NAME`, in the same --database, or listen on 127.0.0.1."
    )


async def _serve(server: uvicorn.Server, standing: Standing, again: Callable[[], Settings]) -> None:
    def reload() -> None:
        try:
            settings = again()
            check(settings)
        except TokenboxError as error:
            standing.log.write("not_reloaded", error=error.message, code=error.code)
            return
        standing.reload(settings)

    _spare_the_collector()
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    with suppress(SystemExit):  # uvicorn's way to say that the port is taken
        await server.serve()


def _spare_the_collector() -> None:
    """What is here at the start stays, and requests make few cycles: look seldom, and not at all of it."""
    gc.freeze()
    gc.set_threshold(*_COLLECT)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  # not on every platform
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
