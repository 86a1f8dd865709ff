"""Send requests, read bounded answers, and convert every failure to our errors. HTTP itself is :mod:`.wire`.

Redirects are followed only to the same scheme, host and port, so that a key never reaches another server.
Bodies are bounded. Nothing that a server has read is sent again. Cancelling closes the connection at once.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin, urlsplit

from tokenbox.providers.errors import (
    AnswerTooLarge,
    BadAnswer,
    ConnectionLost,
    ConnectionRefused,
    InvalidTarget,
    ProviderError,
    RequestRejected,
    ServerTimeout,
    ServerUnreachable,
)
from tokenbox.providers.shapes import parsed, written
from tokenbox.providers.wire import BadHeader, BrokenAnswer, Failure, Wire, WireConnection

if TYPE_CHECKING:
    from tokenbox.providers.target import Bounds

FIRST_REFUSAL: Final = 300  # the lowest status that is no success: unfollowed 3xx, 4xx, 5xx
_REDIRECTS: Final = 3
_KEEPS_METHOD: Final = {307, 308}
_REDIRECTING: Final = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request. Without a ``body`` it is a GET. ``seconds``: a time limit for all of it, unless 0."""

    root: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    bounds: Bounds
    body: object = None
    seconds: float = 0.0

    @property
    def place(self) -> str:
        return self.root + self.path


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: its head, and its body in pieces."""

    status: int
    headers: Mapping[str, str]
    pieces: Callable[[], AsyncIterator[bytes]] = field(repr=False)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete answer. ``body`` is parsed JSON; for an error status it may be text."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Transport:
    """Makes requests. Between ``open`` and ``close`` connections are kept; else each call has its own.

    So there is nothing that must be closed and no event loop to be bound to, unless one asks for it.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Wire] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether connections are being kept."""
        return self._kept is not None

    async def open(self) -> None:
        if self._kept is None:
            self._kept, self._loop = {}, asyncio.get_running_loop()

    async def close(self) -> None:
        kept, self._kept, self._loop = self._kept, None, None
        for wire in (kept or {}).values():
            wire.close()

    async def json(self, call: HttpCall) -> Answered:
        """Return the answer to a call. Raises :class:`ProviderError`, but not for an error status."""
        seconds = call.seconds or call.bounds.total_seconds
        try:
            async with asyncio.timeout(seconds), self.response(call) as response:
                return await whole(response, call)
        except TimeoutError:
            raise _too_slow(f"{call.place} has not finished", seconds) from None

    @asynccontextmanager
    async def response(self, call: HttpCall) -> AsyncGenerator[Response]:
        """Yield the answer to a call as it arrives. Leaving closes the connection, unless all was read."""
        kept = self._wire(call)
        wire = Wire(_origin(call.root), call.bounds) if kept is None else kept
        try:
            connection = await _follow(wire, call)
            try:
                pieces = partial(_pieces, connection, call)
                yield Response(connection.status, connection.headers(), pieces)
            finally:
                connection.release()
        finally:
            if kept is None:
                wire.close()

    def _wire(self, call: HttpCall) -> Wire | None:
        """Return the kept connections to that server; None if none are kept, or by another event loop."""
        if self._kept is None or self._loop is not asyncio.get_running_loop():
            return None
        origin = _origin(call.root)
        wire = self._kept.get(origin)
        if wire is None:
            wire = self._kept[origin] = Wire(origin, call.bounds)
        return wire


async def _pieces(connection: WireConnection, call: HttpCall) -> AsyncIterator[bytes]:
    while True:
        try:
            piece = await connection.piece()
        except BrokenAnswer as error:
            raise _error(error, call, answering=True) from None
        if not piece:
            return
        yield piece


async def _follow(wire: Wire, call: HttpCall) -> WireConnection:
    """Return the answer, after redirects within the same server. Raises :class:`ProviderError`."""
    method, data = ("GET", b"") if call.body is None else ("POST", written(call.body))
    headers = {"accept-encoding": "identity", "user-agent": "tokenbox", **call.headers}
    if call.body is not None:
        headers["content-type"] = "application/json"
    sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    url = call.place
    for _ in range(_REDIRECTS + 1):
        try:
            connection = await wire.request(method, _target_of(url), sent, data, call.bounds)
        except BrokenAnswer as error:
            raise _error(error, call, answering=False) from None
        except BadHeader:
            raise InvalidTarget("the key or a header has characters that no header has.") from None
        location = connection.header(b"location")
        if connection.status not in _REDIRECTING or location is None:
            return connection
        connection.close()
        url = _followed(url, location.decode("latin-1"), connection.status, posts=call.body is not None)
    raise RequestRejected(f"{call.place} redirects in a circle.")


def _origin(root: str) -> str:
    return "{0.scheme}://{0.netloc}".format(urlsplit(root))


def _target_of(url: str) -> bytes:
    """Return the path and the query, as a request line has them."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return quote(target, safe="/:@!$&'()*+,;=~%?-._").encode()


