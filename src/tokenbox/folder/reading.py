"""Read a file that may have changed since the walk: never a pipe, bounded in size, and consistent."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.walk import MAX_BYTES, kind_of_special

if TYPE_CHECKING:
    from typing import BinaryIO

# The number of reads of a file that keeps changing; the last one is used.
_ATTEMPTS = 3
# The minimum number of bytes to read at once: files of the kernel say that they are empty.
_AT_ONCE = 1 << 15


def read_file(root: str, path: str) -> tuple[bytes | None, Note | None]:
    """Return the bytes of the file, or None and a note with the reason. A changing file has both."""
    name = shown(path)
    try:
        handle = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as file:  # a handle has no path
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                return None, Note(name, NoteKind.SPECIAL, kind_of_special(mode))
            return _settled(file, name)
    except FileNotFoundError:
        return None, Note(name, NoteKind.VANISHED)
    except OSError as error:
        return None, Note(name, NoteKind.UNREADABLE, str(error.strerror))


def _settled(file: BinaryIO, name: str) -> tuple[bytes | None, Note | None]:
    """Return the content, read again if the file changed during the read."""
    before = _version(file)
    data = b""
    for _ in range(_ATTEMPTS):
        data = _read_bounded(file, before[0] + 1)
        if len(data) > MAX_BYTES:
            return None, Note(name, NoteKind.LARGE, f"more than {MAX_BYTES >> 20} MiB")
        after = _version(file)
        if after == before and len(data) == after[0]:
            return data, None
        before = after
        file.seek(0)
    return data, Note(name, NoteKind.CHANGED)


def _read_bounded(file: BinaryIO, at_once: int) -> bytes:
    """Return the rest of the file, at most one byte over the limit.

    Each read allocates ``at_once`` bytes, or 32 KiB if that is more.
    """
    pieces = []
    room = MAX_BYTES + 1
    while room and (piece := file.read(min(room, max(at_once, _AT_ONCE)))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _version(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
