"""The HTTP server: uvicorn, with bounds on the head of a request and on how long it takes to arrive."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.incoming import CLIENT

if TYPE_CHECKING:
    import asyncio

    from tokenbox.gateway.application import Application
    from tokenbox.gateway.settings import RequestLimits

_HEAD = "HTTP/1.1 {0.value} {0.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
_VERSIONS = ("1.1", "1.0")
# A request that offers an upgrade, as Java's client does (h2c), is answered without it (RFC 9110, 7.8).
# httptools would ignore its body, so the header is replaced by one that has no effect here. An offer that is
# written otherwise, or cut in two, is refused.
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_IGNORED = b"\r\ntrailer:"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with deadlines for slow clients.

    A client has three deadlines: for the head it has begun, for the body, and for reading what was sent to
    it. One timer serves all three. It is not reset for each request, but looks again when the nearest
    deadline may have passed. Fulfils :class:`~tokenbox.gateway.incoming.Client`.

    Pipelining is not supported: a request that comes before the last one is answered is dropped, and the
    connection ends with that answer, so that the client sends it again (RFC 9112, 9.3.2). A pipelined request
    would pause reading, and a disconnect would go unnoticed.
    """

    limits: RequestLimits
    on_disconnect: Callable[[], None] | None = None
    is_late = False
    _ignores_input = False
    _closes_after_body = False
    _head = 0
    _in_head = False
    _pending = 0
    _has_progress = False
    _head_due: float | None = None
    _body_due: float | None = None
    _write_due: float | None = None
    _unsent = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  # of asyncio or uvloop
        super().connection_made(transport)
        # For a client that vanished without closing: the kernel then ends the connection.
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = max(1, int(self.limits.send_seconds * 1000))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._head_due = self._deadline(self.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self.on_disconnect is not None:
            self.on_disconnect()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._is_answering:
            self._ignores_input, self.cycle.keep_alive = True, False
            return
        super().on_message_begin()
        self.scope["extensions"] = {CLIENT: self}  # type: ignore[dict-item]  # ASGI's own are plain data
        self._head, self._in_head, self.is_late = 0, True, False
        self._head_due = self._deadline(self.limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        if not self._ignores_input:
            self._add_to_head(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._ignores_input:
            self._add_to_head(len(name) + len(value) + 4)  # ": " and the end of the line
            if self._in_head:  # trailers are ignored
                super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_due = False, None
        fault = None if self._ignores_input else self._fault()
        if fault is not None:
            self._refuse(HTTPStatus.BAD_REQUEST, "invalid_http", fault)
        elif not (self._ignores_input or self.transport.is_closing()):
            self._body_due = self._deadline(self.limits.body_seconds)
            super().on_headers_complete()
            if not self.cycle.keep_alive:
                self.cycle.transport = LingeringTransport(self)  # type: ignore[assignment]  # it has the methods that a cycle uses

    def _fault(self) -> str | None:
        """Return why another server could read this request as a different one; None if it could not."""
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if version not in _VERSIONS:
            return f"HTTP/{version} is not spoken here, only HTTP/1.1 and HTTP/1.0"
        if self.parser.should_upgrade():
            return "this is neither a tunnel nor is there another protocol to upgrade to"
        if len(hosts) != 1 and (hosts or version == "1.1"):
            return f"a request has one Host header, not {len(hosts)}"
        if codings and (version != "1.1" or [coding.strip().lower() for coding in codings] != [b"chunked"]):
            return "the only Transfer-Encoding is chunked, of HTTP/1.1"
        return None

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        if not self._ignores_input:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_progress = True
        if not self._ignores_input:
            self._body_due = None
            super().on_message_complete()
            self.flow.resume_reading()  # a large body paused it, and a disconnect must be noticed
            if self._closes_after_body:
                self.transport.close()

    def close_when_read(self) -> None:
        """Close the connection once the body has arrived or is late."""
        self._closes_after_body = self._body_due is not None
        if not self._closes_after_body:
            self.transport.close()

    # Callbacks of the event loop.

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._ignores_input:
            return
        if self._body_due is None and (b"pgrade:" in data or b"PGRADE:" in data):
            data = _UPGRADE.sub(_IGNORED, data)
        self._has_progress = False
        super().data_received(data)
        # The parser does not report an unfinished line, so the bytes that are no body are bounded here.
        self._pending = 0 if self._has_progress else self._pending + len(data)
        if self._pending > self.limits.headers:
            self._add_to_head(self._pending)
        if self._head_due is None and self.timeout_keep_alive_task is None and not self._is_answering:
            # Bytes that are not a head, such as the rest of an unread body, have stopped uvicorn's own timer.
            self._head_due = self._deadline(self.limits.head_seconds)

    def pause_writing(self) -> None:
        self._start_write_deadline()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_due = None
        super().resume_writing()

    # Deadlines.

    def _deadline(self, seconds: float) -> float:
        """Return the time in ``seconds`` from now, with the timer set."""
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
            self._on_late_head()
        if self._body_due is not None and self._body_due <= now:
            if self.flow.read_paused:  # the application has not read what came, so nothing more can come
                self._body_due = now + self.limits.body_seconds
            else:
                self._body_due = None
                self.is_late = True
                if self._closes_after_body:
                    self.transport.close()
                self.cycle.message_event.set()  # wake up the reader of the body
        if self._write_due is not None and self._write_due <= now:
            self._write_due = None
            if self.transport.get_write_buffer_size() < self._unsent:
                self._start_write_deadline()  # the client reads, if slowly
            else:
                self.transport.abort()
        due = [due for due in (self._head_due, self._body_due, self._write_due) if due is not None]
        if due:
            self._set_timer(min(due))

    def _start_write_deadline(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._write_due = self._deadline(self.limits.send_seconds)

    def _on_late_head(self) -> None:
        if not self._in_head:
            self.transport.close()
            return
        seconds = self.limits.head_seconds
        message = f"no whole request within {seconds:g} seconds"
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, "head_timeout", message)

    def send_400_response(self, msg: str) -> None:
        """Answer in JSON, where uvicorn sends plain text."""
        self._refuse(HTTPStatus.BAD_REQUEST, "invalid_http", msg.rstrip("."))

    def _add_to_head(self, size: int) -> None:
        self._head += size
        if self._head > self.limits.headers:
            message = f"the head has more than {self.limits.headers:,} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", message)

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        if self.transport.is_closing() or self._ignores_input:
            return
        error = {"message": f"{message}.", "type": "invalid_request_error", "param": None, "code": code}
        body = json_bytes({"error": error})
        self._ignores_input = True
        head = _HEAD.format(status).encode()
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()


class LingeringTransport:
    """A transport that closes only after the body has arrived.

    If it closed while the client still sends, the client would see a broken connection and lose the answer
    (RFC 9112, 9.6).
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
    """Return the configuration of uvicorn, without its own logs."""
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
