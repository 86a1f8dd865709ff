"""One server that answers: its connections, its places, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tokenbox.content.request import Api
from tokenbox.gateway.asgi import json_bytes
from tokenbox.gateway.refusals import Refusal
from tokenbox.providers.kinds import AUTO, UNKNOWN, find_kind
from tokenbox.providers.memory import EndpointMemory, ProbeOutcome, ProbeReply
from tokenbox.providers.server import outcome_of
from tokenbox.providers.target import Bounds
from tokenbox.providers.wire import BadHeader, BrokenAnswer, Failure, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tokenbox.gateway.asgi import Headers
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.settings import RequestLimits, UpstreamSettings
    from tokenbox.providers.kinds import ServerKind
    from tokenbox.providers.server import Ask
    from tokenbox.providers.wire import WireConnection

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
# To whose account a request goes: with the operator's key, that is not the client's to say.
WHOSE_ACCOUNT = frozenset({b"openai-organization", b"openai-project"})
OURS = b"x-tokenbox-"
WITHHELD = b"[key withheld]"
# Bytes of the answer to a small question of ours.
_MAX_REPLY = 64 << 20
_GARBLED = 502
_OK = 200
# What a server or a proxy in front of it answers that has not taken a request, and how long others go first.
_NOT_TAKEN = (502, 503, 504)
_REST_SECONDS = 5.0
# A connection that nobody takes is tried again after so long.
_AGAIN_SECONDS = (0.05, 0.25)

T = TypeVar("T")
_BEARER = ("authorization", "Bearer ")


class Unreachable(Refusal):
    """No connection was made, so the server has nothing of the request."""


@dataclass(slots=True)
class Replica:
    """One of the servers behind an upstream. Until ``down_until``, by the loop's clock, it is asked last."""

    wire: Wire
    down_until: float = 0.0


