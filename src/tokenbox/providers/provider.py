"""An asynchronous client of one model on one server: capabilities, counts and chats.

For synchronous code, :class:`tokenbox.providers.BlockingProvider` has the same methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tokenbox.caching import with_breakpoints
from tokenbox.content.request import Api
from tokenbox.errors import TokenboxError
from tokenbox.providers.counting import TokenCount, as_text, is_unicode, local_count, local_request_count
from tokenbox.providers.errors import InvalidRequest
from tokenbox.providers.events import ChatAnswer, gathered
from tokenbox.providers.kinds import UNKNOWN, ServerKind, find_kind
from tokenbox.providers.kinds.kind import Dialect, listed_names
from tokenbox.providers.memory import SESSION, EndpointMemory
from tokenbox.providers.plausible import LONGEST_TOKEN, is_possible
from tokenbox.providers.request import ChatOptions, ChatRequest, chat_request, plain_messages
from tokenbox.providers.server import Capabilities, Server, count_request, discover, settled
from tokenbox.providers.stream import ChatStream, events_of
from tokenbox.providers.target import Target, root_of
from tokenbox.providers.transport import HttpCall, Transport

if TYPE_CHECKING:
    from tokenbox.compose.requests import RequestCounter


class Provider:
    """A model on a server. ``target`` may be changed at any time, for the next call.

    A provider need not be opened or closed; ``async with provider:`` keeps connections between calls.
    ``counter`` counts requests locally if the server does not. ``memory`` caches what endpoints support
    (default: one per process). ``transport`` keeps the connections (default: one per provider).
    """

    def __init__(
        self,
        target: Target,
        *,
        counter: RequestCounter | None = None,
        memory: EndpointMemory = SESSION,
        transport: Transport | None = None,
    ) -> None:
        self.target = target
        self.counter = counter
        self._memory = memory
        self._transport = Transport() if transport is None else transport

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the kept connections. The provider can still be used."""
        await self._transport.close()

    def _server(self) -> Server:
        return Server(self.target, self._transport, self._memory)

    async def kind(self) -> str:
        """Return the name of the kind of server; ``auto`` is detected once per endpoint.

        Raises :class:`InvalidTarget`.
        """
        return (await self._server().kind()).name

    async def capabilities(self) -> Capabilities:
        """Return the limits of the model: the user's, else the server's, else the catalog's.

        The server is asked once. If it does not answer now, ``complete`` is False and the next call asks
        again. Raises :class:`InvalidTarget`.
        """
        server = self._server()
        return await _capabilities(server, await server.kind())

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server lists. Raises :class:`ProviderError`."""
        server = self._server()
        kind = await server.kind()
        answer = await server.probe(kind, kind.models_path)
        server.check(answer, kind.models_path)
        return listed_names(answer.body)

    async def counted_text(self, text: str | None) -> TokenCount:
        """Count the tokens of ``text``, on the server if possible. Never raises."""
        text, server = as_text(text), self._server()
        counted = None
        if text and server.target.counts_on_server and is_unicode(text):
            with suppress(Exception):  # a count never raises: the fallback is local
                counted = await _text_count(server, text)
        return local_count(text, server.target) if counted is None else counted

    async def token_count(self, text: str | None) -> int:
        """Return the number of tokens of ``text``. Never raises."""
        return (await self.counted_text(text)).value

    async def count(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> TokenCount:
        """Count the tokens of a request, with template and tools. Raises only :class:`InvalidRequest`."""
        server = self._server()
        request = ChatRequest(server.target.model, plain_messages(messages), tuple(tools or ()))
        counted = None
        if server.target.counts_on_server:
            try:
                counted = await _request_count(server, request)
            except InvalidRequest:
                raise
            except TokenboxError:
                counted = None
        return local_request_count(request, server.target, self.counter) if counted is None else counted

    async def chat(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Unpack[ChatOptions],
    ) -> ChatAnswer:
        """Return a complete answer. Raises :class:`ProviderError`."""
        server = self._server()
        request = chat_request(server.target.model, messages, tools, **options)
        kind, request = await _windowed(server, request)
        call = _call(server, kind, request)
        answer = await server.transport.json(call)
        server.check(answer, call.path, request.window)
        return gathered(kind.dialect.events(answer.body))

    def stream(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Unpack[ChatOptions],
    ) -> ChatStream:
        """Return a streamed answer. Iterating it raises :class:`ProviderError`, with ``partial`` results."""
        server = self._server()
        request = chat_request(server.target.model, messages, tools, **options)

        async def ask() -> tuple[Dialect, HttpCall, int | None]:
            kind, windowed = await _windowed(server, replace(request, stream=True))
            return kind.dialect, _call(server, kind, windowed), windowed.window

        return ChatStream(events_of(server, ask))


async def _windowed(server: Server, request: ChatRequest) -> tuple[ServerKind, ChatRequest]:
    """Return the kind, and the request with the context window if such a server requires it (Ollama)."""
    kind = await server.kind()
    if not kind.dialect.asks_window:
        return kind, request
    window = (await _capabilities(server, kind)).context_window
    return kind, replace(request, window=None if window is None else window.value)


async def _capabilities(server: Server, kind: ServerKind) -> Capabilities:
    found = await server.memory.know(
        server.target.root,
        f"capabilities {kind.name} {server.target.model}",
        lambda: discover(server.target.model, kind, partial(server.probe, kind)),
    )
    return settled(
        Capabilities(kind.name, server.target.model, complete=False) if found is None else found,
        server.target,
    )


def _call(server: Server, kind: ServerKind, request: ChatRequest) -> HttpCall:
    body: Mapping[str, Any] = kind.dialect.body(request, kind.max_tokens_field)
    if request.cache_marks and kind.dialect.api is Api.MESSAGES:
        body = with_breakpoints(body, request.model)
    return server.call(kind, kind.chat_path, body)


# The fields of a text in tokenize requests. Each is a capability of its own, though the path is the same.
_TEXT_FIELDS: Final = ("content", "prompt", "inputs")


def tokenize_supported(endpoint: str, memory: EndpointMemory = SESSION) -> bool | None:
    """Return whether the server at ``endpoint`` counts texts; None if unknown. Makes no request.

    Raises :class:`InvalidTarget`.
    """
    known = [memory.supported(root_of(endpoint), f"tokenize {field}") for field in _TEXT_FIELDS]
    return True if True in known else False if False in known else None


async def _text_count(server: Server, text: str) -> TokenCount | None:
    """Return the server's count of ``text``; None if it has none that can be true.

    The kind is not detected for a text: while it is unknown, llama.cpp's form is used. Raises
    :class:`ProviderError`.
    """
    shape = (server.kind_as_known() or find_kind(UNKNOWN)).text_count
    if shape is None:
        return None
    body = {shape.text_field: text, "model": server.target.model, **shape.fixed}
    what = f"tokenize {shape.text_field}"
    value = (await server.ask(shape.path, body, shape.read, what=what)).value
    if value is None or len(text) > LONGEST_TOKEN * value:
        return None
    return TokenCount(value, shape.exact, f"{server.target.root}{shape.path}")


async def _request_count(server: Server, request: ChatRequest) -> TokenCount | None:
    """Return the server's count of the rendered request; None if it has none that can be true.

    A refusal may be specific to the request, so it is not cached. Raises :class:`ProviderError`.
    """
    if server.memory.resting(server.target.root):
        return None  # do not detect the kind either
    kind = await server.kind()
    if kind.dialect.api is None:
        return None
    api, body = kind.dialect.api, kind.dialect.body(request, kind.max_tokens_field)
    found = (await count_request(server.ask, kind, api, body)).value
    if found is None or not is_possible(api, body, found.tokens):
        return None
    return TokenCount(found.tokens, found.way.exact, f"{server.target.root}{found.way.path}")
