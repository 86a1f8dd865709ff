"""Clients that are slow: with their head, with their body, with reading. Nothing of theirs stays held."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import SECONDS, until
from tokenbox.gateway.configured import settings_from
from tokenbox.gateway.settings import RequestLimits

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
LIMIT = 100_000
# The kernel's connections.
TCP = Path("/proc/net/tcp")
# One place, so that a request that holds it is seen at once.
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
concurrency = 1
queue = 0
[gateway]
keys = true
head_seconds = 1
body_seconds = 1
send_seconds = 1
"""


@pytest.fixture(scope="module")
def database(shared_gateways: Gateways) -> str:
    return str(shared_gateways.folder / "own.db")


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub, database: str) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=upstream.url), options=["--database", database])


@pytest.fixture
def key(shared_gateways: Gateways, database: str) -> str:
    """A key of the test's own, with a quota."""
    name = f"key{time.monotonic_ns()}"
    return shared_gateways.command(
        *("gateway", "keys", "create", name, "--quota", f"{LIMIT} tokens/month", "--database", database),
        *("--mode", "enforce", "--mode", "observe"),
    )


def chat(**more: object) -> dict[str, Any]:
    return {"model": "stub", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}], **more}


def connect(gateway: RunningGateway, buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(SECONDS)
    client.connect(("127.0.0.1", gateway.port))
    return client


def read_all(client: socket.socket) -> tuple[bytes, Any]:
    """The first line of the answer and its JSON; until the other side closes."""
    data = b""
    while piece := client.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], json.loads(body) if body else None


def request(body: bytes, key: str, *, length: int | None = None) -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b" % (
        *(PATH.encode(), key.encode(), len(body) if length is None else length, body),
    )


def is_held(client: socket.socket) -> bool:
    """Whether the other side has its end of the connection. It may end it without a word to this one."""
    ports = [f":{port:04X}" for port in (client.getpeername()[1], client.getsockname()[1])]
    rows = [line.split() for line in TCP.read_text(encoding="ascii").splitlines()[1:]]
    return any(row[1].endswith(ports[0]) and row[2].endswith(ports[1]) for row in rows)


def left(gateway: RunningGateway, key: str) -> int:
    refusal = gateway.post(
        PATH, chat(max_tokens=LIMIT), authorization=f"Bearer {key}", x_tokenbox_mode="observe"
    )
    assert refusal.status == 429, refusal.data
    return int(refusal.json["tokenbox"]["left"])


def test_the_settings_are_the_limits(tmp_path: Path) -> None:
    """Without settings, those that are in the code; with settings, those."""
    assert settings_from(str(tmp_path), {}, ["http://x"], env={}).limits == RequestLimits()
    names = ("head_seconds", "body_seconds", "send_seconds", "idle_seconds", "total_seconds")
    flags = {f"gateway.{name}": str(number) for number, name in enumerate(names, 1)}
    limits = settings_from(str(tmp_path), flags, ["http://x"], env={}).limits
    assert [getattr(limits, name) for name in names] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_slow_head_is_an_error_and_a_silent_connection_is_closed(gateway: RunningGateway) -> None:
    begun = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow"
    with connect(gateway) as slow, connect(gateway) as silent, connect(gateway) as second:
        second.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        slow.sendall(begun)
        assert until_end(second, b'{"status":"ok"}').startswith(b"HTTP/1.1 200 OK")
        second.sendall(begun)  # a head that is not the first has as little time
        for client in (slow, second):
            line, answer = read_all(client)
            assert line == b"HTTP/1.1 408 Request Timeout"
            assert answer["error"]["code"] == "head_timeout"
        assert read_all(silent) == (b"", None)


@pytest.mark.slow
def test_bytes_that_are_no_head_keep_no_connection(gateway: RunningGateway) -> None:
    """After an answer, whoever sends a byte now and then is not a client that keeps its connection."""
    with connect(gateway) as lines, connect(gateway) as body:
        lines.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        # Without a key it is refused before its body is read.
        body.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" % PATH.encode())
        assert lines.recv(65536).startswith(b"HTTP/1.1 200")
        assert body.recv(65536).startswith(b"HTTP/1.1 401")
        until(lambda: is_over(lines, b"\r\n") and is_over(body, b" "))


def until_end(client: socket.socket, end: bytes) -> bytes:
    """What comes up to there: head and body may come one after the other."""
    found = b""
    while not found.endswith(end):
        piece = client.recv(65536)
        assert piece, found
        found += piece
    return found


def is_over(client: socket.socket, data: bytes) -> bool:
    """Whether nothing can be sent any more."""
    try:
        client.send(data)
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_a_slow_body_is_an_error_and_its_connection_is_closed(
    gateway: RunningGateway, upstream: Stub, key: str
) -> None:
    before = len(upstream.seen)
    with connect(gateway) as whole, connect(gateway) as stream:
        for client, body in ((whole, chat()), (stream, chat(stream=True))):
            data = json.dumps(body).encode()
            client.sendall(request(data[:-1], key, length=len(data)))
        for client in (whole, stream):
            line, answer = read_all(client)
            assert line == b"HTTP/1.1 408 Request Timeout"
            assert answer["error"]["code"] == "body_timeout"
    assert len(upstream.seen) == before
    assert left(gateway, key) == LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_reads_nothing_is_one_that_has_gone(
    gateway: RunningGateway, upstream: Stub, database: str, key: str, stream: bool
) -> None:
    cancelled, seen, before = len(upstream.cancelled), len(upstream.seen), left(gateway, key)
    body = chat(stream=stream, metadata={"fault": "flood" if stream else "large"})
    with connect(gateway, 4096) as client:
        client.sendall(request(json.dumps(body).encode(), key))
        if stream:
            until(lambda: len(upstream.cancelled) > cancelled)
        else:
            until(lambda: len(upstream.seen) > seen)
        until(lambda: gateway.metric("tokenbox_upstream_running") == 0)
        # The place is free: there is only one, and nobody may wait for it.
        answer = gateway.post(PATH, chat(), authorization=f"Bearer {key}")
        assert answer.status == 200, answer.data
        used = answer.json["usage"]["total_tokens"]
        until(lambda: not is_held(client))
    # What it used is what the upstream said; of the stream, which said nothing, all that was reserved. Both
    # count the same here.
    assert before - left(gateway, key) == 2 * used
    until(lambda: gateway.metric("tokenbox_spool_files_waiting") == 0)
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT outcome FROM tokenbox_calls ORDER BY started DESC LIMIT 2"
        ).fetchall()
    assert [outcome for (outcome,) in rows] == ["done", "stopped" if stream else "done"]


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_all_of_it(start_gateway: Gateways, upstream: Stub) -> None:
    """It reads a little at a time. When it has read too little is tested with a clock of its own."""
    config = CONFIG.format(url=upstream.url).replace("keys = true", "keys = false")
    gateway = start_gateway(config=config.replace("send_seconds = 1", "send_seconds = 60"))
    with connect(gateway, 4096) as client:
        client.sendall(request(json.dumps(chat(metadata={"fault": "large"})).encode(), "none"))
        size = 0
        while size < 30_000_000:
            piece = client.recv(4096 if size < 1_000_000 else 1 << 20)
            assert piece, "the gateway gave up"
            size += len(piece)
