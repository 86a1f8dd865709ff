"""The output of a command as text a model can read: no control sequences, no overwritten lines."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

# What a terminal acts on (ECMA-48): control strings, control sequences, and the shorter escapes. One that
# never ends is dropped with what follows it in its line.
_ESCAPES: Final = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_SCREEN_ON: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)h")
_SCREEN_OFF: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)l")
_CONTROLS: Final = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
FULL_SCREEN: Final = "[a full-screen program]"
# Of undecodable or control characters; more than this many percent is not text.
_BINARY_PERCENT: Final = 10


@dataclass(slots=True)
class Capture:
    """The first and the last bytes of an output, at most ``limit`` together. ``size`` is all there were."""

    limit: int = 1_048_576
    size: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: deque[bytes] = field(default_factory=deque)
    _held: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        half = self.limit // 2
        room = half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._held += len(data)
        while self._held - len(self._tail[0]) >= half:
            self._held -= len(self._tail.popleft())

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """What follows the head, or after a gap the end."""
        tail = b"".join(self._tail)
        return tail[-(self.limit // 2) :]

    @property
    def lost(self) -> int:
        """Bytes that are in neither."""
        return self.size - len(self._head) - len(self.tail)


def readable(capture: Capture) -> str | None:
    """The text of an output; None if it is binary."""
    if not capture.lost:
        return clean(capture.head + capture.tail)
    first, last = clean(capture.head), clean(capture.tail)
    if first is None or last is None:
        return None
    return f"{first}\n[... {capture.lost:,} bytes left out ...]\n{last}"


def clean(data: bytes) -> str | None:
    """``data`` as a terminal would leave it on paper; None if it is binary."""
    if b"\x00" in data:
        return None
    text = _without_screens(data).decode("utf-8", "replace")
    text = _ESCAPES.sub("", text)
    strange = text.count("\ufffd") + len(_CONTROLS.findall(text))
    if strange * 100 > len(text) * _BINARY_PERCENT and strange > 1:
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    return _CONTROLS.sub("", "\n".join(_overwritten(line) for line in lines))


def _without_screens(data: bytes) -> bytes:
    """Without what was drawn on the other screen, where editors and pagers live."""
    kept, place = [], 0
    while (on := _SCREEN_ON.search(data, place)) is not None:
        kept += [data[place : on.start()], f"{FULL_SCREEN}\n".encode()]
        off = _SCREEN_OFF.search(data, on.end())
        if off is None:
            return b"".join(kept)
        place = off.end()
    return b"".join([*kept, data[place:]])


def _overwritten(line: str) -> str:
    r"""What is left of a line when ``\\r`` and backspace have moved the cursor back, as progress bars do."""
    if "\r" not in line and "\b" not in line:
        return line
    shown: list[str] = []
    column = 0
    for c in line:
        if c == "\r":
            column = 0
        elif c == "\b":
            column = max(0, column - 1)
        else:
            shown[column : column + 1] = [c]
            column += 1
    return "".join(shown).rstrip()
