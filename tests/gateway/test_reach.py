"""What a request may reach beyond its text: more output, other servers, input that a server adds.

Each is refused, reserved for, or stated here with the reason why it costs nothing.
"""

from __future__ import annotations

import gzip
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.waiting import SECONDS
from tokenbox.catalog import Figure
from tokenbox.compose.requests import NO_BOUND, By, Count
from tokenbox.gateway.admission import Counted, judge, with_output_limit
from tokenbox.gateway.calls import ApiCall, read_call
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.request import with_usage
from tokenbox.gateway.settings import Mode, RequestLimits, UpstreamSettings
from tokenbox.gateway.upstream import Upstream, used_nothing
from tokenbox.models import Stated, resolve
from tokenbox.policy.guard import Uncertain

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HELLO = [{"role": "user", "content": "hi"}]


def read(path: str = CHAT, /, **more: object) -> ApiCall:
    body = {"model": "m", "input" if path == RESPONSES else "messages": HELLO, **more}
    return read_call(PROTOCOLS[path], json.dumps(body).encode(), RequestLimits())


def refused(path: str = CHAT, /, **more: object) -> tuple[int, str]:
    with pytest.raises(Refusal) as error:
        read(path, **more)
    return error.value.status, error.value.code


# How much it may write.


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": 9_000},
        {"max_completion_tokens": 9_000},
        {"n_predict": 9_000},
        {"max_tokens": 5, "max_output_tokens": 9_000},
        {"max_tokens": 5, "max_new_tokens": 9_000},
        {"max_tokens": 5, "max_tokens_to_sample": 9_000},
        {"max_tokens": 5, "num_predict": 9_000},
        {"max_tokens": 5, "options": {"num_predict": 9_000}},
        {"max_tokens": 5, "sampling_params": {"max_new_tokens": 9_000}},
        {"max_tokens": 5, "generationConfig": {"maxOutputTokens": 9_000}},
        {"max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 9_000}},
        {"max_tokens": 5, "reasoning": {"max_tokens": 9_000}},
        {"max_new_tokens": 9_000},
        {"max_tokens": 9_000.0},
    ],
)
def test_the_largest_limit_of_output_that_any_server_could_heed_is_reserved(more: dict[str, Any]) -> None:
    for path in (CHAT, MESSAGES, RESPONSES):
        assert read(path, **more).max_output == 9_000


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": "9000"},
        {"max_tokens": 5, "num_predict": "9000"},
        {"max_tokens": 5, "num_predict": -1},
        {"max_tokens": 5, "options": {"num_predict": -2}},
        {"max_tokens": 5, "max_new_tokens": 1.5},
        {"max_tokens": True},
        {"max_tokens": 2**60},
        {"max_tokens": 5, "thinking": {"budget_tokens": "x"}},
    ],
)
def test_a_limit_that_servers_could_read_differently_is_refused(more: dict[str, Any]) -> None:
    assert refused(**more) == (400, "invalid_request")


def test_what_is_thought_is_no_limit_of_its_own() -> None:
    assert read(thinking={"type": "enabled", "budget_tokens": 100}).max_output is None


@pytest.mark.parametrize("key", ["n", "best_of", "n_cmpl", "candidate_count", "num_return_sequences"])
def test_every_answer_is_reserved(key: str) -> None:
    assert read(max_tokens=5, **{key: 7}).choices == 7
    assert refused(**{key: "7"}) == (400, "invalid_request")


@pytest.mark.parametrize(
    "more",
    [
        {"options": {"n": 7}},
        {"parameters": {"num_return_sequences": 7}},
        {"generationConfig": {"candidateCount": 7}},
        {"sampling_params": {"n": 7}, "n": 2},
    ],
    ids=str,
)
def test_every_answer_is_reserved_inside_of_objects_too(more: dict[str, Any]) -> None:
    assert read(**more).choices == 7
    assert refused(options={"n": 129}) == (400, "invalid_request")


