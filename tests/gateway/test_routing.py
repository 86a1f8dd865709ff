"""Who answers: aliases, larger models for what does not fit, replicas; and pages of other sites."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.gateway.running import RunningGateway, Stub, wait_until_up
from tests.services import free_port
from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.running import Gateways

PATH = "/v1/chat/completions"
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
replicas = {replicas}
models = ["small", "large", "huge"]
[models.small]
max_ctx = 100
overflow = ["big", "huge"]
[models.large]
max_ctx = 400
[models.huge]
max_ctx = 4000
[models.fast]
alias_of = "small"
[models.big]
alias_of = "large"
"""


def chat(words: int = 1, **more: object) -> dict[str, Any]:
    message = {"role": "user", "content": "word " * words}
    return {"model": "small", "max_tokens": 3, "messages": [message], **more}


@pytest.fixture(scope="module")
def second() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.close()


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub, second: Stub) -> RunningGateway:
    """In front of two servers and of an address where there is none."""
    with socket.create_server(("127.0.0.1", 0)) as taken:  # and so it refuses connections
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    config = CONFIG.format(url=upstream.url, replicas=json.dumps([nobody, second.url]))
    options = ["--database", str(shared_gateways.folder / "own.db")]
    env = {"TOKENBOX_GATEWAY_CORS_ORIGINS": "https://example.org"}
    return shared_gateways(config=config, options=options, env=env)


@pytest.mark.slow
def test_an_alias_is_another_name_of_a_model(gateway: RunningGateway, upstream: Stub, second: Stub) -> None:
    before = [len(stub.seen) for stub in (upstream, second)]
    assert gateway.post(PATH, chat(model="fast")).status == 200
    seen = [
        body for stub, count in zip((upstream, second), before, strict=True) for body in stub.seen[count:]
    ]
    assert [body["model"] for body in seen] == ["small"]
    for path in ("/v1/chat/completions/input_tokens", "/v1/tokenize"):
        answers = [gateway.post(path, chat(model=name)).json for name in ("fast", "small")]
        assert answers[0] == answers[1]


def test_fallbacks_are_aliases_too(gateway: RunningGateway, upstream: Stub, second: Stub) -> None:
    """A server does not know the names of the gateway, and its limits are those of the real model."""
    before = [len(stub.seen) for stub in (upstream, second)]
    models: dict[str, Any] = {
        "models": ["big", "huge"],
        "providerOptions": {"gateway": {"models": ["big", "huge"]}},
    }
    answer = gateway.post(PATH, chat(model="big", **models))
    assert answer.status == 200, answer.data
    seen = [
        body for stub, count in zip((upstream, second), before, strict=True) for body in stub.seen[count:]
    ]
    assert [(body["model"], body["models"], body["providerOptions"]) for body in seen] == [
        ("large", ["large", "huge"], {"gateway": {"models": ["large", "huge"]}})
    ]
    assert gateway.post(PATH, chat(120, model="big", models=["fast"])).status == 400  # small has 100


class Counter(BaseHTTPRequestHandler):
    """A server that counts as llama.cpp does, and keeps the bodies that it is asked for."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        data = b'{"input_tokens": 7, "tokens": [1]}'
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def test_what_is_counted_has_the_names_that_are_sent(start_gateway: Gateways) -> None:
    """The server does not know the names of the gateway, and a key may ask only for its own models."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    database = str(start_gateway.folder / "own.db")
    models = [part for name in ("fast", "big", "huge") for part in ("--model", name)]
    key = start_gateway.command("gateway", "keys", "create", "alice", *models, "--database", database)
    config = CONFIG.format(url=f"http://127.0.0.1:{server.server_port}", replicas="[]")
    options = ["--keys", "--database", database]
    gateway = start_gateway(config=config.replace('"vllm"', '"llama.cpp"'), options=options)
    inner = {"gateway": {"models": ["big", "huge"]}}
    body = chat(model="fast", models=["big"], providerOptions=inner)
    for path in (f"{PATH}/input_tokens", "/v1/tokenize"):
        Counter.seen.clear()
        assert gateway.post(path, {**body, "return_tokens": False}, x_api_key=key).status == 200
        [seen] = Counter.seen
        assert (seen["model"], seen["models"]) == ("small", ["large"])
        assert seen["providerOptions"] == {"gateway": {"models": ["large", "huge"]}}
        refused = gateway.post(path, {**body, "models": ["large"]}, x_api_key=key)
        assert (refused.status, refused.json["error"]["code"]) == (403, "model_not_allowed")
    Counter.seen.clear()
    assert gateway.post("/tokenize", {"model": "fast", "content": "x"}, x_api_key=key).status == 200
    assert Counter.seen == [{"model": "small", "content": "x"}]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("words", "model"), [(10, None), (120, "large"), (600, "huge"), (4_000, False)])
def test_what_does_not_fit_goes_to_a_larger_model(
    gateway: RunningGateway, words: int, model: str | bool | None
) -> None:
    answer = gateway.post(PATH, chat(words))
    if model is False:
        assert answer.status == 400
        assert "maximum context length is 100 tokens" in answer.json["error"]["message"]
        assert "x-tokenbox-overflow-of" not in answer.headers
        return
    assert answer.status == 200, answer.data
    assert answer.headers.get("x-tokenbox-model") == model
    assert answer.headers.get("x-tokenbox-overflow-of") == ("small" if model else None)
    assert answer.json["tokenbox"].get("model") == model
    database = gateway.folder.parent / "own.db"

    def recorded() -> bool:
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("SELECT model, category FROM tokenbox_calls").fetchall()
        return (model or "small", "chat, overflow of small" if model else "chat") in rows

    until(recorded, "the call in the ledger")


