"""The document says what there is; whatever is sent, the answer is of the protocol, and no mistake."""

from __future__ import annotations

import json
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import LOAD_DEPENDENT, examples
from tests.gateway.running import Stub, ask
from tests.waiting import SECONDS
from tokenbox.gateway.openapi import OPERATIONS, document

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway

POSTS = sorted(path for method, path in OPERATIONS if method == "post")
RELAYED = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/v1/embeddings")
CHAT = "/v1/chat/completions"
BOUNDED = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[
        *LOAD_DEPENDENT,
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
    ],
)


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(upstream.url, options=["--quiet"])


@pytest.fixture(scope="module")
def tight(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    """One that has to make nearly everything fit, in every way."""
    config = f"""
        [upstreams.stub]
        url = "{upstream.url}"
        kind = "vllm"
        [policy]
        max_ctx = 60
        [gateway]
        fit = ["truncate", "compact", "evict"]
    """
    return shared_gateways(config=config, options=["--quiet", "--mode", "fit"])


CONFORMANCE = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance"),
)


def test_the_document_has_every_route_and_no_other(gateway: RunningGateway) -> None:
    served = gateway.get("/openapi.json").json
    assert served == json.loads(json.dumps(document()))
    for path, operations in served["paths"].items():
        other = gateway.get(path) if "post" in operations else gateway.post(path, {})
        assert other.status == 405, path
        assert other.headers["allow"].lower().split(", ")[0] == next(iter(operations))
    assert gateway.get("/v1/nothing").status == 404
    from tokenbox.gateway.application import Gateway as App
    from tokenbox.gateway.protocols import PROTOCOLS
    from tokenbox.gateway.routes import Routes
    from tokenbox.gateway.settings import GatewaySettings

    services = SimpleNamespace(settings=GatewaySettings(()))
    app = App(services)  # type: ignore[arg-type]  # only its table of routes
    Routes(None).add_to(app)  # type: ignore[arg-type]
    routes = {(method.lower(), path) for method, path in app.routes} | {("post", path) for path in PROTOCOLS}
    assert routes == set(OPERATIONS)


def test_the_document_says_where_a_key_is_asked_for(shared_gateways: Gateways, upstream: Stub) -> None:
    gateway = shared_gateways(upstream.url, options=["--keys"])
    served = gateway.get("/openapi.json").json
    asked = {}
    for path, operations in served["paths"].items():
        for method, operation in operations.items():
            answer = gateway.get(path) if method == "get" else gateway.post(path, {})
            asked[path] = answer.status == 401
            said = operation.get("security", served["security"])
            assert ({"key": []} in said) == asked[path], path
    assert set(asked.values()) == {True, False}
    assert {} in served["security"]  # a gateway without keys asks for none


def check(path: str, status: int, data: bytes, headers: dict[str, str]) -> None:
    """It is an answer, or an error of the path's protocol, and not a mistake of ours."""
    assert status != 500, data
    assert "x-request-id" in headers
    if status == 200:
        return
    found = json.loads(data)
    if path.startswith("/v1/messages"):
        assert found["type"] == "error"
        assert isinstance(found["error"]["message"], str)
    else:
        assert set(found["error"]) == {"message", "type", "param", "code"}


def post(gateway: RunningGateway, path: str, data: bytes, **headers: str) -> int:
    named = {"content-type": "application/json"}
    named.update({name.replace("_", "-"): value for name, value in headers.items()})
    answer = ask(urllib.request.Request(gateway.url + path, data, named))
    check(path, answer.status, answer.data, {name.lower(): text for name, text in answer.headers.items()})
    return answer.status


HOSTILE = {
    "nan": b'{"model": "m", "messages": [], "temperature": NaN}',
    "infinity": b'{"model": "m", "messages": [], "temperature": -Infinity}',
    "too large a number": b'{"model": "m", "messages": [], "temperature": 1e999}',
    "a key twice": b'{"model": "m", "model": "n", "messages": []}',
    "a key twice within": b'{"model": "m", "messages": [{"role": "user", "role": "system"}]}',
    "deep": b'{"model": "m", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "broken utf-8": b'{"model": "m\xff", "messages": []}',
    "overlong utf-8": b'{"model": "\xc0\xaf", "messages": []}',
    "huge int": b'{"model": "m", "messages": [], "max_tokens": ' + b"9" * 10_000 + b"}",
    "large int": b'{"model": "m", "messages": [], "max_tokens": 18446744073709551616}',
    "negative": b'{"model": "m", "messages": [], "max_tokens": -5, "max_output_tokens": -5}',
    "fraction": b'{"model": "m", "messages": [], "max_tokens": 1.5, "max_output_tokens": 1.5}',
    "byte order mark": b'\xef\xbb\xbf{"model": "m", "messages": []}',
    "utf-16": '{"model": "m", "messages": []}'.encode("utf-16"),
    "surrogate in the name": b'{"model": "\\ud800", "messages": [], "input": "", "prompt": ""}',
    "nul in the name": b'{"model": "a\\u0000b", "messages": [], "input": "", "prompt": ""}',
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"model"',
    "half": b'{"model": "m", "messa',
    "trailing": b'{"model": "m", "messages": []} {}',
    "no messages": b'{"model": "m"}',
    "messages of texts": b'{"model": "m", "messages": ["hi"]}',
    "stream of text": b'{"model": "m", "messages": [], "stream": "yes"}',
    "no model": b'{"messages": [], "input": "", "prompt": ""}',
    "surrogate in a text": b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800 \\udfff"}],'
    b' "input": "\\ud800", "prompt": "\\udfff", "content": "\\ud800"}',
    "tools are not a list": b'{"model": "m", "messages": [], "input": "", "prompt": "", "tools": true}',
    "types that are lists": b'{"model": "m", "prompt": "", "messages": [{"role": ["x"], "content": '
    b'[{"type": ["x"], "text": "hi"}]}], "input": [{"type": ["x"], "role": {}, "content": [{"type": []}]}]}',
    "model is a number": b'{"model": 7, "messages": [], "input": "", "prompt": ""}',
}
# Sent on or answered: nothing is wrong with them as far as the gateway reads them.
HARMLESS = {
    "nul in a text": b'{"model": "m", "messages": [{"role": "user", "content": "a\\u0000b"}],'
    b' "input": "\\u0000", "prompt": "\\u0000", "content": "\\u0000"}',
    "control characters in keys": b'{"model": "m", "messages": '
    b'[{"role": "user", "content": "a", "\\u0001": 1}], "input": "a", "prompt": "a", "content": "a"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_in_the_form_of_the_protocol(
    gateway: RunningGateway, tight: RunningGateway, name: str
) -> None:
    for one in (gateway, tight):
        for path in POSTS:
            assert post(one, path, HOSTILE[name]) in range(200, 500), path


