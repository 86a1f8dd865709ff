"""A content store in a directory: the bodies of packs, in files named by their digests."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.errors import TokenboxError
from tokenbox.files import OWN, open_regular, replace
from tokenbox.lcp.frames import MAX_BODY

if TYPE_CHECKING:
    import os


class ContentStoreError(TokenboxError, code="content_store_error"):
    """The directory of a content store cannot be used."""


class DirectoryStore:
    """Bodies in ``directory/ab/cdef...``, by their digests in hexadecimal.

    The directory is created by the first ``put``. Files are written atomically, so that several processes can
    share a store. Files larger than ``limit`` bytes are refused. Readers verify the digest of a body.
    """

    def __init__(self, directory: str | os.PathLike[str], *, limit: int = MAX_BODY) -> None:
        self._directory = Path(directory)
        self._limit = limit

    def get(self, digest: bytes) -> bytes | None:
        """Return the body with that digest, or None. Raises :class:`ContentStoreError`."""
        path = self._path(digest)
        try:
            with open_regular(path) as file:
                body = file.read(self._limit + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ContentStoreError(f"{path} is not a regular file. Remove it.") from None
            raise ContentStoreError(f"{path}: {error.strerror}. Check its permissions.") from error
        if len(body) > self._limit:
            raise ContentStoreError(
                f"{path} has more than {self._limit:,} bytes, which no body has. Remove it.",
                limit=self._limit,
            )
        return body

    def put(self, digest: bytes, body: bytes) -> None:
        """Store ``body``, unless an undamaged copy is stored. Raises :class:`ContentStoreError`."""
        path = self._path(digest)
        # A copy that a crash damaged is replaced: no pack that refers to it could be read.
        with suppress(OSError), open_regular(path) as file:
            if file.read(len(body) + 1) == body:
                return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, body, new=OWN, sync=False)
        except OSError as error:
            raise ContentStoreError(f"{path} cannot be written: {error.strerror}.") from error

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._directory / name[:2] / name[2:]
