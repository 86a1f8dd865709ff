"""The way of one request through the gateway, step by step, as an ASGI application."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tokenbox.compose.requests import By, Count
from tokenbox.gateway.admission import (
    Admission,
    Counted,
    decision_id,
    judge,
    narrowed,
    refusal_of,
    with_output_limit,
)
from tokenbox.gateway.asgi import (
    BODY_PROBLEMS,
    BodyEncoded,
    BodyTimeout,
    BodyTooLarge,
    Client,
    ClientGone,
    Headers,
    Incoming,
    Message,
    PlainClient,
    Receive,
    Reply,
    Send,
    json_bytes,
)
from tokenbox.gateway.browsers import preflight, shared_with
from tokenbox.gateway.calls import ApiCall, check_query, read_call, read_in_time, values_in
from tokenbox.gateway.models import not_served
from tokenbox.gateway.protocols import PROTOCOLS, ErrorStyle
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome, Relay
from tokenbox.gateway.services import ProofDecision, how_fitted
from tokenbox.gateway.settings import Mode
from tokenbox.gateway.upstream import Unreachable, Upstream
from tokenbox.providers.framing import frame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tokenbox.gateway.bodies import Held
    from tokenbox.gateway.services import Grant, Services
    from tokenbox.models import ModelFigures, ModelUse

_MAX_REQUEST_ID = 128


class Application:
    """Routes of our own, as an ASGI application. ``services`` hears of mistakes."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.routes: dict[tuple[str, str], Callable[[Incoming, str], Awaitable[Reply]]] = {}
        self._paths: set[str] = set()

    def add(self, method: str, path: str, handler: Callable[[Incoming, str], Awaitable[Reply]]) -> None:
        """A route of our own; ``handler`` gets the request and its id."""
        self.routes[method, path] = handler
        self._paths.add(path)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # there is none: a close before the handshake is a 403
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            incoming = Incoming.of(scope, receive)
            await self.answer(incoming, send, _request_id(incoming))

    async def answer(self, incoming: Incoming, send: Send, request_id: str) -> None:
        """Answer by one of the routes."""
        style = ErrorStyle.ANTHROPIC if incoming.path.startswith("/v1/messages") else ErrorStyle.OPENAI
        try:
            reply = await self._own(incoming, request_id)
        except ClientGone:
            return
        except Refusal as refusal:
            reply = refusal.reply(style, request_id)
        except Exception as error:  # noqa: BLE001  # a mistake of ours: logged, and answered in the API's form
            reply = self.services.mistake(error).reply(style, request_id)
        await replace(reply, headers=(*reply.headers, (b"x-request-id", request_id.encode()))).send(send)

    async def _own(self, incoming: Incoming, request_id: str) -> Reply:
        """The answer of a route. Raises :class:`Refusal` where there is none."""
        # The server leaves out the body of an answer to HEAD.
        method = "GET" if incoming.method == "HEAD" else incoming.method
        handler = self.routes.get((method, self._listed(incoming.path)))
        if handler is None:
            raise self._no_route(incoming)
        try:
            return await handler(incoming, request_id)
        except BODY_PROBLEMS as error:
            raise of_body(error) from None

    def _listed(self, path: str) -> str:
        """The path as the table of routes has it: one that ends with a name in braces has all below."""
        if path not in self._paths:
            for known in self._paths:
                root = known.partition("{")[0]
                if root != known and path.startswith(root) and path != root:
                    return known
        return path

    def _no_route(self, incoming: Incoming) -> Refusal:
        listed = self._listed(incoming.path)
        if listed in self._paths:
            own = {method for method, path in self.routes if path == listed}
            methods = sorted(own | self._posts(listed) | ({"HEAD"} if "GET" in own else set()))
            allowed = (b"allow", ", ".join(methods).encode())
            what = f"{incoming.path} takes {' and '.join(methods)}, not {incoming.method}."
            return Refusal(405, "method_not_allowed", what, headers=(allowed,))
        return Refusal(
            404,
            "not_found",
            f"There is no {incoming.method} {incoming.path}. GET /openapi.json lists what there is.",
        )

    @staticmethod
    def _posts(path: str) -> set[str]:
        return {"POST"} if path in PROTOCOLS else set()


