"""The server's protocol by itself: a transport that writes down, and a clock that is set by hand."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import tomllib
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tests.loops import in_loop
from tokenbox.gateway.asgi import Reply
from tokenbox.gateway.body_memory import BodyMemory, BodyReservation
from tokenbox.gateway.incoming import ClientGone, Incoming
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.server import BoundedProtocol, config_of
from tokenbox.gateway.settings import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tokenbox.gateway.asgi import Message, Receive, Send

LIMITS = RequestLimits(head_seconds=20, body_seconds=60, send_seconds=30)
ASK = b"POST /%b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
# Turns of the loop in which whatever can go on has gone on.
TURNS = 20


class Loop:
    """The loop as far as the protocol knows it: its timers are called by ``pass_time``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def call_at(
        self, when: float, callback: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, arguments, self._loop)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *arguments)

    def create_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._loop.create_task(work)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                handle._run()  # noqa: SLF001  # as the loop does
        self.now = until


class Wires(asyncio.Transport):
    """``out`` is what was written; ``waiting`` bytes of it nobody has taken."""

    def __init__(self) -> None:
        super().__init__()
        self.out = b""
        self.waiting = 0
        self.is_closed = False
        self.is_read = True
        self.protocol: asyncio.Protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.out += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def get_write_buffer_size(self) -> int:
        return self.waiting


class Connection:
    """A connection to an application that reads the body, waits for ``go``, and answers with the path."""

    def __init__(self) -> None:
        self.loop, self.wires = Loop(), Wires()
        self.admits, self.answers = asyncio.Event(), asyncio.Event()
        self.admits.set()
        self.got: list[tuple[str, object]] = []
        config = config_of(self, LIMITS)  # type: ignore[arg-type]  # any application
        config.load()
        self.protocol: BoundedProtocol = config.http_protocol_class(  # type: ignore[call-arg, assignment]
            config, ServerState(), {}, self.loop
        )
        self.wires.protocol = self.protocol
        self.protocol.connection_made(self.wires)

    async def send(self, data: bytes) -> None:
        assert self.wires.is_read, "nobody reads it"
        self.protocol.data_received(data)
        await self.settle()

    @staticmethod
    async def settle() -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        incoming = Incoming.of(scope, receive, BodyReservation(BodyMemory(1 << 30)))
        await self.admits.wait()
        found: object
        try:
            found = len(await incoming.body(1 << 20, LIMITS.body_seconds))
        except (Refusal, ClientGone) as error:
            found = type(error)
        self.got.append((incoming.path, found))
        await self.answers.wait()
        await Reply(200, incoming.path.encode()).send(send)


@in_loop
async def test_a_request_behind_another_is_not_taken_and_ends_the_connection() -> None:
    for behind in (
        ASK % (b"second", 3) + b"abc",
        b"GET / HT",
        b"no HTTP\r\n\r\n",
        b"GET /" + b"x" * 99_999,
    ):
        for at_once in (True, False):
            connection = Connection()
            pieces = [ASK % (b"first", 2) + b"ab", behind]
            for piece in [b"".join(pieces)] if at_once else pieces:
                await connection.send(piece)
            await connection.send(b"GET /third HTTP/1.1\r\n\r\n")
            connection.loop.pass_time(LIMITS.head_seconds + LIMITS.body_seconds)
            assert (connection.wires.out, connection.wires.is_closed) == (b"", False)
            connection.answers.set()
            await connection.settle()
            assert connection.got == [("/first", 2)]
            assert connection.wires.out.count(b"HTTP/1.1 ") == 1
            assert b"connection: close\r\n" in connection.wires.out
            assert connection.wires.is_closed


@in_loop
async def test_a_request_after_an_answer_is_taken() -> None:
    connection = Connection()
    connection.answers.set()
    for number in range(3):
        await connection.send(ASK % (b"%d" % number, 1) + b"a")
        connection.loop.pass_time(LIMITS.body_seconds)
    assert [path for path, _ in connection.got] == ["/0", "/1", "/2"]
    assert not connection.wires.is_closed


