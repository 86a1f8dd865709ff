"""A server whose kind cannot be found out, because it does not answer, may be one that counts."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests import loops
from tests.services import free_port
from tokenbox.catalog import Figure
from tokenbox.conversation.calibration import Calibration
from tokenbox.gateway.admission import Admission, judge
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.counting import RequestCounting
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.models import UpstreamModels
from tokenbox.gateway.protocols import CHAT, COMPLETIONS, MESSAGES, Protocol
from tokenbox.gateway.settings import (
    GatewaySettings,
    Mode,
    ModelSettings,
    RequestLimits,
    UpstreamSettings,
)
from tokenbox.gateway.upstream import Upstream
from tokenbox.models import Stated, resolve
from tokenbox.providers.kinds import AUTO
from tokenbox.providers.kinds.kind import KINDS, Question, ServerKind, register_kind
from tokenbox.providers.openai_chat import DIALECT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

USE = resolve("m", settings=Stated(context_window=Figure(2_900, "configured")))
# About 600 tokens; by their bytes more than the window.
TEXT = "word " * 600
BODIES: dict[Protocol, dict[str, object]] = {
    CHAT: {"messages": [{"role": "user", "content": TEXT}]},
    MESSAGES: {"messages": [{"role": "user", "content": TEXT}]},
    COMPLETIONS: {"prompt": TEXT},
}


@asynccontextmanager
async def serving(models: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Yield the address of a server that answers a question for its models."""
    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def known_of(
    settings: GatewaySettings, log: Callable[[str], object] | None = None
) -> tuple[Upstream, UpstreamModels]:
    upstream = Upstream(settings.upstreams[0], RequestLimits())
    return upstream, UpstreamModels(settings, [upstream], RequestLog(log))


async def judged(protocol: Protocol, *statuses: int) -> list[Admission]:
    """Judge a request as often as there are answers to the question for the models."""
    left = list(statuses)

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "owned_by": "somebody"}]}, status=left.pop(0))

    body = {"model": "m", "max_tokens": 5, **BODIES[protocol]}
    call = read_call(protocol, json.dumps(body).encode(), RequestLimits())
    found = []
    async with serving(models) as url:
        upstream, known = known_of(GatewaySettings((UpstreamSettings("it", url),)))
        for _ in statuses:
            await known.with_kind(upstream)
            counted = await RequestCounting(RequestLimits(), Calibration()).count(call, upstream, USE)
            found.append(judge(call, counted, USE, Mode.ENFORCE))
        upstream.close()
    return found


@pytest.mark.parametrize("protocol", BODIES, ids=lambda protocol: protocol.name)
def test_while_it_is_silent_only_the_upper_bound_passes(protocol: Protocol) -> None:
    silent, answered = loops.run(judged(protocol, 503, 200))
    assert (silent.fits, silent.is_missing_count) == (False, True)
    assert (answered.fits, answered.counted.missing) == (True, None)


def test_while_it_is_silent_the_catalog_does_not_tell_its_windows() -> None:
    """A local server may run a public model with a smaller window."""

    async def found() -> tuple[int | None, int | None]:
        upstream, known = known_of(GatewaySettings((UpstreamSettings("it", "http://127.0.0.1:9"),)))
        await known.with_kind(upstream)
        silent = (await known.use(upstream, "gpt-4o", ())).context_window
        return silent, resolve("gpt-4o").context_window

    silent, public = loops.run(found())
    assert silent is None
    assert public is not None


def test_what_one_replica_does_not_tell_another_does() -> None:
    async def found() -> tuple[bool, int | None]:
        async def models(_: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 700}]})

        away = f"http://127.0.0.1:{free_port()}"
        async with serving(models) as url:
            upstream, known = known_of(GatewaySettings((UpstreamSettings("it", away, replicas=(url,)),)))
            await known.with_kind(upstream)
            window = (await known.use(upstream, "m", ())).context_window
            upstream.close()
        return upstream.is_silent, window

    assert loops.run(found()) == (False, 700)


def test_a_server_that_wants_a_key_is_not_silent() -> None:
    """The clients have the keys, so the gateway never learns more."""
    (found,) = loops.run(judged(CHAT, 401))
    assert (found.fits, found.counted.missing) == (True, None)


async def windows_at(
    listed: list[str], model: str, *attempts: tuple[int, str], kind: str = AUTO
) -> list[int | None]:
    """Return the window by each attempt: the status without the right key, and the client's key."""
    left = list(attempts)

    async def models(request: web.Request) -> web.Response:
        if request.headers.get("authorization") != "Bearer right" and left[0][0] != 200:
            return web.json_response({"error": {"message": "no"}}, status=left[0][0])
        return web.json_response({"data": [{"id": name, "owned_by": "somebody"} for name in listed]})

    found = []
    async with serving(models) as url:
        own = {"local": ModelSettings(max_ctx=500)}
        upstream, known = known_of(GatewaySettings((UpstreamSettings("it", url, kind=kind),), models=own))
        for _, key in attempts:
            auth = ((b"authorization", f"Bearer {key}".encode()),) if key else ()
            await known.with_kind(upstream)
            found.append((await known.use(upstream, model, auth)).context_window)
            left.pop(0)
        upstream.close()
    return found


@pytest.mark.parametrize(
    ("listed", "model", "window"),
    [
        (["local"], "gpt-4.1", None),  # the server may run "local" under any name
        (["local"], "local", 500),
        (["local", "gpt-4.1"], "gpt-4.1", 1_047_576),
        (["local", "openai/gpt-4.1"], "gpt-4.1", 1_047_576),
        ([], "gpt-4.1", 1_047_576),  # it lists nothing, so nothing is known against it
    ],
)
def test_limits_of_a_public_name_hold_where_the_server_lists_it(
    listed: list[str], model: str, window: int | None
) -> None:
    assert loops.run(windows_at(listed, model, (200, ""), kind="openai-compatible")) == [window]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_list_that_cannot_be_read_is_no_empty_one(status: int) -> None:
    found = loops.run(windows_at(["local"], "gpt-4.1", (status, ""), (status, "wrong"), (200, ""), (200, "")))
    assert found == [None] * 4


def test_a_list_is_read_with_the_clients_key() -> None:
    """A wrong key of another client neither opens nor blocks it."""
    attempts = ((401, "wrong"), (401, "right"), (401, "wrong"))
    assert loops.run(windows_at(["gpt-4.1"], "gpt-4.1", *attempts)) == [None, 1_047_576, 1_047_576]
    assert loops.run(windows_at(["local"], "gpt-4.1", *attempts)) == [None, None, None]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_list_runs_what_it_is_asked_for(status: int) -> None:
    assert loops.run(windows_at([], "gpt-4.1", (status, ""))) == [1_047_576]


def test_a_figure_that_a_kind_of_server_misspells_is_in_the_log() -> None:
    question = Question(lambda _: "/v1/models", lambda *_: {"max_output": Figure(7, "/v1/models")})
    register_kind(ServerKind("misspells", DIALECT, questions=(question,)))
    lines: list[str] = []

    async def go() -> None:
        async def models(_: web.Request) -> web.Response:
            return web.json_response({"data": []})

        async with serving(models) as url:
            settings = GatewaySettings((UpstreamSettings("it", url, kind="misspells"),))
            upstream, known = known_of(settings, lines.append)
            await known.use(upstream, "m", ())
            upstream.close()

    try:
        loops.run(go())
    finally:
        del KINDS["misspells"]
    (line,) = map(json.loads, lines)
    assert (line["event"], line["upstream"], line["code"]) == ("figures_failed", "it", "invalid_target")
    assert "'max_output'; the figures are" in line["error"]
