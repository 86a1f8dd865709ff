"""Streams cut into messages, sans-I/O: bytes in, in pieces of any size; messages out.

:class:`Frames` cuts a stream of server-sent events (HTML standard, 9.2) into frames and keeps every byte, for
callers that pass them on. What a frame says, :func:`message_of` reads. :class:`ServerSentEvents` and
:class:`JsonLines` give the messages of a whole stream. No character is decoded before it is whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tokenbox.providers.errors import AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

# A frame ends with an empty line; a line ends with LF, CRLF or CR. Atomic, or a CRLF would be two line ends.
_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message of a stream. ``event`` is its name, empty where it has none."""

    event: str
    data: str


class Framing(Protocol):
    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        """The messages that ``piece`` completes, all to be taken. Raises :class:`AnswerTooLarge`."""
        ...

    def close(self) -> list[StreamMessage]:
        """What is left when the stream has ended: a message without its end, which may be torn."""
        ...


class Frames:
    """Cuts a stream into frames, each with its empty line. ``limit`` is bytes of one frame."""

    def __init__(self, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._rest = b""
        self._looked = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a frame is waiting for its end."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that ``data`` completes, all to be taken. Raises :class:`AnswerTooLarge`."""
        text = self._rest + data if self._rest else data
        start = 0
        # The end may straddle what came before, by up to three bytes.
        found = [match.end() for match in _END.finditer(text, max(0, self._looked - 3))]
        self._rest = text[found[-1] :] if found else text
        self._looked = len(self._rest)
        for end in found:  # these came before what may be too large
            yield text[start:end]
            start = end
        check_size(self._looked, self._limit)

    def rest(self) -> bytes:
        """What came after the last whole frame; it is handed out once."""
        rest, self._rest, self._looked = self._rest, b"", 0
        return rest


def check_size(size: int, limit: int) -> None:
    """Raises :class:`AnswerTooLarge`."""
    if size > limit:
        raise AnswerTooLarge(
            f"one message of the stream is larger than {limit:,} bytes. No model writes that.", limit=limit
        )


def message_of(frame: bytes) -> StreamMessage | None:
    """What a frame says; None for a comment or a frame without data."""
    event, data = b"", []
    for line in _LINE.split(frame):
        name, _, value = line.partition(b":")
        if name == b"error":  # llama.cpp, before it wrote errors as data
            event, name = b"error", b"data"
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    if not data:
        return None
    return StreamMessage(event.decode("utf-8", "replace"), b"\n".join(data).decode("utf-8", "replace"))


def data_of(frame: bytes) -> bytes | None:
    """The data of a frame as bytes, its lines joined by LF; None where :func:`message_of` has none."""
    lines = [
        line[6:] if line.startswith(b"data: ") else line[5:]
        for line in _LINE.split(frame)
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None


def frame(value: bytes, event: bytes | None = None) -> bytes:
    """A frame with that data."""
    start = b"" if event is None else b"event: " + event + b"\n"
    return start + b"data: " + value + b"\n\n"


class ServerSentEvents:
    """``text/event-stream``."""

    def __init__(self, limit: int) -> None:
        self._frames = Frames(limit)
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        for whole in self._frames.feed(piece):
            message = self._read(whole)
            if message is not None:
                yield message

    def close(self) -> list[StreamMessage]:
        message = self._read(self._frames.rest())
        return [] if message is None else [message]

    def _read(self, whole: bytes) -> StreamMessage | None:
        if self._is_first:
            self._is_first, whole = False, whole.removeprefix(_MARK)
        return message_of(whole)


class JsonLines:
    """``application/x-ndjson``: a JSON value in each line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._rest, whole[0]])
            self._rest, self._size = [], 0
        self._rest.append(rest)
        self._size += len(rest)
        for line in whole:
            if line.strip():
                yield StreamMessage("", line.decode("utf-8", "replace"))
        check_size(self._size, self._limit)

    def close(self) -> list[StreamMessage]:
        line = b"".join(self._rest)
        return [StreamMessage("", line.decode("utf-8", "replace"))] if line.strip() else []