def test_input_that_only_the_server_knows_is_a_window_for_each_prompt() -> None:
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    for prompts, tokens, charged in ((1, 10, 1_000), (50, 10, 50_000), (2, 5_000, 5_000)):
        body = json.dumps({"model": "m", "prompt": ["a"] * prompts}).encode()
        call = read_call(PROTOCOLS["/v1/completions"], body, RequestLimits())
        count = Count(tokens, exact=False, at_most=NO_BOUND, by=By.SERVER)
        admission = judge(call, Counted(count, "it", unseen="a file"), use, Mode.ENFORCE, Uncertain.ALLOW)
        assert admission.input_at_most == charged


@pytest.mark.parametrize(
    ("status", "nothing"),
    [
        *(
            (status, False)
            for status in (200, 202, 204, 206, 408, 424, 499, 500, 502, 504, 520, 524, 598, 599)
        ),
        *((status, True) for status in (301, 307, 400, 401, 404, 413, 429, 501, 503, 521, 529)),
    ],
)
def test_what_may_have_run_is_charged(status: int, *, nothing: bool) -> None:
    assert used_nothing(status) is nothing


def test_under_a_quota_0_is_no_limit_of_output_that_any_server_could_take_for_none() -> None:
    """Ollama writes on without end."""
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    for more in ({"max_tokens": 0}, {"max_tokens": 0, "max_completion_tokens": 0}):
        call = read(**more)
        count = Counted(Count(10, exact=True, at_most=10, by=By.SERVER), "it")
        sent, verdict = with_output_limit(
            call, judge(call, count, use, Mode.ENFORCE), ("max_tokens", "max_completion_tokens")
        )
        assert verdict.reserved == 1
        assert {sent.body[key] for key in more} == {1}


@pytest.mark.parametrize(
    ("more", "reserved"),
    [
        ({"max_tokens": 900}, 900),
        ({"max_tokens": 900, "max_completion_tokens": -1}, 900),
        ({"max_tokens": 900, "enable_thinking": True}, 900),
        ({"max_tokens": 5, "n_predict": -1}, 40),
        ({"enable_thinking": True}, 40),
        ({"max_tokens": -1}, 40),
        # A server that does not read these writes on.
        ({"providerOptions": {"x": {"maxTokens": 5}}}, 40),
        ({"providerOptions": {"x": {"maxTokens": 900}}}, 900),
        ({"options": {"num_predict": 5}, "max_tokens": 7}, 7),
    ],
)
def test_a_field_without_a_limit_lowers_no_other(more: dict[str, Any], reserved: int) -> None:
    use = resolve(
        "m", settings=Stated(context_window=Figure(1_000, "configured"), output_reserve=Figure(40, "it"))
    )
    count = Counted(Count(200, exact=True, at_most=200, by=By.SERVER), "it")
    found = judge(read(**more), count, use, Mode.ENFORCE)
    assert (found.reserved, found.fits) == (reserved, reserved < 800)


@pytest.mark.parametrize(
    ("more", "sent"),
    [
        ({"max_tokens": 0, "n_predict": 100}, {"max_tokens": 100}),
        ({"max_tokens": 30, "max_completion_tokens": -1}, {"max_tokens": 30, "max_completion_tokens": 990}),
        ({"max_tokens": 30, "enable_thinking": True}, {"max_tokens": 30, "thinking_budget": 960}),
        ({"max_tokens": 30, "thinking_budget": -1}, {"max_tokens": 30, "thinking_budget": 960}),
        ({"enable_thinking": True}, {"max_tokens": 495, "thinking_budget": 495}),
        ({"max_tokens": -1}, {"max_tokens": 990}),
        ({"num_predict": 7}, {"max_tokens": 7, "num_predict": 7}),
        ({"nvext": {"guided_json": {"maxLength": 5}}}, {"max_tokens": 990}),
        ({"max_tokens": 30, "enable_thinking": True, "thinking_budget": 5}, {"thinking_budget": 5}),
    ],
)
def test_under_a_quota_the_answer_and_its_reasoning_are_limited(
    more: dict[str, Any], sent: dict[str, int]
) -> None:
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    call = read(**more)
    count = Counted(Count(10, exact=True, at_most=10, by=By.SERVER), "it")
    bounded, admission = with_output_limit(
        call, judge(call, count, use, Mode.ENFORCE), ("max_tokens", "max_completion_tokens")
    )
    assert {key: bounded.body[key] for key in sent} == sent
    assert not bounded.is_endless
    assert admission.fits
    assert admission.reserved == bounded.max_output