class Gateway(Application):
    """The gateway. ``services`` is what it asks: who may enter, what fits, who answers."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._paths |= set(PROTOCOLS)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def answer(self, incoming: Incoming, send: Send, request_id: str) -> None:
        origin, origins = incoming.header(b"origin"), self.services.settings.cors_origins
        if origin is not None and (origin in origins or "*" in origins):
            if incoming.method == "OPTIONS" and b"access-control-request-method" in incoming.headers:
                await Reply(204, b"", preflight(incoming)).send(send)
                return
            send = shared_with(origin, send)
        if incoming.method == "POST" and incoming.path in PROTOCOLS:
            await GatewayRequest(self.services, incoming, send, request_id).run()
        else:
            await super().answer(incoming, send, request_id)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.services.open()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.services.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


class GatewayRequest:
    """One request that makes tokens. :meth:`run` is its way."""

    def __init__(self, services: Services, incoming: Incoming, send: Send, request_id: str) -> None:
        self.services = services
        self.incoming = incoming
        self.send = send
        self.request_id = request_id
        self.protocol = PROTOCOLS[incoming.path]
        self.category = self.protocol.name
        self.outcome = CallOutcome()
        self.started_at = time.monotonic()
        self.began_at = datetime.now(UTC)
        self.was_sent = False
        self.call: ApiCall | None = None
        self.verdict: Admission | None = None
        self.use: ModelUse | None = None
        self.first: Count | None = None
        self.done: dict[str, object] | None = None
        self.tried: dict[str, Count] = {}
        self.asked: ApiCall | None = None
        self.parent = incoming.header(b"traceparent")
        self.overflow_of: str | None = None
        self.span = services.traces.begin(self.parent)
        self.proof: str | None = None
        self._decision: tuple[Admission, dict[str, object] | None, str] | None = None
        self.grant: Grant | None = None
        self.upstream: Upstream | None = None
        # What is recorded is known by this id; the client's own may come twice.
        self.key = secrets.token_hex(16)
        self.line = b""

    async def run(self) -> None:
        refusal: Refusal | None = None
        try:
            refusal = await self._refused()
            if refusal is not None and self.proof is None and not self.was_sent:
                await self._proven(refusal)
            if refusal is not None and not self.outcome.begun:
                self.outcome.status = refusal.status
                reply = refusal.reply(self.protocol.style, self.request_id)
                headers = (*reply.headers, *self._headers())
                await Reply(reply.status, reply.body, headers, reply.content_type).send(self.send)
        finally:
            self.services.observe(self, refusal)

    async def _refused(self) -> Refusal | None:
        """The whole way; what it was refused with, None if it was answered or nobody waits any more."""
        try:
            await self._run()
        except ClientGone:
            self.outcome.left = True
            self.outcome.status = self.outcome.status or 499
        except Refusal as refusal:
            return refusal
        except BODY_PROBLEMS as error:
            return of_body(error)
        except Exception as error:
            if self.outcome.begun:  # the server closes the connection, so that nobody takes it for whole
                raise
            return self.services.mistake(error)
        return None

    async def _run(self) -> None:
        services = self.services
        grant = self.grant = await services.authenticator.admit(self.incoming)
        check_query(self.incoming.query)
        with services.bodies.hold() as held:
            data = await self.incoming.body(
                services.settings.limits.body, services.settings.limits.body_seconds, held
            )
            with DisconnectWatcher(self.incoming.client, self.outcome):
                upstream = await self._decided(data, grant, held)
                del data
                async with services.accounts.reserved(self, grant) as account:
                    await self._answered(upstream, grant, account, held)

    async def _decided(self, data: bytes, grant: Grant, held: Held) -> Upstream:
        """Read it, judge it, and make it fit: who answers. Raises :class:`Refusal` where nobody may."""
        services, limits = self.services, self.services.settings.limits
        held.values(min(values_in(data), limits.values))  # a body of more is refused before it is read
        call = self.call = self.asked = await read_in_time(
            data, lambda: read_call(self.protocol, data, limits, grant.client_auth)
        )
        for model in call.models:
            grant.check(model)
        alias = services.settings.models.get(call.model)
        if alias is not None and alias.alias_of is not None:
            call = self.call = self.asked = call.with_model(alias.alias_of)
        mode = self._mode(grant, call.model)
        upstream = self.upstream = await services.models.upstream_of(call.model)
        verdict = self.verdict = await self._judged(call, upstream, mode)
        self.first = verdict.counted.count
        if mode is not Mode.OBSERVE and verdict.is_over:
            larger = await self._overflow(call, mode, grant)
            if larger is not None:
                call, upstream, verdict = larger
        if mode is not Mode.OBSERVE and not verdict.fits:
            call = self.call = await self._fitted(call, upstream, verdict, grant)
        if grant.quotas:
            call, self.verdict = with_output_limit(call, self.verdict, upstream.heeded_limits(call))
            self.call = call
        await self._proven(None)
        return upstream

    # The steps of the way.

    def _mode(self, grant: Grant, model: str) -> Mode:
        """The header's, if the key may use it; else the key's, the model's, the route's, the gateway's.

        A header never opens what is closed: only who is in ``observe`` anyway may ask for it.
        """
        asked = self.incoming.header(b"x-tokenbox-mode")
        settings = self.services.settings
        own = grant.mode or settings.own_model(model).mode
        own = own or settings.modes.get(self.protocol.path, settings.mode)
        if asked is not None:
            if asked not in set(Mode):
                raise Refusal(
                    400, "invalid_mode", f"x-tokenbox-mode is observe, enforce or fit, not {asked[:40]!r}."
                )
            mode = Mode(asked)
            if mode not in grant.modes or (mode is Mode.OBSERVE and not grant.may_observe(own)):
                raise Refusal(403, "mode_not_allowed", f"This key may not use the mode {asked}.")
            return mode
        return own

    async def _judged(self, call: ApiCall, upstream: Upstream, mode: Mode) -> Admission:
        """Count the request as the upstream will, and hold it against what the model can take."""
        services = self.services
        use = self.use = await services.models.use(upstream, call.model)
        try:
            counted = await services.counting.count(call, upstream, use)
        except Refusal:
            if mode is not Mode.OBSERVE:
                raise
            size = len(call.data)  # it refuses nothing
            counted = Counted(Count(size // 4, exact=False, at_most=size, by=By.CHARS4), "bytes / 4")
        return judge(call, counted, await self._model(call, upstream, use), mode, services.settings.uncertain)

    async def _overflow(
        self, call: ApiCall, mode: Mode, grant: Grant
    ) -> tuple[ApiCall, Upstream, Admission] | None:
        """The request to the first larger model that takes it, of those that the operator names."""
        own = self.use
        for name in self.services.settings.own_model(call.model).overflow:
            if not grant.allows(name) or name == call.model:
                continue
            larger = call.with_model(name)
            upstream = await self.services.models.upstream_of(name)
            verdict = await self._judged(larger, upstream, mode)
            if verdict.fits:
                self.overflow_of, self.call, self.asked = call.model, larger, larger
                self.upstream, self.verdict, self.first = upstream, verdict, verdict.counted.count
                return larger, upstream, verdict
        self.use = own
        return None

    async def _model(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> ModelFigures:
        """What the model can take; of several that may answer, what the smallest can."""
        model: ModelFigures = use
        for name in call.fallbacks:
            if upstream.settings.models and not upstream.settings.serves(name):
                raise not_served(name)
            model = narrowed(model, await self.services.models.use(upstream, name))
        return model

    async def _fitted(self, call: ApiCall, upstream: Upstream, verdict: Admission, grant: Grant) -> ApiCall:
        """The call made to fit, in the mode ``fit``; else a refusal."""
        assert self.use is not None  # noqa: S101  # judged before
        cannot = verdict.is_missing_count or verdict.is_unseen
        if verdict.mode is not Mode.FIT or verdict.budget is None or cannot:
            raise refusal_of(call, await self._with_parts(call, verdict, self.use))
        fitted = await self.services.fitting.fit(call, upstream, self.use, verdict, grant, self.tried)
        if fitted is None:
            raise refusal_of(call, await self._with_parts(call, verdict, self.use))
        self.verdict, self.done = fitted.verdict, fitted.record
        return fitted.call

    async def _with_parts(self, call: ApiCall, verdict: Admission, use: ModelUse) -> Admission:
        """The verdict with the size of each message; counted only for a refusal."""
        parts = await self.services.counting.parts(call, use)
        self.verdict = replace(verdict, counted=replace(verdict.counted, parts=parts))
        return self.verdict

    async def _answered(self, upstream: Upstream, grant: Grant, account: Any, held: Held) -> None:  # noqa: ANN401
        """Send it on and pass the answer back."""
        assert self.verdict is not None  # noqa: S101  # judged before
        assert self.call is not None  # noqa: S101  # read before
        body, hide_usage = self.services.asking.body_for(self.call, upstream)
        # Of the body nothing is kept but what is sent: an object of many values is many times as large.
        call = self.call = self.call.without_body()
        self.asked = None
        held.only(len(body))
        headers = upstream.forwarded(self.incoming.headers, grant.client_auth)
        headers.append((b"x-request-id", self.request_id.encode()))
        headers = self.services.traces.passed_on(self.span, headers)
        async with upstream.place():
            self.services.began(self)
            self.was_sent = True
            self.outcome.sent = time.monotonic()
            try:
                answer = await upstream.open(self.protocol.path, self.incoming.query, headers, body)
                del body
                held.only(0)
            except Unreachable:
                self.outcome.used_nothing = True
                raise
            note = json_bytes(self._note())
            relay = Relay(
                call=call,
                upstream=upstream,
                answer=answer,
                send=self.send,
                request_id=self.request_id,
                headers=[*self._headers(), *account.headers()],
                note=note,
                started=self._started(note),
                hide_usage=hide_usage,
                outcome=self.outcome,
            )
            try:
                await relay.run()
            finally:
                if self.outcome.complete:
                    answer.release()
                else:
                    answer.close()

    async def _proven(self, refusal: Refusal | None) -> None:
        """Where proofs are asked for: one of this decision. Raises :class:`Refusal` if it cannot be kept."""
        if self.asked is not None and self.first is not None and self.verdict is not None:
            decision = ProofDecision(
                self.asked, self.first, self.call, self.verdict, self.done, self.tried, refusal
            )
            self.proof = await self.services.prove(decision)

    # What the client learns.

    def _headers(self) -> Headers:
        headers: Headers = [(b"x-request-id", self.request_id.encode())]
        verdict = self.verdict
        if verdict is None:
            return headers
        headers += [
            (b"x-tokenbox-mode", verdict.mode.value.encode()),
            (b"x-tokenbox-input-tokens", str(verdict.counted.tokens).encode()),
            (b"x-tokenbox-reserved", str(verdict.reserved).encode()),
            (b"x-tokenbox-estimated", b"false" if verdict.counted.exact else b"true"),
            (b"x-tokenbox-layout", self.layout_id().encode()),
        ]
        if self.overflow_of is not None and self.call is not None:
            headers.append((b"x-tokenbox-model", header_text(self.call.model)))
            headers.append((b"x-tokenbox-overflow-of", header_text(self.overflow_of)))
        if self.done is not None:
            headers.append((b"x-tokenbox-fit", how_fitted(self.done).encode()))
        if verdict.remaining is not None:
            headers.append((b"x-tokenbox-remaining", str(verdict.remaining).encode()))
        return headers

    def layout_id(self) -> str:
        """The id of the decision's proof; without one its digest: what was asked, found and done."""
        if self.proof is not None:
            return self.proof
        verdict, done = self.verdict, self.done
        assert verdict is not None  # noqa: S101  # there is no decision before
        if self._decision is None or self._decision[0] is not verdict or self._decision[1] is not done:
            model = None if self.call is None else self.call.model
            digest = decision_id({"model": model, "decision": verdict.figures(), "done": done})
            self._decision = verdict, done, digest
        return self._decision[2]

    def _note(self) -> dict[str, object]:
        assert self.verdict is not None  # noqa: S101  # judged before
        verdict = self.verdict
        note: dict[str, object] = {
            "mode": verdict.mode.value,
            "input_tokens": verdict.counted.tokens,
            "exact": verdict.counted.exact,
            "reserved": verdict.reserved,
            "remaining": verdict.remaining,
            "layout": self.layout_id(),
        }
        if self.done is not None:
            note["done"] = self.done
        if self.overflow_of is not None and self.call is not None:
            note |= {"model": self.call.model, "overflow_of": self.overflow_of}
        return note

    def _started(self, note: bytes) -> bytes:
        """The literal frame, for a client that asks for it: most clients break on it."""
        if self.incoming.header(b"x-tokenbox-started") != "event" or self.verdict is None:
            return b""
        value = {
            "tokens_used": self.verdict.counted.tokens,
            "tokens_remaining": self.verdict.remaining,
            "exact": self.verdict.counted.exact,
        }
        return frame(json_bytes(value), b"started")


