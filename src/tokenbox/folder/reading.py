"""Read a file that may have changed since the walk: never a pipe or link, bounded in size, and consistent."""

from __future__ import annotations

import os
import stat

from tokenbox.folder.names import shown
from tokenbox.folder.notes import Note, NoteKind
from tokenbox.folder.walk import MAX_BYTES, kind_of_special

# The number of reads of a file that keeps changing; the last one is used.
_ATTEMPTS = 3
# The number of bytes to read at once if the size is unknown: files of the kernel say that they are empty.
_OF_UNKNOWN_SIZE = 1 << 15


def read_file(root: str, path: str) -> tuple[bytes | None, Note | None]:
    """Return the bytes of the file, or None and a note with the reason. A changing file has both.

    ``root`` is a path without links.
    """
    place = os.path.join(root, path)
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if _path_of(handle, place) != place:
                return None, Note(shown(path), NoteKind.LINK)
            return _settled(handle, path)
        finally:
            os.close(handle)
    except OSError as error:
        return None, Note.of_failure(shown(path), error)


def _path_of(handle: int, place: str) -> str:
    """Return where an open file is. Since the walk, a folder on the way to it may have become a link."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:  # not on every platform
        return os.path.realpath(place)


def _settled(handle: int, path: str) -> tuple[bytes | None, Note | None]:
    """Return the content, read again if the file changed during the read."""
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        return None, Note(shown(path), NoteKind.SPECIAL, kind_of_special(before.st_mode))
    data = b""
    for _ in range(_ATTEMPTS):
        # What says that it is too large is not read: a folder may have thousands of such files.
        data = b"" if before.st_size > MAX_BYTES else _read_bounded(handle, before.st_size)
        if max(before.st_size, len(data)) > MAX_BYTES:
            return None, Note(shown(path), NoteKind.LARGE, f"more than {MAX_BYTES >> 20} MiB")
        after = os.fstat(handle)
        if len(data) == after.st_size and _version(after) == _version(before):
            return data, None
        before = after
        os.lseek(handle, 0, os.SEEK_SET)
    return data, Note(shown(path), NoteKind.CHANGED)


def _read_bounded(handle: int, size: int) -> bytes:
    """Return the rest of the file, at most one byte over the limit. ``size``: what it says that it has."""
    # One byte more than it says, so that one read tells that this is all.
    piece = os.read(handle, min(MAX_BYTES, size or _OF_UNKNOWN_SIZE) + 1)
    if len(piece) == size:
        return piece
    pieces = [piece]
    room = MAX_BYTES + 1 - len(piece)
    while room and (piece := os.read(handle, min(room, max(size + 1, _OF_UNKNOWN_SIZE)))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
