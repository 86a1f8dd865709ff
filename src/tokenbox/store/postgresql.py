"""PostgreSQL, for stores that several machines share: psycopg connections in SQLAlchemy's pool."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tokenbox.errors import needing, without_password
from tokenbox.store.database import SqlDialect, Transaction
from tokenbox.store.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

with needing("a store in PostgreSQL", "gateway"):
    import psycopg
    import sqlalchemy
    from sqlalchemy import exc

if TYPE_CHECKING:
    from tokenbox.store.database import Value

R = TypeVar("R")

DIALECT = SqlDialect(text='TEXT COLLATE "C"', money="NUMERIC", money_sum="SUM")
CONNECTIONS = 4
# An arbitrary number that no other program locks: the first bytes of SHA-256("tokenbox").
MIGRATION_LOCK = 0xDD04699F

# PostgreSQL's SQLSTATE: the error, and what to do.
FAILURES: dict[str, tuple[type[StoreError], str]] = {
    "25006": (StoreReadOnly, "it may not be written. Use the address of the primary server."),
    "42501": (StoreReadOnly, "this user may not do that. Grant it the rights on its tables."),
    "53300": (StoreUnavailable, "it allows no more connections. Close some, or raise max_connections."),
    "53100": (StoreFull, "no space is left. Nothing was written; free some space and try again."),
    "55P03": (StoreBusy, "other transactions have locked it. Try again."),
    "57014": (StoreBusy, "it took too long to answer. Try again."),
    "25P03": (StoreBusy, "the server ended a transaction in which this process was silent. Try again."),
    "40001": (StoreBusy, "other transactions were faster. Try again."),
    "40P01": (StoreBusy, "other transactions were faster. Try again."),
    "23505": (StoreBusy, "another transaction wrote the same name at the same time. Try again."),
}
# The same from PostgreSQL and PgBouncer, without a SQLSTATE: the driver has none of a refused connection.
TOO_MANY = re.compile("too many (clients|connections)|slots are reserved|no more connections allowed")


class PostgreSQLDatabase:
    """A database at a ``postgresql://`` address.

    ``patience`` is how many seconds to wait for a connection, and for a lock. An answer may take twice that.
    A server that is silent for three times as long is unavailable: it hangs. The server ends a transaction
    whose client is silent or cannot be reached for as long: its locks keep all others from its rows.
    """

    def __init__(self, address: str, *, patience: float = 5.0) -> None:
        try:
            url = sqlalchemy.make_url(address)
        except (exc.ArgumentError, ValueError):
            # The address is not repeated, as it may have a password.
            raise StoreUnavailable(
                "the address of the database does not parse. Give one as postgresql://user@host:5432/name."
            ) from None
        self.name = without_password(url.render_as_string(hide_password=True))
        milliseconds, seconds = int(patience * 1000), max(1, round(patience))
        limits = {
            "lock_timeout": milliseconds,
            "statement_timeout": 2 * milliseconds,
            "idle_in_transaction_session_timeout": 3 * milliseconds,
            # Notice a client that vanished without closing the connection.
            "tcp_user_timeout": milliseconds,
            "tcp_keepalives_idle": seconds,
            "tcp_keepalives_interval": 1,
            "tcp_keepalives_count": 3,
        }
        given = url.normalized_query.get("options", ())
        options = [*given, *(f"-c {name}={limit}" for name, limit in limits.items())]
        self._engine = sqlalchemy.create_engine(
            url.set(drivername="postgresql+psycopg").difference_update_query(["options"]),
            pool_size=CONNECTIONS,
            pool_timeout=patience,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={
                "connect_timeout": max(2, round(patience)),
                "options": " ".join(options),
                "application_name": "tokenbox",
                # Notice a server that vanished without closing the connection.
                "tcp_user_timeout": milliseconds,
                "keepalives_idle": seconds,
                "keepalives_interval": 1,
                "keepalives_count": 3,
            },
        )

        @sqlalchemy.event.listens_for(self._engine, "do_connect")
        def _(_dialect: object, _record: object, args: Any, options: Any) -> BoundedConnection:  # noqa: ANN401  # of the driver
            connection = BoundedConnection.connect(*args, **options)
            connection.seconds = 3 * patience
            return connection

        # A connection of it sends all values at once, and the server commits with the last of them. If the
        # driver executed them in a transaction, and vanished then, no limit above would end it: the driver
        # sends a Flush last, which PostgreSQL takes for the beginning of the next statement.
        self._committing = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self._failures(), self._engine.begin() as connection:
            yield PostgreSQLTransaction(connection)

    reading = writing

    def change_each(self, statement: str, values: Sequence[Mapping[str, Value]]) -> int:
        with self._failures(), self._committing.connect() as connection:
            return int(connection.execute(sqlalchemy.text(statement), values).rowcount)

    @contextmanager
    def migrating(self) -> Iterator[Transaction]:
        with self.writing() as transaction:
            transaction.rows("SELECT pg_advisory_xact_lock(:key)", {"key": MIGRATION_LOCK})
            yield transaction

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise self._failure(error) from error

    def _failure(self, error: exc.SQLAlchemyError) -> StoreError:
        cause = error.orig if isinstance(error, exc.DBAPIError) else None
        state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
        if state is None and TOO_MANY.search(str(cause)):
            state = "53300"
        kind, text = FAILURES.get(state or "", (StoreError, ""))
        if not text:
            # Only the first line: the others have values, and addresses that were tried.
            lines = str(cause or error).strip().splitlines()
            text = f"{lines[0].removesuffix('.') if lines else type(error).__name__}."
            unreachable = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)
            if isinstance(error, unreachable) or (state or "").startswith("57P"):
                kind, text = StoreUnavailable, f"{text} Check that the server runs and the address is right."
        return kind(f"{self.name}: {text}", database=self.name)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that ends if the server is silent for ``seconds``. The driver alone waits forever."""

    seconds: float

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **options: Any) -> R:
        """Run ``gen``, the driver's work on one answer. Raises ``psycopg.OperationalError``."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, work: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
        until = time.monotonic() + self.seconds
        try:
            wanted = next(work)
            while True:
                ready = yield wanted
                if ready:
                    until = time.monotonic() + self.seconds
                elif time.monotonic() > until:  # the driver asks every 0.1 s
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server did not answer within {self.seconds:g} s.")
                wanted = work.send(ready)
        except StopIteration as done:
            result: R = done.value
            return result


class PostgreSQLTransaction(Transaction):
    """A transaction of psycopg, by SQLAlchemy."""

    dialect = DIALECT

    def __init__(self, connection: sqlalchemy.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Mapping[str, Value]) -> Any:  # noqa: ANN401  # its cursor
        return self._connection.execute(sqlalchemy.text(statement), values)

    def has_table(self, name: str) -> bool:
        # Not to_regclass, whose cache may be older than a lock that this transaction has waited for.
        return bool(
            self.rows(
                "SELECT 1 FROM pg_catalog.pg_tables WHERE tablename = :name "
                "AND schemaname = ANY (current_schemas(false))",
                {"name": name},
            )
        )
