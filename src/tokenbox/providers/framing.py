"""Split byte streams into messages, sans-I/O: the input may come in pieces of any size.

:class:`Frames` splits server-sent events (HTML standard, 9.2) into frames and keeps every byte, for callers
that forward them; :func:`message_of` parses a frame. :class:`ServerSentEvents` and :class:`JsonLines` return
the messages of a stream. Characters that span pieces are decoded correctly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tokenbox.providers.errors import AnswerTooLarge

# A frame ends with an empty line; a line ends with LF, CRLF or CR. A CR at the end of the bytes so far may be
# half of a CRLF, unless the line before ends with CR, too.
_END: Final = re.compile(rb"(?:\r\n|\n)(?:\r\n|\n|\r(?!\Z))|\r(?:\r\n|\r)")
_LINE: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of a stream. ``event``: its name, or empty."""

    event: str
    data: str


class Framing(Protocol):
    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        """Yield the messages that ``piece`` completes; consume all. Raises :class:`AnswerTooLarge`."""
        ...

    def close(self) -> list[StreamMessage]:
        """Return the rest at the end of the stream: a message without its end, perhaps incomplete."""
        ...


class Frames:
    """Splits a stream into frames, each with its empty line. ``limit``: bytes per frame."""

    def __init__(self, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._has_cr = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no incomplete frame."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that ``data`` completes; consume all. Raises :class:`AnswerTooLarge`."""
        first = 0
        text: bytes | bytearray = data
        if self._rest:
            # The end of a frame may begin up to three bytes before ``data``. Of a long frame in many pieces,
            # none copies or searches the ones before it.
            first, text = max(0, len(self._rest) - 3), self._rest
            self._rest += data
        self._has_cr = self._has_cr or b"\r" in data
        if self._has_cr:
            found = [match.end() for match in _END.finditer(text, first)]
        else:  # the usual case, in a fraction of the time
            found = list(_ends(text, first))
        start = 0
        if found or text is data:
            whole = bytes(text)
            self._rest = bytearray(whole[found[-1] :] if found else whole)
            self._has_cr = self._has_cr and b"\r" in self._rest
            for end in found:
                yield whole[start:end]
                start = end
        check_size(len(self._rest), self._limit)

    def rest(self) -> bytes:
        """Return the bytes after the last complete frame, and forget them."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest


def _ends(text: bytes | bytearray, first: int) -> Iterator[int]:
    """Yield the end of each frame in a text whose lines end with LF."""
    end = first
    while (end := text.find(b"\n\n", end) + 2) > 1:
        yield end


def check_size(size: int, limit: int) -> None:
    """Raise :class:`AnswerTooLarge` if a message is over the limit."""
    if size > limit:
        raise AnswerTooLarge(
            f"a message of the stream exceeds {limit:,} bytes, more than any model writes.", limit=limit
        )


def message_of(frame: bytes) -> StreamMessage | None:
    """Parse a frame; None for a comment or a frame without data."""
    event, data = b"", []
    for line in _LINE.split(frame.removeprefix(_BYTE_ORDER_MARK)):
        name, _, value = line.partition(b":")
        if name == b"error":  # older versions of llama.cpp
            event, name = b"error", b"data"
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    if not data:
        return None
    return StreamMessage(event.decode("utf-8", "replace"), b"\n".join(data).decode("utf-8", "replace"))


def data_of(frame: bytes) -> bytes | None:
    """Return the data of a frame as bytes, with lines joined by LF; None if it has none."""
    lines = [
        line[6:] if line.startswith(b"data: ") else line[5:]
        for line in _LINE.split(frame.removeprefix(_BYTE_ORDER_MARK))
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None


def frame(value: bytes, event: bytes | None = None) -> bytes:
    """Return a frame with that data."""
    start = b"" if event is None else b"event: " + event + b"\n"
    return start + b"data: " + value + b"\n\n"


class ServerSentEvents:
    """``text/event-stream``."""

    def __init__(self, limit: int) -> None:
        self._frames = Frames(limit)

    def feed(self, piece: bytes) -> Iterator[StreamMessage]:
        for whole in self._frames.feed(piece):
            message = message_of(whole)
            if message is not None:
                yield message

    def close(self) -> list[StreamMessage]:
        message = message_of(self._frames.rest())
        return [] if message is None else [message]


class JsonLines:
    """``application/x-ndjson``: a JSON value per line."""

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
