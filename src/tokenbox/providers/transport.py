"""HTTP, on aiohttp: requests out, bounded bytes in, and every failure one of our errors.

A redirect is followed only to the same scheme, host and port, so a key never travels on. Bodies are read up
to a bound. Nothing is retried. Cancelling a call closes its connection at once.

Errors are raised ``from None``: what aiohttp chains behind its own has the headers, and so the key, in it.
"""

from __future__ import annotations

import asyncio
import errno
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from tokenbox.errors import MissingExtra
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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    import aiohttp

    from tokenbox.providers.target import Bounds

FIRST_REFUSAL: Final = 300  # of HTTP's statuses: 3xx that is not followed, 4xx, 5xx
_REDIRECTS: Final = 3
_KEEPS_METHOD: Final = {307, 308}
_REDIRECTING: Final = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``body`` None: a GET. ``seconds``, where not 0, bounds all of it more narrowly."""

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
    """The head of an answer, and its body as it comes."""

    status: int
    headers: Mapping[str, str]
    pieces: Callable[[], AsyncIterator[bytes]] = field(repr=False)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer. ``body`` is parsed JSON, or text where it is none and is no success either."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Transport:
    """Makes requests. Inside ``async with`` connections are kept for the next; outside each call has its own.

    So there is nothing that must be closed and no event loop to be bound to, unless one asks for it.
    """

    def __init__(self) -> None:
        self._kept: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether connections are being kept."""
        return self._kept is not None

    async def open(self) -> None:
        if self._kept is None:
            self._kept, self._loop = _session(), asyncio.get_running_loop()

    async def close(self) -> None:
        kept, self._kept, self._loop = self._kept, None, None
        if kept is not None:
            await kept.close()

    async def json(self, call: Call) -> Answered:
        """The answer to a call. Raises :class:`ProviderError`, but not for a status: that is the caller's."""
        async with self.response(call) as response:
            return await whole(response, call)

    @asynccontextmanager
    async def response(self, call: Call) -> AsyncGenerator[Response]:
        """The answer to a call as it comes. Leaving closes the connection, unless all was read."""
        async with self._sessions() as session:
            response = await self._follow(session, call)
            try:
                yield Response(response.status, response.headers, lambda: self._pieces(response, call))
            finally:
                if response.content.at_eof():
                    response.release()
                else:
                    response.close()

    async def _pieces(self, response: aiohttp.ClientResponse, call: Call) -> AsyncIterator[bytes]:
        import aiohttp  # noqa: PLC0415  # on use

        pieces = response.content.iter_any()
        while True:
            try:
                piece = await anext(pieces, None)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _error(error, call, answering=True) from None
            if piece is None:
                return
            yield piece

    async def _follow(self, session: aiohttp.ClientSession, call: Call) -> aiohttp.ClientResponse:
        """The answer, after redirects that stay where the key may go."""
        import aiohttp  # noqa: PLC0415  # on use

        bounds = call.bounds
        timeout = aiohttp.ClientTimeout(
            total=call.seconds or bounds.total_seconds,
            sock_connect=bounds.connect_seconds,
            sock_read=bounds.idle_seconds,
        )
        method, data = ("GET", None) if call.body is None else ("POST", written(call.body))
        headers = {"accept-encoding": "identity", "user-agent": "tokenbox", **call.headers}
        if data is not None:
            headers["content-type"] = "application/json"
        url = call.place
        for _ in range(_REDIRECTS + 1):
            try:
                response = await session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    read_bufsize=65_536,
                )
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _error(error, call, answering=False) from None
            location = response.headers.get("location")
            if response.status not in _REDIRECTING or location is None:
                return response
            response.close()
            url = _followed(url, location, response.status, posts=data is not None)
        raise RequestRejected(f"{call.place} redirects in a circle.")

    @asynccontextmanager
    async def _sessions(self) -> AsyncGenerator[aiohttp.ClientSession]:
        if self._kept is not None and self._loop is asyncio.get_running_loop():
            yield self._kept
            return
        session = _session()
        try:
            yield session
        finally:
            await session.close()


