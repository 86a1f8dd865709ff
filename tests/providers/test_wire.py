"""The HTTP client: hostile answers, and connections that nobody uses."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests import loops
from tests.loops import in_loop
from tests.providers.fuzz_wire import check
from tests.waiting import SECONDS
from tokenbox.providers import wire as wires
from tokenbox.providers.target import Bounds
from tokenbox.providers.wire import BrokenAnswer, Wire

if TYPE_CHECKING:
    from collections.abc import Callable


def test_answers_however_they_are_cut_and_mutated() -> None:
    found = loops.run(check(5_000, seed=1))
    assert found["well-formed, whole"] > 2_000
    assert min(found[f"hostile, {how}"] for how in ("whole", "garbled", "broke")) > 100


@in_loop
async def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "KEEP_SECONDS", 0.2)
    open_now = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        open_now -= 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire = Wire(f"http://127.0.0.1:{port}", Bounds())

    async def ask() -> None:
        answer = await wire.request("GET", b"/", [], b"")
        await answer.read(10)
        await asyncio.sleep(0.05)
        answer.release()

    for _ in range(2):  # a connection that is used again is not closed by the timer of its first use
        await asyncio.gather(*(ask() for _ in range(30)))
        assert open_now == 30
    async with asyncio.timeout(SECONDS):
        while open_now:  # noqa: ASYNC110  # the server's own count
            await asyncio.sleep(0.02)
    wire.close()
    server.close()


def test_an_answer_ends_with_its_connection_where_no_system_tells_what_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As macOS does not: the end of the connection is no failure of it."""

    def refused(*_: object) -> bytes:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr("fcntl.ioctl", refused)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n{}")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1")
        wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", Bounds())
        answer = await wire.request("POST", b"/", [], b"")
        assert await answer.read(10) == b"{}"
        wire.close()
        server.close()

    loops.run(run())


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
LARGE = b"x" * 8_000_000  # more than the buffers of both sides take


def _close(line: socket.socket) -> None:
    line.close()


def _close_unread(line: socket.socket) -> None:
    assert line.recv(1, socket.MSG_PEEK)
    line.close()


def _end_unread(line: socket.socket) -> None:
    assert line.recv(1, socket.MSG_PEEK)
    line.shutdown(socket.SHUT_WR)


def _close_read(line: socket.socket) -> None:
    assert line.recv(65_536)
    line.close()


def _reset_read(line: socket.socket) -> None:
    assert line.recv(65_536)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


@pytest.mark.parametrize(
    ("end", "body", "answers", "is_answered"),
    [
        (_close, b"{}", 1, True),
        (_end_unread, LARGE, 1, True),
        (_close_read, b"{}", 1, False),  # it may have run the request
        (_reset_read, b"{}", 1, False),
        (_close_unread, b"{}", 1, False),  # looks like the one before
    ],
)
def test_a_kept_connection_that_the_server_closes(
    end: Callable[[socket.socket], None],
    body: bytes,
    answers: int,
    *,
    is_answered: bool,
) -> None:
    """What the server has not read is sent again, on a new connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    lines: list[socket.socket] = []
    is_closed = threading.Event()

    def accept() -> socket.socket:
        line, _ = listener.accept()
        line.settimeout(SECONDS)
        lines.append(line)
        return line

    def answer(line: socket.socket, size: int) -> None:
        while size > 0:
            size -= len(line.recv(65_536))
        line.sendall(OK)

    def serve() -> None:
        line = accept()
        for _ in range(answers):
            answer(line, 1)
        end(line)
        is_closed.set()
        with suppress(OSError):  # at the end of the test
            answer(accept(), len(body))

    async def run() -> None:
        wire = Wire(f"http://127.0.0.1:{listener.getsockname()[1]}", Bounds())
        for _ in range(answers):
            kept = await wire.request("POST", b"/", [], b"{}")
            assert await kept.read(10) == b"{}"
            kept.release()
        if end is _close:
            assert is_closed.wait(SECONDS)  # while the event loop stands still
        if is_answered:
            found = await wire.request("POST", b"/", [], body)
            assert await found.read(10) == b"{}"
        else:
            with pytest.raises(BrokenAnswer, match=r"^Connection"):
                await wire.request("POST", b"/", [], body)
        wire.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        loops.run(run())
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(SECONDS)
        for line in lines:
            line.close()
    assert len(lines) == 1 + is_answered


@in_loop
async def test_a_request_that_is_cancelled_as_its_answer_begins_closes_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await reader.read()  # until the client closes
        closed.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", Bounds())
    task = asyncio.ensure_future(wire.request("POST", b"/", [], b""))
    wake = wires.WireConnection._wake  # noqa: SLF001  # at the moment of the head

    def cancel(connection: wires.WireConnection) -> None:
        wake(connection)
        task.cancel()

    monkeypatch.setattr(wires.WireConnection, "_wake", cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(SECONDS):
        await closed.wait()
    server.close()


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2"


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (CHUNKED + b"\r\n{}\r\n0\r\n", b"x: y\r\n" * 10_000),
        (CHUNKED + b"\r\n{}\r\n0\r\nx: ", b"y" * 60_000),
        (CHUNKED + b";x=", b"y" * 60_000),
        (b"HTTP/1.1 200 OK\r\nx: ", b"y" * 60_000),
    ],
    ids=["trailers", "a trailer", "an extension", "a header"],
)
@in_loop
async def test_what_is_no_body_has_a_bound(begins: bytes, goes_on: bytes) -> None:
    """The parser would gather a trailer without end, and copy all of it for each piece that comes."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begins)
        with suppress(ConnectionError):
            while sent < 50_000_000:
                writer.write(goes_on)
                sent += len(goes_on)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", Bounds())
    with pytest.raises(BrokenAnswer, match="ValueError: more than 524,288 bytes without a body"):
        await (await wire.request("POST", b"/", [], b"")).read(100)
    assert sent < 50_000_000
    server.close()


@in_loop
async def test_a_failure_says_in_words_what_happened() -> None:
    """asyncio's own TimeoutError has no words, and a log with nothing after its name helps nobody."""
    async with asyncio.timeout(SECONDS):
        with pytest.raises(BrokenAnswer) as connecting:
            await Wire("http://127.0.0.1:1", Bounds(connect_seconds=0)).request("GET", b"/", [], b"")

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(BrokenAnswer) as waiting:
            await Wire(root, Bounds(total_seconds=0.05)).request("GET", b"/", [], b"")
        server.close()
    assert str(connecting.value) == "TimeoutError: no connection within 0 s"
    assert str(waiting.value) == "TimeoutError: the answer was not complete within 0.05 s"
    assert str(BrokenAnswer(waiting.value.how, OSError())) == "OSError"
