"""The files of inputs and outputs: local ones, and any address that fsspec or Arrow can open."""

from __future__ import annotations

import errno
import glob
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from tokenbox.batch.errors import InvalidAddress
from tokenbox.errors import needing, without_password
from tokenbox.files import held, sync_folder

DRAFT = ".draft-"
# What is read from a remote file at once, and what of that at a time, in bytes.
_BLOCK, _PIECE = 8 << 20, 1 << 20


class LocalStorage:
    """The files of this machine. Paths are strings with ``/`` between folders. Raises ``OSError``."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading and seeking."""
        return Path(path).open("rb")

    def size(self, path: str) -> int:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):  # opening it would wait for a writer
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", path)
        return status.st_size

    def is_folder(self, path: str) -> bool:
        return Path(path).is_dir()

    def is_file(self, path: str) -> bool:
        return Path(path).is_file()

    def files(self, folder: str) -> list[str]:
        """Return the sorted paths of all files in the folder and below."""
        found = []
        for place, folders, names in os.walk(folder):
            folders.sort()
            found += [os.path.join(place, name) for name in names]  # faster than Path
        return sorted(found)

    def matching(self, pattern: str) -> list[str]:
        """Return the sorted paths that match a pattern with ``*``."""
        return sorted(glob.glob(pattern, recursive=True))  # a pattern may be absolute

    @contextmanager
    def create(self, path: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        """Write the file atomically: it is renamed on success.

        ``sync``: also flush it to the disk, which a file with a verified digest does not need.
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Named by the process, so that it does not clash with the draft of a killed worker.
        draft = target.with_name(f"{DRAFT}{os.getpid()}-{target.name}")
        try:
            with draft.open("wb") as file:
                yield file
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            draft.replace(target)
            if sync:
                sync_folder(target.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    @contextmanager
    def held(self, folder: str) -> Iterator[bool]:
        """Hold the folder, made if necessary, during the context; False if another process holds it."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        with held(folder, wait=False) as is_free:
            try:
                yield is_free
            finally:
                if is_free:  # else it is another process that still needs it
                    with suppress(OSError):  # it has a run
                        Path(folder).rmdir()

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it. A missing one is not an error."""
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def full_name(self, path: str) -> str:
        """Return the path as a worker in another folder can open it."""
        return str(Path(path).absolute())


T = TypeVar("T")


def _os_errors(call: Callable[..., T], *arguments: object, **options: object) -> T:
    """Call a function of fsspec. Raises ``OSError`` for any error: each file system has its own classes."""
    try:
        return call(*arguments, **options)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  # as above
        raise OSError(f"{type(error).__name__}: {without_password(str(error))}") from None


class _RemoteFile(io.RawIOBase):
    """A file of fsspec, to read or to write."""

    def __init__(self, file: Any, *, reads: bool) -> None:  # noqa: ANN401  # fsspec has no types
        super().__init__()
        self._file, self._reads = file, reads

    def readable(self) -> bool:
        return self._reads

    def seekable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return not self._reads

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # a writable buffer
        data = _os_errors(self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, place: int, whence: int = 0) -> int:
        return int(_os_errors(self._file.seek, place, whence))

    def write(self, data: Any) -> int:  # noqa: ANN401  # any buffer
        size = memoryview(data).nbytes
        _os_errors(self._file.write, data)
        return size

    def close(self) -> None:
        try:
            if not self.closed:
                _os_errors(self._file.close)
        finally:
            super().close()


class RemoteStorage:
    """A file system of fsspec, with the methods of :class:`LocalStorage`."""

    def __init__(self, system: Any, scheme: str) -> None:  # noqa: ANN401  # fsspec has no types
        self._system = system
        self._scheme = scheme

    def open(self, path: str) -> BinaryIO:
        # The files of fsspec have no limit for a line, and those of S3 read 50 MB ahead.
        file = _os_errors(self._system.open, path, "rb", block_size=_BLOCK)
        return io.BufferedReader(_RemoteFile(file, reads=True), _PIECE)

    def size(self, path: str) -> int:
        return int(_os_errors(self._system.size, path))

    def is_folder(self, path: str) -> bool:
        return bool(_os_errors(self._system.isdir, path))

    def is_file(self, path: str) -> bool:
        return bool(_os_errors(self._system.isfile, path))

    def files(self, folder: str) -> list[str]:
        return sorted(self._with_scheme(name) for name in _os_errors(self._system.find, folder))

    def matching(self, pattern: str) -> list[str]:
        return sorted(self._with_scheme(name) for name in _os_errors(self._system.glob, pattern))

    @contextmanager
    def create(self, path: str, *, sync: bool = False) -> Iterator[BinaryIO]:
        with suppress(OSError):  # object stores have no folders
            _os_errors(self._system.makedirs, path.rpartition("/")[0], exist_ok=True)
        try:
            with _RemoteFile(_os_errors(self._system.open, path, "wb"), reads=False) as file:
                yield cast("BinaryIO", file)
        except BaseException:
            with suppress(OSError):
                self.remove(path)  # closing has completed the upload
            raise

    def held(self, folder: str) -> AbstractContextManager[bool]:  # an object store has no locks
        return nullcontext(enter_result=True)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            _os_errors(self._system.rm, path, recursive=True)

    def full_name(self, path: str) -> str:
        return path

    def _with_scheme(self, name: str) -> str:
        return name if "://" in name else f"{self._scheme}://{name.lstrip('/')}"


Storage = LocalStorage | RemoteStorage
_LOCAL = LocalStorage()


def storage_of(address: str) -> Storage:
    """Return the storage of an address: local without ``SCHEME://``.

    Raises :class:`InvalidAddress`, and ``MissingExtra`` if fsspec is not installed.
    """
    scheme, found, _ = address.partition("://")
    if not found:
        return _LOCAL
    return _remote(scheme, address.split("/", 3)[2])


@cache
def _remote(scheme: str, host: str) -> Storage:
    with needing(f"an address such as {scheme}://", "batch"):
        import fsspec
    try:
        # One without a place to connect to, such as FTP's, prints a traceback when it is thrown away.
        signature(fsspec.get_filesystem_class(scheme).__init__).bind(None, use_listings_cache=False)
        # Listings are not cached: other processes write the files.
        return RemoteStorage(fsspec.filesystem(scheme, use_listings_cache=False), scheme)
    except Exception as error:  # noqa: BLE001  # no package or no such scheme, or a class of its own
        reason = str(error).rstrip(".")
    try:
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import FileSystem

        system, _ = FileSystem.from_uri(f"{scheme}://{host}/")
    except (ImportError, OSError, ValueError) as error:  # Arrow's errors are OSError or ValueError
        address = without_password(f"{scheme}://{host}")[:200]
        other = str(error).rstrip(".")[:300]
        message = f"{address} cannot be opened, neither by fsspec: {reason}; nor by Arrow: {other}."
        raise InvalidAddress(message, address=address) from None
    return RemoteStorage(ArrowFSWrapper(system), scheme)


@contextmanager
def reads(address: str) -> Iterator[None]:
    """Raise :class:`InvalidAddress` for an ``OSError``: of the file that it names, or of ``address``."""
    try:
        yield
    except OSError as error:
        name = without_password(error.filename if isinstance(error.filename, str) else address)
        raise InvalidAddress(f"{name} cannot be read: {_reason(error)}.", address=name) from None


@contextmanager
def writes(address: str, *, begun: bool = True) -> Iterator[None]:
    """Raise :class:`InvalidAddress` for an ``OSError``. ``begun``: whether there may be results."""
    try:
        yield
    except OSError as error:
        rest = " The results so far are kept; continue with --resume." if begun else ""
        address = without_password(address)
        message = f"{address} cannot be written: {_reason(error)}.{rest}"
        raise InvalidAddress(message, address=address) from None


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return " ".join(reason.split()).rstrip(".")