def test_a_key_gets_no_larger_model_than_it_may_use(start_gateway: Gateways, upstream: Stub) -> None:
    database = str(start_gateway.folder / "own.db")
    key = start_gateway.command(
        *("gateway", "keys", "create", "alice", "--model", "small", "--model", "huge", "--database", database)
    )
    config = CONFIG.format(url=upstream.url, replicas="[]")
    gateway = start_gateway(config=config, options=["--keys", "--database", database])
    answer = gateway.post(PATH, chat(120), x_api_key=key)
    assert answer.headers["x-tokenbox-model"] == "huge"


def test_replicas_share_the_work_and_one_that_is_away_is_passed_over(
    gateway: RunningGateway, upstream: Stub, second: Stub
) -> None:
    before = [len(stub.seen) for stub in (upstream, second)]
    assert [gateway.post(PATH, chat()).status for _ in range(12)] == [200] * 12
    counts = [len(stub.seen) - count for stub, count in zip((upstream, second), before, strict=True)]
    assert sum(counts) == 12
    assert min(counts) >= 3


@pytest.mark.parametrize(("origin", "allowed"), [("https://example.org", True), ("https://other.org", False)])
def test_pages_of_sites_that_are_named_may_ask(
    gateway: RunningGateway, origin: str, *, allowed: bool
) -> None:
    line = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    asks = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-a",
    }
    line.request("OPTIONS", PATH, headers=asks)
    answer = line.getresponse()
    answer.read()
    assert (answer.status == 204) is allowed
    assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
    assert answer.headers.get("access-control-allow-headers") == ("x-a" if allowed else None)
    assert answer.headers.get("access-control-allow-methods") == ("GET, POST" if allowed else None)
    # A cache between must not give this answer to another site, or for other headers.
    assert answer.headers.get("vary") == ("origin, access-control-request-headers" if allowed else None)
    line.close()
    asked = gateway.post(PATH, chat(), origin=origin)
    assert asked.status == (200 if allowed else 403)
    assert asked.headers.get("access-control-allow-origin") == (origin if allowed else None)


@pytest.mark.parametrize("path", [PATH, "/v1/tokenize", "/v1/plan"])
def test_bodies_under_way_have_a_bound(start_gateway: Gateways, upstream: Stub, path: str) -> None:
    config = f'[upstreams.stub]\nurl = "{upstream.url}"\nkind = "vllm"\n[gateway]\nbodies_bytes = 100000\n'
    gateway = start_gateway(config=config)
    first = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    first.putrequest("POST", path)
    first.putheader("content-length", "90000")
    first.endheaders()
    first.send(b" " * 89_000)
    until(lambda: gateway.metric("tokenbox_bodies_bytes") == 89_000, "the first body")
    answer = gateway.post(PATH, chat(4_000))
    assert (answer.status, answer.json["error"]["code"]) == (503, "bodies_full")
    assert gateway.post(PATH, chat()).status == 200  # a small one has room
    first.close()
    until(lambda: gateway.metric("tokenbox_bodies_bytes") == 0, "an end of the first")
    assert gateway.post(PATH, chat(1_000)).status == 200


@contextmanager
def own_process(gateways: Gateways, upstream: Stub, *command: str) -> Iterator[RunningGateway]:
    """Run a gateway in a new process, where others are forks of one that has all modules."""
    folder = gateways.folder / "plain"
    (folder / ".tokenbox").mkdir(parents=True)
    config = f'[upstreams.stub]\nurl = "{upstream.url}"\nkind = "vllm"\n[gateway]\nkeys = false\n'
    (folder / ".tokenbox" / "config.toml").write_text(config, encoding="utf-8")
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port)],
            cwd=folder,
            env={**os.environ, **gateways.environment({})},
            stdout=log,
            stderr=log,
        )
    gateway = RunningGateway(f"http://127.0.0.1:{port}", folder, process)
    try:
        wait_until_up(gateway)
        yield gateway
    finally:
        process.terminate()
        process.wait(SECONDS)


def test_the_command_serves_in_a_new_process(start_gateway: Gateways, upstream: Stub) -> None:
    with own_process(start_gateway, upstream, "tokenbox", "serve") as gateway:
        assert gateway.post(PATH, chat(model="stub")).json["tokenbox"]["exact"] is True
        assert gateway.stop() == 0


def test_any_server_runs_the_application(start_gateway: Gateways, upstream: Stub) -> None:
    """Here uvicorn without anything of ours: who leaves is seen to leave, and streams are whole."""
    command = ["uvicorn", "--factory", "tokenbox.gateway.application:application"]
    with own_process(start_gateway, upstream, *command) as gateway:
        body = chat(model="stub")
        assert gateway.post(PATH, body).json["tokenbox"]["exact"] is True
        assert gateway.post(PATH, {**body, "stream": True}).data.endswith(b"data: [DONE]\n\n")
        assert gateway.post(PATH, chat(20_000, model="stub")).status == 400
        before = len(upstream.cancelled)
        leaver = socket.create_connection(("127.0.0.1", gateway.port))
        data = json.dumps({**body, "stream": True, "metadata": {"fault": "silent"}}).encode()
        leaver.sendall(
            b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (PATH.encode(), len(data), data)
        )
        until(lambda: upstream.seen[-1].get("metadata") is not None, "the request at the upstream")
        leaver.close()
        until(lambda: len(upstream.cancelled) > before, "an end of the upstream's call")