async def whole(response: Response, call: HttpCall) -> Answered:
    """Read an answer to its end. Raises :class:`ProviderError`, but not for an error status."""
    good = response.status < FIRST_REFUSAL
    limit = call.bounds.answer_bytes if good else call.bounds.error_bytes
    data = bytearray()
    async for piece in response.pieces():
        data += piece
        if len(data) > limit:
            if not good:
                break  # the beginning of an error is enough
            raise AnswerTooLarge(f"the answer of {call.place} exceeds {limit:,} bytes.", limit=limit)
    try:
        body = parsed(bytes(data), f"the answer of {call.place}")
    except BadAnswer:
        if good:
            raise
        body = data.decode("utf-8", "replace")
    return Answered(response.status, response.headers, body)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "nowhere"
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "nowhere"


def _followed(url: str, location: str, status: int, *, posts: bool) -> str:
    """Return the target of a redirect. Raises :class:`RequestRejected` if it must not be followed."""
    try:
        target = urljoin(url, location)
        same = urlsplit(target)[:2] == urlsplit(url)[:2]
    except ValueError:
        target, same = "", False
    if not same or (posts and status not in _KEEPS_METHOD):
        raise RequestRejected(
            f"{url} redirects ({status}) to {_host(target)}. The key and the request are not forwarded; "
            "if that is the right server, make it the endpoint.",
            status=status,
        )
    return target


def _error(error: BrokenAnswer, call: HttpCall, *, answering: bool) -> ProviderError:
    """Return our error for a failure of the connection."""
    root = call.root
    match error.how:
        case Failure.UNREACHABLE:
            return _no_connection(error, root)
        case Failure.TIMEOUT:
            is_idle = error.seconds == call.bounds.idle_seconds
            what = f"{root} has been silent" if is_idle else f"{call.place} has not finished"
            return _too_slow(what, error.seconds)
        case Failure.GARBLED:
            return BadAnswer(f"{root} does not answer with valid HTTP. Check that it is an LLM server.")
    when = "in the middle of its answer" if answering else "before it answered"
    return ConnectionLost(f"{root} closed the connection {when}.")


def _too_slow(what: str, seconds: float | None) -> ServerTimeout:
    shown = "" if seconds is None else f" after {seconds:g} s"
    return ServerTimeout(f"{what}{shown}. It may be busy, or the limit too short.", seconds=seconds)


def _no_connection(error: BrokenAnswer, root: str) -> ServerUnreachable | ServerTimeout:
    match error.cause:
        case TimeoutError():
            return _too_slow(f"no connection to {root}", error.seconds)
        case socket.gaierror() | UnicodeError():
            return ServerUnreachable(f"{_host(root)} has no address. Check the name and the network.")
        case ssl.SSLError() as cause:
            short = (getattr(cause, "reason", None) or "unknown").replace("_", " ").lower()
            reason = getattr(cause, "verify_message", "") or short
            return ServerUnreachable(
                f"TLS with {root} failed: {reason.rstrip('.')}. Check that it supports https with a valid "
                "certificate; SSL_CERT_FILE can name the certificate of an authority of your own."
            )
        case OSError() as cause if _refused(cause):
            return ConnectionRefused(f"{root} refuses connections. Check that the server runs on this port.")
    reason = " ".join(str(error.cause).split())[:200] or "it was closed"
    hint = " Check that the server speaks https." if root.startswith("https:") else ""
    return ServerUnreachable(f"no connection to {root}: {reason}.{hint}")


def _refused(error: OSError) -> bool:
    """Return whether every address of the host refused. With several, only the text has the numbers."""
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
    return numbers == {str(errno.ECONNREFUSED)}
