"""The steps of one request: authenticate, read, count, judge, make it fit, reserve quotas, send, relay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from tokenbox.caching import with_breakpoints
from tokenbox.compose.requests import By, Count
from tokenbox.content.request import Api
from tokenbox.gateway.admission import (
    Admission,
    Counted,
    decision_id,
    judge,
    narrowed,
    refusal_of,
)
from tokenbox.gateway.asgi import Headers, Reply, Send, json_bytes
from tokenbox.gateway.attempt import Attempt, RequestDecision
from tokenbox.gateway.calls import ApiCall, parse_body, read_call
from tokenbox.gateway.fields import check_query
from tokenbox.gateway.fitting import fit_actions
from tokenbox.gateway.incoming import Client, ClientGone, Incoming, PlainClient
from tokenbox.gateway.local_counts import text_tokenizer
from tokenbox.gateway.models import not_served
from tokenbox.gateway.protocols import PROTOCOLS, with_key
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.relay import CallOutcome, Relay
from tokenbox.gateway.settings import Mode
from tokenbox.gateway.strict_json import most_values
from tokenbox.gateway.summaries import summary_of
from tokenbox.gateway.upstream import Unreachable, Upstream
from tokenbox.providers.framing import frame

if TYPE_CHECKING:
    from tokenbox.gateway.accounts import Account
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.services import GatewayServices
    from tokenbox.models import ModelFigures, ModelUse


def with_usage(call: ApiCall) -> tuple[bytes, bool]:
    """Return the body to send, and whether the client must not see the event with the usage."""
    if not call.stream or not call.protocol.asks_for_usage or call.wants_usage:
        return call.data, False
    options = call.body.get("stream_options")
    if "stream_options" in call.body:
        asked = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
        return call.with_body({**call.body, "stream_options": asked}).data, True
    return with_key(call.data, b"stream_options", b'{"include_usage":true}'), True


class GatewayRequest(Attempt):
    """A client's request to one of the APIs. :meth:`run` answers it."""

    def __init__(self, services: GatewayServices, incoming: Incoming, send: Send, request_id: str) -> None:
        protocol = PROTOCOLS[incoming.path]
        super().__init__(protocol, protocol.name, request_id, parent=incoming.header(b"traceparent"))
        self.span = services.traces.begin(self.parent)
        self.services = services
        # Those that decide about it, also if others are loaded meanwhile.
        self.settings = services.settings
        self.incoming = incoming
        self.send = send
        self.decision: RequestDecision | None = None
        self.proof_id: str | None = None

    async def run(self) -> None:
        refusal: Refusal | None = None
        try:
            refusal = await self._refused()
            if refusal is not None and self.proof_id is None and not self.was_sent:
                await self._prove(refusal)
            if refusal is not None and not self.outcome.begun:
                self.outcome.status = refusal.status
                reply = refusal.reply(self.protocol.style, self.request_id)
                layout = None if self.admission is None else self._layout_id(self.admission)
                headers = (*reply.headers, *self._headers(layout))
                await Reply(reply.status, reply.body, headers, reply.content_type).send(self.send)
        finally:
            self.services.observe(self, refusal)

    async def _refused(self) -> Refusal | None:
        """Take all steps. Returns the refusal; None if the request was answered or the client has left."""
        try:
            await self._run()
        except ClientGone:
            self.outcome.left = True
            self.outcome.status = self.outcome.status or 499
        except Refusal as refusal:
            return refusal
        except Exception as error:
            if self.outcome.begun:  # the server closes the connection, so the answer does not look complete
                raise
            return self.services.internal_error(error)
        return None

    async def _run(self) -> None:
        services = self.services
        grant = self.grant = await services.authenticator.admit(self.incoming)
        check_query(self.incoming.query)
        limits = self.settings.limits
        data = await self.incoming.body(limits.body, limits.body_seconds)
        with cancelled_on_disconnect(self.incoming.client, self.outcome):
            call, upstream, admission = await self._decide(data, grant)
            del data
            async with services.accounts.reserved(self, call, admission, grant) as account:
                await self._answer(call, upstream, admission, grant, account)

    async def _decide(self, data: bytes, grant: Grant) -> tuple[ApiCall, Upstream, Admission]:
        """Decide what is sent, and to which upstream. Raises :class:`Refusal` if nothing may be sent."""
        services, limits = self.services, self.settings.limits
        self.incoming.memory.add_values(most_values(data, limits.values))
        call = await parse_body(data, lambda: read_call(self.protocol, data, limits, grant.client_auth))
        self.call = call
        call = self.call = call.served_as(lambda name: grant.served_as(name, self.settings))
        mode = self._mode(grant, call.model)
        upstream = self.upstream = await services.models.upstream_of(call.model, call.client_auth)
        admission, use = await self._judge(call, upstream, mode)
        decision = self._begin(call, upstream, admission)
        if mode is not Mode.OBSERVE and admission.is_over:
            larger = await self._overflow(call, mode, grant)
            if larger is not None:
                self.overflow_of = call.model
                call, upstream, admission, use = larger
                decision = self._begin(call, upstream, admission)
        if not decision.may_be_sent and not await decision.make_fit(
            text_tokenizer(use),
            lambda smaller: services.counting.count(smaller, upstream, use),
            lambda text, at_most, call: summary_of(services, text, at_most, call, grant),
        ):
            parts = await services.counting.parts(call, use)
            admission = self.admission = replace(admission, counted=replace(admission.counted, parts=parts))
            raise refusal_of(call, admission)
        self.fit_record = decision.fit_record
        if grant.quotas:
            decision.limit_output(upstream.heeded_limits(decision.call))
        self.call, self.admission = decision.call, decision.admission
        await self._prove(None)
        return decision.call, upstream, decision.admission

    # The steps of a decision.

    def _begin(self, call: ApiCall, upstream: Upstream, admission: Admission) -> RequestDecision:
        self.call, self.upstream, self.admission = call, upstream, admission
        self.decision = RequestDecision(call, admission, self.settings.fit, self.settings.low_water)
        return self.decision

    def _mode(self, grant: Grant, model: str) -> Mode:
        """Return the mode of the header, else of the key, the model, the route, or the default.

        A header cannot weaken a mode: ``observe`` is granted only where it applies anyway, or to a key that
        lists it.
        """
        settings = self.settings
        own = grant.mode or settings.own_model(model).mode
        own = own or settings.modes.get(self.protocol.path, settings.mode)
        asked = self.incoming.header(b"x-tokenbox-mode")
        if asked is None:
            return own
        if asked not in set(Mode):
            raise Refusal(
                400, "invalid_mode", f"x-tokenbox-mode is observe, enforce or fit, not {asked[:40]!r}."
            )
        mode = Mode(asked)
        if mode not in grant.modes or (mode is Mode.OBSERVE and not grant.may_observe(own)):
            raise Refusal(403, "mode_not_allowed", f"This key may not use the mode {asked}.")
        return mode

    async def _judge(self, call: ApiCall, upstream: Upstream, mode: Mode) -> tuple[Admission, ModelUse]:
        """Count the request as the upstream will, and compare it with the limits of the model."""
        services = self.services
        use = await services.models.use(upstream, call.model, call.client_auth)
        try:
            counted = await services.counting.count(call, upstream, use)
        except Refusal:
            if mode is not Mode.OBSERVE:
                raise
            size = len(call.data)
            counted = Counted(Count(size // 4, exact=False, at_most=size, by=By.CHARS4), "bytes / 4")
        figures = await self._figures(call, upstream, use)
        return judge(call, counted, figures, mode, self.settings.uncertain), use

    async def _overflow(
        self, call: ApiCall, mode: Mode, grant: Grant
    ) -> tuple[ApiCall, Upstream, Admission, ModelUse] | None:
        """Return the request to the first model of the operator's ``overflow`` list that it fits."""
        settings = self.settings
        for name in settings.own_model(call.model).overflow:
            served = settings.served_as(name)
            if not grant.allows(name) or served == call.model:
                continue
            larger = call.with_model(served)
            upstream = await self.services.models.upstream_of(served, call.client_auth)
            admission, use = await self._judge(larger, upstream, mode)
            if admission.fits:
                return larger, upstream, admission, use
        return None

    async def _figures(self, call: ApiCall, upstream: Upstream, use: ModelUse) -> ModelFigures:
        """Return the limits of the model; if several models may answer, the smallest limits."""
        figures: ModelFigures = use
        for name in call.fallbacks:
            if upstream.settings.models and not upstream.settings.serves(name):
                raise not_served(name)
            use = await self.services.models.use(upstream, name, call.client_auth)
            figures = narrowed(figures, use)
        return figures

    async def _prove(self, refusal: Refusal | None) -> None:
        """Write the proof of this decision, if proofs are on. Raises :class:`Refusal` if that fails."""
        bundles = self.services.bundles
        if bundles is not None and self.decision is not None:
            self.decision.refusal = refusal
            self.proof_id = await self.services.prove(self.decision, bundles)

    # The answer.

    async def _answer(
        self,
        call: ApiCall,
        upstream: Upstream,
        admission: Admission,
        grant: Grant,
        account: Account,
    ) -> None:
        """Send the request to the upstream, and relay the answer."""
        if upstream.settings.cache_marks:
            call = self.call = await self._with_cache_marks(call)
        body, hide_usage = with_usage(call) if upstream.settings.ask_usage else (call.data, False)
        # Only the bytes to send are kept: the parsed body may take many times their memory.
        call = self.call = call.without_body()
        self.decision = None
        self.incoming.memory.resize(len(body))
        headers = upstream.forwarded(self.incoming.headers, grant.client_auth)
        headers.append((b"x-request-id", self.request_id.encode()))
        headers = self.services.traces.passed_on(self.span, headers)
        async with upstream.slot():
            self.services.record_start(self, call, admission)
            self.was_sent = True
            self.outcome.sent = time.monotonic()
            try:
                answer = await upstream.open(self.protocol.path, self.incoming.query, headers, body)
                del body
                self.incoming.memory.resize(0)
            except Unreachable:
                self.outcome.used_nothing = True
                raise
            layout = self._layout_id(admission)
            note = json_bytes(self._note(admission, layout))
            relay = Relay(
                call=call,
                upstream=upstream,
                answer=answer,
                send=self.send,
                request_id=self.request_id,
                headers=[*self._headers(layout), *account.headers()],
                note=note,
                started=self._started_event(admission),
                hide_usage=hide_usage,
                outcome=self.outcome,
            )
            try:
                await relay.run()
            finally:
                answer.release()

    async def _with_cache_marks(self, call: ApiCall) -> ApiCall:
        """Return the call with the cache breakpoints that Claude models need, if the client set none."""
        if call.protocol.api is not Api.MESSAGES:
            return call
        body = await parse_body(call.data, lambda: with_breakpoints(call.body, call.model))
        return call if body is call.body else call.with_body(dict(body))

    def _headers(self, layout: str | None) -> Headers:
        headers: Headers = [(b"x-request-id", self.request_id.encode())]
        admission = self.admission
        if admission is None or layout is None:
            return headers
        headers += [
            (b"x-tokenbox-mode", admission.mode.encode()),
            (b"x-tokenbox-input-tokens", str(admission.counted.tokens).encode()),
            (b"x-tokenbox-reserved", str(admission.reserved).encode()),
            (b"x-tokenbox-estimated", b"false" if admission.counted.exact else b"true"),
            (b"x-tokenbox-layout", layout.encode()),
        ]
        if self.overflow_of is not None and self.call is not None:
            headers.append((b"x-tokenbox-model", _header_text(self.call.model)))
            headers.append((b"x-tokenbox-overflow-of", _header_text(self.overflow_of)))
        if self.fit_record is not None:
            headers.append((b"x-tokenbox-fit", fit_actions(self.fit_record).encode()))
        if admission.remaining is not None:
            headers.append((b"x-tokenbox-remaining", str(admission.remaining).encode()))
        return headers

    def _layout_id(self, admission: Admission) -> str:
        """Return the id of the proof; without a proof, the digest of the decision."""
        if self.proof_id is not None:
            return self.proof_id
        model = None if self.call is None else self.call.model
        return decision_id({"model": model, "decision": admission.figures(), "done": self.fit_record})

    def _note(self, admission: Admission, layout: str) -> dict[str, object]:
        note: dict[str, object] = {
            "mode": admission.mode,
            "input_tokens": admission.counted.tokens,
            "exact": admission.counted.exact,
            "reserved": admission.reserved,
            "remaining": admission.remaining,
            "layout": layout,
        }
        if self.fit_record is not None:
            note["done"] = self.fit_record
        if self.overflow_of is not None and self.call is not None:
            note |= {"model": self.call.model, "overflow_of": self.overflow_of}
        return note

    def _started_event(self, admission: Admission) -> bytes:
        """Return the ``started`` event if the client asked for it. Most clients fail on it."""
        if self.incoming.header(b"x-tokenbox-started") != "event":
            return b""
        value = {
            "tokens_used": admission.counted.tokens,
            "tokens_remaining": admission.remaining,
            "exact": admission.counted.exact,
        }
        return frame(json_bytes(value), b"started")


@contextmanager
def cancelled_on_disconnect(client: Client, outcome: CallOutcome) -> Iterator[None]:
    """Cancel what runs in this context when the client closes its connection. Raises ``ClientGone`` then."""
    task, has_left = asyncio.current_task(), False
    assert task is not None  # noqa: S101  # a request has one

    def on_disconnect() -> None:
        nonlocal has_left
        if not outcome.ended:
            has_left = True
            task.cancel()

    client.on_disconnect = on_disconnect
    if isinstance(client, PlainClient):
        client.watch()
    try:
        yield
    except asyncio.CancelledError:
        if not has_left:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        if isinstance(client, PlainClient):
            client.stop()
        # The next request on this connection may have begun while this one, already answered, still settles.
        if client.on_disconnect is on_disconnect:
            client.on_disconnect = None


def _header_text(text: str) -> bytes:
    """Return a name percent-encoded for a header."""
    return quote(text, safe="/:@ ,;+*()[]").encode()
