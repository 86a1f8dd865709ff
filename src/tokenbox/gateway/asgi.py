"""The messages of ASGI, whole replies, and JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = JSON

    @classmethod
    def of(cls, value: object, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> Reply:
        """Return a reply with ``value`` as JSON."""
        return cls(status, json_bytes(value), tuple(headers))

    async def send(self, send: Send) -> None:
        length = str(len(self.body)).encode()
        headers = [(b"content-type", self.content_type), (b"content-length", length), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_bytes(value: object) -> bytes:
    """Return ``value`` as compact JSON in UTF-8. Lone surrogates are escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, or an integer of more than 64 bits
        return json.dumps(value, separators=(",", ":")).encode()


def json_object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object in ``data``, or None. It is for the answers of servers, which may have NaN.

    Integers of more than 64 bits become floats.
    """
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            value = json.loads(data.decode("utf-8-sig"))  # bytes could be UTF-16, too
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