class Upstream:
    """A server with so many places; whoever finds none waits in a queue that has an end."""

    def __init__(self, settings: UpstreamSettings, limits: RequestLimits) -> None:
        self.settings = settings
        self.limits = limits
        self._places = asyncio.Semaphore(settings.concurrency)
        self._questions = asyncio.Semaphore(settings.concurrency)
        self.kind: ServerKind | None = None if settings.kind == AUTO else find_kind(settings.kind)
        self._memory = EndpointMemory()
        self.waiting = 0
        self.running = 0
        bounds = Bounds(
            connect_seconds=limits.connect_seconds,
            idle_seconds=limits.idle_seconds,
            total_seconds=limits.total_seconds,
        )
        urls = (settings.url, *settings.replicas)
        self._replicas = [Replica(Wire(base_url(url), bounds)) for url in urls]
        self._next = 0

    @property
    def name(self) -> str:
        return self.settings.name

    def heeded_limits(self, call: ApiCall) -> tuple[str, ...]:
        """What it calls the output limit of such a request, the name to use first.

        In a chat, OpenAI no longer takes the name that all others do. Names of other servers are ignored.
        """
        kind = find_kind(UNKNOWN) if self.kind is None else self.kind
        if call.protocol.api is Api.CHAT:
            first = kind.max_tokens_field
            return (first, *(name for name in kind.output_fields if name != first))
        own = call.protocol.output_keys[:1]
        return (*own, "n_predict") if own and kind.tokenizes else own

    def place(self) -> Slot:
        """A place at the server for as long as the context lasts."""
        return Slot(self)

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

    async def open(self, path: str, query: bytes, headers: Headers, body: bytes) -> WireConnection:
        """The head of the answer. Raises :class:`Refusal` (502, 504) if there is none."""
        target = path.encode() + (b"?" + query if query else b"")
        try:
            return await self._sent("POST", target, headers, body)
        except BrokenAnswer as error:
            raise self.failed(error.how) from None
        except BadHeader:
            raise Refusal(400, "invalid_request", "A header has characters that no header has.") from None

    async def _sent(self, method: str, target: bytes, headers: Headers, body: bytes) -> WireConnection:
        """The head of an answer of the first replica that takes the request: those that are up go first.

        A request is sent again only where it was not taken: no connection, or an answer that says so (502 to
        504). Raises :class:`BrokenAnswer` and :class:`BadHeader`.
        """
        replicas, now = self._replicas, asyncio.get_running_loop().time()
        if len(replicas) > 1:
            self._next = (self._next + 1) % len(replicas)
            replicas = replicas[self._next :] + replicas[: self._next]
            replicas = sorted(replicas, key=lambda replica: replica.down_until > now)
        for replica in replicas[:-1]:
            try:
                answer = await replica.wire.request(method, target, headers, body)
            except BrokenAnswer as error:
                if error.how is not Failure.UNREACHABLE:
                    raise
            else:
                if answer.status not in _NOT_TAKEN:
                    return answer
                answer.close()
            replica.down_until = asyncio.get_running_loop().time() + _REST_SECONDS
        last = replicas[-1].wire
        for seconds in _AGAIN_SECONDS:  # a server that is started again refuses connections for a moment
            try:
                return await last.request(method, target, headers, body)
            except BrokenAnswer as error:
                if error.how is not Failure.UNREACHABLE or error.seconds is not None:
                    raise
            await asyncio.sleep(seconds)
        return await last.request(method, target, headers, body)

    async def ask(
        self, path: str, body: object, client_auth: Iterable[tuple[bytes, bytes]] = (), seconds: float = 10.0
    ) -> tuple[int | None, object]:
        """The answer to a small question of ours: its status, None where there is none now, and its JSON."""
        return await self._asked("POST", path, json_bytes(body), client_auth, seconds)

    def asks(self, client_auth: Iterable[tuple[bytes, bytes]]) -> Ask:
        """Asks it for figures, and remembers of each path whether the server has it."""

        async def ask(path: str, body: object, read: Callable[[object], T | None]) -> ProbeReply[T]:
            async def question() -> ProbeReply[T]:
                try:
                    async with self._questions:  # not a place: a refusal waits for nobody's answer
                        status, answer = await self._exchanged(
                            "POST", path, json_bytes(body), client_auth, 10.0
                        )
                except TimeoutError:
                    return ProbeReply(ProbeOutcome.TIMED_OUT)
                except BrokenAnswer as error:
                    slow = error.how is Failure.TIMEOUT
                    return ProbeReply(ProbeOutcome.TIMED_OUT if slow else ProbeOutcome.NOT_NOW)
                if status != _OK:
                    return ProbeReply(outcome_of(status, answer))
                value = read(answer)
                if value is not None:
                    return ProbeReply(ProbeOutcome.ANSWERED, value)
                # Of a server that nobody knows, an answer of another shape is to another question.
                is_known = self.kind is not None and self.kind.name != UNKNOWN
                return ProbeReply(ProbeOutcome.NOT_THIS if is_known else ProbeOutcome.UNSUPPORTED)

            return await self._memory.ask(self.name, path, question)

        return ask

    async def _asked(
        self, method: str, path: str, data: bytes, client_auth: Iterable[tuple[bytes, bytes]], seconds: float
    ) -> tuple[int | None, object]:
        try:
            return await self._exchanged(method, path, data, client_auth, seconds)
        except (BrokenAnswer, TimeoutError):
            return None, None

    async def _exchanged(
        self, method: str, path: str, data: bytes, client_auth: Iterable[tuple[bytes, bytes]], seconds: float
    ) -> tuple[int, object]:
        """Status and JSON of an answer. Raises :class:`BrokenAnswer` and ``TimeoutError``."""
        headers = self.forwarded(self._asked_with(path), client_auth)
        async with asyncio.timeout(seconds):
            answer = await self._sent(method, path.encode(), headers, data)
            try:
                found = await answer.read(_MAX_REPLY)
            finally:
                answer.release()
        try:
            return answer.status, json.loads(found)
        except (ValueError, RecursionError):
            # A missing route is often a page.
            return answer.status if answer.status != _OK else _GARBLED, None

    async def look(
        self, path: str, client_auth: Iterable[tuple[bytes, bytes]] = (), seconds: float = 2.0
    ) -> tuple[int | None, object]:
        """The answer to a GET of ours."""
        return await self._asked("GET", path, b"", client_auth, seconds)

    def can_become(self, settings: UpstreamSettings) -> bool:
        """Whether these settings are of the same server with the same places."""
        same = ("url", "replicas", "concurrency", "queue", "kind")
        return all(getattr(settings, name) == getattr(self.settings, name) for name in same)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        for replica in self._replicas:
            replica.wire.close()

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
        kept = NOT_FORWARDED
        if b"connection" in headers:  # what it names is of that connection (RFC 9110, 7.6.1)
            kept = kept | {name.strip().lower() for name in headers[b"connection"].split(b",")}
        key = self.settings.key
        if key is not None:
            kept = kept | WHOSE_ACCOUNT
        out = {
            name: value for name, value in headers.items() if name not in kept and not name.startswith(OURS)
        }
        if key is None:
            out.update(client_auth)
        else:
            name, scheme = _BEARER if self.kind is None else self.kind.key_header
            out[name.lower().encode()] = (scheme + key).encode("latin-1", "replace")
        out[b"accept-encoding"] = b"identity"
        # The body was read as JSON, so that nobody is to read it as something else, such as a form.
        out[b"content-type"] = b"application/json"
        return list(out.items())

    def _asked_with(self, path: str) -> dict[bytes, bytes]:
        """The headers of questions of our own. Anthropic's API takes none without its version."""
        own = {} if self.kind is None else self.kind.headers
        headers = {name.encode(): value.encode() for name, value in own.items()}
        if path.startswith("/v1/messages"):
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


class Slot:
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
    Failure.GARBLED: (Refusal, 502, "sent something that is not an answer"),
}


def base_url(url: str) -> str:
    """The address without a trailing ``/`` or ``/v1``: paths are given whole."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
