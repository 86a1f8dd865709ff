"""HTTP/1.1 to a server: connections that are kept, an answer piece by piece as it comes.

The parser is httptools', as in uvicorn. What a general client does beside this (redirects, cookies,
compression, proxies) a gateway must not do, and it takes more time than all else on a request's way.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httptools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.gateway.settings import Limits

# Servers close idle connections after 5 seconds or more; a request sent into a closing one fails.
_KEEP_SECONDS = 3.0
# Bytes of a head, and bytes of a body that may wait for their reader before no more are read.
_MAX_HEAD = 256 << 10
_HIGH_WATER = 256 << 10
_CONTINUE = range(100, 200)
_FORBIDDEN = re.compile(rb"[\r\n\0]")


class Failure(StrEnum):
    """How a server failed."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BROKE = "broke"
    GARBLED = "garbled"


class WireError(Exception):
    """No answer, or not all of it."""

    def __init__(self, how: Failure) -> None:
        super().__init__(how.value)
        self.how = how


class BadHeader(ValueError):
    """A header that would end the line it is in."""


class Wire:
    """The connections to one server. ``url`` may have a path, which goes before that of each request."""

    def __init__(self, url: str, limits: Limits) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        self._named = parts.netloc.rpartition("@")[2].encode(
            "idna" if not parts.netloc.isascii() else "ascii"
        )
        self._path = parts.path.rstrip("/").encode()
        self._limits = limits
        self._idle: list[Connection] = []

    async def request(
        self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> Connection:
        """The connection on which the head of the answer has come: to be read, then released or closed.

        Raises :class:`WireError` and :class:`BadHeader`.
        """
        head = self._head(method, target, headers, len(body))
        connection = self._kept() or await self._connected()
        try:
            await connection.ask(head, body)
        except BaseException:
            connection.close()
            raise
        return connection

    def keep(self, connection: Connection) -> None:
        """A connection whose answer was read to its end, for the next request."""
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """A kept connection that was closed."""
        with suppress(ValueError):
            self._idle.remove(connection)

    def close(self) -> None:
        """Close what is idle; what is in use closes with its answer."""
        for connection in tuple(self._idle):
            connection.close()

    def _kept(self) -> Connection | None:
        """The connection used last, if there is one that is still good."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.kept_at < _KEEP_SECONDS:
                return connection
            connection.close()
        return None

    async def _connected(self) -> Connection:
        if self._is_tls and self._tls is None:
            self._tls = ssl.create_default_context()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, self._limits), self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError, ssl.SSLError):
            raise WireError(Failure.UNREACHABLE) from None
        return connection

    def _head(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], length: int) -> bytes:
        lines = [b"%b %b%b HTTP/1.1\r\nhost: %b" % (method.encode(), self._path, target, self._named)]
        for name, value in headers:
            if _FORBIDDEN.search(value) is not None:
                raise BadHeader(name)
            lines.append(b"%b: %b" % (name, value))
        if length or method != "GET":
            lines.append(b"content-length: %d" % length)
        lines.append(b"\r\n")
        return b"\r\n".join(lines)


class Connection(asyncio.Protocol):
    """One connection, and the answer that is on it: ``status``, ``raw_headers``, then pieces of the body."""

    def __init__(self, wire: Wire, limits: Limits) -> None:
        self._wire = wire
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._end = 0.0
        self.is_open = False
        self._is_kept = False
        self.kept_at = 0.0
        self._reset()

    def _reset(self) -> None:
        self.status = 0
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._has_head = False
        self._may_keep = False
        self._is_whole = False
        self._pieces: list[bytes] = []
        self._waiting_size = 0
        self._is_paused = False
        self._failure: Failure | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What its user does.

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request, and wait for the head of its answer."""
        self._reset()
        self._is_kept = False
        now = self._loop.time()
        self._end = now + self._limits.total_seconds
        self._deadline = now + self._limits.idle_seconds
        if self._timer is None:
            self._timer = self._loop.call_at(min(self._deadline, self._end), self._tick)
        self._transport.write(head + body)
        while not self._has_head and self._failure is None:
            await self._wait()
        if not self._has_head:
            raise WireError(self._failure or Failure.BROKE)

    async def piece(self) -> bytes:
        """What has come of the body since the last time; nothing at its end. Raises :class:`WireError`."""
        while not self._pieces:
            if self._is_whole:
                return b""
            if self._failure is not None:
                raise WireError(self._failure)
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_size = 0
        if self._is_paused:
            self._is_paused = False
            self._deadline = self._loop.time() + self._limits.idle_seconds
            self._transport.resume_reading()
        return data

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises :class:`WireError`, also where there is more than ``limit`` bytes."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.piece():
            size += len(piece)
            if size > limit:
                raise WireError(Failure.GARBLED)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header of that lower-case name."""
        return next((value for key, value in self.raw_headers if key.lower() == name), None)

    def release(self) -> None:
        """The answer was read: keep the connection, if both sides can."""
        if not (self._is_whole and self._may_keep and self.is_open):
            self.close()
            return
        self._is_kept, self.kept_at = True, self._loop.time()
        self._deadline = self.kept_at + _KEEP_SECONDS
        self._wire.keep(self)

    def close(self) -> None:
        """Close it, whatever is on its way; the server sees that nobody waits."""
        self._stop_timer()
        if self._is_kept:
            self._wire.forget(self)
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # What the event loop does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # of a stream
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._is_whole or not self._end:
            self.close()  # nobody asked
        if not self.is_open:
            return
        self._deadline = self._loop.time() + self._limits.idle_seconds
        if not self._has_head:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD + _HIGH_WATER:
                self._fail(Failure.GARBLED)
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(Failure.GARBLED)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.close()
        if self._ends_with_connection() and exc is None and self._failure is None:
            self._is_whole = True
            self._wake()
        elif not self._is_whole:
            self._fail(Failure.BROKE)

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self._is_whole:
            self._may_keep = False  # a second answer, for which nobody asked

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # not the trailers
            self.raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._has_head:
            return
        self.status = self._parser.get_status_code()
        if self.status in _CONTINUE:
            self.raw_headers.clear()
            return
        self._has_head = True
        self._may_keep = self._parser.should_keep_alive()
        self._wake()

    def on_body(self, body: bytes) -> None:
        if self._is_whole:
            return
        self._pieces.append(body)
        self._waiting_size += len(body)
        if self._waiting_size > _HIGH_WATER and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_whole = True
            self._wake()

    # The rest.

    def _ends_with_connection(self) -> bool:
        return self._has_head and not any(
            key.lower() in (b"content-length", b"transfer-encoding") for key, _ in self.raw_headers
        )

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
        self._wake()
        self.close()

    def _tick(self) -> None:
        """One timer for all deadlines: it looks when the nearest may have come."""
        self._timer = None
        now = self._loop.time()
        if self._is_paused:  # the client is who is slow, and has a limit of its own
            self._deadline = max(self._deadline, now + 1.0)
        due = min(self._deadline, self._end)
        if now < due:
            self._timer = self._loop.call_at(due, self._tick)
        elif self._is_whole:
            self.close()  # it was kept for nothing
        else:
            self._fail(Failure.TIMEOUT)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
