"""Every error of talking to an LLM server.

    ProviderError                    provider_error
    ├── InvalidTarget                invalid_target           endpoint, key or model that cannot be used
    ├── InvalidRequest               invalid_request          messages, tools or options that cannot be sent
    ├── ServerUnreachable            server_unreachable       no name, no route, TLS
    │   ├── ConnectionRefused        connection_refused
    │   └── ConnectionLost           connection_lost          reset before the answer was whole
    ├── ServerTimeout                server_timeout           no connection, silence, or too long in all
    ├── ServerFailed                 server_failed            5xx
    ├── RateLimited                  rate_limited             429; ``retry_after`` in seconds where given
    ├── AuthenticationFailed         authentication_failed    401, 403
    ├── RequestRejected              request_rejected         any other 4xx, and redirects
    │   ├── ModelNotFound            model_not_found
    │   └── ContextExceeded          context_exceeded         with the figures the server gave
    ├── BadAnswer                    bad_answer               no JSON, or JSON of another shape
    │   └── AnswerTooLarge           answer_too_large
    └── StreamCut                    stream_cut               a stream that ended before its end

``partial`` is what had come of an answer when the error struck, a
:class:`~tokenbox.providers.events.ChatAnswer`, or None outside streams. ``transient`` says that the same
request may succeed later. No message, detail or representation holds a key: texts of servers are shown
without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.providers.events import ChatAnswer


class ProviderError(TokenboxError):
    """An LLM server could not be asked, or did not answer as it should."""

    code = "provider_error"
    transient: ClassVar[bool] = False

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message, **details)
        self.partial: ChatAnswer | None = None


class InvalidTarget(ProviderError):
    """An endpoint, key or model that no request can be made with. Nothing was sent."""

    code = "invalid_target"


class InvalidRequest(ProviderError):
    """Messages, tools or options that have no form on the wire. Nothing was sent."""

    code = "invalid_request"


class ServerUnreachable(ProviderError):
    """No connection: the host has no address, there is no route to it, or TLS failed."""

    code = "server_unreachable"
    transient = True


class ConnectionRefused(ServerUnreachable):
    """Nothing listens at the endpoint."""

    code = "connection_refused"


class ConnectionLost(ServerUnreachable):
    """The connection broke before the answer was whole."""

    code = "connection_lost"


class ServerTimeout(ProviderError):
    """The server took too long. ``details["seconds"]`` is the limit that was reached."""

    code = "server_timeout"
    transient = True


class ServerFailed(ProviderError):
    """The server says that the fault is its own (5xx, or an error inside a stream).

    ``retry_after`` is how long it asks to wait, in seconds, where it says.
    """

    code = "server_failed"
    transient = True

    def __init__(self, message: str, *, retry_after: int | None = None, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class RateLimited(ProviderError):
    """Too many requests. ``retry_after`` is how long the server asks to wait, in seconds, where it says."""

    code = "rate_limited"
    transient = True

    def __init__(self, message: str, *, retry_after: int | None = None, **details: object) -> None:
        super().__init__(message, retry_after=retry_after, **details)
        self.retry_after = retry_after


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong, or may not do this."""

    code = "authentication_failed"


class RequestRejected(ProviderError):
    """The server will not do this request. ``details`` has ``status``."""

    code = "request_rejected"


class ModelNotFound(RequestRejected):
    """The server has no such model."""

    code = "model_not_found"


class ContextExceeded(RequestRejected):
    """The request does not fit the context window. What the server did not say is None; all are tokens.

    ``input_tokens`` is the prompt, ``output_tokens`` the room asked for the answer.
    """

    code = "context_exceeded"

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


class BadAnswer(ProviderError):
    """The answer is not JSON, or not of the shape that this kind of server documents."""

    code = "bad_answer"


class AnswerTooLarge(BadAnswer):
    """The answer is larger than the limit. ``details["limit"]`` is bytes."""

    code = "answer_too_large"


class StreamCut(ProviderError):
    """A streamed answer stopped before its end. ``partial`` is what came."""

    code = "stream_cut"
    transient = True
