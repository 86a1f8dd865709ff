"""Stores in a real SQLite file and on a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tokenbox.store.stores import Store


# Whether another transaction waits for this one.
WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"


@pytest.fixture(scope="session")
def new_postgres(postgres: str) -> Iterator[Callable[[], str]]:
    """Yield ``new_postgres()``, which returns the address of an empty database; drop them at the end."""
    made: list[str] = []
    with psycopg.connect(postgres, autocommit=True) as server:

        def make() -> str:
            name = f"tokenbox_test_{uuid4().hex}"
            server.execute(f'CREATE DATABASE "{name}"')
            made.append(name)
            return f"{postgres.rpartition('/')[0]}/{name}"

        yield make
        for name in made:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def shared_postgres(new_postgres: Callable[[], str]) -> str:
    return new_postgres()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the path or address of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "data" / "tokenbox.db")
    if request.param == "redis":  # for quotas only
        return str(request.getfixturevalue("redis_url"))
    address: str = request.getfixturevalue("shared_postgres")
    with psycopg.connect(address, autocommit=True) as server:
        for (table,) in server.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            server.execute(f'DROP TABLE "{table}" CASCADE')
    return address


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    with open_store(where) as opened:
        yield opened
