"""Reading the document's file and those it names: regular files, in its folder, bounded, UTF-8, unchanged."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tokenbox.documents.source import DocumentCode, shorten

# Bytes that the files of one document may have together.
MAX_FILES = 256 * 1024 * 1024


class FileProblemError(Exception):
    """A file cannot be used. The caller knows the key that named it, and raises a :class:`DocumentError`."""

    def __init__(self, code: DocumentCode, message: str, **details: int) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


class NamedFiles:
    """The files that one document names, relative to the folder ``base``. Each is read once.

    A file outside the folder, by ``..``, by an absolute name or through a link, is refused unless
    ``allow_outside``.
    """

    def __init__(self, base: Path, *, allow_outside: bool = False, max_bytes: int = MAX_FILES) -> None:
        self._root = Path(os.path.realpath(base))
        self._base, self._allow_outside = base, allow_outside
        self._max_bytes = self._left = max_bytes
        self._read: dict[str, str] = {}

    def place(self, name: str) -> str:
        """Where the file ``name`` really is. Raises :class:`FileProblemError` if it may not be used."""
        if "\0" in name:
            raise FileProblemError(
                DocumentCode.FILE_MISSING, f"{shorten(name)} is not a file name: it holds a zero byte."
            )
        resolved = os.path.realpath(self._base / name)
        if not self._allow_outside and not Path(resolved).is_relative_to(self._root):
            raise FileProblemError(
                DocumentCode.FILE_OUTSIDE,
                f"{shorten(name)} is outside the document's folder. Move it there, or allow files outside.",
            )
        return resolved

    def text(self, name: str) -> str:
        """The text of the file ``name``. Raises :class:`FileProblemError`."""
        resolved = self.place(name)
        if resolved not in self._read:
            bound = f"are left of the {self._max_bytes:,} that the files of one document may have together"
            data = read_bytes(resolved, name, self._left, bound)
            self._left -= len(data)
            self._read[resolved] = decode(data, name)
        return self._read[resolved]


def read_bytes(path: str | Path, name: str, most: int, bound: str) -> bytes:
    """The bytes of the regular file ``path``: at most ``most``, a figure that ``bound`` explains.

    Errors call it ``name``. Never waits: a pipe or device is refused, and opened without blocking should it
    take a file's place meanwhile. Raises :class:`FileProblemError`.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
            raise FileProblemError(DocumentCode.FILE_UNREADABLE, f"{shorten(name)} is {kind}, not a file.")
        with open(path, "rb", opener=lambda p, _: os.open(p, flags)) as file:
            data = file.read(min(status.st_size, most) + 1) or b""
            if len(data) > status.st_size:  # it grows, or its size is not known, as in /proc
                data += file.read(max(most + 1 - len(data), 0)) or b""
    except (FileNotFoundError, NotADirectoryError):
        raise FileProblemError(DocumentCode.FILE_MISSING, f"there is no file {shorten(name)}.") from None
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise FileProblemError(
            DocumentCode.FILE_UNREADABLE, f"{shorten(name)} cannot be read: {said}."
        ) from None
    if len(data) > most:
        size = max(status.st_size, len(data))
        message = f"{shorten(name)} has {size:,} bytes; {most:,} {bound}. Give a smaller part of it."
        raise FileProblemError(DocumentCode.FILE_TOO_LARGE, message, size=size, limit=most)
    return data


def decode(data: bytes, name: str) -> str:
    """``data`` as UTF-8, nothing changed: no newline is translated, a byte order mark stays."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"{shorten(name)} is not UTF-8: byte {error.start} (line {line}) is 0x{data[error.start]:02X}. "
            "Convert it to UTF-8."
        )
        raise FileProblemError(
            DocumentCode.FILE_ENCODING, message, byte=error.start, byte_line=line
        ) from None
