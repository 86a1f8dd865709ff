"""What a pack says of the files that are not in it as they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NoteKind(StrEnum):
    """What happened to a file or folder."""

    BINARY = "binary"
    CHANGED = "changed"
    CONTROLS = "controls"
    DEEP = "deep"
    DECODED = "decoded"
    LARGE = "large"
    LINK = "link"
    SECRET = "secret"  # noqa: S105  # the name of a note
    SPECIAL = "special"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"


SAYS = {
    NoteKind.BINARY: "binary, so only named in the file tree",
    NoteKind.CHANGED: "changed while it was read; it is packed as read last",
    NoteKind.CONTROLS: "has control characters, which are kept; no XML parser takes them",
    NoteKind.DEEP: "too deep, not packed",
    NoteKind.DECODED: "not UTF-8, so decoded",
    NoteKind.LARGE: "too large, so only named in the file tree",
    NoteKind.LINK: "a symbolic link, not followed",
    NoteKind.SECRET: "a secret, redacted",
    NoteKind.SPECIAL: "no file or folder, not opened",
    NoteKind.UNREADABLE: "cannot be read, not packed",
    NoteKind.VANISHED: "vanished while packing, not packed",
}


@dataclass(frozen=True, slots=True)
class Note:
    """Something to report of ``path`` (as shown). ``line`` from 1; ``detail`` never has a secret in it."""

    path: str
    kind: NoteKind
    detail: str = ""
    line: int | None = None

    @property
    def order(self) -> tuple[str, str, int, str]:
        """The key by which notes are sorted."""
        return self.kind, self.path, -1 if self.line is None else self.line, self.detail

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {SAYS[self.kind]}{f' ({self.detail})' if self.detail else ''}"

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"path": self.path, "kind": self.kind.value, "message": str(self)}
        return found if self.line is None else {**found, "line": self.line}
