"""A streamed answer: its events, and the answer so far at any time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Self

from tokenbox.providers.errors import AnswerTooLarge, BadAnswer, ConnectionLost, ProviderError, StreamCut
from tokenbox.providers.events import ChatAnswer, Event, Gathering
from tokenbox.providers.server import Server, error_inside
from tokenbox.providers.shapes import parsed
from tokenbox.providers.transport import FIRST_REFUSAL, HttpCall, Response, whole

if TYPE_CHECKING:
    from tokenbox.providers.framing import Framing, StreamMessage
    from tokenbox.providers.kinds.kind import Dialect, StreamReader

_DONE: Final = "[DONE]"


class ChatStream:
    """The events of an answer. ``answer``: the answer so far, also after an error.

    ``aclose``, or leaving ``async with``, closes the connection, which stops the model.
    """

    def __init__(self, events: AsyncGenerator[Event]) -> None:
        self._events = events
        self._gathering = Gathering()

    @property
    def answer(self) -> ChatAnswer:
        return self._gathering.answer()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        try:
            event = await anext(self._events)
        except ProviderError as error:
            error.partial = self.answer
            raise
        self._gathering.add(event)
        return event

    async def aclose(self) -> None:
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def events_of(
    server: Server, ask: Callable[[], Awaitable[tuple[Dialect, HttpCall, int | None]]]
) -> AsyncGenerator[Event]:
    """Yield the events of the answer to the call that ``ask`` returns. Raises :class:`ProviderError`."""
    dialect, call, window = await ask()
    async with server.transport.response(call) as response:
        if response.status >= FIRST_REFUSAL or response.content_type == "application/json":
            # Some proxies answer a stream request with a complete answer. Errors have this form too.
            answer = await whole(response, call)
            server.check(answer, call.path, window)
            for event in dialect.events(answer.body):
                yield event
            return
        if response.content_type == "text/html":
            raise BadAnswer(
                f"{call.place} answers with an HTML page. Check that the endpoint is an LLM server."
            )
        reader = dialect.reader()
        async for body in _bodies(response, dialect.framing(call.bounds.event_bytes), reader, call):
            if error_inside(body):
                raise server.error(None, body, call.path, window=window)
            for event in reader.read(body):
                yield event
            if reader.done:
                return


async def _bodies(
    response: Response, framing: Framing, reader: StreamReader, call: HttpCall
) -> AsyncGenerator[object]:
    """Yield the JSON values of a stream, up to ``[DONE]`` or its end.

    Raises :class:`StreamCut` if the ``reader`` says that it may not end there.
    """
    size = 0
    try:
        async for piece in response.pieces():
            for message in framing.feed(piece):
                if message.data.strip() == _DONE:
                    return
                yield _body(message, call)
            size += len(piece)
            if size > call.bounds.stream_bytes:
                raise AnswerTooLarge(
                    f"the stream of {call.place} exceeds {call.bounds.stream_bytes:,} bytes.",
                    limit=call.bounds.stream_bytes,
                )
    except ConnectionLost:
        raise _cut(call) from None
    for message in framing.close():
        if message.data.strip() == _DONE:
            return
        try:
            body = _body(message, call)
        except BadAnswer:
            raise _cut(call) from None  # an incomplete message
        yield body
    if not reader.may_end:
        raise _cut(call)


def _body(message: StreamMessage, call: HttpCall) -> object:
    body = parsed(message.data, f"a message of the stream of {call.place}")
    # Older versions of llama.cpp send the error itself, not an object with an "error" key.
    return {"error": body} if message.event == "error" and not error_inside(body) else body


def _cut(call: HttpCall) -> StreamCut:
    return StreamCut(
        f"the answer of {call.root} is incomplete. The part so far is kept; ask again for the rest."
    )
