"""Find and open the store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

import platformdirs

from tokenbox.store.calls import Calls
from tokenbox.store.errors import StoreUnavailable
from tokenbox.store.migrations import migrate
from tokenbox.store.sessions import Sessions
from tokenbox.store.sqlite import SQLiteDatabase

if TYPE_CHECKING:
    from tokenbox.store.database import Database
    from tokenbox.store.keys import Keys
    from tokenbox.store.owners import Owners

__all__ = ["Store", "open_store"]

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
SQLITE = "sqlite:///"
POSTGRESQL = {"postgresql", "postgres"}
# An address with its slashes forgotten, which would be a file that has a password in its name.
_NO_SLASHES = re.compile(r"(postgres(?:ql)?|sqlite|rediss?|mysql|mariadb):(?!//)", re.IGNORECASE)


def default_path() -> Path:
    """Return the database of this user: tokenbox.db in the data folder of the platform."""
    return Path(platformdirs.user_data_dir("tokenbox", appauthor=False)) / "tokenbox.db"


def file_of(where: str | Path | None) -> Path | None:
    """Return the file that ``where`` names, as :func:`open_store` takes it; None if it is on a server."""
    if where is None:
        return default_path()
    if isinstance(where, Path):
        return where
    if (forgotten := _NO_SLASHES.match(where)) is not None:
        raise StoreUnavailable(
            f"the address of the database begins with {forgotten[0]} and has no //. "
            "Write it as postgresql://user@host/name, or name a file, as ./NAME."
        )
    scheme = SCHEME.match(where)
    if scheme is None or where.startswith(SQLITE):
        return Path(os.path.expanduser(where.removeprefix(SQLITE)))  # never raises
    if scheme[1] not in POSTGRESQL:
        raise StoreUnavailable(
            f"{scheme[1]}:// is not a database that tokenbox can use. Name a file, sqlite:///FILE, or "
            "postgresql://user@host/name."
        )
    return None


def open_store(where: str | Path | None = None, *, patience: float = 5.0) -> Store:
    """Open the store in a file (default: :func:`default_path`), or at a ``postgresql://`` address.

    It is created or migrated if necessary. ``patience`` is how many seconds to wait for other processes.
    Raises :class:`~tokenbox.store.errors.StoreError`.
    """
    path = file_of(where)
    database: Database
    if path is not None:
        database = SQLiteDatabase(path, patience=patience)
    else:
        from tokenbox.store.postgresql import PostgreSQLDatabase  # an extra

        address = re.sub("^postgres:", "postgresql:", str(where))
        database = PostgreSQLDatabase(address, patience=patience)
    try:
        migrate(database)
    except BaseException:
        database.close()
        raise
    return Store(database)


class Store:
    """An open store: ``with open_store() as store``. Threads may share it; a forked process opens its own.

    ``name``: the path, or the address without its password, for messages.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = database.name
        self.calls = Calls(database)
        self.sessions = Sessions(database)

    @property
    def keys(self) -> Keys:
        from tokenbox.store.keys import Keys  # of the gateway

        return Keys(self.database)

    @property
    def owners(self) -> Owners:
        from tokenbox.store.owners import Owners  # of the gateway

        return Owners(self.database)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
