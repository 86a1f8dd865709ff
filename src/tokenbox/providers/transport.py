"""HTTP, on aiohttp: requests out, bounded bytes in, and every failure one of our errors.

A redirect is followed only to the same scheme, host and port, so a key never travels on. Bodies are read up to a
bound. Nothing is retried. Cancelling a call closes its connection at once.

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

_REDIRECTS: Final = 3
_KEEPS_METHOD: Final = {307, 308}
_REDIRECTING: Final = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``body`` None: a GET. ``seconds`` bounds all of it."""

    root: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
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

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

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
            good = response.status < 300  # noqa: PLR2004  # HTTP
            limit = self._bounds.answer_bytes if good else self._bounds.error_bytes
            data = bytearray()
            async for piece in response.pieces():
                data += piece
                if len(data) > limit:
                    if not good:
                        break
                    raise AnswerTooLarge(
                        f"the answer of {call.place} is larger than {limit:,} bytes; it was not read on.",
                        limit=limit,
                    )
            try:
                body = parsed(bytes(data), f"the answer of {call.place}")
            except BadAnswer:
                if good:
                    raise
                body = bytes(data).decode("utf-8", "replace")
            return Answered(response.status, response.headers, body)

    @asynccontextmanager
    async def response(self, call: Call) -> AsyncGenerator[Response]:
        """The answer to a call as it comes. Leaving closes the connection, unless all was read."""
        async with self._sessions() as session:
            with _failures(call):
                response = await self._follow(session, call)
            try:
                yield Response(response.status, response.headers, lambda: self._pieces(response, call))
            finally:
                if response.content.at_eof():
                    response.release()
                else:
                    response.close()

    async def _pieces(self, response: aiohttp.ClientResponse, call: Call) -> AsyncIterator[bytes]:
        pieces = response.content.iter_any()
        while True:
            with _failures(call, answering=True):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    async def _follow(self, session: aiohttp.ClientSession, call: Call) -> aiohttp.ClientResponse:
        """The answer, after redirects that stay where the key may go."""
        import aiohttp  # noqa: PLC0415  # on use
        from yarl import URL  # noqa: PLC0415

        bounds = self._bounds
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
            response = await session.request(
                method,
                URL(url, encoded=True),
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                read_bufsize=65_536,
            )
            if response.status not in _REDIRECTING or "location" not in response.headers:
                return response
            response.close()
            target = urljoin(url, response.headers["location"])
            same = urlsplit(target)[:2] == urlsplit(url)[:2]
            if not same or (method == "POST" and response.status not in _KEEPS_METHOD):
                raise RequestRejected(
                    f"{call.place} redirects ({response.status}) to {_host(target)}. A key is not sent on; "
                    "if that is the right server, make it the endpoint.",
                    status=response.status,
                )
            url = target
        raise RequestRejected(f"{call.place} redirects in a circle.", status=response.status)

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


def _session() -> aiohttp.ClientSession:
    try:
        import aiohttp  # noqa: PLC0415  # 150 ms, and only for who talks to a server
    except ImportError:
        raise MissingExtra.of("Talking to LLM servers", "shell") from None
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "nowhere"
    except ValueError:
        return "nowhere"


class _failures:  # noqa: N801  # used as a function
    """What goes wrong inside becomes one of our errors."""

    def __init__(self, call: Call, *, answering: bool = False) -> None:
        self._call = call
        self._answering = answering

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, ProviderError) or not isinstance(error, Exception):
            return
        failed = _error(error, self._call, answering=self._answering)
        if failed is not None:
            raise failed from None


def _error(error: Exception, call: Call, *, answering: bool) -> ProviderError | None:  # noqa: PLR0911  # a table in all but form
    """Our error for one of aiohttp's; None if it is not of the network."""
    import aiohttp  # noqa: PLC0415  # on use

    root = call.root
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ServerTimeout(f"no connection to {root} in time. Is the host right, and up?", at="connecting")
        case aiohttp.SocketTimeoutError():
            return ServerTimeout(f"{root} has fallen silent, and was waited for long enough.", at="reading")
        case TimeoutError():
            return ServerTimeout(
                f"{call.place} did not answer within {call.seconds:g} s."
                if call.seconds
                else f"{call.place} took longer than any answer may.",
                seconds=call.seconds,
                at="whole",
            )
        case aiohttp.ClientConnectorDNSError():
            return ServerUnreachable(f"{_host(root)} has no address. Check the name, and the network.")
        case aiohttp.ClientSSLError():
            return ServerUnreachable(f"TLS with {root} failed: {_words(error)}. Is it https, and its certificate good?")
        case aiohttp.ClientConnectorError() if _refused(error.os_error):
            return ConnectionRefused(f"{root} refuses connections. Is the server running, and on this port?")
        case aiohttp.ClientConnectorError():
            return ServerUnreachable(f"no connection to {root}: {_words(error.os_error)}.")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | aiohttp.ClientPayloadError() | OSError():
            when = "in the middle of its answer" if answering else "before it answered"
            return ConnectionLost(f"{root} broke the connection {when}.")
        case aiohttp.InvalidURL():
            return InvalidTarget(f"{_host(root)} with the path of the endpoint is no URL that can be asked.")
        case aiohttp.ClientResponseError():
            return BadAnswer(f"what {root} answers is not HTTP as it should be. Is it an LLM server?")
        case aiohttp.ClientError():
            return ServerUnreachable(f"{root} could not be asked: {type(error).__name__}.")
    return None


def _refused(error: OSError) -> bool:
    """Whether every address of the host refused: with several, the numbers are in the text only."""
    if error.errno is not None:
        return error.errno == errno.ECONNREFUSED
    numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
    return numbers == {str(errno.ECONNREFUSED)}


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
