"""Notes on the files that a pack leaves out or changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class NoteKind(StrEnum):
    """The reason for a note on a file or folder, and what the note says."""

    _value_: str
    says: str

    def __new__(cls, value: str, says: str) -> Self:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.says = says
        return kind

    BINARY = "binary", "binary, so only named in the file tree"
    CELLS = "cells", "a notebook, packed as its cells"
    CHANGED = "changed", "changed while it was read; the last version read is packed"
    CONTROLS = "controls", "has control characters, which are kept but invalid in XML"
    COUNTED = "counted", "its changed lines are counted, not shown; --priority PATH=high shows them"
    DEEP = "deep", "too deep, not packed"
    DECODED = "decoded", "not UTF-8, so decoded"
    LARGE = "large", "too large, so only named in the file tree"
    LINK = "link", "a symbolic link, not followed"
    SECRET = "secret", "a secret, redacted"
    SPECIAL = "special", "not a file or folder, not opened"
    UNREADABLE = "unreadable", "cannot be read, not packed"
    VANISHED = "vanished", "vanished while packing, not packed"


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
        return f"{place}: {self.kind.says}{f' ({self.detail})' if self.detail else ''}"

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"path": self.path, "kind": self.kind.value, "message": str(self)}
        return found if self.line is None else {**found, "line": self.line}
