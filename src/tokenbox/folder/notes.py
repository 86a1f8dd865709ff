"""Notes on the files that a pack leaves out or changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NoteKind(StrEnum):
    """The reason for a note on a file or folder."""

    BINARY = "binary"
    CELLS = "cells"
    CHANGED = "changed"
    CONTROLS = "controls"
    COUNTED = "counted"
    DEEP = "deep"
    DECODED = "decoded"
    LARGE = "large"
    LINK = "link"
    SECRET = "secret"  # noqa: S105  # the name of a note
    SPECIAL = "special"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"


_TEXTS = {
    NoteKind.BINARY: "binary, so only named in the file tree",
    NoteKind.CELLS: "a notebook, packed as its cells",
    NoteKind.CHANGED: "changed while it was read; the last version read is packed",
    NoteKind.CONTROLS: "has control characters, which are kept but invalid in XML",
    NoteKind.COUNTED: "its changed lines are counted, not shown; --priority PATH=high shows them",
    NoteKind.DEEP: "too deep, not packed",
    NoteKind.DECODED: "not UTF-8, so decoded",
    NoteKind.LARGE: "too large, so only named in the file tree",
    NoteKind.LINK: "a symbolic link, not followed",
    NoteKind.SECRET: "a secret, redacted",
    NoteKind.SPECIAL: "not a file or folder, not opened",
    NoteKind.UNREADABLE: "cannot be read, not packed",
    NoteKind.VANISHED: "vanished while packing, not packed",
}


@dataclass(frozen=True, slots=True)
class Note:
    """A note on ``path`` (as shown). ``line`` starts at 1; ``detail`` never contains a secret."""

    path: str
    kind: NoteKind
    detail: str = ""
    line: int | None = None

    @classmethod
    def of_failure(cls, path: str, error: OSError) -> Note:
        """Return the note on something that cannot be read."""
        if isinstance(error, FileNotFoundError):
            return cls(path, NoteKind.VANISHED)
        return cls(path, NoteKind.UNREADABLE, str(error.strerror))

    @property
    def order(self) -> tuple[str, str, int, str]:
        """The sort key of notes."""
        return self.kind, self.path, -1 if self.line is None else self.line, self.detail

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {_TEXTS[self.kind]}{f' ({self.detail})' if self.detail else ''}"

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"path": self.path, "kind": self.kind.value, "message": str(self)}
        return found if self.line is None else {**found, "line": self.line}
