"""One server that answers: its connections, its places, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.refusals import Refusal
from tokenbox.providers.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import aiohttp

    from tokenbox.gateway.settings import Limits, UpstreamSettings

# What belongs to one connection (RFC 9110, 7.6.1), what aiohttp sets itself, and what is between us and the
# client. The body is forwarded as it is, so that it must come uncompressed to be understood.
NOT_FORWARDED = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"host", b"content-length", b"accept-encoding", b"expect"),
        *(b"authorization", b"x-api-key", b"api-key", b"cookie", b"forwarded", b"via"),
    }
)
NOT_RETURNED = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding"),
        *(b"upgrade", b"content-length", b"content-encoding", b"set-cookie", b"server", b"date"),
    }
)
OURS = b"x-tokenbox-"
WITHHELD = b"[key withheld]"
# Servers close idle connections after 5 seconds or more; a request sent into a closing one fails.
_KEEP_SECONDS = 3.0
_GARBLED = 502


class Unreachable(Refusal):
    """No connection was made, so the server has nothing of the request."""


class Upstream:
    """A server with so many places; whoever finds none waits in a queue that has an end."""

    def __init__(self, settings: UpstreamSettings, limits: Limits, session: aiohttp.ClientSession) -> None:
        self.settings = settings
        self.limits = limits
        self._session = session
        self._places = asyncio.Semaphore(settings.concurrency)
        self.kind = Kind(settings.kind)
        self.waiting = 0
        self.running = 0
        self._base = base_url(settings.url)

    @property
    def name(self) -> str:
        return self.settings.name

    def url(self, path: str) -> str:
        return self._base + path

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place at the server for as long as the context lasts.

        Raises :class:`Refusal` (503) where the queue is full or the wait is too long.
        """
        settings = self.settings
        if self._places.locked() and self.waiting >= settings.queue:
            raise self._busy(f"{self.waiting:,} requests wait already")
        self.waiting += 1
        try:
            async with asyncio.timeout(settings.queue_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise self._busy(f"no place became free within {settings.queue_seconds:g} seconds") from None
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._places.release()

    async def open(
        self, path: str, query: bytes, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        """The head of the answer. Raises :class:`Refusal` (502, 504) if there is none."""
        import aiohttp  # noqa: PLC0415  # an extra
        from yarl import URL  # noqa: PLC0415  # comes with it

        url = self.url(path) + (f"?{query.decode('latin-1')}" if query else "")
        try:
            return await self._session.post(
                URL(url, encoded=True), data=body, headers=headers, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise self.failed("unreachable") from None
        except (aiohttp.ServerTimeoutError, TimeoutError):
            raise self.failed("timeout") from None
        except aiohttp.ClientError:
            raise self.failed("broke") from None
        except ValueError:
            raise Refusal(400, "invalid_request", "A header has characters that no header has.") from None

    async def ask(
        self, path: str, body: object, client_key: str | None = None, seconds: float = 10.0
    ) -> tuple[int | None, object]:
        """The answer to a small question of ours: its status, None where there is none now, and its JSON."""
        return await self._asked("POST", path, json_bytes(body), client_key, seconds)

    async def _asked(
        self, method: str, path: str, data: bytes | None, client_key: str | None, seconds: float
    ) -> tuple[int | None, object]:
        import aiohttp  # noqa: PLC0415  # an extra

        headers = self.forwarded({b"content-type": b"application/json"}, client_key)
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.request(
                    method, self.url(path), data=data, headers=headers, allow_redirects=False
                ) as answer,
            ):
                return answer.status, json.loads(await answer.read())
        except (aiohttp.ClientError, TimeoutError):
            return None, None
        except (ValueError, RecursionError):
            return _GARBLED, None

    async def look(self, path: str, seconds: float = 2.0) -> tuple[int | None, object]:
        """The answer to a GET of ours."""
        return await self._asked("GET", path, None, None, seconds)

    def can_become(self, settings: UpstreamSettings) -> bool:
        """Whether these settings are of the same server with the same places."""
        same = ("url", "concurrency", "queue", "kind")
        return all(getattr(settings, name) == getattr(self.settings, name) for name in same)

    def failed(self, how: str) -> Refusal:
        """The error for a server that failed: ``timeout``, ``unreachable``, ``broke``, ``garbled``."""
        kind, status, says = _FAILURES[how]
        return kind(
            status,
            f"upstream_{how}",
            f"The upstream {self.name!r} {says}.",
            headers=((b"retry-after", b"1"),),
        )

    def forwarded(self, headers: Mapping[bytes, bytes], client_key: str | None) -> dict[str, str]:
        """The request's headers as the server gets them: its own key, or the client's where it has none."""
        out = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers.items()
            if name not in NOT_FORWARDED and not name.startswith(OURS)
        }
        key = self.settings.key if self.settings.key is not None else client_key
        if key is not None:
            if self.kind is Kind.ANTHROPIC:
                out["x-api-key"] = key
            else:
                out["Authorization"] = f"Bearer {key}"
        out["Accept-Encoding"] = "identity"
        return out

    def withheld(self, data: bytes) -> bytes:
        """``data`` without the operator's key: servers quote keys in errors, and some echo what they get."""
        key = self.settings.key
        return data if key is None else data.replace(key.encode(), WITHHELD)

    def _busy(self, why: str) -> Refusal:
        return Refusal(
            503,
            "upstream_busy",
            f"The upstream {self.name!r} is busy: {why}. Try again shortly.",
            headers=((b"retry-after", b"2"),),
        )


_FAILURES = {
    "timeout": (Refusal, 504, "did not answer in time"),
    "unreachable": (Unreachable, 502, "cannot be reached"),
    "broke": (Refusal, 502, "broke off the connection before it answered"),
    "garbled": (Refusal, 502, "sent something that is no answer"),
}


def base_url(url: str) -> str:
    """The address without a trailing ``/`` or ``/v1``: paths are given whole."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def make_session(limits: Limits) -> aiohttp.ClientSession:
    """One pool of connections for all upstreams. Takes no settings from the environment: no proxy."""
    import aiohttp  # noqa: PLC0415  # an extra

    timeout = aiohttp.ClientTimeout(
        total=limits.total_seconds, sock_connect=limits.connect_seconds, sock_read=limits.idle_seconds
    )
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_SECONDS, enable_cleanup_closed=False),
        timeout=timeout,
        auto_decompress=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        read_bufsize=1 << 18,
    )
