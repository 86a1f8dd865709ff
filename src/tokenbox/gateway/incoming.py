"""Requests over ASGI, with bounded reading of bodies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tokenbox.gateway.refusals import Refusal

if TYPE_CHECKING:
    from tokenbox.gateway.asgi import Headers, Message, Receive
    from tokenbox.gateway.body_memory import BodyReservation


class ClientGone(Exception):
    """The client closed the connection, so no answer is sent."""


class Client(Protocol):
    """The connection of a request, as the server sees it.

    ``on_disconnect`` is called once when the connection has ended. ``is_late`` means that the body did not
    arrive in time.
    """

    on_disconnect: Callable[[], None] | None
    is_late: bool


_UTF_8 = re.compile(rb"""charset="?(?:utf-?8|us-ascii)"?(?![^\s;,"])""")


class PlainClient:
    """The connection of a request under a server that does not report its end, so that it is watched.

    Fulfils :class:`Client`.
    """

    def __init__(self, receive: Receive) -> None:
        self.on_disconnect: Callable[[], None] | None = None
        self.is_late = False
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Call ``on_disconnect`` when the connection ends. The body must have been read."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self.on_disconnect is not None:
            self.on_disconnect()


# The key of the :class:`Client` in a request's scope.
CLIENT = "tokenbox.client"


@dataclass(slots=True)
class Incoming:
    """A request: its head, and its body, which is read at most once and reserved in ``memory``."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    client: Client
    memory: BodyReservation
    _receive: Receive
    _ended: bool = False

    @classmethod
    def of(cls, scope: Message, receive: Receive, memory: BodyReservation) -> Incoming:
        client = (scope.get("extensions") or {}).get(CLIENT)
        return cls(
            scope["method"],
            scope["path"],
            scope.get("query_string", b""),
            _by_name(list(map(tuple, scope["headers"]))),
            PlainClient(receive) if client is None else client,
            memory,
            receive,
        )

    def header(self, name: bytes) -> str | None:
        """Return the header of that lower-case name, or None."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    async def body(self, limit: int, seconds: float) -> bytes:
        """Return the body, for which the server waits ``seconds``.

        Raises :class:`ClientGone`, and :class:`Refusal` also if there is no memory for it.
        """
        encoding = self.headers.get(b"content-encoding", b"identity")
        if encoding.lower() != b"identity":
            shown = encoding[:40].decode("latin-1")
            raise _encoded(f"the body is encoded as {shown}, which is not taken. Send it as it is.")
        # In another character set the same bytes would be another body (RFC 8259, 8.1).
        content_type = self.headers.get(b"content-type", b"").lower()
        if b"charset" in content_type and len(_UTF_8.findall(content_type)) != content_type.count(b"charset"):
            raise _encoded("the body has to be UTF-8: its content-type says something else.")
        announced = self.headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > limit:
            raise _too_large(limit)
        pieces: list[bytes] = []
        size = 0
        due = asyncio.get_running_loop().time() + seconds
        while not self._ended:
            # The gateway's own server sets ``is_late``. For other servers it is set here.
            plain = self.client.__class__ is PlainClient
            message = await (self._in_time(due) if plain else self._receive())
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            self.memory.add(len(piece))
            pieces.append(piece)
            self._ended = not message.get("more_body", False)
            if self.client.is_late and not self._ended:
                raise _late(seconds, size)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _in_time(self, due: float) -> Message:
        """Return the next message, or an empty one after ``due``."""
        try:
            async with asyncio.timeout_at(due):
                return await self._receive()
        except TimeoutError:
            self.client.is_late = True
            return {"type": "http.request", "more_body": True}


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "body_too_large", f"the body has more than {limit:,} bytes. Send less at once.")


def _late(seconds: float, size: int) -> Refusal:
    message = f"the body did not arrive within {seconds:g} seconds ({size:,} bytes did). Send it again."
    # The rest of the body is not waited for (RFC 9110, 15.5.9).
    return Refusal(408, "body_timeout", message, headers=((b"connection", b"close"),))


def _encoded(message: str) -> Refusal:
    return Refusal(415, "body_encoded", message, headers=((b"accept-encoding", b"identity"),))


def _by_name(given: Headers) -> dict[bytes, bytes]:
    """Return the headers by name. Different values of one header are joined (RFC 9110, 5.3)."""
    found = dict(given)
    if len(found) == len(given):
        return found
    values: dict[bytes, dict[bytes, None]] = {}
    for name, value in given:
        values.setdefault(name, {})[value] = None
    return {name: b", ".join(distinct) for name, distinct in values.items()}
