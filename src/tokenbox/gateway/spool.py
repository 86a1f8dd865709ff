"""A spool: records go to a local file first, and then into the store, so that none is lost.

A line is handed to the operating system before the request ends, so that a killed process loses none. Files
are drained into the store in the background, and deleted once it has their entries. Draining is idempotent,
because every entry has an id.
"""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenbox.errors import TokenboxError
from tokenbox.gateway.asgi import json_object

Take = Callable[[Sequence[dict[str, Any]]], Sequence[dict[str, Any]]]

_SUFFIX = ".jsonl"
_BAD = ".bad"
_NEW = ".new"
# Entries that are written to the store in one transaction.
BATCH = 500
# What must have room: more than one entry, as the last block of a file may have some. Empty lines are none.
_PROBE = b"\n" * 16_384


class SpoolError(TokenboxError, code="spool_unusable"):
    """The spool's folder cannot be written, so that a record could be lost."""


class Spool:
    """A folder of files of JSON lines. Several processes may share it, as each writes its own file."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._written = 0
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path, self._descriptor = self._new()
        except OSError as error:
            raise SpoolError(
                f"{self.folder}: {error.strerror}. Name a folder that can be written as gateway.state.",
                folder=str(self.folder),
            ) from None

    def append(self, entry: bytes) -> None:
        """Append an entry, a JSON object. Raises :class:`SpoolError` if it cannot be written."""
        with self._lock:
            self._write(entry + b"\n")
            self._written += 1

    def check(self) -> None:
        """Raise :class:`SpoolError` unless there is room for more entries. It writes, and takes that back."""
        with self._lock:
            self._write(_PROBE, keep=False)

    def drain(self, take: Take) -> int:
        """Hand the entries of finished files to ``take``, in batches, and delete the files.

        Returns the number of entries. A file with entries that ``take`` returns, which are unusable, is
        renamed instead, which needs no room on a full disk. If ``take`` raises, the file stays, and is handed
        over again from its beginning the next time.
        """
        self._rotate()
        count = 0
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            descriptor = None if path == self._path else _locked(path)
            if descriptor is None:
                continue
            try:
                count += self._drain(path, take)
            finally:
                _close(descriptor)
        return count

    @property
    def waiting(self) -> int:
        """The number of files to drain, of all processes; the own file counts if it has entries."""
        others = sum(1 for path in self.folder.glob(f"*{_SUFFIX}") if path != self._path)
        return others + (self._written > 0)

    def close(self) -> None:
        with self._lock:
            _close(self._descriptor)
            # Another file gets its number, and a late entry must not be written to that.
            self._descriptor = -1
            if not self._written:
                with suppress(OSError):
                    self._path.unlink()

    def _write(self, data: bytes, *, keep: bool = True) -> None:
        """Write all of ``data``, or nothing; nothing stays without ``keep``."""
        try:
            written = os.write(self._descriptor, data)
            if written != len(data) or not keep:
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
        except OSError as error:
            raise SpoolError(f"{self.folder}: {error.strerror}.", folder=str(self.folder)) from None
        if written != len(data):
            raise SpoolError(f"{self.folder}: No space left on device.", folder=str(self.folder))

    def _rotate(self) -> None:
        """Begin a new file, so that the present one can be drained."""
        with self._lock:
            if self._written:
                finished = self._descriptor
                self._path, self._descriptor = self._new()
                self._written = 0
                _close(finished)

    def _new(self) -> tuple[Path, int]:
        path = self.folder / f"{uuid.uuid4().hex}{_SUFFIX}"
        # The file gets its name when it is locked. Otherwise another process could lock it first and, as it
        # has no entries yet, delete it: what is written to it then would be lost.
        unnamed = path.with_suffix(_NEW)
        descriptor = os.open(
            unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        except OSError:
            _close(descriptor)
            raise
        return path, descriptor

    @staticmethod
    def _drain(path: Path, take: Take) -> int:
        values = [json_object(line) for line in path.read_bytes().split(b"\n") if line]
        entries = [value for value in values if value is not None]
        unusable = len(values) - len(entries)
        for start in range(0, len(entries), BATCH):
            unusable += len(take(entries[start : start + BATCH]))
        if unusable:  # such as the last line of a killed process: kept for a person to look at
            path.rename(path.with_suffix(_BAD))
        else:
            path.unlink(missing_ok=True)
        return len(entries)


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Open and lock a file; None if another process writes or drains it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # else another process has drained it meanwhile
            return descriptor
    _close(descriptor)
    return None