@pytest.mark.parametrize("kind", ["openai-compatible", "tgi", "lmstudio"])
def test_under_a_quota_the_limit_is_sent_by_the_name_that_a_server_heeds(kind: str) -> None:
    """Many servers ignore OpenAI's newer name for it."""
    upstream = Upstream(UpstreamSettings("it", "http://127.0.0.1:9", kind=kind), RequestLimits())
    use = resolve("m", settings=Stated(context_window=Figure(1_000, "configured")))
    call = read(max_completion_tokens=5)
    count = Counted(Count(10, exact=True, at_most=10, by=By.SERVER), "it")
    admission = judge(call, count, use, Mode.ENFORCE)
    sent, _ = with_output_limit(call, admission, upstream.heeded_limits(call))
    assert sent.body["max_tokens"] == sent.body["max_completion_tokens"] == 5


def test_the_usage_is_asked_for_once() -> None:
    call = read(stream=True, stream_options=None)
    assert with_usage(call)[0].count(b"stream_options") == 1


@pytest.mark.parametrize(
    "more",
    [{"options": {"num_ctx": 1}}, {"num_ctx": 1}, {"truncate_prompt_tokens": 1}, {"min_tokens": 9_000}],
)
def test_what_only_makes_less_of_a_request_is_no_limit(more: dict[str, Any]) -> None:
    """A smaller window makes a server drop input that was counted; least output ends at the most output."""
    assert read(max_tokens=5, **more).max_output == 5


# Who answers, and for how much.


@pytest.mark.parametrize(
    "key",
    [
        *("extra_body", "extra_query", "extra_headers", "api_base", "base_url", "api_key"),
        *("custom_llm_provider", "model_list", "user_config", "litellm_params", "billing_policy"),
    ],
)
def test_a_request_does_not_say_where_it_goes(key: str) -> None:
    assert refused(**{key: {"model": "dear"}}) == (400, "invalid_request")
    assert read(**{key: None}).model == "m"


def test_models_of_fallbacks_are_named_or_refused() -> None:
    assert refused(context_window_fallbacks=[{"m": ["dear"]}]) == (400, "invalid_request")
    assert read(context_window_fallbacks=["dear"]).models == ("m", "dear")


def test_fallbacks_of_anthropics_api_may_say_what_is_different_for_them() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    call = read(MESSAGES, max_tokens=5, fallbacks=[{"model": "dear", "max_tokens": 900}, {"model": "other"}])
    assert (call.models, call.max_output) == (("m", "dear", "other"), 900)
    assert read(MESSAGES, max_tokens=5, fallbacks=[{"model": "o", "thinking": thinking}]).max_output == 2_000
    inner = {"gateway": {"models": [{"model": "o", "max_tokens": 900}]}}
    assert read(MESSAGES, max_tokens=5, providerOptions=inner).max_output == 900
    for fallbacks in (
        "default",
        [{"max_tokens": 5}],
        [{"model": "o", "messages": HELLO}],
        [{"model": "a,b"}],
    ):
        assert refused(MESSAGES, fallbacks=fallbacks) == (400, "invalid_request"), fallbacks
    dear = [{"model": "o", "speed": "fast"}]
    assert refused(MESSAGES, fallbacks=dear) == (403, "service_tier_unpriced")


@pytest.mark.parametrize(
    "more",
    [{"service_tier": "priority"}, {"speed": "fast"}, {"inference_geo": "us"}, {"speed": ["standard"]}],
)
def test_what_costs_more_than_the_listed_price_is_refused(more: dict[str, Any]) -> None:
    assert refused(MESSAGES, **more) == (403, "service_tier_unpriced")


# What a server adds by itself.

