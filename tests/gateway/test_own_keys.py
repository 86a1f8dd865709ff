"""Clients with keys of their own: an upstream without one gets them as they came, and nobody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
OAUTH = {"authorization": "Bearer sk-ant-oat01-abc", "anthropic_beta": "oauth-2025-04-20"}
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "{kind}"
[policy]
max_ctx = 8000
"""
AUTH = ("Authorization", "X-Api-Key", "Api-Key")


def ask(model: str = "stub") -> dict[str, Any]:
    return {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}


def sent(stub: Stub, before: int) -> list[dict[str, str]]:
    """The headers that reached the stub, in small letters."""
    return [{name.lower(): value for name, value in headers.items()} for headers in stub.headers[before:]]


@pytest.fixture(scope="module")
def gateways(shared_gateways: Gateways, upstream: Stub) -> dict[str, RunningGateway]:
    """One in front of Anthropic's API, and one in front of OpenAI's."""
    return {
        kind: shared_gateways(config=CONFIG.format(url=upstream.url, kind=kind))
        for kind in ("anthropic", "openai")
    }


@pytest.mark.parametrize(
    "given",
    [
        OAUTH,
        {"x_api_key": "sk-ant-api03-abc"},
        {"api_key": "azure-abc"},
        {"authorization": "Bearer sk-abc", "x_api_key": "sk-ant-api03-abc"},
        {"authorization": "Basic dTpw"},
        {},
    ],
    ids=lambda given: "+".join(given) or "none",
)
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_key_goes_on_in_the_header_it_came_in(
    gateways: dict[str, RunningGateway], upstream: Stub, kind: str, given: dict[str, str]
) -> None:
    before = len(upstream.headers)
    expected = {name.replace("_", "-"): value for name, value in given.items()}
    for path in ("/v1/chat/completions", MESSAGES, *([COUNT] if kind == "anthropic" else [])):
        assert gateways[kind].post(path, ask(), **given).status == 200
    # Of Anthropic's API each request is counted first, by a question of our own.
    found = sent(upstream, before)
    assert len(found) == (4 if kind == "anthropic" else 2)
    for headers in found:
        shown = {name: headers[name] for name in (*map(str.lower, AUTH), "anthropic-beta") if name in headers}
        assert shown == expected


def test_anthropic_is_asked_for_its_count_as_it_wants_to_be(
    gateways: dict[str, RunningGateway], upstream: Stub
) -> None:
    answer = gateways["anthropic"].post(COUNT, ask(), **OAUTH)
    assert answer.json["tokenbox"]["counted_by"] == f"stub:{COUNT}"
    assert sent(upstream, -1)[0]["anthropic-version"] == "2023-06-01"


def test_models_are_those_that_the_upstream_lists_for_the_key(gateways: dict[str, RunningGateway]) -> None:
    def listed(**given: str) -> list[str]:
        return [item["id"] for item in gateways["openai"].get("/v1/models", **given).json["data"]]

    assert listed() == ["stub"]
    assert listed(authorization="Bearer sk-tuner") == ["stub", "tuned"]
    assert gateways["openai"].get("/v1/models/tuned", authorization="Bearer sk-tuner").status == 200
    assert gateways["openai"].get("/v1/models/tuned").status == 404


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        *(("https://example.org", 403), ("http://127.0.0.1.example.org:8640", 403), ("https://", 403)),
        *(("http://localhost:3000", 200), ("http://[::1]:3000", 200), ("app://notes", 200)),
        # A page in a sandboxed frame of any site, in a file, or of a browser's extension.
        *(("null", 403), ("file://", 403), ("chrome-extension://abc", 403), ("http://[", 403)),
    ],
)
def test_without_keys_pages_of_other_sites_are_refused(
    gateways: dict[str, RunningGateway], upstream: Stub, origin: str, status: int
) -> None:
    before = len(upstream.headers)
    answer = gateways["openai"].post("/v1/chat/completions", ask(), origin=origin, content_type="text/plain")
    assert answer.status == status
    assert len(upstream.headers) - before == (status == 200)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            ("example.org", 403),
            ("example.org:8640", 403),
            ("127.0.0.1.example.org", 403),
            ("localhost.", 403),
        ),
        *(("localhost:1", 200), ("[::1]:1", 200), ("10.0.0.7", 200), ("gateway", 200), ("a.internal:1", 200)),
    ],
)
def test_without_keys_a_page_whose_name_leads_here_is_refused(
    gateways: dict[str, RunningGateway], upstream: Stub, host: str, status: int
) -> None:
    """To its browser the gateway is its own site, so that a GET names no origin (DNS rebinding)."""
    before = len(upstream.headers)
    for answer in (
        gateways["openai"].get("/metrics", host=host),
        gateways["openai"].get("/v1/models", host=host),
        gateways["openai"].post("/v1/chat/completions", ask(), host=host),
    ):
        assert answer.status == status, answer.data
    assert status == 200 or len(upstream.headers) == before


def test_an_upstream_with_a_key_gets_that_alone(start_gateway: Gateways, upstream: Stub) -> None:
    config = CONFIG.format(url=upstream.url, kind="anthropic").replace("[policy]", 'key_env = "K"\n[policy]')
    gateway = start_gateway(config=config, env={"K": "sk-operator"})
    before = len(upstream.headers)
    assert gateway.post(MESSAGES, ask(), authorization="Bearer sk-x", x_api_key="sk-y").status == 200
    for headers in sent(upstream, before):
        assert headers["x-api-key"] == "sk-operator"
        assert not {"authorization", "api-key"} & set(headers)


def test_with_keys_of_the_gateway_no_upstream_sees_them(start_gateway: Gateways, upstream: Stub) -> None:
    database = str(start_gateway.folder / "own.db")
    key = start_gateway.command("gateway", "keys", "create", "alice", "--database", database)
    config = CONFIG.format(url=upstream.url, kind="anthropic") + "[gateway]\nkeys = true\n"
    gateway = start_gateway(config=config, options=["--database", database])
    before = len(upstream.headers)
    assert gateway.post(MESSAGES, ask(), authorization=f"Bearer {key}", x_api_key="sk-y").status == 200
    for headers in sent(upstream, before):
        assert not {"authorization", "api-key", "x-api-key"} & set(headers)
