"""Whatever is wrong with a database: one clear error, and nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import psycopg
import pytest

from tests.ledger.calls import CLAUDE, HAIKU, NOON
from tests.services import Cuttable
from tests.store.conftest import WAITING
from tests.waiting import until
from tokenbox.errors import MissingExtra
from tokenbox.ledger import Call, Usage
from tokenbox.store.database import insert
from tokenbox.store.errors import (
    DuplicateSession,
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from tokenbox.store.keys import KeyProblem
from tokenbox.store.migrations import MIGRATIONS, SCHEMA, migrate
from tokenbox.store.postgresql import PostgreSQLDatabase
from tokenbox.store.quotas import QuotaStoreError
from tokenbox.store.redis_quotas import RedisQuotas
from tokenbox.store.sqlite import SQLiteDatabase
from tokenbox.store.stores import default_path, file_of, open_store
from tokenbox.store.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenbox.store.database import Transaction
    from tokenbox.store.stores import Store

ENDED = Call("a", NOON, "haiku").end(NOON, Usage(7, 3, 0), HAIKU)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one call in it."""
    file = tmp_path / "tokenbox.db"
    with open_store(file) as store:
        store.calls.record(ENDED)
    return file


def kept(path: Path) -> bool:
    with open_store(path) as store:
        return store.calls.get("a") == ENDED


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with open_store(tmp_path / "data" / "tokenbox.db") as store:
            store.calls.record(ENDED)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data").iterdir()}
    finally:
        os.umask(old)
    assert modes == dict.fromkeys(["tokenbox.db", "tokenbox.db-wal", "tokenbox.db-shm"], 0o600)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_reading_and_writing_do_not_wait_for_one_another(path: Path) -> None:
    with open_store(path, patience=0.1) as one, open_store(path, patience=0.1) as other:
        with one.database.writing() as transaction:
            transaction.change("DELETE FROM tokenbox_calls")
            assert other.calls.get("a") == ENDED
        assert other.calls.get("a") is None


def test_a_database_held_by_others_is_busy_and_then_free(path: Path) -> None:
    with open_store(path) as holder, open_store(path, patience=0.05) as store:
        with (
            holder.database.writing(),
            pytest.raises(StoreBusy, match="another process has locked it") as caught,
        ):
            store.sessions.create("s", "s", NOON)
        assert caught.value.to_dict()["database"] == str(path)
        assert store.sessions.create("s", "s", NOON).info.name == "s"


def test_a_full_database_keeps_what_it_has(path: Path) -> None:
    with open_store(path) as store:
        session = store.sessions.create("s", "s", NOON)
        with store.database.writing() as transaction:
            ((pages,),) = transaction.rows("PRAGMA page_count")
            transaction.rows(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull, match="free some space and try again"):
            session.append(Turn({"role": "user", "content": "x" * 100_000}, NOON))
        assert session.turns() == []
        assert store.calls.get("a") == ENDED
        with store.database.writing() as transaction:
            transaction.rows("PRAGMA max_page_count = 100000")
        session.append(Turn({"role": "user", "content": "x" * 100_000}, NOON))
    assert kept(path)


FULL_DISK = """
import sys
from datetime import UTC, datetime
from tokenbox.store.errors import StoreError
from tokenbox.store.stores import open_store
from tokenbox.store.turns import Turn
at = datetime(2026, 11, 21, tzinfo=UTC)
with open_store(sys.argv[1]) as store:
    session = store.sessions.create("s", "s", at)
    try:
        for i in range(100):
            session.append(Turn({"role": "user", "content": str(i) * 10_000}, at))
    except StoreError as error:
        print(type(error).__name__, len(session.turns()), session.info.turns)
"""


