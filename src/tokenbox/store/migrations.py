"""The schema, as a list of migrations.

Migrations are appended and never changed: the version of a database is the number that it has had. A newer
program migrates an older database under a lock, so that processes may start at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tokenbox.store.errors import StoreDamaged, StoreTooNew

if TYPE_CHECKING:
    from tokenbox.store.database import Database, Transaction

    Migration = Callable[[Transaction], None]

SCHEMA = "tokenbox_schema"


def calls(transaction: Transaction) -> None:
    """One row per call of a model: figures and names, without any content."""
    text, money = transaction.dialect.text, transaction.dialect.money
    transaction.change(f"""
        CREATE TABLE tokenbox_calls (
            id {text} PRIMARY KEY,
            started {text} NOT NULL,
            finished {text},
            outcome {text} NOT NULL,
            project {text},
            session {text},
            model {text} NOT NULL,
            category {text} NOT NULL,
            input_tokens BIGINT,
            cached_input_tokens BIGINT,
            cache_write_tokens BIGINT,
            output_tokens BIGINT,
            reasoning_tokens BIGINT,
            exact SMALLINT NOT NULL,
            cost {money},
            cost_exact SMALLINT NOT NULL,
            priced SMALLINT NOT NULL,
            price_source {text},
            price_date {text},
            predicted_tokens BIGINT,
            predicted_exact SMALLINT NOT NULL,
            reserved_output BIGINT,
            at_most {money}
        )""")
    transaction.change("CREATE INDEX tokenbox_calls_started ON tokenbox_calls (started, id)")
    transaction.change("CREATE INDEX tokenbox_calls_session ON tokenbox_calls (session)")


def sessions(transaction: Transaction) -> None:
    """Sessions and their turns. A turn is written once; only its state may change."""
    text = transaction.dialect.text
    transaction.change(f"""
        CREATE TABLE tokenbox_sessions (
            id {text} PRIMARY KEY,
            name {text} NOT NULL UNIQUE,
            created {text} NOT NULL,
            updated {text} NOT NULL,
            model {text},
            project {text},
            settings TEXT NOT NULL
        )""")
    transaction.change(f"""
        CREATE TABLE tokenbox_turns (
            session {text} NOT NULL REFERENCES tokenbox_sessions (id) ON DELETE CASCADE,
            position BIGINT NOT NULL,
            place BIGINT NOT NULL,
            written {text} NOT NULL,
            message TEXT NOT NULL,
            tokens BIGINT,
            exact SMALLINT NOT NULL,
            pinned SMALLINT NOT NULL,
            state {text} NOT NULL,
            PRIMARY KEY (session, position)
        )""")


def gateway(transaction: Transaction) -> None:
    """Keys, as digests, and the usage of their quotas."""
    text = transaction.dialect.text
    transaction.change(f"""
        CREATE TABLE tokenbox_keys (
            id {text} PRIMARY KEY,
            name {text} NOT NULL UNIQUE,
            digest {text} NOT NULL UNIQUE,
            models TEXT NOT NULL,
            modes TEXT NOT NULL,
            quotas TEXT NOT NULL,
            created {text} NOT NULL,
            expires {text},
            revoked {text}
        )""")
    transaction.change(f"""
        CREATE TABLE tokenbox_quota_levels (
            bucket {text} PRIMARY KEY,
            used BIGINT NOT NULL,
            ends {text} NOT NULL
        )""")
    transaction.change(f"""
        CREATE TABLE tokenbox_quota_reservations (
            reservation {text} NOT NULL,
            bucket {text} NOT NULL,
            amount BIGINT NOT NULL,
            PRIMARY KEY (reservation, bucket)
        )""")


def owners(transaction: Transaction) -> None:
    """Users and teams, and the owners of keys."""
    text = transaction.dialect.text
    transaction.change(f"""
        CREATE TABLE tokenbox_owners (
            kind {text} NOT NULL,
            name {text} NOT NULL,
            models TEXT NOT NULL,
            quotas TEXT NOT NULL,
            created {text} NOT NULL,
            PRIMARY KEY (kind, name)
        )""")
    for column in ("user_name", "team"):
        transaction.change(f"ALTER TABLE tokenbox_keys ADD COLUMN {column} {text}")


def hour_writes(transaction: Transaction) -> None:
    """Tokens that a prompt cache keeps for an hour: unknown for the calls until now."""
    transaction.change("ALTER TABLE tokenbox_calls ADD COLUMN cache_write_1h_tokens BIGINT")


MIGRATIONS: Sequence[Migration] = (calls, sessions, gateway, owners, hour_writes)


def migrate(database: Database, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Migrate the database. Raises :class:`StoreTooNew` if a newer program has migrated it further."""
    with database.reading() as transaction:
        if _version(transaction, database.name, len(migrations)) == len(migrations):
            return
    with database.migrating() as transaction:
        # Another process may have migrated it meanwhile.
        version = _version(transaction, database.name, len(migrations))
        if version is None:
            transaction.change(f"CREATE TABLE {SCHEMA} (version BIGINT NOT NULL)")
            transaction.change(f"INSERT INTO {SCHEMA} (version) VALUES (0)")
        for step in migrations[version or 0 :]:
            step(transaction)
        transaction.change(f"UPDATE {SCHEMA} SET version = :version", {"version": len(migrations)})


def _version(transaction: Transaction, name: str, known: int) -> int | None:
    """Return the number of migrations of the database; None if it is new."""
    if not transaction.has_table(SCHEMA):
        return None
    rows = transaction.rows(f"SELECT version FROM {SCHEMA}")
    version = rows[0][0] if len(rows) == 1 else None
    if not isinstance(version, int) or version < 0:
        raise StoreDamaged(
            f"{name}: it has no version of its schema, because another program changed it. "
            "Move it away and a new one is made.",
            database=name,
        )
    if version > known:
        raise StoreTooNew(
            f"{name}: its schema has version {version}, and this tokenbox knows {known}. "
            "Install a newer tokenbox, or name another database.",
            version=version,
            known=known,
        )
    return version
