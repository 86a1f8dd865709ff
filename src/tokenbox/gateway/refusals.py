"""Errors in the shape of each API: the one place that maps an error to HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenbox.gateway.asgi import Reply, json_bytes
from tokenbox.gateway.protocols import ErrorStyle, Protocol
from tokenbox.providers.framing import frame

# Status: OpenAI's error type, Anthropic's error type (docs of both APIs).
_TYPES = {
    401: ("authentication_error", "authentication_error"),
    403: ("permission_error", "permission_error"),
    404: ("not_found_error", "not_found_error"),
    408: ("timeout_error", "timeout_error"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_error"),
    503: ("server_error", "overloaded_error"),
    504: ("server_error", "timeout_error"),
}
# Those of all other statuses, by the first digit.
_OTHER_TYPES = {
    4: ("invalid_request_error", "invalid_request_error"),
    5: ("server_error", "api_error"),
}


@dataclass(eq=False, slots=True)  # not frozen, because Python sets the traceback of an exception
class Refusal(Exception):
    """An error answer to a request.

    ``code`` is stable, ``tokenbox`` has the figures, ``headers`` are added to the answer's own.
    ``cause`` is for the log alone: why an upstream or a store failed.
    """

    status: int
    code: str
    message: str
    param: str | None = None
    tokenbox: Mapping[str, object] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    anthropic_message: str | None = None
    cause: str | None = None

    def reply(self, style: ErrorStyle, request_id: str) -> Reply:
        """Return the error as an answer in the shape of that API."""
        return Reply.of(self.body(style, request_id), self.status, self.headers)

    def body(self, style: ErrorStyle, request_id: str) -> dict[str, object]:
        openai, anthropic = _TYPES.get(self.status) or _OTHER_TYPES[self.status // 100]
        extra: dict[str, object] = {} if self.tokenbox is None else {"tokenbox": dict(self.tokenbox)}
        if style is ErrorStyle.ANTHROPIC:
            message = self.message if self.anthropic_message is None else self.anthropic_message
            error: dict[str, object] = {"type": anthropic, "message": message}
            return {"type": "error", "error": error, "request_id": request_id, **extra}
        error = {"message": self.message, "type": openai, "param": self.param, "code": self.code}
        return {"error": error, **extra}

    def event(self, protocol: Protocol, request_id: str, sequence: int = 0) -> bytes:
        """Return the error as the last event of a stream."""
        if protocol.style is ErrorStyle.ANTHROPIC:
            return frame(json_bytes(self.body(ErrorStyle.ANTHROPIC, request_id)), b"error")
        if protocol.name == "responses":
            value: dict[str, Any] = {
                "type": "error",
                "code": self.code,
                "message": self.message,
                "param": self.param,
                "sequence_number": sequence,
            }
            return frame(json_bytes(value), b"error")
        return frame(json_bytes(self.body(ErrorStyle.OPENAI, request_id)))


def invalid_request(message: str, param: str | None = None) -> Refusal:
    """Return the refusal (400) of a request that does not conform to its API."""
    begins_with_name = param is not None and message.startswith(param)
    text = message if begins_with_name else message[0].upper() + message[1:]
    return Refusal(400, "invalid_request", text, param)


def unavailable(code: str, message: str, retry_after: int, cause: str | None = None) -> Refusal:
    """Return the refusal (503) for something that may be available again in ``retry_after`` seconds."""
    return Refusal(503, code, message, headers=((b"retry-after", b"%d" % retry_after),), cause=cause)


def unauthorized(code: str, message: str) -> Refusal:
    """Return the refusal (401) for a missing or wrong key."""
    return Refusal(401, code, message, headers=((b"www-authenticate", b"Bearer"),))
