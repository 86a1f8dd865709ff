"""The HTTP server: uvicorn, with bounds on the head of a request and on how long it may take to arrive."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tokenbox.gateway.asgi import CLIENT, json_bytes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from tokenbox.gateway.app import Application
    from tokenbox.gateway.settings import RequestLimits

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
)
_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
_TYPE = "invalid_request_error"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"


# A request that offers to change the protocol, as those of Java's client do (h2c), is answered as it is (RFC
# 9110, 7.8). httptools would take it for one without a body: so it sees a header of no meaning here.
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_IGNORED = b"\r\ntrailer:"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which has no bounds of its own for how slow a client may be.

    A client has three deadlines: for the head it has begun, for the body after it, and for taking what was
    sent to it. One timer serves them all, and is not set anew for each request: it looks when the nearest
    may have passed. Fulfils :class:`~tokenbox.gateway.asgi.Client`.

    A request that comes while another is answered is not taken, and the connection ends with that answer;
    who sent it has to send it again (RFC 9112, 9.3.2). Behind another it would stop all reading, and who
    then leaves is not seen to leave.
    """

    limits: RequestLimits
    on_gone: Callable[[], None] | None = None
    is_late = False
    _is_deaf = False
    _lingers = False
    _head = 0
    _in_head = False
    _pending = 0
    _head_due: float | None = None
    _body_due: float | None = None
    _reading_due: float | None = None
    _unsent = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401
        super().connection_made(transport)
        # A client that has gone without a word: the kernel then ends the connection.
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = max(1, int(self.limits.send_seconds * 1000))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._head_due = self._in(self.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self.on_gone is not None:
            self.on_gone()

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self._is_answering:
            self._is_deaf, self.cycle.keep_alive = True, False
            return
        super().on_message_begin()
        self.scope["extensions"] = {CLIENT: self}  # type: ignore[dict-item]  # ASGI's own are plain data
        self._head, self._in_head, self.is_late = 0, True, False
        self._head_due = self._in(self.limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        if not self._is_deaf:
            self._grow(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_deaf:
            self._grow(len(name) + len(value))
            if self._in_head:  # not the trailers, which come after it was read
                super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_due = False, None
        if not (self._is_deaf or self.transport.is_closing()):
            self._body_due = self._in(self.limits.body_seconds)
            super().on_headers_complete()
            if not self.cycle.keep_alive:
                self.cycle.transport = Lingering(self)  # type: ignore[assignment]  # all that a cycle asks of one

    def on_body(self, body: bytes) -> None:
        if not self._is_deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_deaf:
            self._body_due = None
            super().on_message_complete()
            self.flow.resume_reading()  # a large body paused it, and who leaves has to be seen
            if self._lingers:
                self.transport.close()

    def close_when_read(self) -> None:
        """End the connection once the body has come, or has not come in time."""
        self._lingers = self._body_due is not None
        if not self._lingers:
            self.transport.close()

    # What the event loop does.

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._is_deaf:
            return
        if self._body_due is None and (b"pgrade:" in data or b"PGRADE:" in data):
            data = _UPGRADE.sub(_IGNORED, data)
        super().data_received(data)
        # A header without an end is never handed over, so what came of the head is bounded here.
        self._pending = self._pending + len(data) if self._in_head else 0
        if self._pending > self.limits.headers:
            self._grow(self._pending)
        if self._head_due is None and self.timeout_keep_alive_task is None and not self._is_answering:
            # Bytes that are not a head, such as the rest of an unread body, stop uvicorn's own timer.
            self._head_due = self._in(self.limits.head_seconds)

    def pause_writing(self) -> None:
        self._await_reading()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._reading_due = None
        super().resume_writing()

    # The deadlines.

    def _in(self, seconds: float) -> float:
        """A deadline so many seconds from now, with the timer set."""
        due = self.loop.time() + seconds
        if self._timer is None or self._timer.when() > due:
            self._set_timer(due)
        return due

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self.loop.time()
        if self._head_due is not None and self._head_due <= now:
            self._head_due = None
            self._head_is_late()
        if self._body_due is not None and self._body_due <= now:
            if self.flow.read_paused:  # what came is not taken yet, so nothing more can come
                self._body_due = now + self.limits.body_seconds
            else:
                self._body_due = None
                self.is_late = True
                if self._lingers:
                    self.transport.close()
                self.cycle.message_event.set()  # who waits for the body finds out
        if self._reading_due is not None and self._reading_due <= now:
            self._reading_due = None
            if self.transport.get_write_buffer_size() < self._unsent:
                self._await_reading()  # it takes some, if slowly
            else:
                self.transport.abort()
        due = [due for due in (self._head_due, self._body_due, self._reading_due) if due is not None]
        if due:
            self._set_timer(min(due))

    def _await_reading(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._reading_due = self._in(self.limits.send_seconds)

    def _head_is_late(self) -> None:
        if not self._in_head:
            self.transport.close()
            return
        self._refuse(
            _TOO_SLOW, "head_timeout", f"no whole request within {self.limits.head_seconds:g} seconds"
        )

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's own is plain text."""
        self._refuse(_BAD, "invalid_http", msg.rstrip("."))

    def _grow(self, size: int) -> None:
        self._head += size
        if self._head > self.limits.headers:
            self._refuse(
                _TOO_LARGE, "headers_too_large", f"the head has more than {self.limits.headers:,} bytes"
            )

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _refuse(self, head: bytes, code: str, message: str) -> None:
        if self.transport.is_closing() or self._is_deaf:
            return
        body = json_bytes({"error": {"message": f"{message}.", "type": _TYPE, "param": None, "code": code}})
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()


class Lingering:
    """The transport of a connection that ends with an answer: it is not ended while the body still comes.

    To a client that still sends, such an end is a broken connection, and the answer is lost (RFC 9112, 9.6).
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing

    def close(self) -> None:
        self._protocol.close_when_read()


def config_of(
    app: Application, limits: RequestLimits, *, lifespan: Literal["on", "off"] = "on"
) -> uvicorn.Config:
    """How the application is served. Nothing of a request is logged by the server itself."""
    return uvicorn.Config(
        app,
        http=type("Bounded", (BoundedProtocol,), {"limits": limits}),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(limits.grace_seconds),
        proxy_headers=False,
        backlog=2048,
    )
