"""Read a file that may have changed since the walk: never a pipe, bounded in size, and consistent."""

from __future__ import annotations

import os
import stat

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.walk import MAX_BYTES, kind_of_special

# The number of reads of a file that keeps changing; the last one is used.
_ATTEMPTS = 3
# The minimum number of bytes to read at once: files of the kernel say that they are empty.
_AT_ONCE = 1 << 15


def read_file(root: str, path: str) -> tuple[bytes | None, Note | None]:
    """Return the bytes of the file, or None and a note with the reason. A changing file has both."""
    name = shown(path)
    try:
        handle = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _settled(handle, name)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None, Note(name, NoteKind.VANISHED)
    except OSError as error:
        return None, Note(name, NoteKind.UNREADABLE, str(error.strerror))


def _settled(handle: int, name: str) -> tuple[bytes | None, Note | None]:
    """Return the content, read again if the file changed during the read."""
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        return None, Note(name, NoteKind.SPECIAL, kind_of_special(before.st_mode))
    data = b""
    for _ in range(_ATTEMPTS):
        data = _read_bounded(handle, before.st_size)
        if len(data) > MAX_BYTES:
            return None, Note(name, NoteKind.LARGE, f"more than {MAX_BYTES >> 20} MiB")
        after = os.fstat(handle)
        if _version(after) == _version(before) and len(data) == after.st_size:
            return data, None
        before = after
        os.lseek(handle, 0, os.SEEK_SET)
    return data, Note(name, NoteKind.CHANGED)


def _read_bounded(handle: int, size: int) -> bytes:
    """Return the rest of the file, at most one byte over the limit. ``size``: the size that it says it has.

    Each read allocates one byte more, or 32 KiB if that is more.
    """
    pieces = []
    room = MAX_BYTES + 1
    while room and (piece := os.read(handle, min(room, max(size + 1, _AT_ONCE)))):
        pieces.append(piece)
        room -= len(piece)
        if len(piece) == size:  # the file says that this is all
            break
    return b"".join(pieces)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
