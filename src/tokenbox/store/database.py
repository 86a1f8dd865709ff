"""The interface of a database: transactions of plain SQL with named parameters (``:name``).

SQLite and PostgreSQL run the same statements, which differ in the words of :class:`SqlDialect`. Every failure
is a :class:`~tokenbox.store.errors.StoreError`, and a transaction that fails has changed nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    Value = object  # None, int, str or Decimal

NO_VALUES: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """The words in which the databases differ.

    ``text`` is a column type that is compared byte by byte, ``money`` one that stores a Decimal exactly, and
    ``money_sum`` the aggregate that adds such columns exactly.
    """

    text: str
    money: str
    money_sum: str


def insert(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a row, from parameters with the names of the columns."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"


class Transaction(ABC):
    """Statements that are executed all or none."""

    dialect: SqlDialect

    @abstractmethod
    def execute(self, statement: str, values: Mapping[str, Value]) -> Any:  # noqa: ANN401  # a DB-API cursor
        """Execute a statement and return the cursor."""

    @abstractmethod
    def has_table(self, name: str) -> bool: ...

    def rows(self, statement: str, values: Mapping[str, Value] = NO_VALUES) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""
        rows: Sequence[Sequence[Any]] = self.execute(statement, values).fetchall()
        return rows

    def change(self, statement: str, values: Mapping[str, Value] = NO_VALUES) -> int:
        """Execute a statement and return how many rows it changed."""
        return int(self.execute(statement, values).rowcount)


class Database(Protocol):
    """An open database. Threads may share it."""

    name: str  # for messages: a path, or an address without its password

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """Return a transaction that is committed at the end of the block, or rolled back if it raises."""

    def migrating(self) -> AbstractContextManager[Transaction]:
        """Return a writing transaction that excludes other migrating processes."""

    def change_each(self, statement: str, values: Sequence[Mapping[str, Value]]) -> int:
        """Execute a statement for each of the values, all or none; return how many rows it changed."""
        ...

    def close(self) -> None: ...
