"""Read a document's file and the files it names: regular files in its folder, bounded, in UTF-8."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tokenbox.documents.source import DocumentCode
from tokenbox.errors import shown
from tokenbox.files import is_inside, open_regular

# The limit for all files of one document, in bytes.
MAX_FILES = 256 * 1024 * 1024
_RELATIVE = "Its name is relative to the folder of the document."


class FileProblemError(Exception):
    """A file cannot be used. The caller converts it to a :class:`DocumentError` with the key."""

    def __init__(self, code: DocumentCode, message: str, **details: int) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


class NamedFiles:
    """The files that one document names, relative to the folder ``base``. Each is read once.

    A file outside the folder (by ``..``, an absolute name or a link) is refused unless ``allow_outside``.
    """

    def __init__(self, base: Path, *, allow_outside: bool = False, max_bytes: int = MAX_FILES) -> None:
        self._base, self._allow_outside = base, allow_outside
        self._max_bytes = self._left = max_bytes
        self._read: dict[str, str] = {}

    def place(self, name: str) -> str:
        """Return the real path of the file ``name``. Raises :class:`FileProblemError` if it is refused."""
        if "\0" in name:
            raise FileProblemError(
                DocumentCode.FILE_MISSING, f"{shown(name)} is not a file name: it holds a zero byte."
            )
        resolved = os.path.realpath(self._base / name)
        if not self._allow_outside and not is_inside(resolved, self._base):
            raise FileProblemError(
                DocumentCode.FILE_OUTSIDE,
                f"{shown(name)} is outside the document's folder. Move it there, or allow files outside: "
                "--allow-outside, in Python allow_outside=True.",
            )
        return resolved

    def text(self, name: str) -> str:
        """Return the text of the file ``name``. Raises :class:`FileProblemError`."""
        resolved = self.place(name)
        if resolved not in self._read:
            bound = f"are left of the {self._max_bytes:,} that the files of one document may have together"
            label = shown(name)
            at_home = name.startswith("~")
            fix = "Write the path in full: ~ has no meaning here." if at_home else _RELATIVE
            data = read_bytes(resolved, label, self._left, bound, fix)
            self._left -= len(data)
            self._read[resolved] = decode(data, label)
        return self._read[resolved]


def read_bytes(
    path: str | Path, label: str, most: int, bound: str, fix: str = "Name an existing file."
) -> bytes:
    """Return the bytes of the regular file ``path``: at most ``most``, a limit that ``bound`` explains.

    Errors call it ``label``; ``fix`` tells what to do if it does not exist. It never blocks: a pipe or device
    is refused, even if it replaces the file at the last moment. Raises :class:`FileProblemError`.
    """
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
            raise FileProblemError(DocumentCode.FILE_UNREADABLE, f"{label} is {kind}, not a file.")
        with open_regular(path) as file:
            data = file.read(min(status.st_size, most) + 1)
            if len(data) > status.st_size:  # a growing file, or one of unknown size, as in /proc
                data += file.read(max(most + 1 - len(data), 0))
    except (FileNotFoundError, NotADirectoryError):
        raise FileProblemError(DocumentCode.FILE_MISSING, f"{label} does not exist. {fix}") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FileProblemError(DocumentCode.FILE_UNREADABLE, f"{label} cannot be read: {reason}.") from None
    if len(data) > most:
        size = max(status.st_size, len(data))
        message = f"{label} has {size:,} bytes; {most:,} {bound}. Give a smaller part of it."
        raise FileProblemError(DocumentCode.FILE_TOO_LARGE, message, size=size, limit=most)
    return data


def decode(data: bytes, label: str) -> str:
    """Decode UTF-8 without changes: newlines and a byte order mark stay."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"{label} is not UTF-8: byte {error.start} (line {line}) is 0x{data[error.start]:02X}. "
            "Convert it to UTF-8."
        )
        raise FileProblemError(
            DocumentCode.FILE_ENCODING, message, byte=error.start, byte_line=line
        ) from None