@in_loop
async def test_who_leaves_is_seen_also_after_a_large_body() -> None:
    """What comes is not read further while much of it waits; after its end all is."""
    connection = Connection()
    await connection.send(ASK % (b"large", 200_000))
    await connection.send(b"x" * 200_000)
    assert connection.got == [("/large", 200_000)]
    assert connection.wires.is_read


@in_loop
async def test_a_body_that_is_not_taken_is_not_late() -> None:
    """Whoever admits the request is slow: what is left of the body cannot come meanwhile."""
    connection = Connection()
    connection.admits.clear()
    await connection.send(ASK % (b"large", 200_000) + b"x" * 100_000)
    assert not connection.wires.is_read
    connection.loop.pass_time(5 * LIMITS.body_seconds)
    connection.admits.set()
    await connection.settle()
    await connection.send(b"x" * 100_000)
    assert connection.got == [("/large", 200_000)]


@pytest.mark.parametrize("came_whole", [False, True])
@in_loop
async def test_a_body_is_late_if_it_is_not_whole_in_time(came_whole: bool) -> None:
    connection = Connection()
    await connection.send(ASK % (b"slow", 3) + b"a")
    connection.loop.pass_time(LIMITS.body_seconds - 1)
    await connection.send(b"bc" if came_whole else b"b")
    connection.loop.pass_time(2)
    await connection.settle()
    assert connection.got == [("/slow", 3 if came_whole else Refusal)]
    # What was late of one request is not of the next.
    connection.answers.set()
    await connection.settle()
    if not came_whole:
        await connection.send(b"c")
    await connection.send(ASK % (b"next", 1) + b"a")
    assert connection.got[1:] == [("/next", 1)]


@in_loop
async def test_a_reader_is_gone_when_it_takes_nothing_for_so_long() -> None:
    connection = Connection()
    await connection.send(ASK % (b"it", 1) + b"a")
    connection.wires.waiting = 1_000_000
    connection.protocol.pause_writing()
    for _ in range(10):
        connection.loop.pass_time(LIMITS.send_seconds - 1)
        connection.wires.waiting -= 1
    assert not connection.wires.is_closed
    connection.loop.pass_time(2 * LIMITS.send_seconds)
    assert connection.wires.is_closed


@in_loop
async def test_a_connection_that_rests_has_no_timer_of_ours() -> None:
    """Uvicorn's own ends it."""
    connection = Connection()
    connection.answers.set()
    await connection.send(ASK % (b"it", 1) + b"a")
    connection.loop.pass_time(74)
    assert not connection.wires.is_closed
    connection.loop.pass_time(1)
    assert connection.wires.is_closed


def test_what_our_protocol_uses_of_uvicorn_is_there() -> None:
    """Attributes that uvicorn does not document. pyproject.toml pins the versions that have them."""
    requirements = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    gateway = requirements["project"]["optional-dependencies"]["gateway"]
    (pin,) = [requirement for requirement in gateway if requirement.startswith("uvicorn")]
    assert "<" in pin
    source = inspect.getsource(HttpToolsProtocol)
    for name in ("cycle", "scope", "flow", "timeout_keep_alive_task", "transport", "loop"):
        assert f"self.{name}" in source, name
    for name in (
        "on_message_begin",
        "on_url",
        "on_header",
        "on_headers_complete",
        "on_body",
        "data_received",
    ):
        assert name in vars(HttpToolsProtocol), name
    assert "send_400_response" in vars(HttpToolsProtocol)
    for name in ("response_complete", "keep_alive", "message_event", "transport"):
        assert f"self.{name}" in inspect.getsource(RequestResponseCycle), name
    assert {"handle_exit", "capture_signals"} <= set(vars(uvicorn.Server))
