"""Notes that every session is told: a text file of the user, one note a line, that may be edited by hand."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.shell.errors import NoSuchItem, SessionFailed

if TYPE_CHECKING:
    from collections.abc import Sequence


class Memory:
    """The notes in a file, read anew each time: another shell may have written meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def notes(self) -> tuple[str, ...]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        return tuple(line.strip() for line in text.splitlines() if line.strip())

    def add(self, note: str) -> None:
        self._write([*self.notes, " ".join(note.split())])

    def drop(self, number: int) -> str:
        """Forget the note of that number, from 1: it is returned. Raises :class:`NoSuchItem`."""
        notes = list(self.notes)
        if not 1 <= number <= len(notes):
            raise NoSuchItem(f"there is no note {number}: there are {len(notes)}.", number=number)
        dropped = notes.pop(number - 1)
        self._write(notes)
        return dropped

    def _write(self, notes: Sequence[str]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, draft = tempfile.mkstemp(prefix=".memory.", dir=self.path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write("".join(f"{note}\n" for note in notes))
            Path(draft).replace(self.path)
        except OSError as error:
            raise SessionFailed(f"{self.path} cannot be written: {error.strerror or error}.") from None
