"""A client that leaves: the upstream's call ends at once, wherever the request is, and nothing stays held."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.gateway.running import make_key
from tests.loops import in_loop
from tests.waiting import SECONDS, until
from tokenbox.gateway.application import gateway_of
from tokenbox.gateway.incoming import CLIENT, ClientGone
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.relay import CallOutcome
from tokenbox.gateway.request import cancelled_on_disconnect
from tokenbox.gateway.services import Stores
from tokenbox.gateway.settings import GatewaySettings, ModelSettings, UpstreamSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gateway.running import Gateways, RunningGateway, Stub
    from tokenbox.gateway.application import Gateway
    from tokenbox.gateway.asgi import Message
    from tokenbox.gateway.services import GatewayServices

PATHS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
    "/v1/completions": {"prompt": "hi", "max_tokens": 5},
    "/v1/responses": {"input": "hi", "max_output_tokens": 5},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
}
CHAT = "/v1/chat/completions"
LIMIT = 100_000
# Longer than any wait of a test: nothing but the client that leaves can end a request.
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
concurrency = {places}
queue_seconds = 900
[gateway]
keys = true
idle_seconds = 900
total_seconds = 900
"""


def body_for(path: str, fault: str | None, **more: object) -> bytes:
    metadata = {} if fault is None else {"metadata": {"fault": fault}}
    return json.dumps({"model": "stub", **PATHS[path], **metadata, **more}).encode()


@pytest.fixture(scope="module")
def database(shared_gateways: Gateways) -> str:
    return str(shared_gateways.folder / "own.db")


@pytest.fixture
def key(shared_gateways: Gateways, database: str) -> str:
    """A key for each test: with many requests in a second, a gateway holds some of its quota ahead."""
    return make_key(shared_gateways, database, "--quota", f"{LIMIT} tokens/month")


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub, database: str) -> RunningGateway:
    config = CONFIG.format(url=upstream.url, places=8)
    return shared_gateways(config=config, options=["--database", database])


@pytest.fixture(scope="module")
def narrow(shared_gateways: Gateways, upstream: Stub, database: str) -> RunningGateway:
    """With one place."""
    config = CONFIG.format(url=upstream.url, places=1)
    return shared_gateways(config=config, options=["--database", database])


def send(gateway: RunningGateway, key: str, path: str, data: bytes) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    connection.request("POST", path, data, headers)
    return connection


def left(gateway: RunningGateway, key: str) -> int:
    headers = {"authorization": f"Bearer {key}", "x_tokenbox_mode": "observe"}
    refusal = gateway.post(CHAT, body_for(CHAT, None, max_tokens=LIMIT), **headers)
    assert refusal.status == 429, refusal.data
    return int(refusal.json["tokenbox"]["left"])


@pytest.mark.parametrize(
    ("fault", "stream", "reads"),
    [
        ("silent", False, False),
        ("silent", True, False),
        ("stalls", True, True),
        ("stalls", False, False),
        ("endless", True, True),
    ],
    ids=["waits", "waits for a stream", "in a stream that rests", "in a whole answer", "in a stream"],
)
@pytest.mark.parametrize("path", PATHS)
def test_the_upstream_sees_it_at_once(
    gateway: RunningGateway, upstream: Stub, key: str, path: str, fault: str, stream: bool, reads: bool
) -> None:
    cancelled, started = len(upstream.cancelled), len(upstream.started)
    client = send(gateway, key, path, body_for(path, fault, stream=stream))
    until(lambda: len(upstream.started) > started)
    answer = client.getresponse() if reads else None
    if answer is not None:
        assert answer.read(20)
    assert client.sock is not None
    client.sock.close()
    client.close()
    if answer is not None:
        answer.close()
    until(lambda: len(upstream.cancelled) > cancelled)
    until(lambda: gateway.metric("tokenbox_upstream_running") == 0)


def test_a_question_to_the_upstream_is_cancelled_too(
    gateway: RunningGateway, upstream: Stub, key: str
) -> None:
    """Before it is sent it is counted, and the upstream is asked for that."""
    seen, before = len(upstream.seen), left(gateway, key)

    cancelled, started = len(upstream.cancelled), len(upstream.started)
    client = send(gateway, key, CHAT, body_for(CHAT, None, model="never-counted"))
    until(lambda: len(upstream.started) > started)
    client.close()
    until(lambda: len(upstream.cancelled) > cancelled, seconds=20)  # after 30 it is given up in any case
    assert len(upstream.seen) == seen
    assert left(gateway, key) == before


