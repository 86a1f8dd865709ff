"""A request goes to a server once at most: it is sent again only where it was surely not taken."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Self

import pytest

from tests.loops import in_loop
from tests.services import free_port
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANSWERS = {
    "ok": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    "busy": b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\n{}",
    "gateway": b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\n\r\n{}",
    "wrong": b"HTTP/1.1 500 Wrong\r\ncontent-length: 2\r\n\r\n{}",
    "breaks": b"",  # it has read the request, and closes
}


class Server:
    """Answers each request with the next of ``script``; the last one for ever."""

    def __init__(self, script: Sequence[str], port: int | None = None) -> None:
        self.script = list(script)
        self.port = free_port() if port is None else port
        self.taken = 0
        self._lines: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self._lines:
            line.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.append(writer)
        while await reader.read(65_536):  # each request comes in one piece
            self.taken += 1
            answer = ANSWERS[self.script.pop(0) if len(self.script) > 1 else self.script[0]]
            writer.write(answer)
            if not answer:
                break
        writer.close()


async def posted(upstream: Upstream) -> int | str:
    """The status of an answer, or the code of what it was refused with."""
    try:
        answer = await upstream.open("/v1/chat/completions", b"", [], b'{"model": "m"}')
    except Refusal as refusal:
        return refusal.code
    await answer.read(1000)
    answer.release()
    return answer.status


@contextmanager
def upstream_of(*urls: str) -> Iterator[Upstream]:
    found = Upstream(UpstreamSettings("one", urls[0], kind="vllm", replicas=urls[1:]), RequestLimits())
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    ("script", "seen", "taken"),
    [
        (["ok"], 200, 1),
        (["busy", "ok"], 503, 1),
        (["wrong", "ok"], 500, 1),
        (["breaks", "ok"], "upstream_broke", 1),
    ],
)
@in_loop
async def test_the_only_server_gets_a_request_once(script: list[str], seen: int | str, taken: int) -> None:
    async with Server(script) as server:
        with upstream_of(server.url) as upstream:
            assert await posted(upstream) == seen
        assert server.taken == taken


@in_loop
async def test_a_server_that_is_started_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses connections for a moment: nothing of the request is with it."""
    server = Server(["ok"])
    naps: list[float] = []
    async with AsyncExitStack() as stack:

        async def nap(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 2:
                await stack.enter_async_context(server)

        monkeypatch.setattr("tokenbox.gateway.upstream.asyncio.sleep", nap)
        with upstream_of(server.url) as upstream:
            assert await posted(upstream) == 200
        assert (len(naps), server.taken) == (2, 1)


@in_loop
async def test_a_server_that_nobody_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr("tokenbox.gateway.upstream.asyncio.sleep", nap)
    with upstream_of(f"http://127.0.0.1:{free_port()}") as upstream:
        assert await posted(upstream) == "upstream_unreachable"
    assert len(naps) == 2


@pytest.mark.parametrize("first", ["busy", None])
@in_loop
async def test_another_replica_takes_what_one_did_not_and_that_one_rests(first: str | None) -> None:
    """One that says 503, or refuses connections, is asked last for a while."""
    async with AsyncExitStack() as stack:
        away, good = Server(["busy"]), await stack.enter_async_context(Server(["ok"]))
        if first is not None:
            await stack.enter_async_context(away)
        with upstream_of(away.url, good.url) as upstream:
            assert [await posted(upstream) for _ in range(10)] == [200] * 10
        assert good.taken == 10
        assert away.taken == (1 if first else 0)


@pytest.mark.parametrize(("script", "seen"), [("wrong", 500), ("gateway", 502), ("breaks", "upstream_broke")])
@in_loop
async def test_what_one_replica_may_have_taken_goes_to_no_other(script: str, seen: int | str) -> None:
    async with Server([script]) as one, Server([script]) as other:
        with upstream_of(one.url, other.url) as upstream:
            assert await posted(upstream) == seen
        assert one.taken + other.taken == 1


@in_loop
async def test_a_replica_behind_a_proxy_that_lost_it_rests() -> None:
    """Its model may have run, so the client gets the 502; the next requests go elsewhere."""
    async with Server(["gateway"]) as away, Server(["ok"]) as good:
        with upstream_of(good.url, away.url) as upstream:
            assert [await posted(upstream) for _ in range(6)] == [502, *[200] * 5]
        assert (away.taken, good.taken) == (1, 5)


@in_loop
async def test_the_last_replicas_refusal_is_the_answer() -> None:
    async with Server(["busy"]) as one, Server(["busy"]) as other:
        with upstream_of(one.url, other.url) as upstream:
            assert await posted(upstream) == 503
        assert (one.taken, other.taken) == (1, 1)


@in_loop
async def test_replicas_get_as_many_requests_each_with_a_count_before_each() -> None:
    async with Server(["ok"]) as one, Server(["ok"]) as other:
        with upstream_of(one.url, other.url) as upstream:
            requests = 0
            for _ in range(6):
                await upstream.get("/tokenize", {"content": "x"})
                before = one.taken
                await posted(upstream)
                requests += one.taken - before
        assert (requests, one.taken, other.taken) == (3, 6, 6)
