"""What a terminal shows: text and the control sequences that the shell and its line editor write."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len

_SEQUENCE: Final = re.compile(r"\x1b\[([?]?[\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>]")


@dataclass
class Cells:
    """The lines of a terminal of ``columns``, with all that scrolled away. Colours are not kept."""

    columns: int
    lines: list[list[str]] = field(default_factory=lambda: [[]], repr=False)
    row: int = 0
    column: int = 0
    held: str = ""

    def write(self, text: str) -> None:
        text, at = self.held + text, 0
        while at < len(text):
            sequence = _SEQUENCE.match(text, at)
            if sequence is not None:
                self._control(sequence[2] or "", sequence[1] or "")
                at = sequence.end()
            elif text[at] == "\x1b":  # the rest of the sequence is not here yet
                break
            else:
                self._character(text[at])
                at += 1
        self.held = text[at:]

    def flush(self) -> None:
        """Do nothing: pexpect calls it."""

    def text(self) -> str:
        """Return all lines, without blanks at their ends."""
        return "".join(f"{''.join(line).rstrip()}\n" for line in self.lines)

    def _character(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._to_row(self.row + 1)
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " ":
            self._put(character)

    def _put(self, character: str) -> None:
        size = cell_len(character)
        line = self.lines[self.row]
        if not size:
            if self.column:
                line[self.column - 1] += character
            return
        if self.column + size > self.columns:
            self._to_row(self.row + 1)
            self.column, line = 0, self.lines[self.row]
        line += [" "] * (self.column + size - len(line))
        line[self.column : self.column + size] = [character, *[""] * (size - 1)]
        self.column += size

    def _control(self, name: str, argument: str) -> None:
        number = int(argument) if argument.isdecimal() else None
        by = 1 if number is None else number
        if name == "A":
            self.row = max(0, self.row - by)
        elif name == "B":
            self._to_row(self.row + by)
        elif name == "C":
            self.column = min(self.columns - 1, self.column + by)
        elif name == "D":
            self.column = max(0, self.column - by)
        elif name in {"J", "K"} and not number:
            del self.lines[self.row][self.column :]
            if name == "J":
                del self.lines[self.row + 1 :]
        elif name in {"J", "K", "G", "H", "f"}:
            raise AssertionError(f"the terminal of the tests does not know CSI {argument}{name}")

    def _to_row(self, row: int) -> None:
        self.row = row
        self.lines += [[] for _ in range(row + 1 - len(self.lines))]
