"""A TCP proxy that simulates outages of a server, which itself keeps running."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Proxy:
    """Forwards a port of this machine to the server at ``host`` and ``port``."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self.port = 0

    async def open(self) -> None:
        """Accept connections, on the same port as before, and forward data."""
        self._silent = False
        self.drop()
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, "127.0.0.1", self.port, reuse_address=True
            )
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections and break open ones, as if the server had exited."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()

    def silence(self) -> None:
        """Accept connections and forward nothing, as if the server was suspended."""
        self._silent = True

    def drop(self) -> None:
        """Break all connections at once."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_read, to_write = await asyncio.open_connection(self._host, self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_write}
        self._writers |= both
        one, other = self._start(self._pump(reader, to_write)), self._start(self._pump(to_read, writer))
        await asyncio.wait({one, other}, return_when=asyncio.FIRST_COMPLETED)
        for end in both:
            end.transport.abort()
        self._writers -= both

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if not self._silent:
                    writer.write(data)
                    await writer.drain()
