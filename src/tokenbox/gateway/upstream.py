"""An upstream: its servers, connections and slots, and its failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from tokenbox.content.request import Api
from tokenbox.errors import plural
from tokenbox.gateway.asgi import Headers, json_bytes
from tokenbox.gateway.refusals import Refusal, unavailable
from tokenbox.providers.errors import (
    BadAnswer,
    ConnectionLost,
    ProviderError,
    ServerTimeout,
    ServerUnreachable,
)
from tokenbox.providers.kinds import AUTO, UNKNOWN, ServerKind, find_kind
from tokenbox.providers.memory import EndpointMemory, ProbeOutcome, ProbeReply
from tokenbox.providers.server import Ask, outcome_of
from tokenbox.providers.target import MIN_HIDDEN, Bounds, spellings
from tokenbox.providers.transport import Answered
from tokenbox.providers.wire import BadHeader, BrokenAnswer, Failure, Wire, WireConnection

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.gateway.settings import RequestLimits, UpstreamSettings

# Request headers that are not forwarded: those of one connection (RFC 9110, 7.6.1), those the gateway sets
# itself, and those between client and gateway, such as the page that asks: Ollama and Anthropic refuse pages.
# The answer has to come uncompressed to be read.
_OF_CONNECTION = b"""
    accept-encoding api-key authorization connection content-length cookie expect forwarded host
    http2-settings keep-alive origin proxy-authenticate proxy-authorization referer te trailer
    transfer-encoding upgrade via x-api-key x-request-id
"""
# Headers by which frameworks read another method or path.
_OTHER_TARGET = b"x-http-method x-http-method-override x-method-override x-original-url x-rewrite-url"
# Headers by which servers behind a router are told whom else to ask (vLLM, the Gateway API).
_OTHER_SERVER = b"""
    x-prefiller-host-port x-encoder-hosts-ports x-data-parallel-host-port x-gateway-destination-endpoint
"""
NOT_FORWARDED = frozenset(b" ".join((_OF_CONNECTION, _OTHER_TARGET, _OTHER_SERVER)).split())
# Headers of an answer that are not relayed: those of the connection, and those that say something of the
# upstream's host to a browser, which would take it for the gateway's.
_NOT_RETURNED = frozenset(
    b"""
    alt-svc clear-site-data connection content-encoding content-length date keep-alive proxy-authenticate
    server set-cookie strict-transport-security te trailer transfer-encoding upgrade
    """.split()
)
_CORS = b"access-control-"
# Headers that select the account to bill. With the operator's key, clients may not set them.
ACCOUNT_HEADERS = frozenset(
    b"""
    openai-organization openai-project anthropic-organization-id anthropic-workspace-id
    anthropic-user-profile-id azureml-model-deployment x-goog-user-project x-hf-bill-to
    """.split()
)
# Headers by which proxies choose the server, model, account or a dearer tier: with the operator's key, the
# operator's to set (Portkey, Helicone, Cloudflare, LiteLLM, Bifrost, Bedrock, Vertex AI).
ROUTING_PREFIXES = (
    *(b"x-portkey-", b"helicone-", b"cf-aig-", b"x-litellm-", b"x-pass-", b"x-bf-"),
    *(b"x-amzn-bedrock-", b"x-vertex-ai-"),
)
OWN_PREFIX = b"x-tokenbox-"
# By headers of these, meshes run a request again, at several servers, or at another one (Envoy, Linkerd).
_MESH_PREFIXES = (b"x-envoy-", b"l5d-")
WITHHELD = b"[key withheld]"
# The most bytes of an answer to one of the gateway's own requests, and how long it may take.
_MAX_REPLY = 64 << 20
_GET_SECONDS = 2.0
_MAX_CAUSE = 300  # characters
_BAD_GATEWAY = 502
_OK = 200
# Statuses after which the request may have run, or may still run: a timeout (408), an error while TGI
# generates (424), a broken connection (nginx's 499), and every error of a server, or of a proxy before it,
# that is not one of these: an unknown method (501), an overload (503, Anthropic's 529), and Cloudflare's
# statuses for a server that it could not connect to.
_GIVEN_UP = frozenset((408, 424, 499))
_NOT_TAKEN = frozenset((501, 503, 521, 522, 523, 525, 526, 529, 530))
_FIRST_REDIRECT, _FIRST_SERVER_ERROR = 300, 500
# Statuses of a server that is down, and the seconds for which other replicas are preferred then.
_DOWN = (502, 503)
_DOWN_SECONDS = 5.0
# The longest rest of a model's counts after timeouts. Until it ends, none of its requests is counted, even if
# the server is fast again.
_REST_SECONDS = 5.0
# The pauses before a refused connection is retried.
_RETRY_SECONDS = (0.05, 0.25)

T = TypeVar("T")
ClientAuth = Iterable[tuple[bytes, bytes]]
_BEARER = ("authorization", "Bearer ")


def _of_connection(value: bytes | None) -> set[bytes]:
    """Return the headers that a Connection header names: they are of that connection (RFC 9110, 7.6.1)."""
    return {name.strip().lower() for name in (value or b"").split(b",")}


def returned(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of an answer that a client gets, with names in lower case."""
    found = [(name.lower(), value) for name, value in headers]
    named = [_of_connection(value) for name, value in found if name == b"connection"]
    dropped = _NOT_RETURNED.union(*named)
    prefixes = (OWN_PREFIX, _CORS)
    return [one for one in found if one[0] not in dropped and not one[0].startswith(prefixes)]


