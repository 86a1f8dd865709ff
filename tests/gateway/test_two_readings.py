"""A request has one reading: what the gateway counts, checks and charges is what any server would read."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.gateway.running import chat
from tests.waiting import SECONDS
from tokenbox.gateway import strict_json
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
LONG = "word " * 5000
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "openai-compatible"
[policy]
max_ctx = 8000
[models.small]
max_ctx = 1000
"""


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=upstream.url))


def message(**fields: object) -> dict[str, Any]:
    return chat(messages=[{"role": "user", "content": "hi", **fields}])


@pytest.mark.parametrize(
    "body",
    [
        chat(Messages=[{"role": "user", "content": LONG}]),
        chat(Model="other"),
        chat(MAX_TOKENS=7000),
        chat(N=100),
        {**chat(), "me\u017fsages": []},  # a long s folds to s
        {**chat(), "\u212aeep_alive": 1},  # the sign of kelvin folds to k
        {**chat(), "max_tokens\0": 7000},  # a server in C ends the key there
        {**chat(), "\uff4dax_tokens": 7000},  # a wide letter
        {**chat(), "\ufeffmodel": "other"},
        {**chat(), "mo\u200bdel": "other"},
        message(Content=LONG),
        message(Tool_Calls=[{"function": {"name": "f", "arguments": LONG}}]),
        chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a", "Text": LONG}]}]),
        chat(tools=[{"type": "function", "Function": {"name": "f", "description": LONG}}]),
        chat(tools=[{"type": "function", "function": {"name": "f", "Description": LONG}}]),
    ],
)
def test_keys_in_other_case_are_refused(
    gateway: RunningGateway, upstream: Stub, body: dict[str, Any]
) -> None:
    before = len(upstream.seen)
    answer = gateway.post(PATH, body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert len(upstream.seen) == before


def test_a_schemas_own_names_may_have_any_case(gateway: RunningGateway) -> None:
    parameters = {"type": "object", "properties": {"Name": {"type": "string"}, "Content": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    assert gateway.post(PATH, chat(tools=[tool], metadata={"Model": "x"})).status == 200


def test_every_model_that_may_answer_is_checked(gateway: RunningGateway) -> None:
    long = [{"role": "user", "content": "word " * 2000}]
    assert gateway.post(PATH, chat(messages=long)).status == 200
    for key in ("models", "fallbacks"):
        assert gateway.post(PATH, {**chat(messages=long), key: ["stub", "small"]}).status == 400, key
        assert gateway.post(PATH, {**chat(), key: ["stub", "small"]}).status == 200, key
        for value in ("small", [{"model": "small"}], [1], [""], ["m"] * 9, {"a": ["b"]}):
            answer = gateway.post(PATH, {**chat(), key: value})
            assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request"), (key, value)


def test_a_key_is_held_to_its_models_in_fallbacks_too(start_gateway: Gateways, upstream: Stub) -> None:
    database = str(start_gateway.folder / "own.db")
    key = start_gateway.command(
        *("gateway", "keys", "create", "alice", "--model", "stub", "--database", database)
    )
    config = CONFIG.format(url=upstream.url)
    gateway = start_gateway(options=["--keys", "--database", database], config=config)
    assert gateway.post(PATH, chat(), x_api_key=key).status == 200
    answer = gateway.post(PATH, chat(models=["stub", "dear"]), x_api_key=key)
    assert (answer.status, answer.json["error"]["code"]) == (403, "model_not_allowed")


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.slow
def test_a_header_never_opens_what_is_closed(start_gateway: Gateways, upstream: Stub, *, keys: bool) -> None:
    database = str(start_gateway.folder / "own.db")
    key = start_gateway.command("gateway", "keys", "create", "alice", "--database", database)
    options = ["--database", database, *(["--keys"] if keys else [])]
    gateway = start_gateway(options=options, config=CONFIG.format(url=upstream.url))
    before = len(upstream.seen)
    body = chat(messages=[{"role": "user", "content": LONG * 5}])
    answer = gateway.post(PATH, body, x_tokenbox_mode="observe", x_api_key=key)
    assert (answer.status, answer.json["error"]["code"]) == (403, "mode_not_allowed")
    assert len(upstream.seen) == before
    assert gateway.post(PATH, chat(), x_tokenbox_mode="enforce", x_api_key=key).status == 200


def test_a_tier_of_unknown_price_is_refused(gateway: RunningGateway) -> None:
    tiers: tuple[object, ...] = ("priority", "scale", "Flex", 1)
    for tier in tiers:
        answer = gateway.post(PATH, chat(service_tier=tier))
        assert (answer.status, answer.json["error"]["code"]) == (403, "service_tier_unpriced"), tier
    for known in ("auto", "default", "flex", None):
        assert gateway.post(PATH, chat(service_tier=known)).status == 200, known


def test_headers_of_the_connection_and_of_accounts_stay_here(start_gateway: Gateways, upstream: Stub) -> None:
    config = CONFIG.format(url=upstream.url).replace("[policy]", 'key_env = "STUB_KEY"\n[policy]')
    gateway = start_gateway(config=config, env={"STUB_KEY": "sk-own"})
    line = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=SECONDS)
    named = {"openai-organization": "org-a", "OpenAI-Project": "proj-a", "X-Hop": "1", "x-kept": "2"}
    line.request("POST", PATH, json.dumps(chat()), {"connection": "close, X-Hop", **named})
    assert line.getresponse().status == 200
    line.close()
    sent = {name.lower() for name in upstream.headers[-1]}
    assert "x-kept" in sent
    assert not sent & {"openai-organization", "openai-project", "x-hop"}


class Pairs(list[tuple[str, Any]]):
    """A JSON object, in which a key may stand twice."""


@pytest.mark.parametrize("number", ["0." + "7" * 200, "1e-" + "9" * 200, "-" + "0.0" + "1" * 97 + "E+1"])
def test_a_number_is_not_longer_than_what_is_counted_of_it(number: str) -> None:
    """Its value keeps 17 digits, and a server may show all that were written."""
    for data in (f'{{"a":{number}}}', f'{{"a":[1.5,{{"b":{number}}}]}}'):
        with pytest.raises(Refusal, match="characters; at most 100 are taken"):
            strict_json.read_object(data.encode(), RequestLimits())
    with pytest.raises(Refusal, match=r"777\.\.\. has 5,000 characters; at most 4,300 are taken"):
        strict_json.read_object(b'{"a":[%b]}' % (b"7" * 5_000), RequestLimits())
    text = {"a": "7" * 200, "b": 0.5, "c": "-" * 200}
    assert strict_json.read_object(json.dumps(text).encode(), RequestLimits()) == text


KEYS = st.sampled_from(["a", "b", "é", 'a":', "model", "a\\", "a\\\\", '\\":', "type"])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=True, allow_infinity=True),
        st.sampled_from([1e300, 2.0**53, 1.5, -0.0]),
        st.text(st.sampled_from('ab":{}[], \\/é\ud800\udc00🙂'), max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(KEYS, inner), max_size=3).map(Pairs)
    ),
    max_leaves=12,
)


