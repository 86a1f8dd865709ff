"""The instructions of a project, as coding agents look for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tokenbox.shell.errors import NoSuchItem

# In the order in which they are looked for, in each folder on the way up to the root of the repository.
NAMES: Final = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "GEMINI.md")
MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Instructions:
    path: str
    text: str


def find(folder: str) -> Instructions | None:
    """The nearest instructions, from ``folder`` up to the root of its repository."""
    here = Path(folder)
    for place in (here, *here.parents):
        for name in NAMES:
            if (place / name).is_file():
                return read(str(place / name))
        if (place / ".git").exists():
            break
    return None


def read(path: str) -> Instructions:
    """The instructions in a file. Raises :class:`NoSuchItem`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise NoSuchItem(f"{path} cannot be read: {error.strerror or error}.", file=path) from None
    if len(data) > MAX_BYTES or b"\0" in data:
        raise NoSuchItem(f"{path} is no text of at most {MAX_BYTES:,} bytes.", file=path)
    return Instructions(path, data.decode("utf-8", "replace").strip())
