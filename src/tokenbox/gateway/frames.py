"""Server-sent events as bytes: a stream cut into its frames, each byte for byte as it came.

:mod:`tokenbox.providers.framing` reads such streams for what they say: it takes lines apart, decodes, and
leaves out comments and unknown fields. Here all of that must go on to the client as it is, and most frames
are never looked into, so neither can be made of the other.
"""

from __future__ import annotations

import re
from typing import Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import json_object

# A frame ends with an empty line; lines end with LF, CRLF or CR (WHATWG HTML, 9.2.6).
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamFrameTooLarge(TokenboxError):
    """One event of a stream has more bytes than any server sends."""

    code = "frame_too_large"


class Frames:
    """Cuts a stream of bytes into frames. Bounded: a longer frame raises :class:`StreamFrameTooLarge`."""

    def __init__(self, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._rest = b""
        self._looked = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a frame is waiting for its end."""
        return not self._rest

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes, each with its empty line."""
        text = self._rest + data if self._rest else data
        frames: list[bytes] = []
        start = 0
        # The end may straddle what came before, by up to three bytes.
        for match in _END.finditer(text, max(0, self._looked - 3)):
            frames.append(text[start : match.end()])
            start = match.end()
        self._rest = text[start:]
        self._looked = len(self._rest)
        if self._looked > self._limit:
            raise StreamFrameTooLarge(f"an event of the stream has more than {self._limit:,} bytes.")
        return frames

    def rest(self) -> bytes:
        """What came after the last whole frame; it is handed out once."""
        rest, self._rest, self._looked = self._rest, b"", 0
        return rest


def data_of(frame: bytes) -> bytes | None:
    """The data of a frame, its lines joined by LF; None for a comment or a frame without data."""
    lines = [
        line[6:] if line.startswith(b"data: ") else line[5:]
        for line in _LINE.split(frame)
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None


def object_of(frame: bytes) -> dict[str, Any] | None:
    """The JSON object in a frame's data, or None if there is none."""
    data = data_of(frame)
    return json_object(data) if data is not None and data.lstrip().startswith(b"{") else None


def frame(value: bytes, event: bytes | None = None) -> bytes:
    """A frame with that data."""
    start = b"" if event is None else b"event: " + event + b"\n"
    return start + b"data: " + value + b"\n\n"