class DisconnectWatcher:
    """A context that is cancelled when the client closes its connection, and then raises ``ClientGone``."""

    def __init__(self, client: Client, outcome: CallOutcome) -> None:
        self._client = client
        self._outcome = outcome
        self._left = False
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._client.on_gone = self._gone
        if isinstance(self._client, PlainClient):
            self._client.watch()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(self._client, PlainClient):
            self._client.stop()
        # The next request on this connection may have begun: this one was answered, and still settles.
        if self._client.on_gone == self._gone:
            self._client.on_gone = None
        if self._left and kind is asyncio.CancelledError:
            if self._task is not None:
                self._task.uncancel()
            raise ClientGone from None

    def _gone(self) -> None:
        if self._task is not None and not self._outcome.ended:
            self._left = True
            self._task.cancel()


def of_body(error: BodyTooLarge | BodyTimeout | BodyEncoded) -> Refusal:
    if isinstance(error, BodyTooLarge):
        return Refusal(413, error.code, error.message)
    if isinstance(error, BodyEncoded):
        return Refusal(415, error.code, error.message, headers=((b"accept-encoding", b"identity"),))
    # What may still come of the body is not waited for (RFC 9110, 15.5.9).
    return Refusal(408, error.code, error.message, headers=((b"connection", b"close"),))


def header_text(text: str) -> bytes:
    """A name as a header may have it."""
    return quote(text, safe="/:@ ,;+*()[]").encode()


def _request_id(incoming: Incoming) -> str:
    """The client's own id, if it is a decent one; else a new one."""
    given = incoming.header(b"x-request-id")
    if given is not None and 0 < len(given) <= _MAX_REQUEST_ID and given.isascii() and given.isprintable():
        return given
    return f"req_{secrets.token_hex(16)}"
