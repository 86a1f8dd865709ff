"""Counts of texts: the server where it can, else here; one probe; never an error."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.loops import in_loop
from tests.providers.fake import Reply, head_of, raw, serving
from tests.waiting import SECONDS, until
from tokenbox import tokenizers
from tokenbox.compose.requests import By, Count
from tokenbox.providers import (
    BlockingProvider,
    Bounds,
    EndpointMemory,
    InvalidRequest,
    InvalidTarget,
    Provider,
    Target,
    TokenCount,
    tokenize_supported,
)
from tokenbox.providers.memory import ProbeOutcome, ProbeReply
from tokenbox.tokenizers import TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenbox.content.request import Request

FOUR = {"tokens": [1, 2, 3, 4]}
HELLO = "hello world"
ESTIMATE = TokenCount(2, exact=False, source="chars4")
QUICK = Bounds(probe_seconds=0.5)


def target(url: str | None, **more: object) -> Target:
    return Target(url, "a-model", use_tokenize_endpoint=True, **more)  # type: ignore[arg-type]


@pytest.fixture
def memory() -> EndpointMemory:
    return EndpointMemory()


@pytest.fixture
def provider(memory: EndpointMemory) -> Iterator[BlockingProvider]:
    with BlockingProvider(target(None), memory=memory) as made:
        yield made


def test_the_server_counts_and_is_asked_as_the_seed_says(
    provider: BlockingProvider, memory: EndpointMemory
) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url)
        assert tokenize_supported(server.url, memory) is None
        counted = provider.counted_text(HELLO)
        assert counted == TokenCount(4, exact=True, source=f"{server.url}/tokenize")
        assert str(counted) == "4"
        assert [(one.method, one.path, one.body) for one in server.asked] == [
            ("POST", "/tokenize", {"content": HELLO, "model": "a-model"})
        ]
        assert tokenize_supported(server.url, memory) is True
        assert provider.token_count(HELLO) == 4
        assert len(server.asked) == 2


@pytest.mark.parametrize("end", ["", "/", "///", "/v1", "/v1/", "/v1//"])
def test_one_endpoint_however_it_is_written(
    provider: BlockingProvider, memory: EndpointMemory, end: str
) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url + end)
        assert provider.token_count(HELLO) == 4
        assert server.paths() == ["/tokenize"]
        assert tokenize_supported(server.url + "/", memory) is True
        assert tokenize_supported(server.url + "/v1", memory) is True


def test_an_endpoint_below_a_path(provider: BlockingProvider) -> None:
    with serving({"/llm/a/tokenize": FOUR}) as server:
        provider.target = target(f"{server.url}/llm/a/v1/")
        assert provider.token_count(HELLO) == 4


def test_by_default_nothing_is_asked(memory: EndpointMemory) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider = BlockingProvider(Target(server.url, "a-model"), memory=memory)
        assert provider.counted_text(HELLO) == ESTIMATE
        assert provider.count([{"role": "user", "content": HELLO}]).exact is False
        assert asyncio.run(Provider(provider.target, memory=memory).counted_text(HELLO)) == ESTIMATE
        assert server.asked == []
        assert tokenize_supported(server.url, memory) is None


# 404, 405, 501 and answers of another shape: remembered.
UNSUPPORTED: list[Reply] = [
    (404, {"error": {"message": "File Not Found", "code": 404}}),
    (404, "not here"),
    (405, ""),
    (501, {"error": "not implemented"}),
    (400, {"error": {"message": "prompt is required"}}),
    (401, {"error": "no key"}),
    (422, {"detail": [{"msg": "Field required"}]}),
    {"tokens": 4},
    {"tokens": None},
    {"count": 4},
    [1, 2, 3],
    "<html>a page</html>",
    "null",
    "",
    '{"tokens": [1, 2',
]


@pytest.mark.parametrize("reply", UNSUPPORTED, ids=str)
def test_unsupported_is_remembered_after_one_probe(
    provider: BlockingProvider, memory: EndpointMemory, reply: Reply
) -> None:
    with serving({"/tokenize": reply}) as server:
        provider.target = target(server.url)
        assert [provider.counted_text(HELLO) for _ in range(5)] == [ESTIMATE] * 5
        assert server.paths() == ["/tokenize"]
        assert tokenize_supported(server.url, memory) is False
        provider.target = target(server.url + "/v1/", tokenizer="utf8-bytes")
        assert provider.token_count(HELLO) == 11
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [(429, {"error": "busy"}), (500, "oops"), (502, ""), (503, {"error": "Loading model"}), (408, "")],
    ids=str,
)
def test_not_now_is_not_remembered(provider: BlockingProvider, memory: EndpointMemory, reply: Reply) -> None:
    replies = [reply, reply, reply, FOUR]

    async def tokenize(_: web.Request) -> Reply:
        return replies.pop(0)

    with serving({"/tokenize": tokenize}) as server:
        provider.target = target(server.url)
        assert [provider.counted_text(HELLO) for _ in range(3)] == [ESTIMATE] * 3
        assert tokenize_supported(server.url, memory) is None
        assert provider.token_count(HELLO) == 4
        assert tokenize_supported(server.url, memory) is True
        assert len(server.asked) == 4


def test_a_server_that_supports_it_may_be_busy_and_does_not_lose_its_name(
    provider: BlockingProvider, memory: EndpointMemory
) -> None:
    replies: list[Reply] = [FOUR, (503, ""), FOUR]

    async def tokenize(_: web.Request) -> Reply:
        return replies.pop(0)

    with serving({"/tokenize": tokenize}) as server:
        provider.target = target(server.url)
        assert [provider.token_count(HELLO) for _ in range(3)] == [4, 2, 4]
        assert tokenize_supported(server.url, memory) is True


def test_a_refused_connection_is_a_fallback_and_not_remembered(
    provider: BlockingProvider, memory: EndpointMemory
) -> None:
    with serving({}) as server:
        gone = server.url
    provider.target = target(gone)
    assert [provider.counted_text(HELLO) for _ in range(3)] == [ESTIMATE] * 3
    assert tokenize_supported(gone, memory) is None


def test_a_time_out_is_a_fallback_and_the_next_call_asks_again(memory: EndpointMemory) -> None:
    slow = True
    released = threading.Event()

    async def tokenize(_: web.Request) -> Reply:
        if slow:
            await asyncio.get_running_loop().run_in_executor(None, released.wait, SECONDS)
        return FOUR

    with serving({"/tokenize": tokenize}) as server:
        provider = BlockingProvider(target(server.url, bounds=QUICK), memory=memory)
        assert provider.counted_text(HELLO) == ESTIMATE
        assert tokenize_supported(server.url, memory) is None
        slow = False
        provider.target = target(server.url)
        assert provider.token_count(HELLO) == 4
        released.set()
        provider.close()


@pytest.mark.slow
def test_after_two_time_outs_in_a_row_the_server_has_a_rest() -> None:
    now = [0.0]
    memory = EndpointMemory(clock=lambda: now[0])
    released = threading.Event()
    hanging = True

    async def tokenize(_: web.Request) -> Reply:
        if hanging:
            await asyncio.get_running_loop().run_in_executor(None, released.wait, SECONDS)
        return FOUR

    with serving({"/tokenize": tokenize}) as server:
        provider = BlockingProvider(target(server.url, bounds=QUICK), memory=memory)
        assert [provider.token_count(HELLO) for _ in range(40)] == [2] * 40
        until(lambda: len(server.asked) >= 2)
        assert len(server.asked) == 2  # not 40 times 0.5 seconds
        now[0] += 2.0
        assert [provider.token_count(HELLO) for _ in range(5)] == [2] * 5
        until(lambda: len(server.asked) >= 3)
        assert len(server.asked) == 3
        now[0] += 3.9
        assert provider.token_count(HELLO) == 2
        assert len(server.asked) == 3  # the rest has doubled
        hanging = False
        provider.target = target(server.url)
        now[0] += 0.1
        assert [provider.token_count(HELLO) for _ in range(3)] == [4] * 3
        released.set()
        provider.close()


@in_loop
async def test_timeouts_of_questions_that_were_asked_together_count_once() -> None:
    """Else ten slow questions at once would stop those of all others for a minute."""
    now = [0.0]
    memory = EndpointMemory(clock=lambda: now[0], longest_rest=5.0)

    async def slow() -> ProbeReply[int]:
        await asyncio.sleep(0)  # until all have begun
        now[0] += 10.0
        return ProbeReply(ProbeOutcome.TIMED_OUT)

    async def quick() -> ProbeReply[int]:
        return ProbeReply(ProbeOutcome.ANSWERED, 4)

    assert (await memory.ask("it", "/count", quick)).value == 4
    await asyncio.gather(*(memory.ask("it", "/count", slow) for _ in range(10)))
    assert not memory.resting("it")
    for rest in (2.0, 4.0, 5.0, 5.0):
        await memory.ask("it", "/count", slow)
        now[0] += rest - 0.5
        assert memory.resting("it")
        now[0] += 0.5
        assert not memory.resting("it")


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize(("reply", "asked"), [((404, ""), 1), ((503, ""), 1), (FOUR, None)])
def test_calls_that_begin_together_make_one_probe(
    memory: EndpointMemory, threads: int, reply: Reply, asked: int | None
) -> None:
    """The first answer is held back until all have begun; who waits for it asks nothing of its own."""
    released = threading.Event()

    async def tokenize(_: web.Request) -> Reply:
        if not released.is_set():
            assert len(server.asked) == 1, "a second probe, while the first was under way"
            await asyncio.get_running_loop().run_in_executor(None, released.wait, SECONDS)
        return reply

    with serving({"/tokenize": tokenize}) as server, ThreadPoolExecutor(threads) as pool:
        provider = BlockingProvider(target(server.url, bounds=Bounds(probe_seconds=30)), memory=memory)
        begun = threading.Barrier(threads + 1)

        def count(_: int) -> int:
            begun.wait()
            return provider.token_count(HELLO)

        counts = pool.map(count, range(threads))
        begun.wait()
        assert server.arrived.wait(SECONDS)
        released.set()
        assert list(counts) == [4 if asked is None else 2] * threads
        assert asked is None or len(server.asked) <= threads
        if reply == (404, ""):
            assert len(server.asked) == 1
        provider.close()


def test_many_tasks_of_one_loop_make_one_probe(memory: EndpointMemory) -> None:
    async def tokenize(_: web.Request) -> Reply:
        await asyncio.sleep(0)
        return 404, ""

    async def many(url: str) -> list[int]:
        async with Provider(target(url), memory=memory) as provider:
            return await asyncio.gather(*(provider.token_count(HELLO) for _ in range(50)))

    with serving({"/tokenize": tokenize}) as server:
        assert asyncio.run(many(server.url)) == [2] * 50
        assert len(server.asked) == 1


def test_who_asks_first_may_be_cancelled_and_the_others_are_not_left_waiting(memory: EndpointMemory) -> None:
    """The next one asks in its place."""

    async def tokenize(_: web.Request) -> Reply:
        return await asyncio.Event().wait() if len(server.asked) == 1 else FOUR

    async def one_goes(url: str) -> int:
        provider = Provider(target(url, bounds=Bounds(probe_seconds=30)), memory=memory)
        first = asyncio.create_task(provider.token_count(HELLO))
        await asyncio.get_running_loop().run_in_executor(None, server.arrived.wait, SECONDS)
        second = asyncio.create_task(provider.token_count(HELLO))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.wait_for(second, SECONDS)

    with serving({"/tokenize": tokenize}) as server:
        assert asyncio.run(one_goes(server.url)) == 4
        assert server.closed.wait(SECONDS)  # and its connection is closed at once
        assert tokenize_supported(server.url, memory) is True


def test_empty_text_is_nothing_and_asks_nothing(provider: BlockingProvider) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url)
        assert provider.counted_text("") == TokenCount(0, exact=True, source="empty text")
        assert provider.token_count(None) == 0
        assert server.asked == []


@pytest.mark.parametrize(
    "endpoint",
    [
        *(
            None,
            "",
            "nonsense",
            "ftp://x",
            "http://",
            "http://[::1",
            "http://u:p@h/",
            "http://a..b",
            "http://.",
        ),
        *(f"http://{'a' * 70}.invalid", "http://127.0.0.1:99999", "http://127.0.0.1:1/é ü", "http://\u2100"),
    ],
)
def test_a_missing_endpoint_is_a_fallback(provider: BlockingProvider, endpoint: str | None) -> None:
    provider.target = target(endpoint)
    assert provider.counted_text(HELLO) == ESTIMATE
    assert asyncio.run(Provider(provider.target).token_count(HELLO)) == 2


def test_a_conversation_does_not_wait_for_a_silent_server_message_by_message() -> None:
    """Also where the kind has to be found out first."""
    now = [0.0]

    async def silent(_: web.Request) -> Reply:
        return await asyncio.Event().wait()

    with serving({}, otherwise=silent) as server:
        memory = EndpointMemory(clock=lambda: now[0])
        with BlockingProvider(target(server.url, bounds=QUICK), memory=memory) as provider:
            counts = [provider.count([{"role": "user", "content": HELLO}]) for _ in range(30)]
            assert not any(count.exact for count in counts)
            until(lambda: len(server.asked) >= 2)
            assert len(server.asked) == 2


def test_a_forked_process_counts_too(provider: BlockingProvider) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url)
        assert provider.token_count(HELLO) == 4
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tested
            child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)  # a child that waits for a thread it does not have must not wait for ever
            os._exit(provider.token_count(HELLO))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 4


def test_tokenize_supported_of_no_endpoint_says_so() -> None:
    with pytest.raises(InvalidTarget):
        tokenize_supported("nonsense")


def test_the_fallback_is_the_local_tokenizer_and_says_if_it_is_exact(provider: BlockingProvider) -> None:
    text = "Context is a resource."
    provider.target = target(None, tokenizer="o200k_base")
    assert provider.counted_text(text) == TokenCount(5, exact=True, source="tokenizer o200k_base")
    provider.target = target(None, tokenizer="code-aware")
    assert provider.counted_text(text).exact is False
    assert str(provider.counted_text("x" * 8_000)) == "~2,000"
    for unknown in ("no-such", "file:/no/such/file"):
        provider.target = target(None, tokenizer=unknown)
        assert provider.counted_text(text) == TokenCount(5, exact=False, source="chars4")


def test_a_text_that_is_no_unicode_is_estimated_and_spoils_nothing(provider: BlockingProvider) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url, tokenizer="o200k_base")
        assert provider.counted_text("abc\ud800defgh") == TokenCount(2, exact=False, source="chars4")
        assert server.asked == []
        assert provider.token_count(HELLO) == 4


def test_a_text_too_large_for_the_server_spoils_nothing(
    provider: BlockingProvider, memory: EndpointMemory
) -> None:
    async def tokenize(request: web.Request) -> Reply:
        body = await request.json()
        return (413, "too large") if len(body["content"]) > 100 else FOUR

    with serving({"/tokenize": tokenize}) as server:
        provider.target = target(server.url)
        assert provider.token_count("x" * 400) == 100
        assert tokenize_supported(server.url, memory) is None
        assert provider.token_count(HELLO) == 4
        assert provider.token_count("x" * 400) == 100
        assert tokenize_supported(server.url, memory) is True


def test_a_model_the_server_does_not_have_spoils_nothing_for_the_others(provider: BlockingProvider) -> None:
    async def tokenize(request: web.Request) -> Reply:
        model = (await request.json())["model"]
        return FOUR if model == "there" else (404, {"error": f"The model `{model}` does not exist."})

    with serving({"/tokenize": tokenize}) as server:
        provider.target = target(server.url)
        assert provider.token_count(HELLO) == 2
        provider.target = replace(provider.target, model="there")
        assert provider.token_count(HELLO) == 4


def test_a_switch_of_the_model_switches_the_tokenizer_at_once(memory: EndpointMemory) -> None:
    with serving({"/tokenize": FOUR}) as one, serving({"/tokenize": {"tokens": [1] * 9}}) as two:
        provider = BlockingProvider(target(one.url), memory=memory)
        count = provider.token_count  # as a conversation holds it
        assert count(HELLO) == 4
        provider.target = target(two.url)
        assert count(HELLO) == 9
        provider.target = target(None, tokenizer="utf8-bytes")
        assert count(HELLO) == 11
        provider.target = target(one.url)
        assert count(HELLO) == 4
        provider.close()


SHAPES = [
    ("llama.cpp", {"content": HELLO, "model": "a-model"}, FOUR, True),
    ("openai-compatible", {"content": HELLO, "model": "a-model"}, FOUR, True),
    (
        "vllm",
        {"prompt": HELLO, "model": "a-model", "add_special_tokens": False},
        {"count": 4, "max_model_len": 8192, "tokens": [1, 2, 3, 4], "token_strs": None},
        True,
    ),
    (
        "sglang",
        {"prompt": HELLO, "model": "a-model", "add_special_tokens": False},
        {"tokens": [1, 2, 3, 4], "count": 4, "max_model_len": 8192},
        True,
    ),
    (
        "tgi",
        {"inputs": HELLO, "model": "a-model"},
        [{"id": i, "text": "x", "start": 0, "stop": 1} for i in range(4)],
        False,
    ),
]


@pytest.mark.parametrize(("kind", "asked", "answer", "exact"), SHAPES, ids=lambda value: str(value)[:20])
def test_each_kind_is_asked_in_its_own_shape(
    provider: BlockingProvider, kind: str, asked: object, answer: object, exact: bool
) -> None:
    with serving({"/tokenize": answer}) as server:
        provider.target = target(server.url, kind=kind)
        assert provider.counted_text(HELLO) == TokenCount(4, exact, f"{server.url}/tokenize")
        assert [one.body for one in server.asked] == [asked]


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama", "lmstudio"])
def test_kinds_that_count_no_texts_are_not_asked(provider: BlockingProvider, kind: str) -> None:
    with serving({"/tokenize": FOUR}) as server:
        provider.target = target(server.url, kind=kind)
        assert provider.counted_text(HELLO) == ESTIMATE
        assert server.asked == []


def test_a_kind_found_out_later_gives_the_server_another_chance(
    provider: BlockingProvider, memory: EndpointMemory
) -> None:
    async def tokenize(request: web.Request) -> Reply:
        return (
            {"count": 4, "tokens": [1]} if "prompt" in await request.json() else (400, {"error": "no prompt"})
        )

    with serving(
        {"/tokenize": tokenize, "/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
    ) as server:
        provider.target = target(server.url)
        assert provider.token_count(HELLO) == 2
        assert tokenize_supported(server.url, memory) is False
        assert provider.kind() == "vllm"
        assert provider.token_count(HELLO) == 4
        assert tokenize_supported(server.url, memory) is True


FAULTS = {
    "closed at once": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "no HTTP": b"220 smtp ready\r\n\r\n",
    "half a body": b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"tokens": [1',
    "half a chunk": b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\n{"tokens": [1',
    "a bad chunk size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "endless headers": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000,
    "bad gzip": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
    "deep JSON": b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200_000,
    "a number of a million digits": b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"9" * 1_000_000,
    "a redirect to another host": b"HTTP/1.1 307 X\r\nlocation: http://h:1/\r\ncontent-length: 0\r\n\r\n",
    "a redirect to nowhere": b"HTTP/1.1 302 X\r\nlocation: ://[\r\ncontent-length: 0\r\n\r\n",
    "a status of zero": b"HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_a_server_is_an_error_of_a_count(memory: EndpointMemory, fault: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(FAULTS[fault])
        await writer.drain()

    with raw(talk) as server, BlockingProvider(target(server.url), memory=memory) as provider:
        assert provider.counted_text(HELLO) == ESTIMATE
        counted = provider.count([{"role": "user", "content": HELLO}])
        assert counted.exact is False
        assert counted.value >= 2


def test_a_count_that_is_too_small_for_the_text_is_not_believed(memory: EndpointMemory) -> None:
    """A proxy may answer 0 for any request."""
    zeros = {
        "/tokenize": {"tokens": []},
        "/v1/chat/completions/input_tokens": {"input_tokens": 0},
    }
    with serving(zeros) as server:
        provider = BlockingProvider(target(server.url, kind="llama.cpp"), memory=memory)
        assert provider.counted_text(HELLO) == ESTIMATE
        counted = provider.count([{"role": "user", "content": HELLO}])
        assert counted.exact is False
        assert counted.value >= 2


def test_an_endless_answer_is_left(memory: EndpointMemory) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"[" + b"1," * 50_000)

    bounds = Bounds(answer_bytes=1_000_000, probe_seconds=30)
    with serving({"/tokenize": endless}) as server:
        provider = BlockingProvider(target(server.url, bounds=bounds), memory=memory)
        assert provider.counted_text(HELLO) == ESTIMATE
        assert server.closed.wait(SECONDS)
        provider.close()


@given(st.text(st.characters()))
def test_chars4_is_the_tokenizer_of_that_name(text: str) -> None:
    provider = BlockingProvider(Target(None, "m"))
    count = provider.token_count(text)
    assert type(count) is int
    try:
        text.encode()
    except UnicodeEncodeError:
        assert count > 0
    else:
        assert count == tokenizers.get("chars4").count(text)


class Counter:
    """As a chat template with a local tokenizer counts."""

    identity = TokenizerIdentity("template", "1", "0" * 64, exact=True)

    def count_request(self, request: Request) -> Count:
        total = 99 if request.tools else 77
        return Count(total, exact=True, at_most=total, by=By.TEMPLATE)


def test_a_request_is_counted_by_the_template_if_the_server_does_not(memory: EndpointMemory) -> None:
    messages = [{"role": "user", "content": HELLO}]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    provider = BlockingProvider(Target(None, "m", tokenizer="o200k_base"), memory=memory)
    estimate = provider.count(messages)
    assert (estimate.exact, estimate.source) == (False, "markers")
    assert provider.count(messages, [tool]).value > estimate.value
    provider.counter = Counter()
    assert provider.count(messages) == TokenCount(77, exact=True, source="template")
    assert provider.count(messages, [tool]).value == 99


@pytest.mark.parametrize("messages", ["hi", {"role": "user"}, [1], [{"content": "x"}], [{"role": 1}], None])
def test_what_are_no_messages(messages: object) -> None:
    with pytest.raises(InvalidRequest):
        BlockingProvider(Target(None, "m")).count(messages)  # type: ignore[arg-type]


def test_an_object_that_cannot_be_shown_is_counted() -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError("no text")

    for endpoint in (None, "http://127.0.0.1:1"):
        provider = BlockingProvider(Target(endpoint, "m", use_tokenize_endpoint=True))
        assert provider.token_count(Broken()) > 0  # type: ignore[arg-type]