def written(value: object, colon: str, *, ascii_only: bool) -> str:
    if isinstance(value, Pairs):
        inner = (
            f"{json.dumps(key, ensure_ascii=ascii_only)}{colon}{written(one, colon, ascii_only=ascii_only)}"
            for key, one in value
        )
        return f"{{{','.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(written(one, colon, ascii_only=ascii_only) for one in value)}]"
    return json.dumps(value, ensure_ascii=ascii_only)


@example(pairs=[("a\\", 1), ("b", 1), ("b", 2)], colon=":", ascii_only=True)
@given(
    pairs=st.lists(st.tuples(KEYS, VALUES), max_size=4),
    colon=st.sampled_from([":", ": ", " :", "\n: "]),
    ascii_only=st.booleans(),
)
def test_the_short_way_to_read_a_body_reads_what_the_long_way_does(
    pairs: list[tuple[str, Any]], colon: str, ascii_only: bool
) -> None:
    data = written(Pairs(pairs), colon, ascii_only=ascii_only).encode("utf-8", "surrogatepass")
    assert reading(lambda: strict_json.read_object(data, RequestLimits())) == reading(
        lambda: strict_json._read_slowly(data, RequestLimits())  # noqa: SLF001  # the one to compare with
    )


def reading(read: Callable[[], object]) -> str:
    """What was read, or why it was refused. As text: 1 is not 1.0."""
    try:
        return repr(read())
    except Refusal as refusal:
        return refusal.message