@pytest.mark.parametrize("name", HARMLESS)
def test_odd_texts_pass(gateway: RunningGateway, name: str) -> None:
    for path in RELAYED:
        assert post(gateway, path, HARMLESS[name]) == 200, path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.just("word " * 30)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "thinking", "input_text"]) | JSON},
    optional=dict.fromkeys(("text", "content", "id", "tool_use_id", "input", "source"), WORDS | JSON),
)
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool"]) | JSON,
        "content": WORDS | JSON | st.lists(BLOCK, max_size=3),
    },
    optional={
        **dict.fromkeys(("tool_calls", "tool_call_id", "call_id", "arguments", "summary"), JSON),
        "type": st.sampled_from(["function_call", "function_call_output", "reasoning", "message"]) | JSON,
        "output": WORDS | JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {"model": st.just("m") | JSON},
    optional={
        name: JSON | st.lists(MESSAGE, max_size=8)
        for name in (
            *("messages", "input", "prompt", "system", "instructions", "tools", "stream", "max_tokens"),
            *("max_output_tokens", "n", "stream_options", "content", "tokens", "sections", "budget"),
            *("chunks", "strategy", "tokenizer", "max_ctx", "reserve_out", "headroom", "metadata"),
        )
    },
)


def test_what_is_wrong_is_named_as_it_was_sent(gateway: RunningGateway) -> None:
    for path, data, says in (
        ("/v1/messages/count_tokens", b'{"model": "m", "messages": 1}', "messages is a list"),
        (CHAT, b'{"model": "m", "messages": [], "max_tokens": true}', "max_tokens is a whole number"),
        (CHAT, b'{"model": "m", "messages": [], "best_of": 0}', "best_of is a whole number from 1 to 128"),
        (CHAT, b'{"model": "m"}', "messages is missing."),
        (CHAT, b"[]", "The body is a JSON object, not a list."),
        (CHAT, HOSTILE["byte order mark"], "The body begins with a byte order mark"),
    ):
        assert gateway.post(path, data).json["error"]["message"].startswith(says)


@pytest.mark.slow
def test_what_the_server_keeps_is_sent_where_the_operator_allows_it(
    shared_gateways: Gateways, gateway: RunningGateway, upstream: Stub
) -> None:
    body = {"model": "m", "prompt": {"id": "pmpt_1"}, "previous_response_id": "resp_1"}
    answer = gateway.post("/v1/responses", body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "input_not_countable")
    allowing = shared_gateways(upstream.url, config='[policy]\nuncertain = "allow"\n')
    answer = allowing.post("/v1/responses", body)
    assert answer.status == 200
    assert answer.headers["x-tokenbox-estimated"] == "true"
    assert upstream.seen[-1] == body


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gateway", "tight"])
def test_no_body_makes_a_mistake(request: pytest.FixtureRequest, name: str) -> None:
    """At every path: to draw a body takes longer than to send it to all of them."""
    one: RunningGateway = request.getfixturevalue(name)

    @settings(BOUNDED, max_examples=examples(30))
    @given(BODIES)
    def sent(body: dict[str, Any]) -> None:
        metadata = body.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            del body["metadata"]  # it is the stub that reads it
        data = json.dumps(body).encode()
        for path in POSTS:
            post(one, path, data)

    sent()


@pytest.mark.slow
def test_no_bytes_make_a_mistake(gateway: RunningGateway) -> None:
    @BOUNDED
    @given(st.binary(max_size=200))
    def sent(data: bytes) -> None:
        for path in POSTS:
            post(gateway, path, data)

    sent()


@pytest.mark.slow
def test_schemathesis_finds_nothing(gateway: RunningGateway) -> None:
    import schemathesis  # takes seconds

    schemathesis.checks.load_all_checks()
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in CONFORMANCE]
    for operation in schemathesis.openapi.from_dict(document()).get_all_operations():

        @settings(BOUNDED, max_examples=examples(8))
        @given(operation.ok().as_strategy())  # type: ignore[union-attr]
        def sent(case: Any) -> None:  # noqa: ANN401
            # What the upstream has to say of such requests is its own; the checks are of our part.
            case.validate_response(case.call(base_url=gateway.url, timeout=SECONDS), checks=checks)

        sent()


def test_it_made_no_mistake_in_all_this(gateway: RunningGateway, tight: RunningGateway) -> None:
    for one in (gateway, tight):
        assert one.metric("tokenbox_mistakes_total") == 0
        assert '"mistake"' not in one.log
        assert "Traceback" not in one.log
