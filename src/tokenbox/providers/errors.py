"""The errors of requests to LLM servers.

    ProviderError                    provider_error
    ├── InvalidTarget                invalid_target           an invalid endpoint, key or model
    ├── InvalidRequest               invalid_request          invalid messages, tools or options
    ├── ServerUnreachable            server_unreachable       no address, no route, TLS
    │   ├── ConnectionRefused        connection_refused
    │   └── ConnectionLost           connection_lost          reset during the answer
    ├── ServerTimeout                server_timeout           no connection, silence, or too long in total
    ├── ServerFailed                 server_failed            5xx
    ├── RateLimited                  rate_limited             429; ``retry_after`` in seconds if given
    ├── AuthenticationFailed         authentication_failed    401, 403
    ├── RequestRejected              request_rejected         any other 4xx, and redirects
    │   ├── ModelNotFound            model_not_found
    │   └── ContextExceeded          context_exceeded         with the server's figures
    ├── BadAnswer                    bad_answer               not JSON, or JSON of another shape
    │   └── AnswerTooLarge           answer_too_large
    └── StreamCut                    stream_cut               an incomplete stream

``partial``: the answer so far, a :class:`~tokenbox.providers.events.ChatAnswer`, or None outside streams.
``transient``: whether the same request may succeed later. No message, detail or representation contains a
key: it is removed from the texts of servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.providers.events import ChatAnswer


class ProviderError(TokenboxError, code="provider_error"):
    """A request to an LLM server failed."""

    transient: ClassVar[bool] = False

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message, **details)
        self.partial: ChatAnswer | None = None


class InvalidTarget(ProviderError, code="invalid_target"):
    """The endpoint, key or model is invalid. Nothing was sent."""


class InvalidRequest(ProviderError, code="invalid_request"):
    """Messages, tools or options cannot be sent. Nothing was sent."""


class ServerUnreachable(ProviderError, code="server_unreachable"):
    """No connection: the host has no address, there is no route to it, or TLS failed."""

    transient = True


class ConnectionRefused(ServerUnreachable, code="connection_refused"):
    """Nothing listens at the endpoint."""


class ConnectionLost(ServerUnreachable, code="connection_lost"):
    """The connection was lost before the answer was complete."""


class ServerTimeout(ProviderError, code="server_timeout"):
    """The server took too long. ``details["seconds"]``: the limit."""

    transient = True


class ServerFailed(ProviderError, code="server_failed"):
    """The server reports an error of its own (5xx, or an error inside a stream).

    ``retry_after``: the seconds to wait before a retry; None if the server does not say.
    """

    transient = True

    def __init__(self, message: str, *, retry_after: int | None = None, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class RateLimited(ProviderError, code="rate_limited"):
    """Too many requests. ``retry_after``: the seconds to wait; None if the server does not say."""

    transient = True

    def __init__(self, message: str, *, retry_after: int | None = None, **details: object) -> None:
        super().__init__(message, retry_after=retry_after, **details)
        self.retry_after = retry_after


class AuthenticationFailed(ProviderError, code="authentication_failed"):
    """The key is missing, invalid, or not permitted to make the request."""


class RequestRejected(ProviderError, code="request_rejected"):
    """The server rejected the request. ``details`` has ``status``."""


class ModelNotFound(RequestRejected, code="model_not_found"):
    """The server has no such model."""


class ContextExceeded(RequestRejected, code="context_exceeded"):
    """The request does not fit the context window. Figures are tokens; None if the server does not say.

    ``input_tokens``: of the prompt. ``output_tokens``: the requested output limit.
    """

    def __init__(
        self,
        message: str,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        context_window: int | None = None,
        **details: object,
    ) -> None:
        super().__init__(
            message,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            context_window=context_window,
            **details,
        )
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.context_window = context_window


class BadAnswer(ProviderError, code="bad_answer"):
    """The answer is not JSON, or has another shape than this kind of server documents."""


class AnswerTooLarge(BadAnswer, code="answer_too_large"):
    """The answer exceeds the limit. ``details["limit"]``: bytes."""


class StreamCut(ProviderError, code="stream_cut"):
    """A streamed answer is incomplete. ``partial``: the answer so far."""

    transient = True
