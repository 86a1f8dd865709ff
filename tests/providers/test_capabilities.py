"""What is at an endpoint and what it can hold, by what each kind of server answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from tests.providers.fake import Reply, serving
from tokenbox.catalog import Figure
from tokenbox.gateway.authentication import Grant
from tokenbox.gateway.log import RequestLog
from tokenbox.gateway.models import UpstreamModels
from tokenbox.gateway.services import GatewayServices
from tokenbox.gateway.settings import GatewaySettings, RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream
from tokenbox.providers import (
    BlockingProvider,
    Capabilities,
    EndpointMemory,
    InvalidTarget,
    ServerFailed,
    Target,
    TokenCount,
)

CHAT_SHAPE = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}


def listed(owner: str, **more: object) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner, **more}]}


LM_STUDIO_V0 = {
    "object": "list",
    "data": [
        {"id": "other", "state": "not-loaded", "max_context_length": 1},
        {"id": "m", "state": "loaded", "max_context_length": 32768, "loaded_context_length": 4096},
    ],
}
LM_STUDIO = {
    "models": [
        {"type": "llm", "key": "other", "loaded_instances": [], "max_context_length": 1},
        {
            "type": "llm",
            "key": "maker/m",
            "loaded_instances": [{"id": "m", "config": {"context_length": 8192, "parallel": 4}}],
            "max_context_length": 32768,
        },
    ]
}
OLLAMA_SHOW = {
    "parameters": "temperature 0.7",
    "model_info": {"qwen3.context_length": 40960, "x.context_length": "?"},
}

# The routes of a server; its kind; its figures: window, most input, most output, trained window; its slots.
SERVERS: dict[str, tuple[dict[str, Reply], str, tuple[int | None, ...], int | None]] = {
    "llama.cpp": (
        {
            "/v1/models": listed("llamacpp", meta={"n_ctx": 256, "n_ctx_train": 512}),
            "/props": {"default_generation_settings": {"n_ctx": 256}, "total_slots": 2},
        },
        "llama.cpp",
        (256, None, None, 512),
        2,
    ),
    "llama.cpp before meta.n_ctx": (
        {
            "/v1/models": listed("llamacpp", meta={"n_ctx_train": 512}),
            "/props": {"default_generation_settings": {"n_ctx": 300}, "total_slots": 1},
        },
        "llama.cpp",
        (300, None, None, 512),
        1,
    ),
    "vLLM": (
        {"/v1/models": listed("vllm", root="maker/m", parent=None, max_model_len=16384)},
        "vllm",
        (16384, None, None, None),
        None,
    ),
    "SGLang": (
        {"/v1/models": listed("sglang", max_model_len=32768)},
        "sglang",
        (32768, None, None, None),
        None,
    ),
    "TGI": (
        {
            "/v1/models": listed("maker/m"),
            "/info": {
                "model_id": "maker/m",
                "max_input_tokens": 4095,
                "max_total_tokens": 4096,
                "router": "r",
            },
        },
        "tgi",
        (4096, 4095, None, None),
        None,
    ),
    "Ollama, loaded": (
        {
            "/v1/models": listed("library"),
            "/api/ps": {"models": [{"name": "m:latest", "model": "m:latest", "context_length": 6000}]},
            "/api/show": OLLAMA_SHOW,
        },
        "ollama",
        (6000, None, None, 40960),
        None,
    ),
    "Ollama, not loaded": (
        {
            "/v1/models": listed("library"),
            "/api/ps": {"models": [{"name": "x", "context_length": 1}]},
            "/api/show": OLLAMA_SHOW,
        },
        "ollama",
        (4096, None, None, 40960),
        None,
    ),
    "Ollama, with no model yet": (
        {
            "/v1/models": {"object": "list", "data": None},
            "/api/version": {"version": "0.40.1"},
            "/api/ps": {},
        },
        "ollama",
        (None, None, None, None),
        None,
    ),
    "LM Studio": (
        {"/v1/models": listed("organization_owner"), "/api/v1/models": LM_STUDIO},
        "lmstudio",
        (8192, None, None, 32768),
        None,
    ),
    "LM Studio before": (
        {"/v1/models": listed("organization_owner"), "/api/v0/models": LM_STUDIO_V0},
        "lmstudio",
        (4096, None, None, 32768),
        None,
    ),
    "OpenRouter": (
        {"/v1/models": listed("x", context_length=9000, top_provider={"max_completion_tokens": 700})},
        "openai-compatible",
        (9000, None, 700, None),
        None,
    ),
    "anything": ({}, "openai-compatible", (None, None, None, None), None),
    "a page": ({"/v1/models": "<html>hello"}, "openai-compatible", (None, None, None, None), None),
    "nonsense": (
        {
            "/v1/models": listed("llamacpp", meta={"n_ctx": -1, "n_ctx_train": True}),
            "/props": {"total_slots": "2"},
        },
        "llama.cpp",
        (None, None, None, None),
        None,
    ),
    "absurd": (
        {
            "/v1/models": listed("llamacpp", meta={"n_ctx": 10**30, "n_ctx_train": 2**53}),
            "/props": {"total_slots": 10**30},
        },
        "llama.cpp",
        (None, None, None, None),
        None,
    ),
    "zeros": (
        {"/v1/models": listed("llamacpp", meta={"n_ctx": 0}), "/props": [0]},
        "llama.cpp",
        (None, None, None, None),
        None,
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_there_and_what_it_can_hold(name: str) -> None:
    routes, kind, figures, slots = SERVERS[name]
    with (
        serving(routes) as server,
        BlockingProvider(Target(server.url, "m"), memory=EndpointMemory()) as provider,
    ):
        found = provider.capabilities()
        assert found.kind == kind
        got = (found.context_window, found.max_input_tokens, found.max_output_tokens, found.trained_window)
        assert tuple(None if figure is None else figure.value for figure in got) == figures
        assert found.slots == slots
        assert all(figure is None or figure.source for figure in got)
        asked = len(server.asked)
        assert provider.capabilities() == found
        assert provider.kind() == kind
        assert len(server.asked) == asked, "asked twice"
        assert found.complete


def test_each_figure_says_where_it_is_from() -> None:
    routes = SERVERS["llama.cpp"][0]
    with serving(routes) as server:
        found = BlockingProvider(Target(server.url, "m"), memory=EndpointMemory()).capabilities()
        assert found.to_dict() == {
            "kind": "llama.cpp",
            "model": "m",
            "context_window": {"value": 256, "source": "/v1/models meta.n_ctx", "date": None},
            "max_input_tokens": None,
            "max_output_tokens": None,
            "trained_window": {"value": 512, "source": "/v1/models meta.n_ctx_train", "date": None},
            "slots": 2,
            "complete": True,
        }


def test_of_several_models_the_one_that_is_meant() -> None:
    both = {
        "data": [{"id": n, "owned_by": "vllm", "max_model_len": size} for n, size in (("a", 1), ("b", 2))]
    }
    with serving({"/v1/models": both}) as server:
        memory = EndpointMemory()
        provider = BlockingProvider(Target(server.url, "b"), memory=memory)
        assert provider.models() == ("a", "b")
        assert provider.capabilities().context_window == Figure(2, "/v1/models max_model_len")
        provider.target = Target(server.url, "a")
        assert provider.capabilities().context_window == Figure(1, "/v1/models max_model_len")
        provider.target = Target(server.url, "c")
        assert provider.capabilities().context_window is None  # not another model's


def test_the_user_s_word_counts_before_the_server_s() -> None:
    with serving(SERVERS["vLLM"][0]) as server:
        target = Target(server.url, "m", context_window=8000)
        found = BlockingProvider(target, memory=EndpointMemory()).capabilities()
        assert found.context_window == Figure(8000, "configured")
        assert found.discovered.context_window == Figure(16384, "/v1/models max_model_len")


def test_anthropic_says_input_and_output_and_the_catalog_the_rest() -> None:
    said = {"type": "model", "id": "claude-sonnet-4-5", "max_input_tokens": 200000, "max_tokens": 64000}
    with serving({"/v1/models/claude-sonnet-4-5": said}) as server:
        target = Target(server.url, "claude-sonnet-4-5", "anthropic")
        found = BlockingProvider(target, memory=EndpointMemory()).capabilities()
        assert found.max_input_tokens == Figure(200000, "/v1/models max_input_tokens")
        assert found.max_output_tokens == Figure(64000, "/v1/models max_tokens")
        assert found.context_window is not None
        assert "/v1/models" not in found.context_window.source


def test_openai_says_nothing_and_the_catalog_all_of_it() -> None:
    with serving({}) as server:
        found = BlockingProvider(
            Target(server.url, "gpt-5", "openai"), memory=EndpointMemory()
        ).capabilities()
        assert found.context_window is not None
        assert found.context_window.value == 400_000
        assert found.complete
        assert server.asked == []


def test_known_hosts_are_not_asked_what_they_are() -> None:
    for url, kind in (
        ("https://api.openai.com/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
    ):
        assert BlockingProvider(Target(url, "m"), memory=EndpointMemory()).kind() == kind


@pytest.mark.parametrize(
    "reply", [(503, {"error": "Loading model"}), (429, ""), (401, {}), (500, "")], ids=str
)
def test_a_server_that_will_not_say_now_is_asked_again(reply: Reply) -> None:
    replies: list[Reply] = [reply] * 3

    async def models(_: web.Request) -> Reply:
        return replies.pop() if replies else SERVERS["vLLM"][0]["/v1/models"]

    with serving({"/v1/models": models, "/v1/chat/completions": CHAT_SHAPE}) as server:
        provider = BlockingProvider(Target(server.url, "m"), memory=EndpointMemory())
        assert provider.kind() == "openai-compatible"
        assert provider.chat([{"role": "user", "content": "hi"}]).text == "hi"
        replies[:] = [reply]
        assert provider.kind() == "openai-compatible"
        assert provider.kind() == "vllm"
        found = provider.capabilities()
        assert (found.complete, found.context_window) == (True, Figure(16384, "/v1/models max_model_len"))


def test_no_server_leaves_everything_unknown_and_asks_again() -> None:
    with serving({}) as server:
        pass
    target = Target(server.url, "m", "llama.cpp")
    found = BlockingProvider(target, memory=EndpointMemory()).capabilities()
    assert found == Capabilities("llama.cpp", "m", complete=False)
    with pytest.raises(InvalidTarget, match="no endpoint"):
        BlockingProvider(Target(None, "m"), memory=EndpointMemory()).capabilities()


def test_anthropic_lists_its_models_in_pages() -> None:
    names = [f"claude-{number}" for number in range(45)]

    async def models(request: web.Request) -> web.Response:
        page = names[: int(request.query.get("limit", "20"))]
        return web.json_response({"data": [{"id": name} for name in page], "has_more": len(page) < 45})

    with serving({"/v1/models": models}) as server:
        target = Target(server.url, "claude-1", "anthropic")
        client = BlockingProvider(target, memory=EndpointMemory())
        assert client.models() == tuple(names)
        client.close()
        settings = UpstreamSettings("it", server.url, kind="anthropic")

        async def listed() -> list[str]:
            upstream = Upstream(settings, RequestLimits())
            known = UpstreamModels(GatewaySettings((settings,)), [upstream], RequestLog(None))
            services: Any = SimpleNamespace(models=known)
            found = await GatewayServices.upstream_models(services, upstream, Grant())
            upstream.close()
            return [item["id"] for item in found]

        assert asyncio.run(listed()) == names


def test_models_that_cannot_be_listed() -> None:
    with serving({"/v1/models": (500, "")}) as server, pytest.raises(ServerFailed):
        BlockingProvider(Target(server.url, "m"), memory=EndpointMemory()).models()


MESSAGES = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

# How each kind counts a whole request: its routes, the paths asked, and what was asked for besides the model.
COUNTS: dict[str, tuple[str, dict[str, Reply], list[str], bool]] = {
    "llama.cpp": (
        "llama.cpp",
        {"/v1/chat/completions/input_tokens": {"input_tokens": 7, "object": "response.input_tokens"}},
        ["/v1/chat/completions/input_tokens"],
        True,
    ),
    "llama.cpp before": (
        "llama.cpp",
        {"/apply-template": {"prompt": "<|im_start|>..."}, "/tokenize": {"tokens": [0] * 7}},
        ["/v1/chat/completions/input_tokens", "/apply-template", "/tokenize"],
        True,
    ),
    "vLLM": (
        "vllm",
        {"/tokenize": {"count": 7, "max_model_len": 10, "tokens": [0] * 7}},
        ["/tokenize"],
        True,
    ),
    "SGLang": (
        "sglang",
        {"/tokenize": {"count": 7, "max_model_len": 10, "tokens": [0] * 7}},
        ["/tokenize"],
        True,
    ),
    "TGI": (
        "tgi",
        {"/chat_tokenize": {"tokenize_response": [{"id": 1}] * 7, "templated_text": "..."}},
        ["/chat_tokenize"],
        True,
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_each_kind_counts_whole_requests_in_its_way(name: str) -> None:
    kind, routes, paths, exact = COUNTS[name]
    with serving(routes) as server:
        target = Target(server.url, "m", kind, use_tokenize_endpoint=True)
        provider = BlockingProvider(target, memory=EndpointMemory())
        counted = provider.count(MESSAGES, [TOOL])
        assert (counted.value, counted.exact) == (7, exact)
        assert server.paths() == paths
        asked = next(one.body for one in server.asked if "messages" in one.body)
        assert asked == {"model": "m", "messages": MESSAGES, "tools": [TOOL]}
        provider.count(MESSAGES)
        assert len(server.asked) < 2 * len(paths) or len(paths) == 1, "what is unsupported was asked again"


def test_a_request_that_the_template_refuses_spoils_nothing() -> None:
    path = "/v1/chat/completions/input_tokens"
    replies: list[Reply] = [
        (400, {"error": "roles must alternate"}),
        {"input_tokens": 7},
        (503, ""),
        {"input_tokens": 8},
    ]

    async def count(_: web.Request) -> Reply:
        return replies.pop(0)

    with serving({path: count}) as server:
        target = Target(server.url, "m", "openai-compatible", use_tokenize_endpoint=True)
        provider = BlockingProvider(target, memory=EndpointMemory())
        counts = [provider.count(MESSAGES) for _ in range(4)]
    assert [count.exact for count in counts] == [False, True, False, True]
    assert counts[3] == TokenCount(8, exact=True, source=server.url + path)