def test_a_disk_that_takes_no_more_keeps_what_was_committed(path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert run.stderr == ""
    kind, turns, written = run.stdout.split()
    assert kind in {"StoreFull", "StoreUnavailable"}
    assert int(turns) == int(written) > 0
    with open_store(path) as store:
        assert len(store.sessions.open("s").turns()) == int(written)
    assert kept(path)


READ_ONLY = """
import os, sys
from datetime import UTC, datetime
from tokenbox.ledger import Call
from tokenbox.store.errors import StoreError
from tokenbox.store import calls, sqlite
from tokenbox.store.stores import open_store
if os.getuid() == 0:
    os.setuid(65534)  # root may write whatever it likes
try:
    with open_store(sys.argv[1]) as store:
        store.calls.record(Call("b", datetime(2026, 11, 21, tzinfo=UTC), "m"))
except StoreError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "kinds"),
    [
        (0o444, 0o777, {"StoreReadOnly"}),
        (0o444, 0o555, {"StoreReadOnly", "StoreUnavailable"}),
        (0o000, 0o777, {"StoreUnavailable"}),
        (None, 0o555, {"StoreUnavailable"}),
    ],
)
def test_a_file_that_may_not_be_written(
    path: Path, file_mode: int | None, folder_mode: int, kinds: set[str]
) -> None:
    # Not under tmp_path, where only this user may go.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        Path(name).chmod(0o755)
        if file_mode is not None:
            shutil.copy(path, folder)
            (folder / path.name).chmod(file_mode)
        folder.chmod(folder_mode)
        run = subprocess.run(
            [sys.executable, "-c", READ_ONLY, folder / path.name], capture_output=True, text=True, check=False
        )
        folder.chmod(0o755)
        assert run.stderr == ""
        assert run.stdout.strip() in kinds
        if file_mode is not None:
            (folder / path.name).chmod(0o600)
            assert kept(folder / path.name)


@pytest.mark.parametrize(
    "content", [b"not a database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"notes\.txt: it is"):
        open_store(file)
    assert file.read_bytes() == content


def test_a_damaged_database_is_said_to_be(path: Path) -> None:
    with open_store(path) as store:
        store.calls.record(*(Call(f"{i:04}", NOON, "m" * 400) for i in range(300)))
    whole = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(whole), 4096):
        whole[page : page + 100] = b"\xff" * 100
    path.write_bytes(whole)
    with pytest.raises(StoreDamaged, match="it is damaged"), open_store(path) as store:
        list(store.calls.each())
    path.write_bytes(whole[:5000])
    with pytest.raises(StoreDamaged), open_store(path) as store:
        list(store.calls.each())


def test_the_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "places.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(NotAStore, match="the database of another program"):
        open_store(file)
    assert file.read_bytes() == before
    assert [other.name for other in tmp_path.iterdir()] == ["places.sqlite"]


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", "/dev/null", "a\0b", Path(sys.executable) / "x.db"):
        with pytest.raises(StoreUnavailable, match=r"it cannot be opened|is not a regular file"):
            open_store(place)


def test_a_store_of_a_newer_program_is_not_touched(store: Store, where: str) -> None:
    with store.database.writing() as transaction:
        transaction.change(f"UPDATE {SCHEMA} SET version = 99")
    with pytest.raises(
        StoreTooNew, match=f"has version 99, and this tokenbox knows {len(MIGRATIONS)}"
    ) as caught:
        open_store(where)
    assert caught.value.details == {"version": 99, "known": len(MIGRATIONS)}


@pytest.mark.parametrize("change", [f"DELETE FROM {SCHEMA}", f"UPDATE {SCHEMA} SET version = -1"])
def test_a_store_without_its_version_is_damaged(store: Store, where: str, change: str) -> None:
    with store.database.writing() as transaction:
        transaction.change(change)
    with pytest.raises(StoreDamaged, match="it has no version of its schema"):
        open_store(where)


def test_rows_of_another_program_are_damaged(store: Store) -> None:
    session = store.sessions.create("id", "mine", NOON)
    session.append(Turn({"role": "user", "content": "hello"}, NOON))
    for change, read in (
        ("UPDATE tokenbox_turns SET written = 'yesterday'", session.turns),
        ("UPDATE tokenbox_turns SET state = 'lost'", session.turns),
        ("UPDATE tokenbox_sessions SET updated = 'now'", store.sessions.list),
    ):
        with store.database.writing() as transaction:
            transaction.change(change)
        with pytest.raises(StoreDamaged, match=r"cannot be read: .* Another program wrote it"):
            read()


def test_an_older_store_is_brought_up_to_date(store: Store, where: str) -> None:
    store.calls.record(ENDED)

    def next_step(transaction: Transaction) -> None:
        transaction.change(f"CREATE TABLE tokenbox_next (a {transaction.dialect.money})")

    def broken_step(transaction: Transaction) -> None:
        transaction.change("CREATE TABLE tokenbox_half (a BIGINT)")
        transaction.change("this is not SQL")

    with pytest.raises(StoreError, match="syntax error"):
        migrate(store.database, (*MIGRATIONS, next_step, broken_step))
    with store.database.reading() as transaction:
        assert not transaction.has_table("tokenbox_next")
        assert not transaction.has_table("tokenbox_half")
    migrate(store.database, (*MIGRATIONS, next_step))
    with store.database.reading() as transaction:
        assert transaction.has_table("tokenbox_next")
    assert store.calls.get("a") == ENDED
    with pytest.raises(StoreTooNew):
        open_store(where)


def test_calls_of_before_caches_of_an_hour_are_still_read(where: str) -> None:
    with open_store(where) as store:  # as it was after the fourth migration
        store.calls.record(ENDED)
        with store.database.writing() as transaction:
            transaction.change("ALTER TABLE tokenbox_calls DROP COLUMN cache_write_1h_tokens")
            transaction.change(f"UPDATE {SCHEMA} SET version = 4")
    later = Call("b", NOON, "claude").end(NOON, Usage(9, 3, 0, None, 5, 4), CLAUDE)
    with open_store(where) as store:
        assert store.calls.get("a") == ENDED
        assert ENDED.usage.cache_write_1h_tokens is None
        store.calls.record(later)
        assert store.calls.get("b") == later
        assert store.calls.totals().cost.known == (7 + 15 + 4 + Decimal("1.25") + 8 + 15) / 10**6


def test_threads_share_a_store(store: Store) -> None:
    calls = [Call(str(i), NOON, "m") for i in range(60)]
    threads = [
        threading.Thread(target=lambda part: [store.calls.record(call) for call in part], args=(calls[i::3],))
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.calls.totals().calls == 60


def test_the_same_calls_in_any_order_do_not_wait_for_one_another(store: Store) -> None:
    calls = [Call(str(i), NOON, "m") for i in range(200)]
    news: list[int] = []
    orders = (calls, calls[::-1], calls[100:] + calls[:100], calls[::2] + calls[1::2])
    threads = [
        threading.Thread(target=lambda order: news.append(store.calls.record(*order)), args=(order,))
        for order in orders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(news) == 4, "a thread failed"
    assert sum(news) == store.calls.totals().calls == 200


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.slow
def test_a_server_that_is_not_there_or_never_answers_is_said_in_time(silent_port: int) -> None:
    for port in (1, silent_port):
        with pytest.raises(StoreUnavailable, match="Check that the server runs") as caught:
            open_store(f"postgresql://ada:hunter2@127.0.0.1:{port}/tokenbox", patience=2)
        assert "hunter2" not in str(caught.value)
        assert "postgresql://ada:***@127.0.0.1" in str(caught.value)


def test_a_server_without_a_free_connection_is_not_sought_elsewhere(new_postgres: Callable[[], str]) -> None:
    address, role = new_postgres(), f"tokenbox_test_{uuid4().hex}"
    with psycopg.connect(address, autocommit=True) as server:
        at = server.info
        server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x' CONNECTION LIMIT 0")
        try:
            with pytest.raises(StoreUnavailable, match="allows no more connections") as caught:
                open_store(f"postgresql://{role}:x@{at.host}:{at.port}/{at.dbname}")
            assert "Check that" not in str(caught.value)
        finally:
            server.execute(f"DROP ROLE {role}")


def test_a_lock_that_others_hold_is_busy(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with open_store(address) as holder, open_store(address, patience=0.2) as store:
        with holder.database.writing() as transaction:
            transaction.change("LOCK TABLE tokenbox_calls")
            with pytest.raises(StoreBusy, match="other transactions have locked it"):
                store.calls.record(ENDED)
        assert store.calls.record(ENDED) == 1


END_ALL_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def end_all_others(store: Store) -> None:
    with store.database.writing() as transaction:
        assert transaction.rows(END_ALL_OTHERS)


def test_a_connection_that_was_lost_is_made_again(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with open_store(address) as store, open_store(address) as other:
        store.calls.record(ENDED)
        end_all_others(other)
        assert store.calls.record(ENDED) == 0

        # In the middle of a transaction it is an error, and the transaction never was.
        def cut_off() -> None:
            with store.database.writing() as transaction:
                transaction.change("DELETE FROM tokenbox_calls")
                end_all_others(other)
                transaction.change("DELETE FROM tokenbox_sessions")

        with pytest.raises(StoreUnavailable):
            cut_off()
        assert store.calls.get("a") == ENDED


def test_a_server_that_hangs_is_not_waited_for_forever(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with open_store(address) as other, open_store(address, patience=0.2) as store:

        def hang() -> None:
            with store.database.reading() as transaction:
                transaction.change("SET LOCAL statement_timeout = 0")  # as a server that is stopped
                transaction.rows("SELECT pg_sleep(600)")

        with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.6 s\. Check that"):
            hang()
        assert store.calls.record(ENDED) == 1  # by a new connection
        end_all_others(other)


def test_a_client_that_vanished_keeps_nobody_from_its_rows(new_postgres: Callable[[], str]) -> None:
    """The server may not notice for hours that it is gone, as when the network between them was cut."""
    address = new_postgres()

    def vanish() -> None:
        with open_store(address, patience=0.2) as gone, gone.database.writing() as transaction:
            transaction.change("INSERT INTO tokenbox_quota_levels (bucket, used, ends) VALUES ('b', 1, '')")
            with store.database.writing() as other:
                other.change("INSERT INTO tokenbox_quota_levels (bucket, used, ends) VALUES ('b', 2, '')")

    with open_store(address) as store:  # first: its tables need not be made with little patience
        with pytest.raises(StoreBusy, match="in which this process was silent"):
            vanish()
        with store.database.reading() as transaction:
            assert transaction.rows("SELECT used FROM tokenbox_quota_levels") == [(2,)]


def test_calls_whose_record_was_not_confirmed_are_locked_by_nobody(new_postgres: Callable[[], str]) -> None:
    """The server has executed the statements, and its answer is lost. It does not notice."""
    address = new_postgres()
    calls = ENDED, Call("b", NOON, "m"), Call("c", NOON, "m")
    with psycopg.connect(address) as holder, ThreadPoolExecutor(1) as threads, open_store(address) as store:
        way = Cuttable(holder.info.port)
        away = f"postgresql://postgres@127.0.0.1:{way.port}/{address.rpartition('/')[2]}"
        with open_store(away, patience=10) as unheard:
            holder.execute("LOCK TABLE tokenbox_calls IN SHARE MODE")
            recording = threads.submit(unheard.calls.record, *calls)
            waiting = "SELECT 1 FROM pg_locks WHERE relation = 'tokenbox_calls'::regclass AND NOT granted"
            until(lambda: holder.execute(waiting).fetchall())
            way.mute()
            holder.commit()
            holder.autocommit = True  # it sees what the others do now
            executed = """
                SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
                AND query ~ 'INSERT INTO tokenbox_calls' AND state ~ 'idle'
            """
            until(lambda: holder.execute(executed).fetchall())
            assert store.calls.record(*calls) == 0
            way.close()
        with pytest.raises(StoreUnavailable):
            recording.result()


def test_rows_are_changed_all_or_none(store: Store) -> None:
    statement = insert("tokenbox_quota_levels", ["bucket", "used", "ends"])
    rows: list[dict[str, object]] = [{"bucket": str(used), "used": used, "ends": ""} for used in (1, None)]
    with pytest.raises(StoreError):
        store.database.change_each(statement, rows)
    with store.database.reading() as transaction:
        assert not transaction.rows("SELECT * FROM tokenbox_quota_levels")


def test_a_server_that_answers_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on its silence, not on the time of a long answer."""
    from tokenbox.store import postgresql

    times = [0.0]
    monkeypatch.setattr(postgresql, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    connection = cast("Any", SimpleNamespace(seconds=1))
    work = postgresql.BoundedConnection._bounded(connection, (step for step in "waits"))  # noqa: SLF001  # of the driver
    next(work)
    for seconds, ready in ((0.9, 1), (1.8, 1), (2.7, 0)):  # it sends twice
        times.append(seconds)
        work.send(ready)


def test_a_server_that_may_only_be_read(new_postgres: Callable[[], str]) -> None:
    address = new_postgres()
    with open_store(address) as store:
        store.calls.record(ENDED)
    with open_store(f"{address}?options=-c%20default_transaction_read_only%3Don") as store:
        assert store.calls.get("a") == ENDED
        with pytest.raises(StoreReadOnly, match="the primary server"):
            store.calls.record(Call("b", NOON, "m"))


@pytest.mark.parametrize(
    "address", ["postgresql://ada:hunter2@[::1/x", "postgresql://ada:hunter2@host:port/x"]
)
def test_an_address_that_does_not_parse_is_not_repeated(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="does not parse") as caught:
        open_store(address)
    assert "hunter2" not in str(caught.value)


def test_other_databases_are_refused() -> None:
    with pytest.raises(StoreUnavailable, match="mysql:// is not a database that tokenbox can use"):
        open_store("mysql://ada:hunter2@host/x")


@pytest.mark.parametrize(
    "address", ["postgresql:ada:hunter2@host/x", "Postgres:/ada:hunter2@host", "redis:hunter2"]
)
def test_an_address_without_its_slashes_is_no_file(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="has no //") as caught:
        file_of(address)
    assert "hunter2" not in str(caught.value)


def test_where_a_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert default_path() == tmp_path / "tokenbox" / "tokenbox.db"
    assert file_of(None) == default_path()
    assert file_of("sqlite:////a/b.db") == Path("/a/b.db")
    assert file_of("a/b.db") == file_of(Path("a/b.db")) == Path("a/b.db")
    assert file_of("postgres://host/x") is None


def test_without_the_extra_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenbox.store.postgresql", None)
    monkeypatch.delitem(sys.modules, "tokenbox.store.postgresql")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tokenbox-llm\[gateway\]'"):
        open_store("postgresql://host/x")


LOADED = """
import sys
from tokenbox.store.stores import open_store
with open_store(sys.argv[1]) as store:
    store.calls.totals()
    store.sessions.list()
heavy = {"sqlalchemy", "psycopg", "asyncio", "genai_prices", "rich", "typer"}
print(sorted(heavy.intersection(sys.modules)))
"""


def test_a_store_in_a_file_needs_nothing_heavy(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED, tmp_path / "a.db"], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


def test_closing_twice_is_fine(path: Path) -> None:
    database = SQLiteDatabase(path)
    database.close()
    database.close()
    with pytest.raises(StoreError), database.reading():
        pass


def test_the_password_of_redis_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDISCLI_AUTH", "s3cret")
    for address, password in (("redis://host", "s3cret"), ("redis://:other@host", "other")):
        assert RedisQuotas(address)._redis.get_connection_kwargs()["password"] == password  # noqa: SLF001  # sent to no one


@pytest.mark.parametrize(
    "address", ["redis://user:s3cret/x@host", "nope://a:s3cret@host", "redis://:p@h:s3cret/0"]
)
def test_an_address_of_redis_that_does_not_parse_is_not_repeated(address: str) -> None:
    """Its error had the part of the password before a slash, as a port that is not a number."""
    with pytest.raises(QuotaStoreError, match="does not parse") as caught:
        RedisQuotas(address)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:s3cret@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=s3cret&sslpassword=s3cret",
        "postgresql://127.0.0.1:1/db?user=u&password=s3cret",
    ],
)
def test_an_address_of_postgresql_is_named_without_its_password(address: str) -> None:
    """The gateway logs the error with each request that it refuses."""
    database = PostgreSQLDatabase(address)
    with pytest.raises(StoreUnavailable) as caught, database.reading():
        pass
    assert "s3cret" not in str(caught.value)
    assert "127.0.0.1:1/db" in database.name


