"""Relay an answer from the upstream to the client."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenbox.gateway.asgi import Headers, Send, json_object
from tokenbox.gateway.protocols import ErrorStyle, with_key
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.taps import Tap, is_error
from tokenbox.gateway.upstream import Upstream, returned, used_nothing
from tokenbox.providers.errors import AnswerTooLarge
from tokenbox.providers.wire import BrokenAnswer, Failure, WireConnection

if TYPE_CHECKING:
    from tokenbox.gateway.calls import ApiCall
    from tokenbox.ledger.usage import Usage

_FIRST_REDIRECT, _FIRST_ERROR = 300, 400
_LAST_STATUS = 599  # RFC 9110, 15: others are invalid, and servers cannot send them on
_KEY_STATUSES = (401, 403)
# The largest whole answer, in bytes: 4,096 embeddings of 4,096 numbers are 200 MB.
_MAX_ANSWER = 256 << 20
# The upstream's request id, which its operators need, beside the gateway's.
_RENAMED = {b"x-request-id": b"x-tokenbox-upstream-request-id"}


@dataclass(slots=True)
class CallOutcome:
    """The outcome of a request. ``status`` is what the client saw; ``usage`` is what the upstream reported.

    ``begun``: the head was sent; ``ended``: so was the last byte; ``complete``: and the answer was not an
    error. ``left``: the client disconnected before. ``used_nothing``: the upstream refused the request, or
    did not receive it. ``sent`` and ``first_byte`` are times of the monotonic clock, in seconds: when the
    request was sent on, and when the answer began. ``cause`` is for the log: why a stream that had begun
    ended with an error.
    """

    status: int = 0
    usage: Usage | None = None
    complete: bool = False
    begun: bool = False
    ended: bool = False
    left: bool = False
    sent: float | None = None
    first_byte: float | None = None
    used_nothing: bool = False
    cause: str | None = None


@dataclass(slots=True)
class Relay:
    """The relay of one answer.

    ``headers`` are the gateway's own, ``note`` is the value of its key, and ``started`` is an event to send
    first. ``hide_usage``: the gateway asked for usage, and the client did not. :meth:`run` raises
    :class:`Refusal` only before the answer began; a later failure becomes the last event of the stream.
    """

    call: ApiCall
    upstream: Upstream
    answer: WireConnection
    send: Send
    request_id: str
    headers: Headers
    note: bytes
    started: bytes
    hide_usage: bool
    outcome: CallOutcome

    async def run(self) -> None:
        if self.answer.status >= _FIRST_REDIRECT:
            await self.error()
            return
        coding = (self.answer.header(b"content-encoding") or b"identity").decode("latin-1")
        if coding.lower() != "identity":
            how = (
                f"answers in {coding[:40]}, though asked not to. The operator has to turn its compression off"
            )
            raise self.upstream.failed(Failure.GARBLED, how, cause=f"content-encoding: {coding[:40]}")
        content_type = self.answer.header(b"content-type") or b""
        if self.call.stream and content_type.lower().startswith(b"text/event-stream"):
            await self.stream()
        else:
            await self.whole()

    async def whole(self) -> None:
        """Relay an answer in one piece: the gateway's key is added first, every other byte stays."""
        data = await self._body()
        value = json_object(data)
        if value is None:
            raise self.upstream.failed(Failure.GARBLED, cause="the answer is not a JSON object")
        self.outcome.usage = self.call.protocol.usage_in(value)
        await self._send_whole(with_key(data, b"tokenbox", self.note), value)

    async def stream(self) -> None:
        """Relay an event stream."""
        tap = Tap(
            self.call.protocol,
            self.note,
            hide_usage=self.hide_usage,
            started=self.started,
            choices=self.call.choices,
        )
        failure: Refusal | None = None
        try:
            while piece := await self.answer.piece():
                if out := tap.feed(piece):
                    await self._send_piece(out)
                if tap.is_garbled:
                    failure = self.upstream.failed(Failure.GARBLED, cause="an event is not complete JSON")
                    break
            else:
                if rest := tap.end():
                    await self._send_piece(rest)
                if not tap.whole:
                    cause = "the stream ended before its last event"
                    failure = self.upstream.failed(Failure.BROKE, cause=cause)
        except BrokenAnswer as error:
            failure = self.upstream.failed(error.how, cause=str(error))
        except AnswerTooLarge as error:
            failure = self.upstream.failed(Failure.GARBLED, cause=error.message)
        finally:  # also if the client has left
            self.outcome.usage = tap.reported
        if failure is not None:
            if not self.outcome.begun:
                raise failure
            self.outcome.cause = failure.cause
            await self._send_piece(failure.event(self.call.protocol, self.request_id, tap.events))
        await self._start()
        self.outcome.ended, self.outcome.complete = True, failure is None and tap.error is None
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def error(self) -> None:
        """Relay the upstream's error if it has the API's shape and reveals no secret; else raise another."""
        status = self.answer.status
        self.outcome.used_nothing = used_nothing(status)
        if status in _KEY_STATUSES and self.upstream.settings.key is not None:
            # The upstream's error may quote the operator's key.
            raise Refusal(
                502,
                "upstream_refused_key",
                f"The upstream {self.upstream.name!r} refused the gateway's own key. "
                "The operator has to replace it.",
            )
        if status < _FIRST_ERROR:
            how = f"redirects to another address ({status}). The operator has to set that address"
            raise self.upstream.failed(Failure.GARBLED, how, cause=f"status {status}")
        if status > _LAST_STATUS:
            raise self.upstream.failed(Failure.GARBLED, cause=f"status {status}")
        data = self.upstream.withheld(await self._body())
        value = json_object(data)
        if value is not None and self._has_shape(value):
            await self._send_whole(data, value)
            return
        retry = self.answer.header(b"retry-after")
        raise Refusal(
            status,
            "upstream_error",
            f"The upstream {self.upstream.name!r} answered {status}{_error_text(value, data)}",
            headers=() if retry is None else ((b"retry-after", retry),),
        )

    def _has_shape(self, value: dict[str, Any]) -> bool:
        error = value.get("error")
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return False
        return self.call.protocol.style is ErrorStyle.OPENAI or value.get("type") == "error"

    async def _body(self) -> bytes:
        try:
            return await self.answer.read(_MAX_ANSWER)
        except BrokenAnswer as error:
            raise self.upstream.failed(error.how, cause=str(error)) from None

    async def _send_whole(self, data: bytes, value: dict[str, Any]) -> None:
        """Send an answer, whose JSON object is ``value``."""
        data = self.upstream.withheld(data)
        await self._start((b"content-length", str(len(data)).encode()))
        self.outcome.ended, self.outcome.complete = True, not is_error(value)
        await self.send({"type": "http.response.body", "body": data})

    async def _send_piece(self, data: bytes) -> None:
        if not self.outcome.begun:
            await self._start()
        await self.send(
            {"type": "http.response.body", "body": self.upstream.withheld(data), "more_body": True}
        )

    async def _start(self, *more: tuple[bytes, bytes]) -> None:
        """Send the head, once."""
        if self.outcome.begun:
            return
        status = self.answer.status
        self.outcome.begun, self.outcome.status = True, status
        self.outcome.first_byte = time.monotonic()
        own = [*self.headers, *more]
        own_names = {name for name, _ in own}
        relayed = [
            (_RENAMED.get(name, name), self.upstream.withheld(value))
            for name, value in returned(self.answer.raw_headers)
            if name in _RENAMED or name not in own_names
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": [*relayed, *own]})


def _error_text(value: dict[str, Any] | None, data: bytes) -> str:
    """Return the text of an error in another shape: FastAPI's, SGLang's, plain text."""
    for key in ("message", "detail", "error"):
        message = None if value is None else value.get(key)
        if isinstance(message, dict):
            message = message.get("message")
        if isinstance(message, str) and message:
            return f": {message[:1000]}"
    text = data[:800].decode("utf-8", "replace")[:200].strip()
    is_text = "\ufffd" not in text and not text.startswith("<")  # neither compressed nor a page
    return f": {text}" if text and is_text else "."
