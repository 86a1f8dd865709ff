"""Clients that misbehave: slow, large, gone, without a key; and secrets that stay where they belong."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from tests.gateway.running import auth, chat
from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
UPSTREAM_KEY = "sk-upstream-5e8d1c07a4b94f3e"
CONFIG = """
[upstreams.stub]
url = "{url}"
key_env = "STUB_KEY"
[gateway]
keys = true
body_bytes = 100000
"""


@pytest.fixture(scope="module")
def database(shared_gateways: Gateways) -> str:
    return str(shared_gateways.folder / "keys.db")


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub, database: str) -> RunningGateway:
    return shared_gateways(
        config=CONFIG.format(url=upstream.url),
        options=["--database", database],
        env={"STUB_KEY": UPSTREAM_KEY},
    )


@pytest.fixture(scope="module")
def key(shared_gateways: Gateways, database: str) -> str:
    return shared_gateways.command("gateway", "keys", "create", "alice", "--database", database)


def make(gateways: Gateways, database: str, name: str, *options: str) -> str:
    return gateways.command("gateway", "keys", "create", name, *options, "--database", database)


def raw(gateway: RunningGateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


def test_nothing_without_a_key(gateway: RunningGateway, upstream: Stub, key: str) -> None:
    before = len(upstream.seen)
    for headers in ({}, auth("tbk_wrong"), auth("sk-other"), {"authorization": "Basic x"}):
        for path in (
            PATH,
            "/v1/messages",
            "/v1/messages/count_tokens",
            "/v1/tokenize",
            "/v1/layout",
            "/v1/plan",
        ):
            answer = gateway.post(path, chat(), **headers)
            assert answer.status == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
        assert gateway.get("/v1/models", **headers).status == 401
    assert len(upstream.seen) == before
    assert gateway.post(PATH, chat(), **auth(key)).status == 200
    assert gateway.post("/v1/messages", chat(), x_api_key=key).status == 200
    assert gateway.get("/v1/models", **auth(key)).status == 200


@pytest.mark.slow
def test_keys_are_scoped_expire_and_are_revoked(
    gateway: RunningGateway, shared_gateways: Gateways, database: str
) -> None:
    scoped = make(shared_gateways, database, "scoped", "-m", "gpt-*", "-m", "stub", "--mode", "enforce")
    assert gateway.post(PATH, chat(), **auth(scoped)).status == 200
    other = gateway.post(PATH, chat(model="claude"), **auth(scoped))
    assert (other.status, other.json["error"]["code"]) == (403, "model_not_allowed")
    for path in ("/v1/messages/count_tokens", "/v1/tokenize"):
        assert gateway.post(path, chat(model="claude"), **auth(scoped)).status == 403
    mode = gateway.post(PATH, chat(), **auth(scoped), x_tokenbox_mode="observe")
    assert (mode.status, mode.json["error"]["code"]) == (403, "mode_not_allowed")
    expired = make(shared_gateways, database, "expired", "--expires", "2099-01-01")
    assert gateway.post(PATH, chat(), **auth(expired)).status == 200
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE tokenbox_keys SET expires = '2020-01-01' WHERE name = 'expired'")
    connection.close()
    shared_gateways.command("gateway", "keys", "revoke", "scoped", "--database", database)
    until(lambda: gateway.post(PATH, chat(), **auth(scoped)).status == 401)
    until(lambda: gateway.post(PATH, chat(), **auth(expired)).status == 401)


def test_too_large_and_too_many(gateway: RunningGateway, key: str) -> None:
    large = gateway.post(PATH, chat("x" * 200_000), **auth(key))
    assert (large.status, large.json["error"]["code"]) == (413, "body_too_large")
    with raw(gateway) as client:  # in pieces, so that nobody is told the size before
        client.sendall(
            b"POST %s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ntransfer-encoding: chunked\r\n"
            b"connection: close\r\n\r\n" % (PATH.encode(), key.encode())
        )
        try:
            for _ in range(30):
                client.sendall(b"2710\r\n" + b" " * 10_000 + b"\r\n")
        except OSError:
            pass
        assert client.recv(64).startswith(b"HTTP/1.1 413 ")
    many = gateway.post(PATH, {"model": "stub", "messages": [{}] * 20_001}, **auth(key))
    assert (many.status, many.json["error"]["param"]) == (400, "messages")
    with raw(gateway) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nlarge: " + b"x" * 70_000)
        answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b'"headers_too_large"' in answer
    with raw(gateway) as client:
        client.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_http"
    assert gateway.post(PATH, chat(), **auth(key)).status == 200


def test_who_sends_a_large_body_sees_why_it_is_refused(gateway: RunningGateway, key: str) -> None:
    """Also on a connection that ends with the answer, before all of it was sent."""
    for headers, size, expected in (
        (auth(key), 40 << 20, "body_too_large"),
        ({}, 8 << 20, "missing_key"),
        (auth("tbk_other"), 8 << 20, "invalid_key"),
    ):
        # It sends all before it reads, and "connection: close".
        answer = gateway.post(PATH, b" " * size, **headers)
        assert answer.json["error"]["code"] == expected
    assert gateway.post("/v1/nothing", b" " * (8 << 20)).status == 404


def test_a_connection_is_usable_after_an_error(gateway: RunningGateway, key: str) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    bodies = (b"{", json.dumps(chat("word " * 9000)).encode(), json.dumps(chat()).encode())
    statuses = []
    for data in bodies:
        connection.request("POST", PATH, data, {"content-type": "application/json", **auth(key)})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    assert statuses == [400, 400, 200]


def test_a_client_that_reads_nothing_holds_nobody_up(gateway: RunningGateway, key: str) -> None:
    body = json.dumps(chat(stream=True, metadata={"fault": "endless"})).encode()
    clients = [raw(gateway) for _ in range(5)]
    for client in clients:
        client.sendall(
            b"POST %s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s"
            % (PATH.encode(), key.encode(), len(body), body)
        )
    for _ in range(5):
        assert gateway.post(PATH, chat(), **auth(key)).status == 200
    for client in clients:
        client.close()
    until(lambda: gateway.metric("tokenbox_upstream_running") == 0)


@pytest.mark.slow
def test_hostile_texts_block_nobody(
    gateway: RunningGateway, shared_gateways: Gateways, upstream: Stub
) -> None:
    del gateway
    alone = shared_gateways(upstream.url)
    hostile = [" " * 1_000_000, "a" * 1_000_000, "😀" * 100_000, "\n" * 500_000, "1" * 500_000]
    many = [
        b'{"model": "stub", "messages": [], "x": [' + value * 5_000_000 for value in (b"{},", b"[],", b"1,")
    ]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for _ in range(90):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": tool}}}}
        if len(json.dumps(tool)) > 4000:
            break

    def longest_beside(body: bytes) -> float:
        """How many seconds a short request takes at most while the gateway has this body."""
        longest = 0.0
        with raw(alone) as client:
            client.sendall(
                b"POST %s HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
                % (PATH.encode(), len(body), body)
            )
            for _ in range(10):
                asked = time.monotonic()
                assert alone.post(PATH, chat()).status == 200
                longest = max(longest, time.monotonic() - asked)
            assert read_all(client).startswith(b"HTTP/1.1 400 ")
        return longest

    bodies = [json.dumps(chat(text, tools=[tool])).encode() for text in hostile]
    for body in [*bodies, *(body + b"1]}" for body in many)]:
        # What is blocked is late each time, and on a busy machine now and then anything is.
        assert any(longest_beside(body) < 3 for _ in range(5)), "short requests waited for a long one"


MARKERS = ("CONTENT-3f1a9", "SYSTEM-77c0e", "TOOLNAME_b41d", "ANSWERHELLO")


def test_no_secret_and_no_content_is_written_anywhere(
    shared_gateways: Gateways, gateway: RunningGateway, key: str
) -> None:
    messages = [{"role": "system", "content": MARKERS[1]}, {"role": "user", "content": MARKERS[0]}]
    tools = [{"type": "function", "function": {"name": MARKERS[2], "parameters": {}}}]
    faults = [None, "refuses_key", "server_error", "flat_error", "redirect", "echoes_key", "reset_before"]
    seen = b""
    for fault in faults:
        for stream in (False, True):
            body = chat(messages=messages, tools=tools, stream=stream, x=MARKERS[3])
            if fault is not None:
                body["metadata"] = {"fault": fault}
            for path in (PATH, "/v1/messages"):
                answer = gateway.post(path, body, **auth(key), x_request_id="req-77")
                seen += answer.data + json.dumps(dict(answer.headers)).encode()
                assert answer.headers["x-request-id"] == "req-77"
    for path in ("/metrics", "/readyz", "/openapi.json", "/v1/models", "/v1/capabilities"):
        seen += gateway.get(path, **auth(key)).data
    assert UPSTREAM_KEY.encode() not in seen
    assert key.encode() not in seen
    assert b"[key withheld]" in seen
    # The upstream got its own key, and never the client's.
    written = {path: path.read_bytes() for path in shared_gateways.folder.rglob("*") if path.is_file()}
    assert any(path.name == "log" for path in written)
    assert any(path.name == "keys.db" for path in written)
    for file, data in written.items():
        for secret in (UPSTREAM_KEY, key, *MARKERS):
            assert secret.encode() not in data, (file, secret)
    assert '"id":"req-77"' in gateway.log