def test_of_two_keys_of_one_name_that_are_made_at_once_one_is_refused(shared_postgres: str) -> None:
    """Both had looked for the name before either was committed: one ended with an error of PostgreSQL."""
    with open_store(shared_postgres) as one, open_store(shared_postgres) as other:
        name = f"key {uuid4().hex}"
        with ThreadPoolExecutor() as pool:
            with one.database.writing() as transaction:
                statement = insert("tokenbox_keys", "id name digest models modes quotas created".split())
                values = dict.fromkeys("id name digest created models modes quotas".split(), "[]")
                transaction.change(statement, {**values, "id": uuid4().hex, "name": name, "digest": name})
                second = pool.submit(other.keys.create, name, NOON)
                until(lambda: transaction.rows(WAITING), "the second to wait")
            with pytest.raises(KeyProblem, match="already"):
                second.result()


def test_of_two_sessions_that_take_one_name_at_once_one_tries_again(shared_postgres: str) -> None:
    """It ended with an error that quoted the index of PostgreSQL."""
    with open_store(shared_postgres) as one, open_store(shared_postgres) as other:
        name, mine = f"name {uuid4().hex}", other.sessions.create(uuid4().hex, uuid4().hex, NOON)
        with ThreadPoolExecutor() as pool:
            with one.database.writing() as transaction:
                columns = "id name created updated settings".split()
                values = {**dict.fromkeys(columns, "{}"), "id": uuid4().hex, "name": name}
                transaction.change(insert("tokenbox_sessions", columns), values)
                second = pool.submit(mine.change, NOON, name=name)
                until(lambda: transaction.rows(WAITING), "the second to wait")
            with pytest.raises(StoreBusy, match="Try again"):
                second.result()
        with pytest.raises(DuplicateSession):
            mine.change(NOON, name=name)
