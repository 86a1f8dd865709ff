"""A content store in a directory: bodies of packs in files named by their digest."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tokenbox.errors import TokenboxError
from tokenbox.files import OWN, replace
from tokenbox.lcp.pack import MAX_BODY


class ContentStoreError(TokenboxError):
    """The directory of a content store cannot be used."""

    code = "content_store_error"


class DirectoryStore:
    """Bodies in ``directory/ab/cdef...``, by the digest in hexadecimal.

    The directory is made on the first ``put``. A file appears whole or not at all, so that several processes
    can share a store. ``limit``: a larger file, in bytes, is refused and not read. Readers check that a
    body still has its digest.
    """

    def __init__(self, directory: str | os.PathLike[str], *, limit: int = MAX_BODY) -> None:
        self._directory = Path(directory)
        self._limit = limit

    def get(self, digest: bytes) -> bytes | None:
        """The body with that digest, or None. Raises :class:`ContentStoreError`."""
        path = self._path(digest)
        try:
            # Not blocking, for what is in the place of a file may be a pipe.
            descriptor = os.open(
                path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ContentStoreError(f"{path}: {error.strerror}. Check its permissions.") from error
        with open(descriptor, "rb") as file:  # noqa: PTH123  # an open descriptor has no path
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ContentStoreError(f"{path} is not a regular file. Remove it.")
            body = file.read(self._limit + 1)
        if len(body) > self._limit:
            raise ContentStoreError(
                f"{path} has more than {self._limit:,} bytes, which no body has. Remove it.",
                limit=self._limit,
            )
        return body

    def put(self, digest: bytes, body: bytes) -> None:
        """Keep ``body``. Raises :class:`ContentStoreError`."""
        path = self._path(digest)
        if path.exists():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, body, new=OWN, sync=False)
        except OSError as error:
            raise ContentStoreError(f"{path} cannot be written: {error.strerror}.") from error

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._directory / name[:2] / name[2:]
