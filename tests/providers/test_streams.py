"""Chats, whole and streamed: what comes through, and what is kept when it does not."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
import threading
from traceback import extract_stack
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.providers.fake import FakeServer, Handler, Reply, chunk, head_of, raw, serving, sse, streamed
from tests.waiting import SECONDS, until
from tokenbox.ledger.usage import Usage
from tokenbox.providers import (
    AnswerTooLarge,
    ApiKey,
    AuthenticationFailed,
    BadAnswer,
    BlockingProvider,
    Bounds,
    ChatAnswer,
    ConnectionLost,
    ConnectionRefused,
    ContextExceeded,
    EndpointMemory,
    FinishReason,
    InvalidRequest,
    Provider,
    ProviderError,
    RateLimited,
    ReasoningDelta,
    RequestRejected,
    ServerFailed,
    ServerTimeout,
    ServerUnreachable,
    StreamCut,
    Target,
    TextDelta,
    Timings,
)
from tokenbox.providers.framing import ServerSentEvents
from tokenbox.providers.openai_chat import ChatReader

if TYPE_CHECKING:
    from collections.abc import Callable

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "hi"}]
BOUNDS = Bounds(connect_seconds=SECONDS, idle_seconds=SECONDS, total_seconds=SECONDS)


def provider(
    url: str, kind: str = "openai-compatible", bounds: Bounds = BOUNDS, key: str | None = None
) -> BlockingProvider:
    target = Target(url, "m", kind, key=None if key is None else ApiKey(key), bounds=bounds)
    return BlockingProvider(target, memory=EndpointMemory())


def told(server: FakeServer) -> ChatAnswer:
    """The streamed answer of ``server``."""
    with provider(server.url) as made, made.stream(ASK) as stream:
        for _ in stream:
            pass
        return stream.answer


def failed(server: FakeServer, kind: type[ProviderError], bounds: Bounds = BOUNDS) -> ProviderError:
    """How the streamed answer of ``server`` fails."""
    with (
        provider(server.url, bounds=bounds) as made,
        made.stream(ASK) as stream,
        pytest.raises(ProviderError) as raised,
    ):
        for _ in stream:
            pass
    assert type(raised.value) is kind, repr(raised.value)
    assert raised.value.partial == stream.answer
    return raised.value


USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 6,
    "total_tokens": 26,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
TIMINGS = {"cache_n": 16, "prompt_n": 4, "predicted_n": 6, "prompt_ms": 0.5}
CALLS: list[dict[str, Any]] = [
    {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"at": "'}},
    {"index": 1, "id": "call_b", "type": "function", "function": {"name": "go", "arguments": "{}"}},
    {"index": 0, "function": {"arguments": 'é"}'}},
]
WHOLE = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"reasoning": "m."}, "finish_reason": None}]},
    chunk("Grüße, "),
    chunk("\U0001f600!"),
    *({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]} for call in CALLS),
    chunk(finish="tool_calls"),
    {"choices": [], "usage": USAGE, "timings": TIMINGS},
]
ANSWER = ChatAnswer(
    "Grüße, \U0001f600!",
    "Hmm.",
    (("call_a", "look", '{"at": "é"}'), ("call_b", "go", "{}")),  # type: ignore[arg-type]  # as tuples
    FinishReason.TOOL_CALLS,
    Usage(20, 6, 16, 2),
    Timings(prompt_n=4, cache_n=16, predicted_n=6),
)


def test_a_streamed_answer_of_everything() -> None:
    with serving({CHAT: streamed(sse(*WHOLE))}) as server:
        answer = told(server)
        assert answer == ANSWER
        assert server.asked[0].body == {
            "model": "m",
            "messages": ASK,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    assert answer.message == {
        "role": "assistant",
        "content": "Grüße, \U0001f600!",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}},
            {"id": "call_b", "type": "function", "function": {"name": "go", "arguments": "{}"}},
        ],
    }


@settings(max_examples=examples(60))
def delta(**fields: Any) -> dict[str, Any]:  # JSON
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def piece(name: str | None = None, arguments: object = "", **fields: object) -> dict[str, Any]:
    """Return a chunk with a piece of a tool call."""
    return delta(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


ODD: dict[str, tuple[list[dict[str, Any]], str, list[tuple[str, str, str]]]] = {
    "calls without numbers": (
        [piece("go", '{"x":', id="a"), piece(None, "1}"), piece("do", "{}", id="b")],
        "",
        [("a", "go", '{"x":1}'), ("b", "do", "{}")],
    ),
    "calls of one number": (
        [piece("go", "{}", index=0, id="a"), piece("do", "{}", index=0, id="b")],
        "",
        [("a", "go", "{}"), ("b", "do", "{}")],
    ),
    "the id and name again": (
        [piece("go", '{"x":', index=0, id="a"), piece("go", "1}", index=0, id="a")],
        "",
        [("a", "go", '{"x":1}')],
    ),
    "a name in pieces": ([piece("g", id="a", index=0), piece("o", "{}", index=0)], "", [("a", "go", "{}")]),
    "arguments as an object": ([piece("go", {"x": "é"}, index=0, id="a")], "", [("a", "go", '{"x":"é"}')]),
    "the call of an older API": (
        [delta(function_call={"name": "go", "arguments": "{"}), delta(function_call={"arguments": "}"})],
        "",
        [("call_0", "go", "{}")],
    ),
    "another answer beside it": (
        [
            {"choices": [{"index": 1, "delta": {"content": "n"}}, {"index": 0, "delta": {"content": "yes"}}]},
            {"choices": [{"index": 1, "delta": {"content": "o"}}]},
        ],
        "yes",
        [],
    ),
    "text in parts": ([delta(content=[{"type": "text", "text": "hi"}])], "hi", []),
    "a complete message": ([{"choices": [{"index": 0, "message": {"content": "hi"}}]}], "hi", []),
    "null everywhere": ([{"choices": None}, {"choices": [{"delta": None}]}, delta(content=None)], "", []),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_servers_are_understood(name: str) -> None:
    events, text, calls = ODD[name]
    with serving({CHAT: streamed(sse(*events, chunk(finish="stop")))}) as server:
        answer = told(server)
    assert answer.text == text
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == calls


@given(st.lists(st.integers(1, 40), min_size=1), st.booleans())
def test_any_chunking_gives_the_same_answer(sizes: list[int], ascii_only: bool) -> None:
    stream = b"".join(
        b"data: %s\r\n\r\n" % json.dumps(one, ensure_ascii=ascii_only).encode() for one in WHOLE
    )
    framing, reader, events, at, turn = ServerSentEvents(10_000), ChatReader(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        for message in framing.feed(stream[at : at + size]):
            events += reader.read(json.loads(message.data))
        at, turn = at + size, turn + 1
    from tokenbox.providers.events import gathered

    assert gathered(events) == ANSWER


@pytest.mark.parametrize("size", [1, 7, 100])
def test_pieces_over_a_real_connection(size: int) -> None:
    stream = sse(*WHOLE)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    with serving({CHAT: streamed(*pieces)}) as server:
        assert told(server) == ANSWER


def test_a_whole_answer() -> None:
    message = {
        "role": "assistant",
        "content": "Grüße, \U0001f600!",
        "reasoning_content": "Hmm.",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}},
            {"id": "call_b", "type": "function", "function": {"name": "go", "arguments": "{}"}},
        ],
    }
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE,
        "timings": TIMINGS,
    }
    with serving({CHAT: body}) as server, provider(server.url) as made:
        assert made.chat(ASK, max_tokens=9, temperature=0.5, stop="END", extra={"seed": 1}) == ANSWER
        assert server.asked[0].body == {
            "model": "m",
            "messages": ASK,
            "max_tokens": 9,
            "temperature": 0.5,
            "stop": ["END"],
            "seed": 1,
        }


def test_a_stream_that_is_answered_whole() -> None:
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
    }
    with serving({CHAT: body}) as server:
        assert told(server) == ChatAnswer("hi", finish=FinishReason.STOP)


def test_events_come_as_they_are_sent_and_not_at_the_end() -> None:
    seen = threading.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: %s\n\n" % json.dumps(chunk("one")).encode())
        assert await asyncio.get_running_loop().run_in_executor(None, seen.wait, SECONDS)
        await response.write(sse(chunk("two", "stop")))
        return response

    with serving({CHAT: handle}) as server, provider(server.url) as made, made.stream(ASK) as stream:
        assert next(stream) == TextDelta("one")
        assert stream.answer == ChatAnswer("one")
        seen.set()
        assert [event for event in stream if isinstance(event, TextDelta)] == [TextDelta("two")]


ENDS: dict[str, tuple[bytes, str]] = {
    "done": (sse(chunk("a"), chunk("b", "stop")), "ab"),
    "no done, but a reason": (b"".join(sse(chunk("a"), chunk("b", "stop")).split(b"data: [DONE]")), "ab"),
    "no blank line at the end": (sse(chunk("a", "stop")).rstrip(), "a"),
    "comments between": (b": ping\n\n" + sse(chunk("a", "stop")).replace(b"\n\n", b"\n\n: ping\n\n"), "a"),
    "a refusal": (
        sse({"choices": [{"delta": {"refusal": "No."}, "finish_reason": "content_filter"}]}),
        "No.",
    ),
    "unknown fields and choices": (
        sse(
            {"choices": [{"delta": {"content": "a", "x": [1]}}, {"delta": {"content": "other"}}]},
            {"x": 1},
            {"choices": None},
            {"choices": [{}]},
            chunk(finish="odd"),
        ),
        "a",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_streams_that_are_whole(name: str) -> None:
    stream, text = ENDS[name]
    with serving({CHAT: streamed(stream)}) as server:
        answer = told(server)
        assert answer.text == text
        assert answer.finish is not None


def test_done_ends_a_stream_that_gives_no_reason() -> None:
    with serving({CHAT: streamed(sse(chunk("a"), chunk("b")))}) as server:
        assert told(server) == ChatAnswer("ab")


HALF = b"data: %s\n\n" % json.dumps(chunk("kept")).encode()
# What is sent after HALF, and how it is taken.
CUTS: dict[str, tuple[bytes, type[ProviderError]]] = {
    "nothing": (b"", StreamCut),
    "half a message": (b'data: {"choices": [{"del', StreamCut),
    "half a character": (b'data: {"choices": [{"delta": {"content": "\xc3', StreamCut),
    "half a field": (b"dat", StreamCut),
    "no JSON": (b"data: oops\n\n", BadAnswer),
    "no object": (b"data: [1]\n\n", BadAnswer),
    "error object": (b'data: {"error": {"message": "boom", "code": 500}}\n\n', ServerFailed),
    "error object of vLLM": (
        b'data: {"object": "error", "message": "boom", "code": 400}\n\n',
        RequestRejected,
    ),
    "error event": (
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
        ServerFailed,
    ),
    "error field of llama.cpp": (
        b'error: {"code": 500, "message": "boom", "type": "server_error"}\n\n',
        ServerFailed,
    ),
    "rate limit": (b'data: {"error": {"message": "slow", "type": "rate_limit_error"}}\n\n', RateLimited),
    "context": (
        b'data: {"error": {"message": "prompt is too long: 9 tokens > 8 maximum", "code": 400}}\n\n',
        ContextExceeded,
    ),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_came_before_a_cut_or_an_error_is_kept(name: str) -> None:
    rest, kind = CUTS[name]
    with serving({CHAT: streamed(HALF, rest)}) as server:
        error = failed(server, kind)
        assert error.partial == ChatAnswer("kept")
        assert error.code == kind.code


BREAKS: dict[str, tuple[bytes, type[ProviderError]]] = {
    "closed before the head": (b"", ConnectionLost),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-type: text/ev", ConnectionLost),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", BadAnswer),
    "after the head": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", StreamCut),
    "in a chunk": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n400\r\n" + HALF, StreamCut),
    "between chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(HALF), HALF),
        StreamCut,
    ),
    "short of its length": (b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + HALF, StreamCut),
}


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("name", BREAKS)
def test_a_connection_that_breaks(name: str, reset: bool) -> None:
    sent, kind = BREAKS[name]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(sent)
        await writer.drain()
        if reset:
            writer.transport.abort()

    with raw(talk) as server:
        error = failed(server, kind)
        assert error.transient is (kind is not BadAnswer)
        if kind is StreamCut and HALF in sent:
            assert error.partial == ChatAnswer("kept")


def test_a_port_where_nothing_runs() -> None:
    with serving({}) as server:
        pass
    failed(server, ConnectionRefused)
    with (
        provider(server.url) as made,
        pytest.raises(ConnectionRefused, match=r"127\.0\.0\.1.*runs on this port"),
    ):
        made.chat(ASK)


def test_no_such_host() -> None:
    with provider("http://no-such-host.invalid") as made, pytest.raises(ServerUnreachable) as raised:
        made.chat(ASK)
    assert "no-such-host.invalid" in str(raised.value)


def test_plain_http_where_tls_was_asked_for() -> None:
    with serving({}) as server:
        tls = server.url.replace("http:", "https:")
        with provider(tls) as made, pytest.raises(ServerUnreachable, match=r"TLS with .* failed: \w"):
            made.chat(ASK)


def test_a_failure_of_tls_without_a_reason_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> object:
        raise ssl.SSLError("failed to allocate")

    monkeypatch.setattr(ssl, "create_default_context", fails)
    with provider("https://127.0.0.1:9") as made, pytest.raises(ServerUnreachable, match="failed: unknown"):
        made.chat(ASK)


def hanging(*first: bytes) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in first:
            await response.write(piece)
        await asyncio.Event().wait()
        return response

    return handle


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [Bounds(idle_seconds=1, total_seconds=600), Bounds(idle_seconds=600, total_seconds=1.5)],
    ids=["idle", "total"],
)
def test_a_stream_that_never_goes_on(bounds: Bounds) -> None:
    with serving({CHAT: hanging(HALF)}) as server:
        error = failed(server, ServerTimeout, bounds=bounds)
        assert error.partial == ChatAnswer("kept")
        assert error.details["seconds"] in {1, 1.5}
        assert server.closed.wait(SECONDS)


def test_a_stream_that_never_ends_is_left_at_its_bound() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(HALF * 100)

    with serving({CHAT: handle}) as server:
        error = failed(server, AnswerTooLarge, bounds=Bounds(stream_bytes=100_000))
        assert error.partial is not None
        assert error.partial.text.startswith("kept")
        assert server.closed.wait(SECONDS)


def test_one_huge_event_is_left_at_its_bound() -> None:
    with serving({CHAT: streamed(HALF, b"data: " + b"x" * 200_000)}) as server:
        assert failed(server, AnswerTooLarge, bounds=Bounds(event_bytes=50_000)).partial == ChatAnswer("kept")


def test_a_huge_whole_answer_and_a_huge_error() -> None:
    with (
        serving({CHAT: "x" * 200_000}) as server,
        provider(server.url, bounds=Bounds(answer_bytes=1_000)) as made,
    ):
        with pytest.raises(AnswerTooLarge) as raised:
            made.chat(ASK)
        assert raised.value.details["limit"] == 1_000
    with serving({CHAT: (500, "x" * 9_000_000)}) as server, provider(server.url) as made:
        with pytest.raises(ServerFailed) as failure:
            made.chat(ASK)
        assert len(str(failure.value)) < 600


@pytest.mark.parametrize(
    ("content_type", "stream", "kind"),
    [
        ("text/plain", sse(chunk("a", "stop")), None),
        ("application/octet-stream", sse(chunk("a", "stop")), None),
        ("text/html", b"<html>Sign in</html>", BadAnswer),
        ("application/json", b"<html>", BadAnswer),
        ("application/json", b'{"error": {"message": "boom", "code": 502}}', ServerFailed),
        ("application/json", b"{}", BadAnswer),
        ("text/event-stream", b'{"error": {"message": "no SSE at all"}}', StreamCut),
    ],
)
def test_content_types(content_type: str, stream: bytes, kind: type[ProviderError] | None) -> None:
    with serving({CHAT: streamed(stream, content_type=content_type)}) as server:
        if kind is None:
            assert told(server).text == "a"
        else:
            failed(server, kind)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((401, {"error": {"message": "no key"}}), AuthenticationFailed),
        ((404, "not here"), RequestRejected),
        ((405, ""), RequestRejected),
        ((429, {"error": "busy"}), RateLimited),
        ((500, "<html><body>nginx"), ServerFailed),
        ((501, ""), ServerFailed),
        ((200, "<html>"), BadAnswer),
        ((200, "{"), BadAnswer),
        ((200, "null"), BadAnswer),
        ((200, {"choices": []}), BadAnswer),
        ((200, {"error": {"message": "upstream", "code": 502}}), ServerFailed),
        ((200, {"error": {"message": "slow", "code": 429}}), RateLimited),
        ((204, ""), BadAnswer),
    ],
    ids=str,
)
def test_refusals_of_a_whole_answer(reply: Reply, kind: type[ProviderError]) -> None:
    with (
        serving({CHAT: reply}) as server,
        provider(server.url) as made,
        pytest.raises(ProviderError) as raised,
    ):
        made.chat(ASK)
    assert type(raised.value) is kind
    assert raised.value.partial is None


def redirecting(status: int, to: Callable[[web.Request], str]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"location": to(request)})

    return handle


def test_redirects_stay_where_the_key_may_go() -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    with serving({CHAT: body}) as other:
        routes = {
            CHAT: redirecting(307, lambda _: "/elsewhere"),
            "/elsewhere": redirecting(308, lambda request: f"http://{request.host}/there"),
            "/there": body,
            "/a/v1/chat/completions": redirecting(307, lambda _: other.url + CHAT),
            "/b/v1/chat/completions": redirecting(302, lambda _: "/there"),
            "/c/v1/chat/completions": redirecting(307, lambda request: request.path),
        }
        with serving(routes) as server:
            with provider(server.url, key="sk-secret") as made:
                assert made.chat(ASK).text == "hi"
                assert [one.headers.get("Authorization") for one in server.asked] == ["Bearer sk-secret"] * 3
                assert [one.body for one in server.asked] == [server.asked[0].body] * 3
            for path, words in (("/a", "not forwarded"), ("/b", "not forwarded"), ("/c", "circle")):
                with (
                    provider(server.url + path, key="sk-secret") as made,
                    pytest.raises(RequestRejected, match=words),
                ):
                    made.chat(ASK)
        assert other.asked == []


def test_leaving_a_stream_closes_its_connection_and_keeps_what_came() -> None:
    with serving({CHAT: hanging(HALF)}) as server, provider(server.url) as made:
        with made.stream(ASK) as stream:
            next(stream)
        assert server.closed.wait(SECONDS)
        assert stream.answer == ChatAnswer("kept")


def test_cancelling_closes_the_connection_at_once() -> None:
    async def cancelled(url: str) -> ChatAnswer:
        target = Target(url, "m", "openai-compatible")
        stream = Provider(target, memory=EndpointMemory()).stream(ASK)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return stream.answer

    with serving({CHAT: hanging(HALF)}) as server:
        assert asyncio.run(cancelled(server.url)) == ChatAnswer("kept")
        assert server.closed.wait(SECONDS)

    async def whole(url: str) -> None:
        target = Target(url, "m", "openai-compatible")
        chat = asyncio.ensure_future(Provider(target, memory=EndpointMemory()).chat(ASK))
        await asyncio.get_running_loop().run_in_executor(None, server.arrived.wait, SECONDS)
        chat.cancel()
        with pytest.raises(asyncio.CancelledError):
            await chat

    with serving({CHAT: hanging()}) as server:
        asyncio.run(whole(server.url))
        assert server.closed.wait(SECONDS)


def running_in(thread: int) -> set[str]:
    """The names of the functions that a thread is in."""
    return {each.name for each in extract_stack(sys._current_frames()[thread])}  # noqa: SLF001  # the only way to see


def test_control_c_in_a_blocking_stream_closes_the_connection_and_keeps_what_came() -> None:
    """The signal of Ctrl-C, sent to this very process while it waits for the next event."""
    with serving({CHAT: hanging(HALF)}) as server, provider(server.url) as made:
        stream = made.stream(ASK)
        assert next(stream) == TextDelta("kept")
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            until(lambda: "wait_for" in running_in(main))
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        thread.join()
        assert server.closed.wait(SECONDS)
        stream.close()
        assert stream.answer == ChatAnswer("kept")


def test_connections_are_kept_between_calls() -> None:
    ports = []

    async def handle(request: web.Request) -> Reply:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}

    with serving({CHAT: handle}) as server:
        with provider(server.url) as made:
            for _ in range(3):
                made.chat(ASK)
        assert len(set(ports)) == 1

        async def outside() -> None:
            made = Provider(Target(server.url, "m", "openai-compatible"), memory=EndpointMemory())
            await made.chat(ASK)
            await made.chat(ASK)

        asyncio.run(outside())
        asyncio.run(outside())
        assert len(set(ports)) == 5


def test_one_provider_in_two_event_loops_and_two_threads() -> None:
    with serving({CHAT: {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}}) as server:
        one = Provider(Target(server.url, "m", "openai-compatible"), memory=EndpointMemory())
        assert [asyncio.run(one.chat(ASK)).text for _ in range(2)] == ["hi", "hi"]

        async def inside() -> str:
            with provider(server.url) as blocking:  # blocking code in a running loop: no trap
                return blocking.chat(ASK).text

        assert asyncio.run(inside()) == "hi"


@pytest.mark.parametrize(
    "bad",
    [
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"messages": ASK, "temperature": float("nan")},
        {"messages": [{"role": "user", "content": {1, 2}}]},
        {"messages": "hi"},
    ],
    ids=["surrogate", "nan", "set", "text"],
)
def test_what_cannot_be_sent_is_not(bad: dict[str, Any]) -> None:
    with serving({}) as server, provider(server.url) as made:
        with pytest.raises(InvalidRequest):
            made.chat(**bad)
        assert server.asked == []


def test_reasoning_is_an_event_of_its_own() -> None:
    with serving({CHAT: streamed(sse(*WHOLE))}) as server, provider(server.url) as made:
        events = list(made.stream(ASK))
        assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm", "m."]