def test_who_leaves_the_queue_was_never_there(narrow: RunningGateway, upstream: Stub, key: str) -> None:
    holder = send(narrow, key, CHAT, body_for(CHAT, "endless", stream=True))
    assert holder.getresponse().read(20)
    seen, before = len(upstream.seen), left(narrow, key)

    client = send(narrow, key, CHAT, body_for(CHAT, None))
    until(lambda: narrow.metric("tokenbox_upstream_waiting") == 1)
    client.close()
    until(lambda: narrow.metric("tokenbox_upstream_waiting") == 0)
    until(lambda: left(narrow, key) == before)
    holder.close()
    until(lambda: narrow.metric("tokenbox_upstream_running") == 0)
    assert narrow.post(CHAT, body_for(CHAT, None), authorization=f"Bearer {key}").status == 200
    assert len(upstream.seen) == seen + 1, "a request that nobody waited for was sent"


# The same without a clock: no timer is waited for, and no thread.

# So often the event loop may turn between the two.
TURNS = 30


class Server:
    """An upstream in the loop of the test. ``answer`` is what it sends; then it says no more."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET "):  # of its models it says nothing
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        else:
            writer.write(self.answer)
            self.asked.set()
            with suppress(ConnectionError):
                while await reader.read(65536):
                    pass
            self.ended.set()
        writer.close()


class Client:
    """A request that waits for its answer until it leaves. Fulfils :class:`~tokenbox.gateway.asgi.Client`."""

    is_late = False

    def __init__(self, gateway: Gateway) -> None:
        self.on_disconnect: Callable[[], None] | None = None
        self.answered = asyncio.Event()
        self._body: bytes | None = body_for(CHAT, None, stream=True)
        scope: Message = {"type": "http", "method": "POST", "path": CHAT, "query_string": b"", "headers": []}
        scope["extensions"] = {CLIENT: self}
        self.request = asyncio.ensure_future(gateway(scope, self._receive, self._send))

    async def leave(self) -> int:
        """How often the loop turned until nothing was left of the request."""
        assert self.on_disconnect is not None, "nobody wants to know"
        self.on_disconnect()
        for turn in range(TURNS):
            if self.request.done():
                return turn
            await asyncio.sleep(0)
        raise AssertionError(f"after {TURNS} turns of the loop it still waits for something")

    async def _receive(self) -> Message:
        assert self._body is not None, "there is no more of it"
        body, self._body = self._body, None
        return {"type": "http.request", "body": body}

    async def _send(self, message: Message) -> None:
        self.answered.set()


STREAM = b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"choices": []}\n\n'


async def opened(folder: Path, port: int) -> tuple[Gateway, GatewayServices]:
    upstreams = (UpstreamSettings("it", f"http://127.0.0.1:{port}", "lmstudio", concurrency=1),)
    settings = GatewaySettings(
        upstreams,
        models={"stub": ModelSettings(max_ctx=8000, tokenizer="utf8-bytes")},
        database=str(folder / "own.db"),
        state=str(folder / "state"),
    )
    gateway, services = gateway_of(settings, Stores.open(settings), RequestLog(None))
    await services.open()
    return gateway, services


async def until_waiting(services: GatewayServices) -> None:
    while not services.upstreams[0].waiting:  # noqa: ASYNC110  # a figure, which nobody announces
        await asyncio.sleep(0)


@pytest.mark.parametrize("answer", [b"", STREAM], ids=["waits", "in a stream"])
@in_loop
async def test_it_takes_no_timer_and_no_thread(tmp_path: Path, answer: bytes) -> None:
    upstream = Server(answer)
    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    gateway, services = await opened(tmp_path, server.sockets[0].getsockname()[1])
    client = Client(gateway)
    await asyncio.wait_for(upstream.asked.wait(), SECONDS)
    if answer:
        await asyncio.wait_for(client.answered.wait(), SECONDS)
    waiting = Client(gateway)
    await asyncio.wait_for(until_waiting(services), SECONDS)
    print(f"{await waiting.leave()} turns in the queue")  # noqa: T201
    assert services.upstreams[0].waiting == 0
    print(f"{await client.leave()} turns")  # noqa: T201
    assert services.upstreams[0].running == 0
    await asyncio.wait_for(upstream.ended.wait(), SECONDS)
    await services.close()
    server.close()


@in_loop
async def test_an_answered_request_that_still_settles_does_not_hide_that_the_next_is_left() -> None:
    """Both are on one connection: clients send the next request as soon as they have the last byte."""

    async def answered_then_settling(settled: asyncio.Event) -> None:
        outcome = CallOutcome()
        with cancelled_on_disconnect(client, outcome):
            outcome.ended = True
            await settled.wait()

    async def waiting() -> None:
        with cancelled_on_disconnect(client, CallOutcome()):
            await asyncio.sleep(3600)

    class Connection:
        on_disconnect: Callable[[], None] | None = None
        is_late = False

    client = Connection()
    settled = asyncio.Event()
    first = asyncio.create_task(answered_then_settling(settled))
    await asyncio.sleep(0)
    second = asyncio.create_task(waiting())
    await asyncio.sleep(0)
    settled.set()
    await first
    assert client.on_disconnect is not None
    client.on_disconnect()
    with pytest.raises(ClientGone):
        await asyncio.wait_for(second, SECONDS)
    assert client.on_disconnect is None
