"""A cache of counts on disk, so that nothing is counted twice.

It is one SQLite file, shared by all processes of a user. For texts it has digests and counts; for source
files that were cut into pieces also the pieces' places, names, signatures and hashes of lines; for files
without secrets a digest. A file that is damaged, locked, of another version or not writable is ignored, and
a damaged one is replaced. A number that was changed on the disk is detected by its checksum.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    import os
    import sqlite3
    from typing import Self

    from tokenbox.tokenizers.cache import Key

FILE_NAME: Final = "counts.sqlite3"
MAX_STORED: Final = 400_000
"""Counts kept in the file: about 40 MB. The oldest are deleted first."""

MAX_FACTS: Final = 40_000
"""Facts kept in the file: of a source file one of about 3 kB, and a digest if it has no secret."""

# The version of the tables.
_VERSION = 2
_WAIT_SECONDS = 2.0
_BATCH = 500  # SQLite takes at least 999 parameters in a statement
_CHECK_BITS = 32
_TOKENIZER_BYTES = 16


class StoredCounts(CountCache):
    """A :class:`CountCache` that reads the counts stored in ``folder``, and stores new ones.

    ``save`` writes them, also at the end of a ``with`` block. No method raises for the state of the disk.
    """

    keeps_windows = True

    def __init__(
        self, folder: str | os.PathLike[str], *, max_entries: int = 200_000, max_stored: int = MAX_STORED
    ) -> None:
        super().__init__(max_entries)
        self._path = Path(folder, FILE_NAME)
        self._max_stored = max_stored
        self._new: dict[Key, int] = {}
        self._new_facts: dict[bytes, bytes] = {}
        self._file_lock = threading.Lock()
        self._connection = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()
        self.close()

    def save(self) -> None:
        """Write new counts and facts, all or none."""
        with self._file_lock:
            new, self._new = self._new, {}
            facts, self._new_facts = self._new_facts, {}
            if not (new or facts) or self._connection is None:
                return
            stored = ((_stored_key(key), count) for key, count in new.items())
            # In the order of the index, into which SQLite writes them faster then.
            counts = sorted((key, _checked(key, count)) for key, count in stored)
            with suppress(*_problems()), self._connection as transaction:
                for table, rows, most in (
                    ("counts", counts, self._max_stored),
                    ("facts", facts.items(), MAX_FACTS),
                ):
                    transaction.executemany(
                        f"INSERT OR REPLACE INTO {table} (key, value) VALUES (?, ?)", rows
                    )
                    transaction.execute(
                        f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?", (most,)
                    )

    def close(self) -> None:
        """Close the file. What is not saved is lost."""
        with self._file_lock, suppress(*_problems()):
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def recall(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        return {key: value for key, value in self._select("facts", list(keys)) if isinstance(value, bytes)}

    def remember(self, facts: Mapping[bytes, bytes]) -> None:
        with self._file_lock:
            self._new_facts.update(facts)

    def _look_up(self, keys: Collection[Key]) -> Mapping[Key, int]:
        asked = {_stored_key(key): key for key in keys}
        return {
            asked[key]: count
            for key, value in self._select("counts", list(asked))
            if key in asked and (count := _believed(key, value)) is not None
        }

    def _store(self, counts: Mapping[Key, int]) -> None:
        with self._file_lock:
            self._new.update(counts)

    def _select(self, table: str, keys: Sequence[bytes]) -> list[tuple[bytes, object]]:
        """Return the rows with these keys; a file that is damaged is replaced, and has none."""
        rows: list[tuple[bytes, object]] = []
        with self._file_lock:
            for start in range(0, len(keys), _BATCH):
                if self._connection is None:
                    break
                some = keys[start : start + _BATCH]
                wanted = f"SELECT key, value FROM {table} WHERE key IN ({','.join('?' * len(some))})"
                try:
                    rows += self._connection.execute(wanted, some).fetchall()
                except _problems() as error:
                    self._connection.close()
                    self._connection = self._recreate(error)
        return rows

    def _open(self) -> sqlite3.Connection | None:
        try:
            return _connected(self._path)
        except ImportError:  # a Python without SQLite
            return None
        except _problems() as error:
            return self._recreate(error)

    def _recreate(self, error: Exception) -> sqlite3.Connection | None:
        """Replace an unusable file by a new one; None if that fails, or if others have only locked it."""
        if _is_busy(error):
            return None
        try:
            if self._path.is_file():
                self._path.unlink()
            return _connected(self._path)
        except _problems():
            return None


def _connected(path: Path) -> sqlite3.Connection:
    import sqlite3  # a Python may be without it

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise IsADirectoryError(path)
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Create the tables, or check that they can be read."""
    import sqlite3  # a Python may be without it

    # A file that a crash of the machine destroys is replaced, so nothing waits for the disk.
    connection.execute("PRAGMA synchronous = OFF")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS counts (key BLOB NOT NULL UNIQUE, value INTEGER NOT NULL)"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS facts (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION:
        raise sqlite3.DatabaseError(f"version {version}")
    for table in ("counts", "facts"):
        connection.execute(f"SELECT key, value FROM {table} LIMIT 1").fetchone()


def _problems() -> tuple[type[Exception], ...]:
    """Return the errors that a disk, or a file on it, can cause."""
    try:
        import sqlite3  # a Python may be without it
    except ImportError:
        return (OSError,)
    return (OSError, sqlite3.Error)


def _is_busy(error: Exception) -> bool:
    """Whether another process has locked the file, so that it is not damaged."""
    return "locked" in str(error) or "busy" in str(error)


def _stored_key(key: Key) -> bytes:
    fingerprint, digest = key
    return _tokenizer_key(fingerprint) + digest


@cache
def _tokenizer_key(fingerprint: str) -> bytes:
    """Return the key of a tokenizer; a fingerprint may be any text."""
    return hashlib.sha256(fingerprint.encode("utf-8", "surrogatepass")).digest()[:_TOKENIZER_BYTES]


def _checked(key: bytes, count: int) -> int:
    """Return a count as it is stored, with a checksum of 32 bits over its key and itself."""
    return count << _CHECK_BITS | zlib.crc32(b"%b%d" % (key, count))


def _believed(key: bytes, value: object) -> int | None:
    """Return the count of a stored value; None if its checksum is wrong."""
    if type(value) is not int or value < 0:
        return None
    count = value >> _CHECK_BITS
    return count if value == _checked(key, count) else None
