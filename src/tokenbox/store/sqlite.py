"""SQLite: a file of the user, with write-ahead logging, so that reads and writes do not block each other.

It uses ``sqlite3`` of the standard library: importing SQLAlchemy takes ten times as long as everything here,
and would dominate the start of the shell.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.ledger.cost import EXACT, MOST_COST_DIGITS, ZERO, money, money_text
from tokenbox.store.database import SqlDialect, Transaction
from tokenbox.store.errors import (
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tokenbox.store.database import Value

DIALECT = SqlDialect(text="TEXT", money="TEXT", money_sum="decimal_sum")
RETRY_SECONDS = 0.01

LOCKED = "another process has locked it. Try again, or end that process."
NOT_WRITABLE = "it may not be written. Check the permissions of the file and its folder."
# SQLite's primary result code: the error, and what to do.
FAILURES: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, LOCKED),
    sqlite3.SQLITE_LOCKED: (StoreBusy, LOCKED),
    sqlite3.SQLITE_FULL: (StoreFull, "no space is left. Nothing was written; free some space and try again."),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, NOT_WRITABLE),
    sqlite3.SQLITE_PERM: (StoreReadOnly, NOT_WRITABLE),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "it cannot be opened. Check the permissions of its folder."),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk fails. Nothing was written; check the disk."),
    sqlite3.SQLITE_CORRUPT: (
        StoreDamaged,
        "it is damaged. Move it away and a new one is made; `sqlite3 FILE .recover` saves what can be saved.",
    ),
    sqlite3.SQLITE_NOTADB: (
        StoreDamaged,
        "it is not a SQLite database, or a damaged one. Name another file, or move this one away.",
    ),
}


class SQLiteDatabase:
    """A database in a file, which is created with mode 0600.

    ``patience`` is how many seconds to wait for other processes.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float = 5.0) -> None:
        self.name = os.fspath(path)
        self._patience = patience
        self._lock = threading.Lock()
        self._connection = self._open()

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")

    migrating = writing

    def change_each(self, statement: str, values: Sequence[Mapping[str, Value]]) -> int:
        with self.writing():
            return self._connection.executemany(statement, map(_bound, values)).rowcount

    def close(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        self._make_file()
        with self._failures():
            connection = sqlite3.connect(
                self.name, timeout=self._patience, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _make_file(self) -> None:
        path = Path(self.name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not blocking, because the path may be a pipe.
            opened = os.open(path, os.O_RDONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
        except (OSError, ValueError) as error:  # a name with a NUL
            raise StoreUnavailable(
                f"{self.name}: it cannot be opened: {getattr(error, 'strerror', error)}. Name another file.",
                database=self.name,
            ) from None
        try:
            regular = stat.S_ISREG(os.fstat(opened).st_mode)
        finally:
            os.close(opened)
        if not regular:
            raise StoreUnavailable(f"{self.name} is not a regular file. Name another.", database=self.name)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # Before anything is changed: is it a store, or new?
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if tables and not any(name.startswith("tokenbox_") for name in tables):
            raise NotAStore(f"{self.name} is the database of another program. Name another file.")
        connection.execute("PRAGMA foreign_keys = ON")
        # FULL: commits survive a power failure, too.
        connection.execute("PRAGMA synchronous = FULL")
        self._use_write_ahead(connection)
        connection.create_aggregate(DIALECT.money_sum, 1, _DecimalSum)  # type: ignore[arg-type]  # sums may be texts

    def _use_write_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to write-ahead logging. SQLite needs the file alone, and does not always wait for it."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                if mode != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)
            else:
                return

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._lock, self._failures():
            self._connection.execute(begin)
            try:
                yield SQLiteTransaction(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                # Some failures have rolled back already.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind, text = FAILURES.get(_primary(error), (StoreError, f"{error}."))
            raise kind(f"{self.name}: {text}", database=self.name) from error


class SQLiteTransaction(Transaction):
    """A transaction of the standard library's driver."""

    dialect = DIALECT

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Mapping[str, Value]) -> Any:  # noqa: ANN401  # its cursor
        return self._connection.execute(statement, _bound(values))

    def has_table(self, name: str) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = :name", {"name": name}))


class _DecimalSum:
    """SQL's SUM, without floats."""

    def __init__(self) -> None:
        self._sum = ZERO

    def step(self, value: object, /) -> None:
        if value is not None:
            self._sum = EXACT.add(self._sum, money(value, MOST_COST_DIGITS))

    def finalize(self) -> str:
        return money_text(self._sum)


def _bound(values: Mapping[str, Value]) -> dict[str, Any]:
    return {
        name: money_text(value) if isinstance(value, Decimal) else value for name, value in values.items()
    }


def _primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; -1 if the error is not SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else int(code) & 0xFF
