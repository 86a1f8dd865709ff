"""A way to a server that can be closed and opened again, so that the server itself is left alone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Way:
    """A port of this machine on which the server at ``host`` and ``port`` answers."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self.port = 0

    async def open(self) -> None:
        """Connections are taken, on the same port as before, and what is sent goes on."""
        self._silent = False
        self.drop()
        if self._server is None:
            self._server = await asyncio.start_server(self._taken, "127.0.0.1", self.port, reuse_address=True)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Connections are refused, and those that there were are gone: as if the server had ended."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()

    def silence(self) -> None:
        """Connections are taken, and nothing comes back: as if the server had stopped."""
        self._silent = True

    def drop(self) -> None:
        """All connections break, whatever is on its way."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_read, to_write = await asyncio.open_connection(self._host, self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_write}
        self._writers |= both
        one, other = self._kept(self._pump(reader, to_write)), self._kept(self._pump(to_read, writer))
        await asyncio.wait({one, other}, return_when=asyncio.FIRST_COMPLETED)
        for end in both:
            end.transport.abort()
        self._writers -= both

    def _kept(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
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
