"""Reading a file that may be anything by now: no pipe, not without end, not half old and half new."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.walk import kind_of_special

if TYPE_CHECKING:
    from typing import BinaryIO

# A block of a pack has at most 16 MiB (lcp.limits.MAX_BODY); nobody tells a model as much at once.
MAX_BYTES = 8 << 20
# A file that changes whenever it is read is taken as it is.
_ATTEMPTS = 3


def read_file(root: str, path: str) -> tuple[bytes | None, Note | None]:
    """The bytes of the file, or None with a note that says why. A note may also come with the bytes."""
    name = shown(path)
    try:
        handle = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # noqa: PTH118
        with open(handle, "rb", buffering=0) as file:  # noqa: PTH123  # a handle has no path
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                return None, Note(name, NoteKind.SPECIAL, kind_of_special(mode))
            return _settled(file, name)
    except FileNotFoundError:
        return None, Note(name, NoteKind.VANISHED)
    except OSError as error:
        return None, Note(name, NoteKind.UNREADABLE, str(error.strerror))


def _settled(file: BinaryIO, name: str) -> tuple[bytes | None, Note | None]:
    """The content, read again if the file changed meanwhile."""
    before = _version(file)
    data = b""
    for _ in range(_ATTEMPTS):
        data = _bounded(file)
        if len(data) > MAX_BYTES:
            return None, Note(name, NoteKind.LARGE, f"more than {MAX_BYTES >> 20} MiB")
        after = _version(file)
        if after == before and len(data) == after[0]:
            return data, None
        before = after
        file.seek(0)
    return data, Note(name, NoteKind.CHANGED)


def _bounded(file: BinaryIO) -> bytes:
    """The rest of the file, and at most one byte more than is allowed."""
    pieces = []
    room = MAX_BYTES + 1
    while room and (piece := file.read(room)):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _version(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
