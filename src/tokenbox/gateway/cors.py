"""Cross-origin requests of browsers, from the sites that the operator allows (CORS, the Fetch standard)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.gateway.asgi import Incoming, Message, Send

_MAX_AGE_SECONDS = b"600"


def preflight_headers(incoming: Incoming) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of the answer to a preflight request."""
    asked = incoming.headers.get(b"access-control-request-headers", b"authorization, content-type")
    return (
        (b"access-control-allow-origin", incoming.headers[b"origin"]),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", _MAX_AGE_SECONDS),
        (b"vary", b"origin, access-control-request-headers"),
    )


def with_cors(origin: str, send: Send) -> Send:
    """Wrap ``send`` so that a page of ``origin`` may read the answer and its headers.

    Credentials are not allowed: a page needs a key of its own.
    """
    added = {
        b"access-control-allow-origin": origin.encode("latin-1"),
        b"access-control-expose-headers": b"*",
        b"vary": b"origin",
    }

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in added]
            message = {**message, "headers": [*kept, *added.items()]}
        await send(message)

    return send_with_cors
