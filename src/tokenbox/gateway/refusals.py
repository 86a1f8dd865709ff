"""Errors as each protocol's clients understand them: one place maps an error to HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenbox.gateway.asgi import Reply, json_bytes
from tokenbox.gateway.protocols import ErrorStyle
from tokenbox.providers.framing import frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.gateway.protocols import Protocol

# Status: OpenAI's type, Anthropic's type (docs of both APIs).
_TYPES = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("authentication_error", "authentication_error"),
    403: ("permission_error", "permission_error"),
    404: ("not_found_error", "not_found_error"),
    405: ("invalid_request_error", "invalid_request_error"),
    408: ("timeout_error", "timeout_error"),
    413: ("invalid_request_error", "request_too_large"),
    415: ("invalid_request_error", "invalid_request_error"),
    429: ("rate_limit_error", "rate_limit_error"),
    431: ("invalid_request_error", "invalid_request_error"),
    500: ("server_error", "api_error"),
    502: ("server_error", "api_error"),
    503: ("server_error", "overloaded_error"),
    504: ("server_error", "timeout_error"),
}


@dataclass(eq=False, slots=True)  # not frozen: contexts that it passes through set its traceback
class Refusal(Exception):
    """A request ends here. ``code`` is stable; ``tokenbox`` has the figures; ``headers`` go along."""

    status: int
    code: str
    message: str
    param: str | None = None
    tokenbox: Mapping[str, object] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    anthropic_message: str | None = field(default=None)

    def reply(self, style: ErrorStyle, request_id: str) -> Reply:
        """The error as a whole answer in the shape of that API."""
        return Reply.of(self.body(style, request_id), self.status, self.headers)

    def body(self, style: ErrorStyle, request_id: str) -> dict[str, object]:
        openai, anthropic = _TYPES.get(self.status, ("server_error", "api_error"))
        extra: dict[str, object] = {} if self.tokenbox is None else {"tokenbox": dict(self.tokenbox)}
        if style is ErrorStyle.ANTHROPIC:
            message = self.message if self.anthropic_message is None else self.anthropic_message
            error: dict[str, object] = {"type": anthropic, "message": message}
            return {"type": "error", "error": error, "request_id": request_id, **extra}
        error = {"message": self.message, "type": openai, "param": self.param, "code": self.code}
        return {"error": error, **extra}

    def event(self, protocol: Protocol, request_id: str, sequence: int = 0) -> bytes:
        """The error as the last event of a stream that has begun."""
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


def over_limit(  # a refusal has so many figures
    *,
    input_tokens: int,
    reserved: int,
    limit: int,
    window: int,
    param: str,
    exact: bool,
    figures: Mapping[str, object],
) -> Refusal:
    """Input and reserved output do not fit: the texts that clients parse (docs/gateway.md names them).

    ``limit`` is what input and output together may be, ``window`` the model's own figure.
    """
    about = "" if exact else " (estimated)"
    wanted = input_tokens + reserved
    message = (
        f"This model's maximum context length is {limit} tokens. However, you requested {wanted} tokens"
        f"{about} ({input_tokens} in the {param}, {reserved} in the completion). "
        f"Please reduce the length of the {param}{' or completion' if reserved else ''}. "
        "[context_length_exceeded]"
    )
    if input_tokens > limit:
        anthropic = f"prompt is too long: {input_tokens} tokens > {limit} maximum"
    else:
        anthropic = (
            f"input length and `max_tokens` exceed context limit: {input_tokens} + {reserved} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return Refusal(
        400,
        "context_length_exceeded",
        message,
        param,
        {"window": window, **figures},
        anthropic_message=anthropic,
    )
