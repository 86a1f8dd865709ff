"""Atomic file replacement, file locks, and files of a folder that another person may have filled.

tokenbox rewrites files only with :func:`replace`. A bundle is a folder, and is renamed into place as a whole.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

OWN: Final = 0o600
"""The mode of a file that only its owner can read."""
SHARED: Final = 0o666
"""The mode of a file that everybody can read, as far as the umask allows."""
CACHE_VARIABLE: Final = "TOKENBOX_CACHE_DIR"
_BLOCK: Final = 1 << 20
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)


def cache_folder() -> Path:
    """Return the folder of what may be deleted at any time: ``TOKENBOX_CACHE_DIR``, or the user's own."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    from platformdirs import user_cache_path  # most imports of this module need no cache

    return user_cache_path("tokenbox", appauthor=False)


def listing_of(missing: str | os.PathLike[str]) -> str:
    """Return the fix for a file that does not exist: a command that lists its nearest folder."""
    folder = next((parent for parent in Path(missing).parents if parent.is_dir()), Path())
    return f"List the files: ls {shlex.quote(str(folder))}"


def is_inside(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is ``folder`` or lies below it, after all links are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def open_regular(
    path: str | os.PathLike[str], mode: str = "rb", *, new: int = SHARED, links: bool = True
) -> BinaryIO:
    """Open a regular file in a binary mode. A pipe could block forever, and a device has no end.

    ``new``: the mode of a file that does not exist yet, less the umask. ``links``: follow a symbolic link.
    Raises ``OSError``, also for what is not a regular file.
    """

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | _NO_WAIT | (0 if links else _NO_LINKS), new)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", name)

    return cast("BinaryIO", open(path, mode, opener=opener))


def read_at_most(stream: BinaryIO, size: int) -> bytes:
    """Read up to ``size`` bytes. ``stream.read(size)`` allocates all of them before it reads the first."""
    blocks: list[bytes] = []
    while size > 0:
        asked = min(size, _BLOCK)
        blocks.append(stream.read(asked))
        size -= asked
        if len(blocks[-1]) < asked:  # the end; at a terminal, another read would wait for a second one
            break
    return b"".join(blocks)


def replace(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    new: int = SHARED,
    sync: bool = True,
    drafts: Path | None = None,
) -> None:
    """Replace the content of the file with ``data`` atomically: a failure leaves the file as it was.

    ``new``: the mode of a file that does not exist yet; an existing file keeps its own. ``sync``: flush the
    content to disk before the rename. ``drafts``: the folder of the temporary file, on the same file system;
    by default the file's own folder. Raises ``OSError``.
    """
    handle, draft = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=drafts or path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else new
        if mode != OWN:
            Path(draft).chmod(SHARED & ~_umask() if mode == SHARED else mode)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def create(path: Path, data: bytes, *, new: int = SHARED, sync: bool = True) -> None:
    """Write a file that does not exist yet, with the options of :func:`replace`. Raises ``OSError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), new)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file. The operating system releases it if the process dies."""
    with open_regular(lock, "ab", links=False) as file:
        if sys.platform == "win32":
            import msvcrt  # each system has only one of the two modules

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held(folder: str | os.PathLike[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold an exclusive lock on the folder; False if another process holds it, unless you ``wait``.

    Windows cannot lock a folder. Raises ``OSError`` if it cannot be opened.
    """
    if sys.platform == "win32":
        yield True
        return
    import fcntl  # only these systems have it

    descriptor, is_held = os.open(folder, os.O_RDONLY), True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_held = False
        except OSError:  # a file system without locks
            pass
        yield is_held
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Flush the entries of the folder to disk. Windows cannot do this for a folder."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """Return the umask. The system has no call that reads it without setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