HOSTED = [
    {"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://example.org"}]},
    {"tools": [{"type": "web_search"}]},
    {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]},
    {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
    {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
    {"tools": [{"type": "of tomorrow"}]},
    {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
    {"tools": [{"type": "shell"}]},
    {"tools": [{"type": "tool_search"}]},
    {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
    {"thread": {"type": "continue", "previous_message_id": "msg_1"}},
    {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "x"}]},
    {"web_search_options": {"search_context_size": "high"}},
    {"plugins": [{"id": "web"}]},
    {"data_sources": [{"type": "azure_search"}]},
    {"previous_response_id": "r"},
    {"conversation": "c"},
    {"container": "c"},
    # Beside other providers' options, in other notations, and by names that nobody listed.
    {"providerOptions": {"openai": {"previousResponseId": "r"}}},
    {"providerOptions": {"google": {"cachedContent": "c"}}},
    {"provider_options": {"xai": {"searchParameters": {"mode": "on"}}}},
    {"parameters": {"enable_search": True}},
    {"search_domain_filter": ["example.org"]},
    {"ragConfig": {"top_k": 3}},
    {"agent": {"id": "a"}},
    {"artifact-ids": ["a"]},
    {"image_urls": ["https://example.org/a.png"]},
    {"images": ["aGk="]},
    # Images scaled up, tools that come later, agents that the server runs.
    {"min_pixels": 100_000_000},
    {"images_config": {"maxDynamicPatch": 100}},
    {"resize_shape": [4_000, 4_000]},
    {"deferred_tools": [{"type": "openrouter:web_search"}]},
    {"multi_agent": {"enabled": True, "max_concurrent_subagents": 100}},
]
OWN = [
    {"tools": [{"type": "function", "function": {"name": "f"}}]},
    {"tools": [{"type": "custom", "name": "f"}]},
    {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
    {"tools": [{"type": "bash_20250124", "name": "bash"}]},
    {"tools": [{"type": "computer_use_preview", "display_width": 1, "display_height": 1}]},
    {"tools": [{"type": "browser_toolset_20260801"}]},
    {"tools": [{"type": "computer_toolset_20260801"}]},
    {"deferred_tools": [{"type": "function", "name": "f"}], "multi_agent": {"enabled": False}},
    {"tools": [{"type": "shell", "environment": {"type": "local"}}]},
    {"tools": [{"type": "tool_search", "execution": "client", "description": "d", "parameters": {}}]},
    {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]},
    {"thread": {"type": "create"}, "diagnostics": {"previous_message_id": "msg_1"}},
    # Names, flags and ids of the client's own, which no model reads.
    {"store": True, "metadata": {"a": "b"}, "include": ["reasoning.encrypted_content"], "user": "u"},
    {"client_metadata": {"thread_id": "t", "x-codex-parent-thread-id": "p", "x-codex-window-id": "w:0"}},
    {"provider": {"telemetry": {"chat_id": "c"}}},
    {"metadata": {"thread_id": "t", "search": "x"}, "user_id": "u", "session_id": "s", "trace_id": "t"},
    {"stop_token_ids": [1], "use_beam_search": True, "webhook_url": "https://example.org/done"},
    {"providerOptions": {"xai": {"searchParameters": {"mode": "off"}}}, "enable_rag": False},
    {"provider": {"only": ["a"], "allow_fallbacks": False, "zdr": True}, "usage": {"include": True}},
    {"modalities": ["text", "audio"], "audio": {"voice": {"id": "v"}, "format": "wav"}},
    {"context_management": {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"value": 3}}]}},
]


@pytest.mark.parametrize("more", HOSTED)
def test_input_that_the_server_adds_is_input_that_nobody_counted(more: dict[str, Any]) -> None:
    """Also where the server itself counts: it counts what it is sent."""
    for path in (CHAT, RESPONSES, MESSAGES):
        assert read(path, **more).unseen() is not None
    if "tools" in more:
        assert read(**more).unseen(frozenset(("messages", "tools")), media=True) is not None


