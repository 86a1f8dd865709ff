"""One server that answers: its connections, its places, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.wire import BadHeader, Failure, Wire, WireError
from tokenbox.providers.kinds import ROWS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tokenbox.gateway.asgi import Headers
    from tokenbox.gateway.settings import Limits, UpstreamSettings
    from tokenbox.gateway.wire import Connection

# What belongs to one connection (RFC 9110, 7.6.1), what is set anew, and what is between us and the
# client. The body is forwarded as it is, so that it must come uncompressed to be understood.
NOT_FORWARDED = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"),
        *(
            b"transfer-encoding",
            b"upgrade",
            b"http2-settings",
            b"host",
            b"content-length",
            b"accept-encoding",
            b"expect",
        ),
        b"x-request-id",
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
# Bytes of the answer to a small question of ours.
_MAX_REPLY = 64 << 20
_GARBLED = 502


class Unreachable(Refusal):
    """No connection was made, so the server has nothing of the request."""


class Upstream:
    """A server with so many places; whoever finds none waits in a queue that has an end."""

    def __init__(self, settings: UpstreamSettings, limits: Limits) -> None:
        self.settings = settings
        self.limits = limits
        self._places = asyncio.Semaphore(settings.concurrency)
        self.kind = Kind(settings.kind)
        self.waiting = 0
        self.running = 0
        self._wire = Wire(base_url(settings.url), limits)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def limit_key(self) -> str:
        """What it calls the output limit of a chat: OpenAI no longer takes the name that all others do."""
        return ROWS[self.kind].max_tokens_field if self.kind is not Kind.AUTO else "max_tokens"

    def place(self) -> Place:
        """A place at the server for as long as the context lasts."""
        return Place(self)

    async def take_place(self) -> None:
        """Raises :class:`Refusal` (503) where the queue is full or the wait is too long."""
        settings = self.settings
        if not self._places.locked():
            await self._places.acquire()
        elif self.waiting < settings.queue:
            await self._place_became_free(settings.queue_seconds)
        else:
            raise self._busy(f"{self.waiting:,} requests wait already")
        self.running += 1

    def give_place(self) -> None:
        self.running -= 1
        self._places.release()

    async def _place_became_free(self, seconds: float) -> None:
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise self._busy(f"no place became free within {seconds:g} seconds") from None
        finally:
            self.waiting -= 1

    async def open(self, path: str, query: bytes, headers: Headers, body: bytes) -> Connection:
        """The head of the answer. Raises :class:`Refusal` (502, 504) if there is none."""
        target = path.encode() + (b"?" + query if query else b"")
        try:
            return await self._wire.request("POST", target, headers, body)
        except WireError as error:
            raise self.failed(error.how) from None
        except BadHeader:
            raise Refusal(400, "invalid_request", "A header has characters that no header has.") from None

    async def ask(
        self, path: str, body: object, client_auth: Iterable[tuple[bytes, bytes]] = (), seconds: float = 10.0
    ) -> tuple[int | None, object]:
        """The answer to a small question of ours: its status, None where there is none now, and its JSON."""
        return await self._asked("POST", path, json_bytes(body), client_auth, seconds)

    async def _asked(
        self, method: str, path: str, data: bytes, client_auth: Iterable[tuple[bytes, bytes]], seconds: float
    ) -> tuple[int | None, object]:
        headers = self.forwarded(self._asked_with, client_auth)
        try:
            async with asyncio.timeout(seconds):
                answer = await self._wire.request(method, path.encode(), headers, data)
                try:
                    return answer.status, json.loads(await answer.read(_MAX_REPLY))
                finally:
                    answer.release()
        except (WireError, TimeoutError):
            return None, None
        except (ValueError, RecursionError):
            return _GARBLED, None

    async def look(
        self, path: str, client_auth: Iterable[tuple[bytes, bytes]] = (), seconds: float = 2.0
    ) -> tuple[int | None, object]:
        """The answer to a GET of ours."""
        return await self._asked("GET", path, b"", client_auth, seconds)

    def can_become(self, settings: UpstreamSettings) -> bool:
        """Whether these settings are of the same server with the same places."""
        same = ("url", "concurrency", "queue", "kind")
        return all(getattr(settings, name) == getattr(self.settings, name) for name in same)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._wire.close()

    def failed(self, how: Failure) -> Refusal:
        """The error for a server that failed."""
        kind, status, says = _FAILURES[how]
        return kind(
            status,
            f"upstream_{how}",
            f"The upstream {self.name!r} {says}.",
            headers=((b"retry-after", b"1"),),
        )

    def forwarded(
        self, headers: Mapping[bytes, bytes], client_auth: Iterable[tuple[bytes, bytes]]
    ) -> Headers:
        """The request's headers as the server gets them: with its own key, else ``client_auth``."""
        out = {
            name: value
            for name, value in headers.items()
            if name not in NOT_FORWARDED and not name.startswith(OURS)
        }
        key = self.settings.key
        if key is None:
            out.update(client_auth)
        elif self.kind is Kind.ANTHROPIC:
            out[b"x-api-key"] = key.encode("latin-1", "replace")
        else:
            out[b"authorization"] = b"Bearer " + key.encode("latin-1", "replace")
        out[b"accept-encoding"] = b"identity"
        return list(out.items())

    @property
    def _asked_with(self) -> dict[bytes, bytes]:
        """The headers of questions of our own."""
        headers = {b"content-type": b"application/json"}
        if self.kind is Kind.ANTHROPIC:
            headers[b"anthropic-version"] = b"2023-06-01"
        return headers

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


class Place:
    """A context: a place at an upstream."""

    __slots__ = ("_upstream",)

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __aenter__(self) -> None:
        await self._upstream.take_place()

    async def __aexit__(self, *_: object) -> None:
        self._upstream.give_place()


_FAILURES = {
    Failure.TIMEOUT: (Refusal, 504, "did not answer in time"),
    Failure.UNREACHABLE: (Unreachable, 502, "cannot be reached"),
    Failure.BROKE: (Refusal, 502, "broke off the connection before it answered"),
    Failure.GARBLED: (Refusal, 502, "sent something that is no answer"),
}


def base_url(url: str) -> str:
    """The address without a trailing ``/`` or ``/v1``: paths are given whole."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
