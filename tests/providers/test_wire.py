"""The HTTP client: hostile answers, and connections that nobody uses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests import loops
from tests.providers.fuzz_wire import check
from tokenbox.providers import wire as wires
from tokenbox.providers.target import Bounds
from tokenbox.providers.wire import Wire

if TYPE_CHECKING:
    import pytest


def test_answers_however_they_are_cut_and_mutated() -> None:
    found = loops.run(check(5_000, seed=1))
    assert found["well-formed, whole"] > 2_000
    assert min(found[f"hostile, {how}"] for how in ("whole", "garbled", "broke")) > 100


def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def run() -> None:
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
        async with asyncio.timeout(10):
            while open_now:  # noqa: ASYNC110  # the server's own count
                await asyncio.sleep(0.02)
        wire.close()
        server.close()

    loops.run(run())
