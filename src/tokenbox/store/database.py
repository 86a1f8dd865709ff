"""A database as the store uses it: transactions of plain SQL with named parameters (``:name``).

SQLite and PostgreSQL read the same statements, and differ in the few words of :class:`SqlDialect`. Every
failure is a :class:`~tokenbox.store.errors.StoreError`, and a transaction that fails has changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    Value = object  # None, int, str or Decimal


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """``text``: a column type that is compared byte by byte. ``money``: one that keeps a Decimal exactly.

    ``money_sum`` is the aggregate that adds such up exactly.
    """

    text: str
    money: str
    money_sum: str


class Transaction(Protocol):
    """Statements that all happen or none."""

    dialect: SqlDialect

    def rows(self, statement: str, values: Mapping[str, Value] = ...) -> Sequence[Sequence[Any]]:
        """What a query finds."""

    def change(self, statement: str, values: Mapping[str, Value] = ...) -> int:
        """How many rows the statement changed."""

    def change_all(self, statement: str, values: Sequence[Mapping[str, Value]]) -> int:
        """As :meth:`change` for each of ``values`` in turn, and faster; how many rows in all."""

    def has_table(self, name: str) -> bool: ...


class Database(Protocol):
    """An open database. Threads may share it."""

    name: str  # for messages: a path, or an address without its password

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that ends when the block does: kept if that ends well, else as if never begun."""

    def migrating(self) -> AbstractContextManager[Transaction]:
        """A writing transaction that no other process can be in at the same time."""

    def close(self) -> None: ...
