"""Stores in a real SQLite file and on the real PostgreSQL of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from tokenbox.store.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tokenbox.store.stores import Store

# Whose server it is: tests make databases of their own there, and drop them.
POSTGRES = os.environ.get("TOKENBOX_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")


@pytest.fixture(scope="session")
def new_postgres() -> Iterator[Callable[[], str]]:
    """``new_postgres()`` is the address of an empty database, dropped at the end."""
    made: list[str] = []
    try:
        connected = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        pytest.fail(
            f"these tests need PostgreSQL: {error}\nStart it, or name another in TOKENBOX_TEST_POSTGRES, as "
            f"{POSTGRES}",
            pytrace=False,
        )
    with connected as server:

        def make() -> str:
            name = f"tokenbox_test_{uuid4().hex}"
            server.execute(f'CREATE DATABASE "{name}"')
            made.append(name)
            return f"{POSTGRES.rpartition('/')[0]}/{name}"

        yield make
        for name in made:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def shared_postgres(new_postgres: Callable[[], str]) -> str:
    return new_postgres()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store, as a path and as an address."""
    if request.param == "sqlite":
        return str(tmp_path / "data" / "tokenbox.db")
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
