"""The gateway's own routes: what it knows, and the library over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tokenbox.content.request import Request
from tokenbox.content.weight import weight_text
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.gateway.asgi import Reply, json_bytes
from tokenbox.gateway.calls import bad, read_call, read_in_time, read_object
from tokenbox.gateway.counting import texts_of
from tokenbox.gateway.library import (
    WholeCounted,
    chunks_of,
    enforcement_of,
    layout_of,
    named_tokenizer,
    plan_of,
)
from tokenbox.gateway.models import not_served
from tokenbox.gateway.protocols import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from tokenbox.gateway.refusals import Refusal
from tokenbox.policy import ChunkKind
from tokenbox.providers.kinds import AUTO
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tokenbox.compose.requests import RequestCounter
    from tokenbox.gateway.admission import Counted
    from tokenbox.gateway.app import Application, Gateway
    from tokenbox.gateway.asgi import Incoming
    from tokenbox.gateway.build import GatewayServices
    from tokenbox.gateway.calls import ApiCall, Headers
    from tokenbox.gateway.protocols import Protocol
    from tokenbox.gateway.services import Grant
    from tokenbox.gateway.upstream import Upstream
    from tokenbox.models import ModelFigures, ModelUse
    from tokenbox.tokenizers.protocol import Tokenizer

MODELS = "/v1/models"
_PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_UNAVAILABLE = 503


class Routes:
    """Each method answers one route."""

    def __init__(self, standing: GatewayServices) -> None:
        self.standing = standing

    def add_operating_to(self, app: Application) -> None:
        """What monitors ask: on a port of its own, where there is one."""
        app.add("GET", "/healthz", self.healthz)
        app.add("GET", "/readyz", self.readyz)
        app.add("GET", "/metrics", self.metrics)

    def add_to(self, gateway: Gateway, *, operating: bool = True) -> None:
        """All routes; ``operating``: also what monitors ask."""
        if operating:
            self.add_operating_to(gateway)
        for method, path, handler in (
            ("GET", "/healthz", self.healthz),
            ("GET", "/openapi.json", self.openapi),
            ("GET", MODELS, self.models),
            ("GET", f"{MODELS}/{{model}}", self.model),
            ("GET", "/v1/capabilities", self.capabilities),
            ("POST", "/v1/chat/completions/input_tokens", self._counts(CHAT)),
            ("POST", "/v1/responses/input_tokens", self._counts(RESPONSES)),
            ("POST", "/v1/messages/count_tokens", self._counts(MESSAGES)),
            ("POST", "/v1/tokenize", self.tokenize_v1),
            ("POST", "/tokenize", self.tokenize),
            ("POST", "/detokenize", self.detokenize),
            ("POST", "/v1/layout", self._library(self._layout)),
            ("POST", "/v1/plan", self._library(self._plan)),
            ("POST", "/v1/enforce", self._library(self._enforce)),
        ):
            gateway.add(method, path, handler)

    # How it is.

    async def healthz(self, incoming: Incoming, request_id: str) -> Reply:
        """This process is alive."""
        return Reply.of({"status": "ok"})

    async def readyz(self, incoming: Incoming, request_id: str) -> Reply:
        """Whether it can do its work: the upstreams, the stores."""
        checks = await self.standing.checks()
        ready = all(check["ok"] for check in checks.values())
        return Reply.of(
            {"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else _UNAVAILABLE
        )

    async def metrics(self, incoming: Incoming, request_id: str) -> Reply:
        return Reply(200, await self.standing.page(), (), _PROMETHEUS)

    async def openapi(self, incoming: Incoming, request_id: str) -> Reply:
        from tokenbox.gateway.openapi import document  # noqa: PLC0415  # on request

        return Reply.of(document())

    # What models can do.

    async def models(self, incoming: Incoming, request_id: str) -> Reply:
        """The upstreams' lists, each model with what it can take."""
        grant = await self.standing.authenticator.admit(incoming)
        data = [item async for item in self._models(grant)]
        return Reply.of({"object": "list", "data": data})

    async def model(self, incoming: Incoming, request_id: str) -> Reply:
        """One of them. A name may have slashes."""
        grant = await self.standing.authenticator.admit(incoming)
        name = incoming.path.removeprefix(f"{MODELS}/")
        grant.check(name)
        async for item in self._models(grant):
            if item["id"] == name:
                return Reply.of(item)
        raise not_served(name)

    async def capabilities(self, incoming: Incoming, request_id: str) -> Reply:
        """The same as figures with their sources."""
        grant = await self.standing.authenticator.admit(incoming)
        found = []
        for upstream in self.standing.upstreams:
            for item in await self.standing.upstream_models(upstream, grant):
                use = await self.standing.models.use(upstream, item["id"])
                found.append(
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
                        "tokenizer": self.standing.tokenizer_of(upstream, use),
                        "mode": self.standing.settings.mode.value,
                    }
                )
        return Reply.of({"models": found})

    async def _models(self, grant: Grant) -> AsyncIterator[dict[str, Any]]:
        seen: set[str] = set()
        for upstream in self.standing.upstreams:
            for item in await self.standing.upstream_models(upstream, grant):
                if item["id"] in seen:
                    continue
                seen.add(item["id"])
                use = await self.standing.models.use(upstream, item["id"])
                yield {
                    **item,
                    "context_window": use.context_window,
                    "max_input_tokens": use.max_input,
                    "max_output_tokens": use.max_output,
                    "max_model_len": use.context_window,
                    "tokenizer": self.standing.tokenizer_of(upstream, use),
                }

    # Counts.

    def _counts(self, protocol: Protocol) -> Callable[[Incoming, str], Any]:
        async def count(incoming: Incoming, _: str) -> Reply:
            grant, body, model, upstream = await self._asked(incoming)
            call = await self._call(protocol, {**body, "model": model}, grant.client_auth)
            use = await self.standing.models.use(upstream, model)
            counted = await self.standing.counting.count(call, upstream, use)
            value: dict[str, object] = {"input_tokens": counted.tokens}
            if protocol is not MESSAGES:
                value["object"] = "response.input_tokens"
            value["tokenbox"] = _about(counted)
            return Reply.of(value)

        return count

    async def tokenize(self, incoming: Incoming, request_id: str) -> Reply:
        """llama.cpp's form: the upstream's own answer where it has one, else the tokens counted with here."""
        grant, body, model, upstream = await self._asked(incoming)
        content = body.get("content")
        if not isinstance(content, str):
            raise bad("content is the text to tokenize.", "content")
        if self.standing.speaks_tokenize(upstream):
            status, answer = await upstream.ask("/tokenize", body, grant.client_auth)
            if status == 200 and isinstance(answer, dict):  # noqa: PLR2004
                return Reply.of(answer)
        return Reply.of({"tokens": await self._encoded(upstream, model, content)})

    async def detokenize(self, incoming: Incoming, request_id: str) -> Reply:
        grant, body, model, upstream = await self._asked(incoming)
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise bad("tokens is a list of whole numbers.", "tokens")
        if self.standing.speaks_tokenize(upstream):
            status, answer = await upstream.ask("/detokenize", body, grant.client_auth)
            if status == 200 and isinstance(answer, dict):  # noqa: PLR2004
                return Reply.of(answer)
        tokenizer = texts_of(await self.standing.models.use(upstream, model))
        return Reply.of({"content": await self._worked(lambda: tokenizer.decode(tokens))})

    async def tokenize_v1(self, incoming: Incoming, request_id: str) -> Reply:
        """A text, or messages with tools: the count, the tokens, and the model's window."""
        grant, body, model, upstream = await self._asked(incoming)
        use = await self.standing.models.use(upstream, model)
        text = next(
            (body[key] for key in ("prompt", "content", "text") if isinstance(body.get(key), str)), None
        )
        if text is None and isinstance(body.get("messages"), list):
            call = await self._call(CHAT, {**body, "model": model}, grant.client_auth)
        elif text is not None:
            call = await self._call(COMPLETIONS, {"model": model, "prompt": text}, grant.client_auth)
        else:
            raise bad("give prompt (a text), or messages.", "prompt")
        counting = self.standing.counting
        counted = await counting.count(call, upstream, use)
        value: dict[str, object] = {"count": counted.tokens, "max_model_len": use.context_window}
        if body.get("return_tokens", True) is not False:
            value["tokens"] = await counting.tokens_of(call, upstream, use, counted)
        return Reply.of({**value, **_about(counted)})

    # The library over HTTP.

    def _library(
        self, work: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    ) -> Callable[[Incoming, str], Any]:
        async def answer(incoming: Incoming, _: str) -> Reply:
            grant = await self.standing.authenticator.admit(incoming)
            body = await self._body(incoming)
            if isinstance(body.get("model"), str):
                grant.check(body["model"])
            return Reply.of(await work(body))

        return answer

    async def _layout(self, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = await self._worked(lambda: layout_of(body))
        return found

    async def _plan(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._with_model(plan_of, body)

    async def _enforce(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._with_model(enforcement_of, body)

    async def _with_model(
        self,
        work: Callable[[dict[str, Any], ModelFigures | None, Tokenizer | RequestCounter], dict[str, Any]],
        body: dict[str, Any],
    ) -> dict[str, Any]:
        """``work`` with what is known of the model, and what counts for it: messages as its requests are."""
        use = None
        counter: Tokenizer | RequestCounter | None = named_tokenizer(body)
        if isinstance(body.get("model"), str):
            upstream = await self.standing.models.upstream_of(body["model"])
            use = await self.standing.models.use(upstream, body["model"])
            if counter is None:
                counter = await self._counter(body, upstream, use)
        counting = get("o200k_base") if counter is None else counter
        found: dict[str, Any] = await self._worked(lambda: work(body, use, counting))
        return found

    async def _counter(
        self, body: dict[str, Any], upstream: Upstream, use: ModelUse
    ) -> Tokenizer | RequestCounter:
        """What counts a body's chunks: of messages, the whole as it would be counted if it were sent."""
        chunks = await self._worked(lambda: chunks_of(body))
        if chunks.kind is not ChunkKind.MESSAGES:
            return texts_of(use)
        call = await self._call(CHAT, {"model": use.model, "messages": body["chunks"]})
        counted = await self.standing.counting.count(call, upstream, use)
        return WholeCounted(Request.of_items(chunks.read), counted.count, use.counter)

    async def _worked(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """``work`` in a thread, its errors as answers."""
        try:
            async with asyncio.timeout(self.standing.settings.limits.count_seconds):
                return await asyncio.to_thread(work)
        except TimeoutError:
            raise Refusal(400, "timeout", "This takes too long. Send less at once.") from None
        except ContextCriticalOverflow as error:
            raise Refusal(400, error.code, error.message, None, error.to_dict()) from None
        except TokenboxError as error:
            raise Refusal(400, error.code, error.message, None, error.to_dict()) from None

    # Steps of the above.

    async def _body(self, incoming: Incoming) -> dict[str, Any]:
        limits = self.standing.settings.limits
        data = await incoming.body(limits.body, limits.body_seconds)
        return await read_in_time(data, lambda: read_object(data, limits))

    async def _asked(self, incoming: Incoming) -> tuple[Grant, dict[str, Any], str, Upstream]:
        """Who asks, the body, the model it is about, and who answers for that."""
        grant = await self.standing.authenticator.admit(incoming)
        body = await self._body(incoming)
        named = body.get("model")
        if named is not None and not isinstance(named, str):
            raise bad("model is the name of a model.", "model")
        model = await self._only_model(grant) if named is None else named
        grant.check(model)
        return grant, body, model, await self.standing.models.upstream_of(model)

    async def _call(self, protocol: Protocol, body: dict[str, Any], auth: Headers = ()) -> ApiCall:
        """The body as a call that is only counted."""
        data, limits = json_bytes(body), self.standing.settings.limits
        return await read_in_time(data, lambda: read_call(protocol, data, limits, auth))

    async def _only_model(self, grant: Grant) -> str:
        """The model meant where none is named: the only one there is."""
        names = [
            item["id"]
            for upstream in self.standing.upstreams
            for item in await self.standing.upstream_models(upstream, grant)
        ]
        if len(names) != 1:
            raise bad(f"model is missing, and there are {len(names)}: name one.", "model")
        return str(names[0])

    async def _encoded(self, upstream: Upstream, model: str, text: str) -> list[int]:
        tokenizer = texts_of(await self.standing.models.use(upstream, model))
        found: list[int] = await self._worked(lambda: tokenizer.encode(text))
        return found


def _about(counted: Counted) -> dict[str, object]:
    """Who counted, and how far it can be relied on."""
    count = counted.count
    return {
        "exact": count.exact,
        "at_most": count.at_most,
        "counted_by": counted.source,
        **({} if counted.missing is None else {"missing": counted.missing}),
    }
