"""The gateway's own routes: health, models, counts, and the library over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from tokenbox.compose.messages import messages_of, request_of
from tokenbox.content.weight import weight_text
from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import Reply, json_bytes
from tokenbox.gateway.calls import ApiCall, Headers, call_of, is_name, parse_body
from tokenbox.gateway.library import (
    KnownCount,
    PolicyQuestion,
    chunks_of,
    layout_of,
    named_tokenizer,
)
from tokenbox.gateway.local_counts import text_tokenizer
from tokenbox.gateway.models import not_served
from tokenbox.gateway.openapi import document
from tokenbox.gateway.protocols import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Protocol
from tokenbox.gateway.refusals import Refusal, invalid_request
from tokenbox.gateway.strict_json import most_values, read_object
from tokenbox.policy.chunks import ChunkKind, Chunks
from tokenbox.policy.estimate import request_counter
from tokenbox.providers.kinds import AUTO
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter
    from tokenbox.gateway.admission import Counted
    from tokenbox.gateway.application import Application, Gateway, Handler
    from tokenbox.gateway.authentication import Grant
    from tokenbox.gateway.incoming import Incoming
    from tokenbox.gateway.services import GatewayServices
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelUse
    from tokenbox.tokenizers.protocol import Tokenizer

    PolicyWork = Callable[[PolicyQuestion], dict[str, Any]]

TokenizerWork = Callable[["Tokenizer"], object]
MODELS = "/v1/models"
_PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_OK = 200
_UNAVAILABLE = 503


class Routes:
    """Each method answers one route."""

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    def add_operating_to(self, app: Application) -> None:
        """Add the routes for monitoring: on the operator's listener, if there is one."""
        app.add("GET", "/healthz", self.healthz)
        app.add("GET", "/readyz", self.readyz)
        app.add("GET", "/metrics", self.metrics)

    def add_to(self, gateway: Gateway, *, operating: bool = True) -> None:
        """Add all routes. ``operating`` adds those for monitoring, too."""
        if operating:
            self.add_operating_to(gateway)
        for method, path, handler in (
            ("GET", "/healthz", self.healthz),
            ("GET", "/openapi.json", self.openapi),
            ("GET", MODELS, self.models),
            ("GET", f"{MODELS}/{{model}}", self.model),
            ("GET", "/v1/capabilities", self.capabilities),
            ("POST", "/v1/chat/completions/input_tokens", self._count_route(CHAT)),
            ("POST", "/v1/responses/input_tokens", self._count_route(RESPONSES)),
            ("POST", "/v1/messages/count_tokens", self._count_route(MESSAGES)),
            ("POST", "/v1/tokenize", self.tokenize_v1),
            ("POST", "/tokenize", self._llama_route("/tokenize", _tokenized)),
            ("POST", "/detokenize", self._llama_route("/detokenize", _detokenized)),
            ("POST", "/v1/layout", self.layout),
            ("POST", "/v1/plan", self._policy_route(PolicyQuestion.plan)),
            ("POST", "/v1/enforce", self._policy_route(PolicyQuestion.enforcement)),
        ):
            gateway.add(method, path, handler)

    async def healthz(self, incoming: Incoming, request_id: str) -> Reply:
        """Report that the process is alive."""
        return Reply.of({"status": "ok"})

    async def readyz(self, incoming: Incoming, request_id: str) -> Reply:
        """Report whether the upstreams and stores are available."""
        checks = await self.services.checks()
        ready = all(check["ok"] for check in checks.values())
        return Reply.of(
            {"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else _UNAVAILABLE
        )

    async def metrics(self, incoming: Incoming, request_id: str) -> Reply:
        return Reply(200, await self.services.metrics_page(), (), _PROMETHEUS)

    async def openapi(self, incoming: Incoming, request_id: str) -> Reply:
        return Reply.of(document())

    async def models(self, incoming: Incoming, request_id: str) -> Reply:
        """List the models of the upstreams, each with its limits."""
        grant = await self.services.authenticator.admit(incoming)
        data = [item async for item in self._models(grant)]
        return Reply.of({"object": "list", "data": data})

    async def model(self, incoming: Incoming, request_id: str) -> Reply:
        """Return one model. Its name may have slashes."""
        grant = await self.services.authenticator.admit(incoming)
        name = incoming.path.removeprefix(f"{MODELS}/")
        grant.check(name)
        async for item in self._models(grant):
            if item["id"] == name:
                return Reply.of(item)
        raise not_served(name)

    async def capabilities(self, incoming: Incoming, request_id: str) -> Reply:
        """List the models' limits with their sources."""
        grant = await self.services.authenticator.admit(incoming)
        found = [
            {
                "id": item["id"],
                "upstream": upstream.name,
                "kind": AUTO if upstream.kind is None else upstream.kind.name,
                "context_window": use.context_window,
                "max_input_tokens": use.max_input,
                "max_output_tokens": use.max_output,
                "headroom": weight_text(use.headroom),
                "reserve_out": use.output_reserve,
                "limit": use.usable,
                "sources": dict(use.sources),
                "tokenizer": self.services.tokenizer_of(upstream, use),
                "mode": self.services.settings.mode.value,
            }
            async for upstream, item, use in self._uses(grant)
        ]
        return Reply.of({"models": found})

    async def _uses(self, grant: Grant) -> AsyncIterator[tuple[Upstream, dict[str, Any], ModelUse]]:
        """Yield every model of every upstream, as listed, and its resolved limits."""
        for upstream in self.services.upstreams:
            for item in await self.services.upstream_models(upstream, grant):
                use = await self.services.models.use(upstream, item["id"], grant.client_auth)
                yield upstream, item, use

    async def _models(self, grant: Grant) -> AsyncIterator[dict[str, Any]]:
        """Yield the models as OpenAI's API lists them, each name once, with their limits."""
        seen: set[str] = set()
        async for upstream, item, use in self._uses(grant):
            if item["id"] not in seen:
                seen.add(item["id"])
                yield {
                    **item,
                    "context_window": use.context_window,
                    "max_input_tokens": use.max_input,
                    "max_output_tokens": use.max_output,
                    "max_model_len": use.context_window,
                    "tokenizer": self.services.tokenizer_of(upstream, use),
                }

    def _count_route(self, protocol: Protocol) -> Handler:
        async def count(incoming: Incoming, _: str) -> Reply:
            grant, body = await self._read_request(incoming)
            call, upstream, use = await self._call(protocol, body, grant)
            counted = await self.services.counting.count(call, upstream, use)
            value: dict[str, object] = {"input_tokens": counted.tokens}
            if protocol is not MESSAGES:
                value["object"] = "response.input_tokens"
            value["tokenbox"] = _provenance(counted)
            return Reply.of(value)

        return count

    def _llama_route(self, path: str, read: Callable[[dict[str, Any]], TokenizerWork]) -> Handler:
        async def answer(incoming: Incoming, _: str) -> Reply:
            """Answer as the upstream at llama.cpp's path; locally, by ``read``, if it has no such path."""
            grant, body = await self._read_request(incoming)
            model = grant.served_as(body["model"], self.services.settings)
            upstream = await self.services.models.upstream_of(model, grant.client_auth)
            work = read(body)
            if upstream.kind is not None and upstream.kind.tokenizes:
                status, found = await upstream.json(path, {**body, "model": model}, grant.client_auth)
                if status == _OK and isinstance(found, dict):
                    return Reply.of(found)
            tokenizer = text_tokenizer(await self.services.models.use(upstream, model, grant.client_auth))
            return Reply.of(await self._in_thread(lambda: work(tokenizer)))

        return answer

    async def tokenize_v1(self, incoming: Incoming, request_id: str) -> Reply:
        """Count and tokenize a text, or messages with tools."""
        grant, body = await self._read_request(incoming)
        text = next(
            (body[key] for key in ("prompt", "content", "text") if isinstance(body.get(key), str)), None
        )
        if text is not None:
            protocol, asked = COMPLETIONS, {"model": body["model"], "prompt": text}
        elif isinstance(body.get("messages"), list):
            protocol, asked = CHAT, body
        else:
            raise invalid_request("give prompt (a text), or messages.", "prompt")
        call, upstream, use = await self._call(protocol, asked, grant)
        counting = self.services.counting
        counted = await counting.count(call, upstream, use)
        value: dict[str, object] = {"count": counted.tokens, "max_model_len": use.context_window}
        if body.get("return_tokens", True) is not False:
            value["tokens"] = await counting.tokens_of(call, upstream, use, counted)
        return Reply.of({**value, **_provenance(counted)})

    async def layout(self, incoming: Incoming, request_id: str) -> Reply:
        await self.services.authenticator.admit(incoming)
        body = await self._body(incoming)
        return Reply.of(await self._in_thread(lambda: layout_of(body)))

    def _policy_route(self, work: PolicyWork) -> Handler:
        async def answer(incoming: Incoming, _: str) -> Reply:
            """Call ``work`` with the model's limits and counter. Messages are counted as its requests are."""
            grant = await self.services.authenticator.admit(incoming)
            body = await self._body(incoming)
            use, named = None, _named_model(body)
            tokenizer: Tokenizer | None = await self._in_thread(lambda: named_tokenizer(body))
            chunks: Chunks = await self._in_thread(lambda: chunks_of(body))
            counter: Tokenizer | RequestCounter = get("o200k_base") if tokenizer is None else tokenizer
            if named is not None:
                model = grant.served_as(named, self.services.settings)
                upstream = await self.services.models.upstream_of(model, grant.client_auth)
                use = await self.services.models.use(upstream, model, grant.client_auth)
                counter = await self._counter(body, chunks, tokenizer, upstream, use, grant.client_auth)
            question = PolicyQuestion(body, chunks, use, counter, self.services.settings.uncertain)
            return Reply.of(await self._in_thread(lambda: work(question)))

        return answer

    async def _counter(
        self,
        body: dict[str, Any],
        chunks: Chunks,
        tokenizer: Tokenizer | None,
        upstream: Upstream,
        use: ModelUse,
        auth: Headers,
    ) -> Tokenizer | RequestCounter:
        """Return the counter of a body's chunks; messages, and sections with roles, are one request."""
        if chunks.kind is ChunkKind.MESSAGES:
            messages, request = body["chunks"], chunks.request(chunks.items)
        elif chunks.have_roles:
            messages = messages_of(chunks.sections, chunks.texts)
            request = request_of(chunks.sections, chunks.texts)
        else:
            return text_tokenizer(use) if tokenizer is None else tokenizer
        if tokenizer is not None:
            return request_counter(tokenizer)
        if not messages:
            return use.counter
        call = await self._parsed(CHAT, {"model": use.model, "messages": messages}, auth)
        counted = await self.services.counting.count(call, upstream, use)
        return KnownCount(request, counted.count, use.counter)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401  # what the work returns
        """Run ``work`` in a thread, bounded in time. Raises its errors as :class:`Refusal`."""
        try:
            async with asyncio.timeout(self.services.settings.limits.count_seconds):
                return await asyncio.to_thread(work)
        except TimeoutError:
            raise Refusal(400, "timeout", "This takes too long. Send less at once.") from None
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message, None, error.to_dict()) from None

    async def _body(self, incoming: Incoming) -> dict[str, Any]:
        limits = self.services.settings.limits
        data = await incoming.body(limits.body, limits.body_seconds)
        incoming.memory.add_values(most_values(data, limits.values))
        return await parse_body(data, lambda: read_object(data, limits))

    async def _read_request(self, incoming: Incoming) -> tuple[Grant, dict[str, Any]]:
        """Authenticate and read a request. Returns the grant, and the body, which names a model."""
        grant = await self.services.authenticator.admit(incoming)
        body = await self._body(incoming)
        if _named_model(body) is None:
            body["model"] = await self._only_model(grant)
        return grant, body

    async def _call(
        self, protocol: Protocol, body: dict[str, Any], grant: Grant
    ) -> tuple[ApiCall, Upstream, ModelUse]:
        """Return the body as a call to the models that its names stand for, with its upstream and limits."""
        services, auth = self.services, grant.client_auth
        parsed = await self._parsed(protocol, body, auth)
        call = parsed.served_as(lambda name: grant.served_as(name, services.settings))
        upstream = await services.models.upstream_of(call.model, auth)
        return call, upstream, await services.models.use(upstream, call.model, auth)

    async def _parsed(self, protocol: Protocol, body: dict[str, Any], auth: Headers) -> ApiCall:
        data, limits = json_bytes(body), self.services.settings.limits
        return await parse_body(data, lambda: call_of(protocol, body, data, limits, auth))

    async def _only_model(self, grant: Grant) -> str:
        """Return the only model there is, for a request that names none."""
        names = [
            item["id"]
            for upstream in self.services.upstreams
            for item in await self.services.upstream_models(upstream, grant)
        ]
        if len(names) != 1:
            which = f"there are {len(names)}. Name one of /v1/models" if names else "no upstream lists any"
            raise invalid_request(f"model is missing, and {which}.", "model")
        return str(names[0])


def _tokenized(body: Mapping[str, Any]) -> TokenizerWork:
    content = body.get("content")
    if not isinstance(content, str):
        raise invalid_request("content is the text to tokenize.", "content")
    return lambda tokenizer: {"tokens": tokenizer.encode(content)}


def _detokenized(body: Mapping[str, Any]) -> TokenizerWork:
    tokens = body.get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise invalid_request("tokens is a list of whole numbers.", "tokens")
    return lambda tokenizer: {"content": tokenizer.decode(tokens)}


def _named_model(body: Mapping[str, Any]) -> str | None:
    named = body.get("model")
    if named is not None and not is_name(named):
        raise invalid_request("model is the name of a model.", "model")
    return named


def _provenance(counted: Counted) -> dict[str, object]:
    """Return who counted, and how far the count can be relied on."""
    count = counted.count
    return {
        "exact": count.exact,
        "at_most": count.at_most,
        "counted_by": counted.source,
        **({} if counted.missing is None else {"missing": counted.missing}),
    }
