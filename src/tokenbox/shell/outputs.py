"""The output of a command: captured, cleaned to plain text, and offered to the context within a budget.

Plain text has no control sequences and no overwritten lines.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenbox.shell.running import Ran
    from tokenbox.tokenizers.protocol import Tokenizer

# The sequences of ECMA-48: control strings, control sequences, and shorter escapes. An unterminated one is
# removed with the rest of its line.
_ESCAPES: Final = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
# What is drawn on the alternate screen, which editors and pagers use.
_SCREENS: Final = re.compile(rb"\x1b\[\?(?:1049|1047|47)h(?:.*?\x1b\[\?(?:1049|1047|47)l|.*)", re.DOTALL)
_CONTROLS: Final = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
FULL_SCREEN: Final = "[a full-screen program]"
# With more than this share of undecodable or control characters, an output is binary.
_BINARY_PERCENT: Final = 10


@dataclass(slots=True)
class Capture:
    """The first and the last bytes of an output, at most ``limit`` in total. ``size``: of all of it."""

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
        """The bytes after the head; if the middle was lost, the last bytes."""
        tail = b"".join(self._tail)
        return tail[-(self.limit // 2) :]

    @property
    def lost(self) -> int:
        """The number of bytes lost between head and tail."""
        return self.size - len(self._head) - len(self.tail)


def readable(capture: Capture) -> str | None:
    """Return the text of an output, or None if it is binary."""
    if not capture.lost:
        return clean(capture.head + capture.tail)
    first, last = clean(capture.head), clean(capture.tail)
    if first is None or last is None:
        return None
    return f"{first}\n[... {capture.lost:,} bytes left out ...]\n{last}"


def clean(data: bytes) -> str | None:
    """Return ``data`` as the text that a terminal would show at the end, or None if it is binary."""
    if b"\x00" in data:
        return None
    text = _SCREENS.sub(f"{FULL_SCREEN}\n".encode(), data).decode("utf-8", "replace")
    text = _ESCAPES.sub("", text)
    unprintable = text.count("\ufffd") + len(_CONTROLS.findall(text))
    if unprintable * 100 > len(text) * _BINARY_PERCENT and unprintable > 1:
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    return _CONTROLS.sub("", "\n".join(_overwritten(line) for line in lines))


def _overwritten(line: str) -> str:
    r"""Return a line after ``\\r`` and backspaces have moved the cursor back, as progress bars do."""
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


@dataclass(frozen=True, slots=True)
class OutputOffer:
    """``text``: the command and its output. ``whole``, ``kept``: tokens before and after cutting."""

    command: str
    text: str
    whole: int
    kept: int
    binary: bool = False

    @property
    def cut(self) -> bool:
        return self.kept < self.whole


def has_output(ran: Ran) -> bool:
    """Return True if there is something to offer: more than blanks and marks of full-screen programs."""
    text = readable(ran.output)
    return text is None or bool(text.replace(FULL_SCREEN, "").strip())


def offer(ran: Ran, budget: int, tokenizer: Tokenizer, hide: Callable[[str], str]) -> OutputOffer:
    """Return the offer of a command that has ended, it and its output each cut to ``budget`` tokens.

    ``hide`` removes secrets.
    """
    from tokenbox.content.lenses.lines import ends_tokens  # not needed for the first prompt

    # A command may be long too, such as one that writes a file, and may have bytes that are not text.
    command = ends_tokens(hide(ran.command).encode(errors="replace").decode(), budget, tokenizer)
    text = readable(ran.output)
    if text is None:
        size = f"[{ran.output.size:,} bytes that are not text]"
        return OutputOffer(ran.command, _transcript(command, size, ran.status), 0, 0, binary=True)
    text = hide(text).strip("\n")
    whole = tokenizer.count(text)
    kept = ends_tokens(text, budget, tokenizer)
    return OutputOffer(
        ran.command,
        _transcript(command, kept if text else "[no output]", ran.status),
        whole,
        whole if kept == text else tokenizer.count(kept),
    )


def _transcript(command: str, output: str, status: int) -> str:
    failure = f"\n[exit status {status}]" if status else ""
    return f"$ {command}\n{output}{failure}"
