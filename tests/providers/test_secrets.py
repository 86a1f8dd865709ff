"""A key is sent to its server, and is nowhere else: no message, representation, record or log."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import logging
import pickle
import traceback
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.providers.fake import Handler, Reply, chunk, head_of, raw, serving, streamed
from tokenbox.gateway.settings import RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream
from tokenbox.providers import (
    ApiKey,
    BlockingProvider,
    Bounds,
    EndpointMemory,
    InvalidTarget,
    Provider,
    ProviderError,
    Target,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"
SECRET = "sk-" + hashlib.sha256(__name__.encode()).hexdigest()  # in no file, and the same in each process


def target(url: str, kind: str = "openai-compatible") -> Target:
    bounds = Bounds(probe_seconds=0.2, idle_seconds=0.2)
    return Target(url, "m", kind, key=ApiKey(SECRET), use_tokenize_endpoint=True, bounds=bounds)


def everything(error: BaseException) -> str:
    """All that a person or a log could get to see of an error."""
    seen: list[str] = []
    one: BaseException | None = error
    while one is not None:
        seen += [str(one), repr(one), repr(vars(one)), repr(one.args)]
        if isinstance(one, ProviderError):
            seen += [
                json.dumps(one.to_dict(), default=repr),
                repr(pickle.dumps(one)),
                repr(copy.deepcopy(one)),
            ]
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    seen += traceback.format_exception(error)
    return "\n".join(seen)


def echo(where: str) -> Handler:
    """A server that repeats the key it was given."""

    async def handle(request: web.Request) -> Reply:
        key = request.headers.get("Authorization", "") + request.headers.get("x-api-key", "")
        replies: dict[str, Reply] = {
            "text": (400, f"bad key {key}"),
            "error": (
                401,
                {"error": {"message": f"Incorrect API key provided: {key}", "type": key, "code": key}},
            ),
            "ok": {"error": {"message": f"key {key}"}},
            "limit": (429, {"error": f"too many for {key}"}),
            "not JSON": (200, f"{key} is not JSON"),
            "redirect": web.Response(status=307, headers={"location": f"http://elsewhere.invalid/{key}"}),
            "model": (404, {"error": {"message": f"no model for {key}"}}),
            "length": (400, {"error": {"message": f"prompt is too long: 2 tokens > 1 maximum {key}"}}),
        }
        return replies[where]

    return handle


async def silent(_: web.Request) -> Reply:
    return await asyncio.Event().wait()


FAULTS: dict[str, Reply | Handler] = {
    **{
        where: echo(where)
        for where in ("text", "error", "ok", "limit", "not JSON", "redirect", "model", "length")
    },
    "silent": silent,
    "torn": streamed(b"data: {"),
    "error in the stream": streamed(b'data: {"error": {"message": "the key is %s"}}\n\n' % SECRET.encode()),
    "no JSON in the stream": streamed(b"data: %s\n\n" % SECRET.encode()),
}
ATTEMPTS: dict[str, Callable[[BlockingProvider], object]] = {
    "chat": lambda provider: provider.chat(ASK),
    "stream": lambda provider: list(provider.stream(ASK)),
    "models": lambda provider: provider.models(),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["openai-compatible", "anthropic"], ids=["bearer", "x-api-key"])
def test_no_error_has_the_key(fault: str, attempt: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    paths = (CHAT, "/v1/messages", "/v1/models", "/tokenize")
    with serving(dict.fromkeys(paths, FAULTS[fault])) as server:
        with BlockingProvider(target(server.url, kind), memory=EndpointMemory()) as provider:
            with pytest.raises(ProviderError) as raised:
                ATTEMPTS[attempt](provider)
            provider.token_count("hello")
            assert SECRET not in everything(raised.value)
            assert SECRET not in repr((provider.target, vars(provider), provider.target.key))
        assert any(SECRET in str(one.headers) for one in server.asked), "the key was never sent"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nx", b"junk\r\n\r\n"], ids=["closed", "half", "junk"]
)
def test_no_error_of_a_broken_connection_has_it(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert SECRET.encode() in await head_of(reader)
        writer.write(sent)
        await writer.drain()

    with raw(talk) as server, pytest.raises(ProviderError) as raised:
        asyncio.run(Provider(target(server.url), memory=EndpointMemory()).chat(ASK))
    assert SECRET not in everything(raised.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        SECRET,
        f"http://{SECRET}@host/v1",
        f"http://user:{SECRET}@host",
        f"http://host/?key={SECRET}",
        f"http://host/#{SECRET}",
        f"https://ho st/{SECRET}",
        f"http://[{SECRET}",
        f"http://host:{SECRET}/",
    ],
)
def test_a_key_in_the_wrong_place_is_not_repeated(endpoint: str) -> None:
    provider = BlockingProvider(Target(endpoint, "m", use_tokenize_endpoint=True), memory=EndpointMemory())
    with pytest.raises(InvalidTarget) as raised:
        provider.chat(ASK)
    assert SECRET not in everything(raised.value)
    assert provider.token_count("hello world") == 2


def test_an_endpoint_of_another_scheme_is_shown_without_what_may_be_a_key() -> None:
    provider = BlockingProvider(Target(f"ftp://me:{SECRET}@files.example/{SECRET}", "m"))
    with pytest.raises(InvalidTarget, match=r"not 'ftp://files\.example'") as raised:
        provider.chat(ASK)
    assert SECRET not in everything(raised.value)


@pytest.mark.parametrize(
    "value", ["", "  \n", f"{SECRET}\nx: y", f"{SECRET}\x00", f"{SECRET} two", f"{SECRET}é"]
)
def test_a_key_that_cannot_be_sent(value: str) -> None:
    with pytest.raises(InvalidTarget) as raised:
        ApiKey(value)
    assert SECRET not in everything(raised.value)


def test_a_key_shows_nowhere_and_travels_nowhere() -> None:
    key = ApiKey(f" {SECRET}\n")
    assert key.reveal() == SECRET
    assert key == ApiKey(SECRET)
    assert key != ApiKey("sk-other")
    assert len({key, ApiKey(SECRET)}) == 1
    shown = [repr(key), str(key), f"{key}", repr(target("http://h")), repr([key]), "%s %r" % (key, key)]  # noqa: UP031
    assert all(SECRET not in one for one in shown)
    assert "***" in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        json.dumps({"key": key})


def test_an_answer_that_has_the_key_in_it_is_the_answer() -> None:
    """What the model says is not ours to change."""
    with serving({CHAT: {"choices": [{"message": {"content": SECRET}, "finish_reason": "stop"}]}}) as server:
        provider = BlockingProvider(target(server.url), memory=EndpointMemory())
        assert provider.chat(ASK).text == SECRET
        assert chunk(SECRET)["choices"]


@pytest.mark.parametrize(
    "spelt",
    [
        "abc/def+ghi=.j~k_l-m",
        r"abc\/def\u002Bghi\u003d.j~k_l-m",
        "abc%2Fdef%2bghi%3D.j~k_l-m",
    ],
)
def test_a_key_is_hidden_however_a_server_escapes_it(spelt: str) -> None:
    """PHP writes / as an escape, Java's Gson =; an address has both in percent."""
    key = "abc/def+ghi=.j~k_l-m"
    assert ApiKey(key).hidden_in(f"no such key: {spelt}\ud800!") == "no such key: ***\ud800!"
    settings = UpstreamSettings("it", "http://127.0.0.1:9", key=key)

    async def withheld() -> bytes:
        return Upstream(settings, RequestLimits()).withheld(b'{"said":"' + spelt.encode() + b'"}')

    assert asyncio.run(withheld()) == b'{"said":"[key withheld]"}'
    assert ApiKey(key).hidden_in("abc/def+ghi=xj~k_l-m") == "abc/def+ghi=xj~k_l-m"
