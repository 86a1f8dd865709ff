"""Notes for every session, in a text file of the user with one note per line; and project instructions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tokenbox.files import OWN, is_inside, open_regular, replace, turn
from tokenbox.shell.errors import NoSuchItem, SessionFailed

T = TypeVar("T")


class Memory:
    """The notes in a file. It is read each time, because another shell may have changed it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def notes(self) -> tuple[str, ...]:
        try:
            with open_regular(self.path) as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(line.strip() for line in text.splitlines() if line.strip())

    def add(self, note: str) -> None:
        self._change(lambda notes: notes.append(" ".join(note.split())))

    def drop(self, number: int) -> str:
        """Remove and return the note of that number, from 1. Raises :class:`NoSuchItem`."""

        def take(notes: list[str]) -> str:
            if not 1 <= number <= len(notes):
                raise NoSuchItem(
                    f"there is no note {number}; the number of notes is {len(notes)}.", number=number
                )
            return notes.pop(number - 1)

        return self._change(take)

    def _change(self, change: Callable[[list[str]], T]) -> T:
        """Change the notes, while no other shell does."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with turn(self.path.with_name(f"{self.path.name}.lock")):
                notes = list(self.notes)
                changed = change(notes)
                written = "".join(f"{note}\n" for note in notes)
                replace(self.path, written.encode(errors="replace"), new=OWN)
                return changed
        except OSError as error:
            raise SessionFailed(f"{self.path} cannot be written: {error.strerror or error}.") from None


# Files of instructions in the order of search, in each folder up to the root of the repository.
NAMES: Final = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "GEMINI.md")
MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Instructions:
    path: str
    text: str


def find_instructions(folder: str) -> Instructions | None:
    """Return the nearest instructions, from ``folder`` up to the root of its repository.

    Raises :class:`NoSuchItem` for a file that is not text, or a link to one outside: it may show anything.
    """
    here = Path(folder)
    places = [here, *here.parents]
    root = next((place for place in places if os.path.exists(place / ".git")), None)
    for place in places if root is None else places[: places.index(root) + 1]:
        for name in NAMES:
            path = place / name
            if not os.path.isfile(path):  # False, not an error, if it is not accessible
                continue
            if not is_inside(path, root or place):
                raise NoSuchItem(f"{path} is a link that leads out of the project.", file=str(path))
            return read_instructions(str(path))
    return None


def read_instructions(path: str) -> Instructions:
    """Read the instructions in a file. Raises :class:`NoSuchItem`."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a NUL
        reason = getattr(error, "strerror", None) or error
        raise NoSuchItem(f"{path} cannot be read: {reason}.", file=path) from None
    if len(data) > MAX_BYTES or b"\0" in data:
        raise NoSuchItem(f"{path} is not a text file of at most {MAX_BYTES:,} bytes.", file=path)
    return Instructions(path, data.decode("utf-8", "replace").strip())
