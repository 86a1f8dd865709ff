"""A bundle as one file: a deterministic tar archive (POSIX ustar).

A header depends only on a name and a size: it has no time or owner, and a fixed mode. So equal bundles give
equal archives, any tar program unpacks them into a folder named by the id, and the reader can compare each
header with the only valid one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.verify import BundleFiles, missing

_BLOCK = 512
_END = bytes(2 * _BLOCK)
_MAX_SIZE = 8**11 - 1
_NAME = slice(0, 100)
_SIZE = slice(124, 136)
_FOLDER = slice(345, 500)
_OCTAL = re.compile(rb"[0-7]{11}\0")


def archived(bundle_id: str, files: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the archive of a bundle in pieces, with its files in the given order."""
    for name, data in files:
        yield _header(bundle_id, name, len(data))
        yield data
        yield bytes(-len(data) % _BLOCK)
    yield _END


class ArchiveFiles(BundleFiles):
    """The files of a bundle in an archive, a seekable ``stream``. Raises :class:`BundleInvalid`.

    ``folder``: the name of their folder, which is the expected id of the bundle.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._places: dict[str, tuple[int, int]] = {}
        self.folder = ""
        self._scan()

    def names(self) -> Iterator[str]:
        return iter(self._places)

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        if name not in self._places:
            raise missing(name)
        place, size = self._places[name]
        self._stream.seek(place)
        yield self._stream, size

    def _scan(self) -> None:
        end = self._stream.seek(0, 2)
        place = self._stream.seek(0)
        while True:
            header = self._stream.read(_BLOCK)
            if header == bytes(_BLOCK):
                if header + self._stream.read(_BLOCK + 1) != _END:
                    raise self._wrong("does not end like a bundle archive.", place)
                return
            name, size = self._entry(header, place)
            after = place + _BLOCK + size
            if after > end:
                raise self._wrong("ends too early.", place)
            self._stream.seek(after)
            padding = -size % _BLOCK
            if self._stream.read(padding) != bytes(padding):
                raise self._wrong("has data between its files.", after)
            self._places[name] = (place + _BLOCK, size)
            place = after + padding

    def _entry(self, header: bytes, place: int) -> tuple[str, int]:
        """Return the name and size of an entry. Its header must be the one that ``archived`` writes."""
        if len(header) < _BLOCK:
            raise self._wrong(
                "ends too early." if place else "is not the start of a file in a bundle archive.", place
            )
        name, folder = (header[part].rstrip(b"\0").decode("ascii", "replace") for part in (_NAME, _FOLDER))
        self.folder = self.folder or folder
        if not _OCTAL.fullmatch(header[_SIZE]) or not name or not name.isascii() or not folder.isascii():
            raise self._wrong("is not the start of a file in a bundle archive.", place)
        size = int(header[_SIZE][:-1], 8)
        if folder != self.folder or header != _header(folder, name, size) or name in self._places:
            raise self._wrong("is not encoded like a bundle archive.", place)
        return name, size

    def _wrong(self, what: str, place: int) -> BundleInvalid:
        return BundleInvalid(what, file=self._name, field=f"byte {place}")


def _header(folder: str, name: str, size: int) -> bytes:
    if size > _MAX_SIZE:
        raise BundleInvalid("is too large for an archive.", file=name)
    fields = (
        name.encode().ljust(100, b"\0"),
        b"0000644\0" + 2 * b"0000000\0",
        f"{size:011o}\0".encode(),
        b"00000000000\0",
        b" " * 8,  # the checksum, computed below
        b"0" + bytes(100),
        b"ustar\x0000" + bytes(64),
        2 * b"0000000\0",
        folder.encode().ljust(155, b"\0"),
        bytes(12),
    )
    header = b"".join(fields)
    return header[:148] + f"{sum(header):06o}\0 ".encode() + header[156:]


def entries(files: BundleFiles) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a verified bundle in the order of their names, holding one in memory."""
    for name in sorted(files.names()):
        yield name, files.read(name, _MAX_SIZE)
