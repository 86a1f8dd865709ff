"""A minimal HTTP/1.1 client: keep-alive connections, and response bodies as they arrive.

It uses httptools' parser, like uvicorn. Cookies, compression and proxies are left out: neither a gateway nor
a client of an LLM server needs them, and they would take most of the time of a request.
:mod:`tokenbox.providers.transport` handles redirects.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote, urlsplit

from tokenbox.errors import MissingExtra

try:
    import httptools
except ImportError:  # ``Wire`` raises MissingExtra
    httptools: Any = None  # type: ignore[no-redef]
try:
    import fcntl
    import termios
except ImportError:  # not on every platform
    fcntl: Any = None  # type: ignore[no-redef]

if TYPE_CHECKING:
    from tokenbox.providers.target import Bounds

# How long an idle connection is kept. Servers close them after 5 seconds or more.
KEEP_SECONDS = 3.0
# The delay before the next address of a host is tried in parallel (RFC 8305).
_NEXT_ADDRESS_SECONDS = 0.25
# The most bytes without any of a body: of a response head, of trailers, or around a chunk. And the unread
# bytes of a body at which reading pauses.
_MAX_HEAD = 256 << 10
_HIGH_WATER = 256 << 10
_CONTINUE = range(100, 200)
_FORBIDDEN = re.compile(rb"[\r\n\0]")


class Failure(StrEnum):
    """The kind of a connection failure."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BROKE = "broke"
    GARBLED = "garbled"


class BrokenAnswer(Exception):
    """A response is missing or incomplete.

    ``cause``: what the connection or the parser said. ``seconds``: the limit of a timeout. The text names
    the cause by its class and its words.
    """

    def __init__(self, how: Failure, cause: Exception, seconds: float | None = None) -> None:
        name, words = type(cause).__name__, str(cause)
        super().__init__(f"{name}: {words}" if words else name)
        self.how = how
        self.cause = cause
        self.seconds = seconds


class NotRead(BrokenAnswer):
    """The server closed the connection before it had read the whole request, so it has not run it."""

    def __init__(self) -> None:
        super().__init__(Failure.BROKE, ConnectionError("the server closed the connection unread"))


class BadHeader(ValueError):
    """A header value contains a line break or NUL."""


