"""Streams cut into messages, sans-I/O: bytes in, in pieces of any size; messages out.

Server-sent events as in the HTML standard, section 9.2 (line ends CR, LF and CRLF, also across pieces;
comments; several data lines; a byte order mark), and JSON lines. Neither decodes a character before it is
whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tokenbox.providers.errors import AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream. ``event`` is its name, empty where it has none."""

    event: str
    data: str


class Framing(Protocol):
    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that ``piece`` completes, all to be taken. Raises :class:`AnswerTooLarge`."""
        ...

    def close(self) -> list[Message]:
        """What is left when the stream has ended: a message without its end, which may be torn."""
        ...


class _Lines:
    """Whole lines from pieces: LF, CRLF and, where ``cr``, CR alone end a line."""

    def __init__(self, limit: int, *, cr: bool) -> None:
        self._limit = limit
        self._cr = cr
        self._rest: list[bytes] = []
        self._size = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        if self._after_cr and piece:
            # The CR before ended a line already; an LF here belongs to it.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if self._cr:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._rest, whole[0]])
            self._rest, self._size = [], 0
        self._rest.append(rest)
        self._size += len(rest)
        yield from whole  # these came before what may be too large
        self.check(self._size)

    def check(self, size: int) -> None:
        if size > self._limit:
            raise AnswerTooLarge(
                f"one message of the stream is larger than {self._limit:,} bytes. No model writes that.",
                limit=self._limit,
            )

    def close(self) -> bytes:
        return b"".join(self._rest)


class ServerSentEvents:
    """``text/event-stream``."""

    def __init__(self, limit: int) -> None:
        self._lines = _Lines(limit, cr=True)
        self._event = ""
        self._data: list[bytes] = []
        self._size = 0
        self._first = True

    def feed(self, piece: bytes) -> Iterator[Message]:
        for raw in self._lines.feed(piece):
            line = raw
            if self._first:
                line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
            if line:
                self._field(line)
            elif self._data:
                yield self._message()
            else:
                self._event = ""

    def close(self) -> list[Message]:
        line = self._lines.close()
        if line:
            self._field(line)
        return [self._message()] if self._data else []

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"error":  # llama.cpp, before it wrote errors as data
            self._event, name = "error", b"data"
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._lines.check(self._size)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")

    def _message(self) -> Message:
        message = Message(self._event, b"\n".join(self._data).decode("utf-8", "replace"))
        self._event, self._data, self._size = "", [], 0
        return message


class JsonLines:
    """``application/x-ndjson``: a JSON value in each line."""

    def __init__(self, limit: int) -> None:
        self._lines = _Lines(limit, cr=False)

    def feed(self, piece: bytes) -> Iterator[Message]:
        return (_line(line) for line in self._lines.feed(piece) if line.strip())

    def close(self) -> list[Message]:
        line = self._lines.close()
        return [_line(line)] if line.strip() else []


def _line(line: bytes) -> Message:
    return Message("", line.decode("utf-8", "replace"))
