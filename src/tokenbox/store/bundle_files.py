"""The files of a proof bundle, read from a folder or an archive that another person may have made."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.files import open_regular
from tokenbox.proof.archive import ArchiveFiles
from tokenbox.proof.bundle import DECISIONS, INPUTS, MANIFEST, VOLATILE
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.manifest import HEX
from tokenbox.proof.verify import BundleFiles, claimed_id, missing

if TYPE_CHECKING:
    from typing import BinaryIO

_FOLDERS = ("summaries", "texts")
# The files of a bundle without folders and signatures.
_SMALLEST = frozenset({MANIFEST, INPUTS, DECISIONS, VOLATILE})


class FolderFiles(BundleFiles):
    """The files of a bundle in a folder. Links are not followed, and only regular files are read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def names(self) -> Iterable[str]:
        try:
            names = frozenset(os.listdir(self.path))  # faster: only names are needed
        except OSError as error:
            raise _unreadable(".", error) from None
        # The files of the smallest bundle are all read, which checks that they are files.
        return names if names == _SMALLEST else self._walk()

    def _walk(self) -> Iterator[str]:
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield entry.name
                    elif entry.name in _FOLDERS and entry.is_dir(follow_symlinks=False):
                        yield from self._inside(entry)
                    else:
                        raise _not_regular(entry.name)
        except OSError as error:
            raise _unreadable(".", error) from None

    def _inside(self, folder: os.DirEntry[str]) -> Iterator[str]:
        empty = True
        with os.scandir(folder.path) as entries:
            for entry in entries:
                empty = False
                if not entry.is_file(follow_symlinks=False):
                    raise _not_regular(f"{folder.name}/{entry.name}")
                yield f"{folder.name}/{entry.name}"
        if empty:
            yield f"{folder.name}/"

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        try:
            with open_regular(f"{self.path}/{name}", links=False) as file:
                yield file, os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            raise missing(name) from None
        except OSError as error:
            raise _unreadable(name, error) from None


def open_archive(path: str | os.PathLike[str]) -> ArchiveFiles:
    """Open the bundle in an archive that ``export`` wrote. The file is open as long as the result is in use.

    Raises :class:`BundleInvalid`.
    """
    name = os.fspath(path)
    try:
        stream = open_regular(path)
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        archive = ArchiveFiles(stream, name)
    except BaseException:
        stream.close()
        raise
    weakref.finalize(archive, stream.close)
    return archive


def open_bundle(path: str | os.PathLike[str]) -> tuple[BundleFiles, str]:
    """Open the bundle in a folder or archive, and return its expected id: the folder's name or its claim.

    Raises :class:`BundleInvalid`.
    """
    if not os.path.isdir(path):  # False for a name that no file can have
        archive = open_archive(path)
        return archive, archive.folder
    files = FolderFiles(path)
    name = Path(path).resolve().name
    return files, name if HEX.fullmatch(name) else claimed_id(files)


def _not_regular(name: str) -> BundleInvalid:
    return BundleInvalid("is not a regular file. Remove it.", file=name)


def _unreadable(name: str, error: OSError) -> BundleInvalid:
    if error.errno in (errno.EINVAL, errno.ELOOP):  # of open_regular: a pipe, a folder, or a link
        return _not_regular(name)
    return BundleInvalid(f"cannot be read: {error.strerror or error}.", file=name)