class Wire:
    """The connections to one server, for one event loop. The path of ``url`` is a prefix for all requests.

    Raises :class:`MissingExtra` if httptools is not installed.
    """

    def __init__(self, url: str, bounds: Bounds) -> None:
        if httptools is None:
            raise MissingExtra.of("talking to LLM servers", "shell")
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_tls = parts.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        authority = parts.netloc.rpartition("@")[2]
        self._host_header = authority.encode("ascii" if authority.isascii() else "idna")
        self._path = quote(parts.path.rstrip("/"), safe="/:@!$&'()*+,;=~%").encode()
        self.bounds = bounds
        self._idle: list[WireConnection] = []
        self._sweeping: asyncio.TimerHandle | None = None

    async def request(
        self,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
        bounds: Bounds | None = None,
    ) -> WireConnection:
        """Send a request, wait for the response head, and return the connection.

        A server may close a kept connection just when a request is sent on it. If it has not read the
        request, a new connection is tried, once. The caller reads the body, then releases or closes the
        connection. Raises :class:`BrokenAnswer` and :class:`BadHeader`.
        """
        bounds = self.bounds if bounds is None else bounds
        head = self._head(method, target, headers, len(body))
        if (kept := self._idle_connection()) is not None:
            with suppress(NotRead):
                return await kept.ask(head, body, bounds)
        connection = await self._connect(bounds)
        return await connection.ask(head, body, bounds)

    def keep(self, connection: WireConnection) -> None:
        """Keep a connection whose response was read to its end, for the next request."""
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._sweep)

    def forget(self, connection: WireConnection) -> None:
        """Forget a kept connection that was closed."""
        with suppress(ValueError):
            self._idle.remove(connection)

    def close(self) -> None:
        """Close idle connections. Those in use close after their response."""
        for connection in tuple(self._idle):
            connection.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def _sweep(self) -> None:
        """Close expired connections. One timer serves all, because the oldest come first."""
        loop, self._sweeping = asyncio.get_running_loop(), None
        expired = loop.time() - KEEP_SECONDS
        for connection in [connection for connection in self._idle if connection.kept_at <= expired]:
            connection.close()
        if self._idle:
            self._sweeping = loop.call_at(self._idle[0].kept_at + KEEP_SECONDS, self._sweep)

    def _idle_connection(self) -> WireConnection | None:
        """Return the connection used last that is still open, or None."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if now - connection.kept_at < KEEP_SECONDS and connection.is_silent():
                return connection
            connection.close()
        return None

    async def _connect(self, bounds: Bounds) -> WireConnection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop):  # not uvloop, which tries addresses one by one
            options["happy_eyeballs_delay"] = _NEXT_ADDRESS_SECONDS
        try:
            if self._is_tls and self._tls is None:
                self._tls = ssl.create_default_context()
            async with asyncio.timeout(bounds.connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: WireConnection(self), self._host, self._port, ssl=self._tls, **options
                )
        except TimeoutError:
            cause = TimeoutError(f"no connection within {bounds.connect_seconds:g} s")
            raise BrokenAnswer(Failure.UNREACHABLE, cause, bounds.connect_seconds) from None
        except (OSError, ValueError) as error:  # an invalid host name is a ValueError
            raise BrokenAnswer(Failure.UNREACHABLE, error) from None
        return connection

    def _head(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], length: int) -> bytes:
        lines = [b"%b %b%b HTTP/1.1\r\nhost: %b" % (method.encode(), self._path, target, self._host_header)]
        for name, value in headers:
            if _FORBIDDEN.search(value) is not None:
                raise BadHeader(name)
            lines.append(b"%b: %b" % (name, value))
        if length or method != "GET":
            lines.append(b"content-length: %d" % length)
        lines.append(b"\r\n")
        return b"\r\n".join(lines)


class WireConnection(asyncio.Protocol):
    """A connection and the response on it: ``status``, ``raw_headers``, then pieces of the body."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._bounds = wire.bounds
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
        self._size_without_body = 0
        self._has_head = False
        self._may_keep = False
        self._is_whole = False
        self._pieces: list[bytes] = []
        self._waiting_size = 0
        self._is_paused = False
        self._failure: BrokenAnswer | None = None
        self._is_unread = False
        self._waiter: asyncio.Future[None] | None = None

    # The methods of the caller.

    async def ask(self, head: bytes, body: bytes, bounds: Bounds) -> Self:
        """Send a request, and return after the response head. Raises :class:`BrokenAnswer`."""
        self._reset()
        self._is_kept = False
        self._bounds = bounds
        now = self._loop.time()
        self._end = now + bounds.total_seconds
        self._deadline = now + bounds.idle_seconds
        due = min(self._deadline, self._end)
        if self._timer is not None and self._timer.when() > due:
            self._stop_timer()
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._tick)
        self._transport.write(head + body)
        try:
            while not self._has_head and self._failure is None:
                await self._wait()
        except BaseException:
            self.close()
            raise
        if self._failure is not None and not self._has_head:
            raise NotRead if self._is_unread and not self._size_without_body else self._failure
        return self

    async def piece(self) -> bytes:
        """Return the new bytes of the body, or ``b""`` at its end. Raises :class:`BrokenAnswer`."""
        while not self._pieces:
            if self._is_whole:
                return b""
            if self._failure is not None:
                raise self._failure
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_size = 0
        if self._is_paused:
            self._is_paused = False
            self._deadline = self._loop.time() + self._bounds.idle_seconds
            self._transport.resume_reading()
        return data

    async def read(self, limit: int) -> bytes:
        """Return all of the body. Raises :class:`BrokenAnswer`, also if it exceeds ``limit`` bytes."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.piece():
            size += len(piece)
            if size > limit:
                raise BrokenAnswer(Failure.GARBLED, ValueError(f"the answer exceeds {limit:,} bytes"))
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def is_silent(self) -> bool:
        """Whether an unused connection is open and the server has sent nothing on it, not even its end.

        The event loop may not have read that end yet.
        """
        if not self.is_open or not hasattr(select, "poll"):  # not on every platform
            return self.is_open
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)

    def headers(self) -> dict[str, str]:
        """Return the headers by their names in lower case; of several values the first."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in reversed(self.raw_headers)
        }

    def header(self, name: bytes) -> bytes | None:
        """Return the value of the first header with that lower-case name."""
        return next((value for key, value in self.raw_headers if key.lower() == name), None)

    def release(self) -> None:
        """Keep the connection after its response was read, or close it if it cannot be reused."""
        if not (self._is_whole and self._may_keep and self.is_open):
            self.close()
            return
        self._is_kept, self.kept_at = True, self._loop.time()
        self._wire.keep(self)

    def close(self) -> None:
        """Close the connection at once, also during a response."""
        self._stop_timer()
        if self._is_kept:
            self._wire.forget(self)
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._is_whole or not self._end:
            self.close()  # unsolicited data
        if not self.is_open:
            return
        self._deadline = self._loop.time() + self._bounds.idle_seconds
        self._size_without_body += len(data)
        limit = _MAX_HEAD + _HIGH_WATER
        if self._size_without_body > limit:
            self._fail(Failure.GARBLED, ValueError(f"more than {limit:,} bytes without a body"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Failure.GARBLED, error)

    def eof_received(self) -> None:
        # What the server has not acknowledged by then, it never reads. A reset says less: a server, or a
        # load balancer in front of it, may reset a connection while it runs the request (RFC 9110, 9.2.2).
        self._is_unread = _has_unacknowledged(self._transport)
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.close()
        if self._ends_with_connection() and exc is None and self._failure is None:
            self._is_whole = True
            self._wake()
        elif not self._is_whole:
            self._fail(Failure.BROKE, exc or ConnectionError("the server closed the connection"))

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._is_whole:
            self._may_keep = False  # an unsolicited second response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # ignore trailers
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
        self._size_without_body = 0
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

    # Waiting and timeouts.

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

    def _fail(self, how: Failure, cause: Exception, seconds: float | None = None) -> None:
        if self._failure is None:
            self._failure = BrokenAnswer(how, cause, seconds)
        self._wake()
        self.close()

    def _tick(self) -> None:
        """Check all deadlines. One timer serves them, set to the earliest."""
        self._timer = None
        if self._is_kept:
            return  # ``Wire._sweep`` closes it
        now = self._loop.time()
        if self._is_paused:  # the reader is slow, not the server
            self._deadline = max(self._deadline, now + 1.0)
        due = min(self._deadline, self._end)
        if now < due:
            self._timer = self._loop.call_at(due, self._tick)
        elif not self._is_whole:
            is_end = due == self._end
            seconds = self._bounds.total_seconds if is_end else self._bounds.idle_seconds
            what = "the answer was not complete within" if is_end else "the server was silent for"
            self._fail(Failure.TIMEOUT, TimeoutError(f"{what} {seconds:g} s"), seconds)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _has_unacknowledged(transport: asyncio.Transport) -> bool:
    """Whether the other system has not acknowledged all bytes sent; False where that cannot be asked."""
    if fcntl is None:
        return False
    try:
        number = fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
    except OSError:  # macOS has it for terminals alone
        return False
    return number != bytes(4)