@pytest.mark.parametrize("more", OWN)
def test_tools_that_the_client_runs_add_nothing(more: dict[str, Any]) -> None:
    for path in (CHAT, RESPONSES, MESSAGES):
        assert read(path, **more).unseen() is None


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": {"prompt_string": "hi", "multimodal_data": ["aGk="]}},
        {"prompt": ["hi", {"prompt_string": "hi", "multimodal_data": ["aGk="]}]},
        {"prompt": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]},
    ],
)
def test_a_prompt_may_have_more_than_text(body: dict[str, Any]) -> None:
    """llama.cpp takes media beside a prompt."""
    call = read_call(
        PROTOCOLS["/v1/completions"], json.dumps({"model": "m", **body}).encode(), RequestLimits()
    )
    assert call.unseen() is not None


def test_an_image_is_not_scaled_by_what_a_part_says() -> None:
    url = {"url": "https://example.org/a.png", "detail": "high"}
    for more in ({}, {"max_pixels": 16_000_000}, {"image_url": {**url, "max_dynamic_patch": 100}}):
        image = {"type": "image_url", "image_url": url, **more}
        found = read(messages=[{"role": "user", "content": [image]}]).unseen()
        assert (found is None) == (not more)
    # Also in a part without a type, and where the server counts images.
    untyped = {"image_url": "https://example.org/a.png", "min_pixels": 16_000_000}
    said = [{"role": "user", "content": [untyped]}]
    assert "scales an image" in str(read(messages=said).unseen(frozenset(("messages",)), media=True))


def test_a_message_that_names_a_cache_is_filled_by_the_server() -> None:
    cache = {"role": "cache", "content": "cache_id=cache-1;reset_ttl=600"}
    assert read(messages=[cache, *HELLO]).unseen() is not None


WEB = {"type": "web_search"}
INLINE = {"type": "tool_definition", "definition": {"type": "web_search_20260318", "name": "web_search"}}


@pytest.mark.parametrize(
    ("path", "item"),
    [
        (RESPONSES, {"type": "additional_tools", "role": "developer", "tools": [WEB]}),
        (RESPONSES, {"type": "tool_search_output", "call_id": "c", "tools": [WEB]}),
        (MESSAGES, {"role": "user", "content": [{"type": "tool_addition", "tool": INLINE}]}),
    ],
)
def test_tools_that_come_later_are_looked_at_too(path: str, item: dict[str, Any]) -> None:
    name = "input" if path == RESPONSES else "messages"
    for counted in ((), (name, "tools")):
        assert read(path, **{name: [*HELLO, item]}).unseen(counted, media=True) is not None
    own = json.loads(json.dumps(item).replace(json.dumps(WEB), '{"type": "custom", "name": "f"}'))
    own = json.loads(json.dumps(own).replace("web_search_20260318", "bash_20250124"))
    assert read(path, **{name: [*HELLO, own]}).unseen() is None


def test_a_listing_of_tools_is_only_sent_back() -> None:
    tools = [{"name": "f", "type": "anything", "input_schema": {}}]
    listing = {"type": "mcp_list_tools", "id": "i", "server_label": "s", "tools": tools}
    assert read(RESPONSES, input=[*HELLO, listing]).unseen() is None


@pytest.mark.parametrize("kind", ["reasoning", "image_generation_call", "file_search_call"])
def test_an_item_that_is_only_an_id_is_filled_by_the_server(kind: str) -> None:
    alone = {"type": kind, "id": "x_1", "summary": []}
    assert read(RESPONSES, input=[*HELLO, alone]).unseen() is not None
    # OpenAI's own count has it.
    assert read(RESPONSES, input=[*HELLO, alone]).unseen({"input"}, media=True) is None
    held = {**alone, "encrypted_content": "abc"}
    assert read(RESPONSES, input=[*HELLO, held]).unseen() is None


# How it is sent.

CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "openai-compatible"
[policy]
max_ctx = 4000
"""
FITS = json.dumps({"model": "m", "max_tokens": 5, "messages": HELLO}).encode()
OVER = json.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "word " * 9_000}]})
HOST = b"host: x\r\ncontent-type: application/json\r\nconnection: close\r\n"


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=upstream.url))


def sent(gateway: RunningGateway, data: bytes) -> bytes:
    """All that comes back on a connection of its own."""
    address = urlsplit(gateway.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=SECONDS) as line:
        line.sendall(data)
        found = []
        while piece := line.recv(65_536):
            found.append(piece)
    return b"".join(found)


def chunked(data: bytes, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    half = len(data) // 2
    parts = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in (data[:half], data[half:]))
    return parts + b"0\r\n" + trailers + b"\r\n"


def post(version: bytes, headers: bytes, body: bytes) -> bytes:
    return b"POST /v1/chat/completions HTTP/%b\r\n%b%b\r\n%b" % (version, HOST, headers, body)


FRAMES = {
    "HTTP/1.0": lambda body: post(b"1.0", b"content-length: %d\r\n" % len(body), body),
    "chunks": lambda body: post(b"1.1", b"transfer-encoding: chunked\r\n", chunked(body)),
    "extensions": lambda body: post(b"1.1", b"transfer-encoding: chunked\r\n", chunked(body, b';a=b;c="d"')),
    "trailers": lambda body: post(
        b"1.1",
        b"transfer-encoding: chunked\r\ntrailer: x-more\r\n",
        chunked(body, trailers=b"x-tokenbox-mode: observe\r\nx-more: 1\r\n"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("frame", sorted(FRAMES))
def test_a_body_counts_the_same_however_it_is_framed(
    gateway: RunningGateway, upstream: Stub, frame: str
) -> None:
    before = len(upstream.seen)
    assert b" 200 " in sent(gateway, FRAMES[frame](FITS)).split(b"\r\n", 1)[0]
    assert len(upstream.seen) == before + 1
    answer = sent(gateway, FRAMES[frame](OVER.encode()))
    assert b" 400 " in answer.split(b"\r\n", 1)[0], answer[:300]
    assert b"context_length_exceeded" in answer
    assert len(upstream.seen) == before + 1


@pytest.mark.parametrize(
    "data",
    [
        post(b"1.1", b"content-length: 5\r\ntransfer-encoding: chunked\r\n", chunked(FITS)),
        post(b"1.1", b"content-length: %d\r\ncontent-length: 3\r\n" % len(FITS), FITS),
        post(
            b"1.1",
            b"transfer-encoding: gzip, chunked\r\ncontent-encoding: gzip\r\n",
            chunked(gzip.compress(FITS, mtime=0)),
        ),
        post(
            b"1.1",
            b"content-encoding: gzip\r\ncontent-length: %d\r\n" % len(gzip.compress(FITS, mtime=0)),
            gzip.compress(FITS, mtime=0),
        ),
        post(b"1.1", b"content-encoding: identity, br\r\ncontent-length: %d\r\n" % len(FITS), FITS),
        post(b"1.1", b"transfer-encoding: chunked\r\n", b"-5\r\n" + FITS),
        post(b"1.1", b"transfer-encoding: chunked\r\n", b"0x5\r\n" + FITS),
        post(b"1.1", b"content-length: +%d\r\n" % len(FITS), FITS),
        post(b"1.1", b"content-length: 0\r\n", b""),
        post(b"1.1", b"transfer-encoding: chunked\r\n", chunked(FITS, trailers=b"content-length: 3\r\n")),
    ],
)
def test_a_body_that_could_be_read_in_two_ways_reaches_nobody(
    gateway: RunningGateway, upstream: Stub, data: bytes
) -> None:
    before = len(upstream.seen)
    answer = sent(gateway, data)
    assert answer.split(b"\r\n", 1)[0].split(b" ")[1] in (b"400", b"415"), answer[:300]
    assert len(upstream.seen) == before


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/cbor",
    ],
)
def test_the_upstream_is_told_to_read_the_json_that_was_read_here(
    gateway: RunningGateway, upstream: Stub, content_type: str
) -> None:
    assert gateway.post(CHAT, FITS, content_type=content_type).status == 200
    assert {name.lower(): value for name, value in upstream.headers[-1].items()}["content-type"] == (
        "application/json"
    )
