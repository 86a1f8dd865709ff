"""Writing a file: its content is replaced whole, or the file stays as it was; and writers that take turns.

Every file that tokenbox rewrites is written here. Bundles are folders and appear by one rename of their own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OWN: Final = 0o600
"""The rights of a file that only its owner reads."""
SHARED: Final = 0o666
"""The rights of a file that everybody reads whom the umask lets."""


def replace(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    new: int = SHARED,
    sync: bool = True,
    drafts: Path | None = None,
) -> None:
    """Make ``data``, or all its pieces, the content of the file.

    ``new``: the rights of a file that is not there yet; one that is keeps its own. ``sync``: the content
    is on the disk before it has the name. ``drafts``: the folder for what is not whole yet, on the same file
    system; by default that of the file. Raises ``OSError``.
    """
    handle, draft = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=drafts or path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        rights = path.stat().st_mode & 0o777 if path.exists() else new
        if rights != OWN:
            Path(draft).chmod(SHARED & ~_umask() if rights == SHARED else rights)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """One writer after the other. The lock ends with the process that holds it, however that ends."""
    with lock.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415  # there is only one of the two

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_folder(path: Path) -> None:
    """What is in the folder is on the disk. Not every system can say so of a folder."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The umask can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
