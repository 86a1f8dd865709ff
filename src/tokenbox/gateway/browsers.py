"""Pages of other sites, where the operator lets them ask (CORS, the Fetch standard)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenbox.gateway.asgi import Incoming, Message, Send

_SECONDS = b"600"


def preflight(incoming: Incoming) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of the answer to a browser that asks whether a page may ask."""
    asked = incoming.headers.get(b"access-control-request-headers", b"authorization, content-type")
    return (
        (b"access-control-allow-origin", incoming.headers[b"origin"]),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", _SECONDS),
        (b"vary", b"origin, access-control-request-headers"),
    )


def shared_with(origin: str, send: Send) -> Send:
    """``send`` for an answer that a page of ``origin`` may read, its headers too.

    Cookies are never asked for: a page needs a key of its own.
    """
    named = {b"access-control-allow-origin", b"access-control-expose-headers", b"vary"}
    ours = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    ]

    async def shared(message: Message) -> None:
        if message["type"] == "http.response.start":
            theirs = [(name, value) for name, value in message["headers"] if name not in named]
            message = {**message, "headers": [*theirs, *ours]}
        await send(message)

    return shared
