"""A server in a thread with responses defined by the test; it records requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.loops import EndingLoop
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Reply = web.StreamResponse | tuple[int, object] | object
Handler = Callable[[web.Request], Awaitable[Reply]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class FakeServer:
    url: str
    asked: list[Asked] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)  # a request has arrived
    closed: threading.Event = field(default_factory=threading.Event)  # a client disconnected early
    release: threading.Event = field(default_factory=threading.Event)  # ends responses that hang

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


@contextmanager
def serving(
    routes: Mapping[str, Reply | Handler], otherwise: Reply = (404, {"error": "no"})
) -> Iterator[FakeServer]:
    """Serve ``routes``, each a JSON body, (status, body), or a coroutine function of the request."""
    server = FakeServer("")
    started = threading.Event()
    loop = EndingLoop()

    async def handle(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        server.asked.append(
            Asked(request.method, request.path, dict(request.headers), json.loads(raw) if raw else None)
        )
        server.arrived.set()
        route = routes.get(request.path, otherwise)
        try:
            reply = await route(request) if callable(route) else route
        except (asyncio.CancelledError, ConnectionError):
            server.closed.set()
            raise
        if isinstance(reply, web.StreamResponse):
            return reply
        status, body = reply if isinstance(reply, tuple) else (200, reply)
        if isinstance(body, str | bytes):
            data = body.encode() if isinstance(body, str) else body
            return web.Response(status=status, body=data, content_type="text/plain")
        return web.json_response(body, status=status)

    async def serve() -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None  # noqa: SLF001  # to find the port
        server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]  # noqa: SLF001
        started.set()
        await stop.wait()
        await runner.cleanup()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(SECONDS)
    try:
        yield server
    finally:
        server.release.set()
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)
        loop.close()


@contextmanager
def raw(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> Iterator[FakeServer]:
    """Serve raw bytes: ``talk`` reads and writes; then the connection is closed."""
    server = FakeServer("")
    started = threading.Event()
    loop = EndingLoop()
    stop = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
            writer.close()
        except ConnectionError:
            server.closed.set()

    async def serve() -> None:
        listening = await asyncio.start_server(connected, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        started.set()
        await stop.wait()
        listening.close()
        await asyncio.gather(
            *(task for task in asyncio.all_tasks() if task is not asyncio.current_task() and task.cancel()),
            return_exceptions=True,
        )

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(SECONDS)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)
        loop.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    """Read a request; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            await reader.readexactly(int(value))
    return head


def sse(*data: object) -> bytes:
    """Return a stream of server-sent events with OpenAI's end marker."""
    return b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in data) + b"data: [DONE]\n\n"


def chunk(text: str | None = None, finish: str | None = None, **more: object) -> dict[str, object]:
    """Return a chunk of a chat completion."""
    delta = {} if text is None else {"content": text}
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def streamed(*pieces: bytes, content_type: str = "text/event-stream") -> Handler:
    """Return a handler that sends ``pieces`` one by one."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": content_type})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return handle