def used_nothing(status: int) -> bool:
    """Whether an upstream that answers so did not run the request, so that it costs nothing."""
    if status >= _FIRST_SERVER_ERROR:
        return status in _NOT_TAKEN
    return status >= _FIRST_REDIRECT and status not in _GIVEN_UP


class Unreachable(Refusal):
    """No connection was made, so the server did not receive the request."""


@dataclass(slots=True)
class Replica:
    """One of the servers of an upstream. Until ``down_until``, by the loop's clock, it is tried last."""

    wire: Wire
    down_until: float = 0.0


class Upstream:
    """An upstream with a limited number of slots. Requests without a slot wait in a bounded queue."""

    def __init__(self, settings: UpstreamSettings, limits: RequestLimits) -> None:
        self.settings = settings
        self.limits = limits
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._probe_slots = asyncio.Semaphore(settings.concurrency)
        self.kind: ServerKind | None = None if settings.kind == AUTO else find_kind(settings.kind)
        # Whether the kind is unknown only because the server did not answer.
        self.is_silent = False
        self._memory = EndpointMemory(longest_rest=_REST_SECONDS)
        self.waiting = 0
        self.running = 0
        bounds = Bounds(
            connect_seconds=limits.connect_seconds,
            idle_seconds=limits.idle_seconds,
            total_seconds=limits.total_seconds,
        )
        urls = (settings.url, *settings.replicas)
        self._replicas = [Replica(Wire(url, bounds)) for url in urls]
        # Apart: with one count before each request, one of two replicas would get all the requests.
        self._turns, self._own_turns = count(1), count(1)

    @property
    def name(self) -> str:
        return self.settings.name

    def heeded_limits(self, call: ApiCall) -> tuple[str, ...]:
        """Return the fields that it heeds as the output limit of such a call, the preferred one first.

        In chats, OpenAI no longer accepts the name that all others use. Names of other servers are ignored.
        """
        kind = find_kind(UNKNOWN) if self.kind is None else self.kind
        if call.protocol.api is Api.CHAT:
            first = kind.max_tokens_field
            return (first, *(name for name in kind.output_fields if name != first))
        own = call.protocol.output_keys[:1]
        return (*own, "n_predict") if own and kind.tokenizes else own

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot. Raises :class:`Refusal` (503) if the queue is full or the wait is too long."""
        settings = self.settings
        if not self._slots.locked():
            await self._slots.acquire()
        elif self.waiting < settings.queue:
            await self._wait_for_slot(settings.queue_seconds)
        else:
            raise self._busy(f"{plural(self.waiting, 'request')} waiting already")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()

    async def _wait_for_slot(self, seconds: float) -> None:
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise self._busy(f"no slot became free within {seconds:g} seconds") from None
        finally:
            self.waiting -= 1

    async def open(self, path: str, query: bytes, headers: Headers, body: bytes) -> WireConnection:
        """Send a request, and return the answer after its head. Raises :class:`Refusal` (502, 504)."""
        target = path.encode() + (b"?" + query if query else b"")
        try:
            return await self._send("POST", target, headers, body, _RETRY_SECONDS, self._turns)
        except BrokenAnswer as error:
            raise self.failed(error.how, cause=str(error)) from None
        except BadHeader:
            raise Refusal(400, "invalid_request", "A header has characters that no header has.") from None

    def _replicas_in_turn(self, turns: Iterator[int]) -> list[Replica]:
        if len(self._replicas) == 1:
            return self._replicas
        now = asyncio.get_running_loop().time()
        first = next(turns) % len(self._replicas)
        replicas = self._replicas[first:] + self._replicas[:first]
        return sorted(replicas, key=lambda replica: replica.down_until > now)

    async def _send(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        body: bytes,
        pauses: Sequence[float],
        turns: Iterator[int],
    ) -> WireConnection:
        """Return the answer of the first replica that accepts the request; those that are down go last.

        A request is retried only if it was not accepted: after 502, another server may have run it. The last
        replica is tried again after ``pauses``. Raises :class:`BrokenAnswer` and :class:`BadHeader`.
        """
        replicas = self._replicas_in_turn(turns)
        for replica in replicas[:-1]:
            answer: WireConnection | None = None
            try:
                answer = await replica.wire.request(method, target, headers, body)
            except BrokenAnswer as error:
                if error.how is not Failure.UNREACHABLE:
                    raise
            if answer is not None and answer.status not in _DOWN:
                return answer
            replica.down_until = asyncio.get_running_loop().time() + _DOWN_SECONDS
            if answer is not None:
                if not used_nothing(answer.status):
                    return answer
                answer.close()
        last = replicas[-1].wire
        for seconds in pauses:  # a server that restarts refuses connections for a moment
            try:
                return await last.request(method, target, headers, body)
            except BrokenAnswer as error:
                if error.how is not Failure.UNREACHABLE or error.seconds is not None:
                    raise
            await asyncio.sleep(seconds)
        return await last.request(method, target, headers, body)

    def prober(self, model: str, client_auth: ClientAuth) -> Ask:
        """Return a function that requests figures of ``model``, and caches which paths count for it."""

        async def probe(path: str, body: object, read: Callable[[object], T | None]) -> ProbeReply[T]:
            async def request() -> ProbeReply[T]:
                try:
                    async with self._probe_slots:  # not a slot, so that a count does not wait for answers
                        answer = await self.get(path, body, client_auth, 10.0, _RETRY_SECONDS)
                except ServerTimeout:
                    return ProbeReply(ProbeOutcome.TIMED_OUT)
                except ProviderError:
                    return ProbeReply(ProbeOutcome.NOT_NOW)
                if answer.status != _OK:
                    return ProbeReply(outcome_of(answer.status, answer.body))
                value = read(answer.body)
                if value is not None:
                    return ProbeReply(ProbeOutcome.ANSWERED, value)
                # On an unknown server the path may belong to another API, with answers of another shape.
                is_known = self.kind is not None and self.kind.name != UNKNOWN
                return ProbeReply(ProbeOutcome.NOT_THIS if is_known else ProbeOutcome.UNSUPPORTED)

            return await self._memory.ask(model, path, request)

        return probe

    async def get(
        self,
        path: str,
        body: object = None,
        client_auth: ClientAuth = (),
        seconds: float = _GET_SECONDS,
        pauses: Sequence[float] = (),
    ) -> Answered:
        """Send a request of the gateway's own, without a body a GET. Raises :class:`ProviderError`."""
        method, data = ("GET", b"") if body is None else ("POST", json_bytes(body))
        headers = self.forwarded(self._own_headers(path), client_auth)
        try:
            async with asyncio.timeout(seconds):
                answer = await self._send(method, path.encode(), headers, data, pauses, self._own_turns)
                try:
                    found = await answer.read(_MAX_REPLY)
                finally:
                    answer.release()
        except (TimeoutError, BrokenAnswer) as error:
            how = error.how if isinstance(error, BrokenAnswer) else Failure.TIMEOUT
            *_, text, kind = _FAILURES[how]
            raise kind(f"{self.name} {text}.") from None
        try:
            return Answered(answer.status, answer.headers(), json.loads(found))
        except (ValueError, RecursionError):
            if answer.status == _OK:  # the answer to an unknown path is often an HTML page
                raise BadAnswer(f"{self.name} did not answer with JSON.") from None
            return Answered(answer.status, answer.headers(), None)

    async def json(
        self, path: str, body: object = None, client_auth: ClientAuth = (), seconds: float = 10.0
    ) -> tuple[int | None, object]:
        """Return the status, None without an answer, and the JSON."""
        try:
            answer = await self.get(path, body, client_auth, seconds)
        except BadAnswer:
            return _BAD_GATEWAY, None
        except ProviderError:
            return None, None
        return answer.status, answer.body

    def is_same_server(self, settings: UpstreamSettings) -> bool:
        """Whether these settings keep the servers and their slots."""
        same = ("url", "replicas", "concurrency", "queue", "kind")
        return all(getattr(settings, name) == getattr(self.settings, name) for name in same)

    def close(self) -> None:
        """Close the unused connections."""
        for replica in self._replicas:
            replica.wire.close()

    def failed(self, how: Failure, text: str | None = None, *, cause: str) -> Refusal:
        """Return the refusal for a server that failed. ``text`` tells the client more than usual about it."""
        refusal, status, usual, _ = _FAILURES[how]
        return refusal(
            status,
            f"upstream_{how}",
            f"The upstream {self.name!r} {usual if text is None else text}.",
            headers=((b"retry-after", b"1"),),
            cause=cause[:_MAX_CAUSE],
        )

    def forwarded(self, headers: Mapping[bytes, bytes], client_auth: ClientAuth) -> Headers:
        """Return the request's headers for the server: with the upstream's key, else with ``client_auth``."""
        dropped = NOT_FORWARDED | _of_connection(headers.get(b"connection"))
        key = self.settings.key
        prefixes: tuple[bytes, ...] = (OWN_PREFIX, *_MESH_PREFIXES)
        if key is not None:
            dropped = dropped | ACCOUNT_HEADERS
            prefixes += ROUTING_PREFIXES
        out = {
            name: value
            for name, value in headers.items()
            if name not in dropped and not name.startswith(prefixes)
        }
        for underscored in [name for name in out if b"_" in name]:  # some servers read it as "-"
            same = underscored.replace(b"_", b"-")
            if same in dropped or same.startswith(prefixes) or same == b"content-type":
                del out[underscored]
        if key is None:
            out.update(client_auth)
        else:
            name, scheme = _BEARER if self.kind is None else self.kind.key_header
            out[name.lower().encode()] = (scheme + key).encode("latin-1", "replace")
        out[b"accept-encoding"] = b"identity"
        # The body was parsed as JSON, so the server must not read it as something else, such as a form.
        out[b"content-type"] = b"application/json"
        return list(out.items())

    def _own_headers(self, path: str) -> dict[bytes, bytes]:
        """Return the headers of the gateway's own requests. Anthropic's API requires a version."""
        own = {} if self.kind is None else self.kind.headers
        headers = {b"user-agent": b"tokenbox"}
        headers |= {name.encode(): value.encode() for name, value in own.items()}
        if path.startswith("/v1/messages"):
            headers[b"anthropic-version"] = b"2023-06-01"
        return headers

    def withheld(self, data: bytes) -> bytes:
        """Return ``data`` without the operator's key, which servers may quote in errors or echo."""
        key = self.settings.key
        return data if key is None or len(key) < MIN_HIDDEN else spellings(key).sub(WITHHELD, data)

    def _busy(self, why: str) -> Refusal:
        message = f"The upstream {self.name!r} is busy: {why}. Try again shortly."
        return unavailable("upstream_busy", message, 2)


# What a client is answered, and what is raised for a request of the gateway's own.
_FAILURES: Mapping[Failure, tuple[type[Refusal], int, str, type[ProviderError]]] = {
    Failure.TIMEOUT: (Refusal, 504, "did not answer in time", ServerTimeout),
    Failure.UNREACHABLE: (Unreachable, 502, "cannot be reached", ServerUnreachable),
    Failure.BROKE: (
        Refusal,
        502,
        "broke off the connection before its answer was complete",
        ConnectionLost,
    ),
    Failure.GARBLED: (Refusal, 502, "sent something that is not an answer", BadAnswer),
}