async def whole(response: Response, call: Call) -> Answered:
    """The whole of an answer. Raises :class:`ProviderError`, but not for a status: that is the caller's."""
    good = response.status < FIRST_REFUSAL
    limit = call.bounds.answer_bytes if good else call.bounds.error_bytes
    data = bytearray()
    async for piece in response.pieces():
        data += piece
        if len(data) > limit:
            if not good:
                break  # what an error begins with is enough
            raise AnswerTooLarge(
                f"the answer of {call.place} is larger than {limit:,} bytes; it was not read on.", limit=limit
            )
    try:
        body = parsed(bytes(data), f"the answer of {call.place}")
    except BadAnswer:
        if good:
            raise
        body = data.decode("utf-8", "replace")
    return Answered(response.status, response.headers, body)


def _session() -> aiohttp.ClientSession:
    try:
        import aiohttp  # noqa: PLC0415  # 150 ms, and only for who talks to a server
    except ImportError:
        raise MissingExtra.of("Talking to LLM servers", "shell") from None
    # Most servers close a connection after five idle seconds; a request must not cross that on its way.
    connector = aiohttp.TCPConnector(keepalive_timeout=4)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "nowhere"
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "nowhere"


def _followed(url: str, location: str, status: int, *, posts: bool) -> str:
    """Where a redirect leads. Raises :class:`RequestRejected` if nothing of ours may go there."""
    try:
        target = urljoin(url, location)
        same = urlsplit(target)[:2] == urlsplit(url)[:2]
    except ValueError:
        target, same = "", False
    if not same or (posts and status not in _KEEPS_METHOD):
        raise RequestRejected(
            f"{url} redirects ({status}) to {_host(target)}. Neither key nor request is sent on; "
            "if that is the right server, make it the endpoint.",
            status=status,
        )
    return target


def _error(error: Exception, call: Call, *, answering: bool) -> ProviderError:
    """Our error for one of aiohttp's."""
    import aiohttp  # noqa: PLC0415  # on use

    root = call.root
    if isinstance(error, aiohttp.ClientConnectorError):
        return _no_connection(error, root)
    match error:
        case TimeoutError():
            return _too_slow(error, call)
        case aiohttp.InvalidURL():
            return InvalidTarget(f"{_host(root)} with the path of the endpoint is no URL that can be asked.")
        case aiohttp.ClientResponseError():
            return BadAnswer(f"what {root} answers is not HTTP as it should be. Is it an LLM server?")
        case OSError() | aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            when = "in the middle of its answer" if answering else "before it answered"
            return ConnectionLost(f"{root} broke the connection {when}.")
    return ServerUnreachable(f"{root} could not be asked: {type(error).__name__}.")


def _too_slow(error: TimeoutError, call: Call) -> ServerTimeout:
    import aiohttp  # noqa: PLC0415  # on use

    bounds = call.bounds
    match error:
        case aiohttp.ConnectionTimeoutError():
            seconds, what = bounds.connect_seconds, f"no connection to {call.root}"
        case aiohttp.SocketTimeoutError():
            seconds, what = bounds.idle_seconds, f"{call.root} has been silent"
        case _:
            seconds, what = call.seconds or bounds.total_seconds, f"{call.place} has not finished"
    return ServerTimeout(
        f"{what} after {seconds:g} s. Is it busy, or is the limit too short?", seconds=seconds
    )


def _no_connection(error: aiohttp.ClientConnectorError, root: str) -> ServerUnreachable:
    import aiohttp  # noqa: PLC0415  # on use

    match error:
        case aiohttp.ClientConnectorDNSError():
            return ServerUnreachable(f"{_host(root)} has no address. Check the name, and the network.")
        case aiohttp.ClientSSLError():
            return ServerUnreachable(
                f"TLS with {root} failed. Does it speak https, and is its certificate good?"
            )
        case _ if _refused(error.os_error):
            return ConnectionRefused(f"{root} refuses connections. Is the server running, and on this port?")
    return ServerUnreachable(f"no connection to {root}: {' '.join(str(error.os_error).split())[:200]}.")


def _refused(error: OSError) -> bool:
    """Whether every address of the host refused: with several, the numbers are in the text only."""
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
    return numbers == {str(errno.ECONNREFUSED)}
