"""The gateway's own routes: counts, models, and the library over HTTP, which opens nothing."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests import loops
from tests.conversation.requests import request
from tokenbox import ctx, layout
from tokenbox.ctx import limits_of
from tokenbox.gateway.authentication import Grant
from tokenbox.gateway.library import PolicyQuestion, chunks_of
from tokenbox.gateway.models import not_served
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.routes import Routes
from tokenbox.gateway.settings import GatewaySettings
from tokenbox.models import resolve
from tokenbox.policy import Uncertain
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.running import Gateways, RunningGateway, Stub

CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
[upstreams.named]
url = "{url}"
models = ["gpt-4o-mini"]
kind = "openai"
"""


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=upstream.url))


def test_models_say_what_they_can_take(gateway: RunningGateway) -> None:
    models = {item["id"]: item for item in gateway.get("/v1/models").json["data"]}
    assert set(models) == {"stub", "gpt-4o-mini"}
    assert models["stub"]["max_model_len"] == models["stub"]["context_window"] == 8000
    found = {item["id"]: item for item in gateway.get("/v1/capabilities").json["models"]}
    assert found["stub"]["sources"]["context_window"]
    assert found["stub"]["upstream"] == "stub"
    assert found["gpt-4o-mini"]["tokenizer"] == "o200k_base"
    assert found["stub"]["tokenizer"] == "stub:/tokenize"
    assert gateway.get("/v1/models/gpt-4o-mini").json == models["gpt-4o-mini"]
    nobody = gateway.get("/v1/models/some/other:model")
    assert (nobody.status, nobody.json["error"]["code"]) == (404, "model_not_found")
    assert gateway.post("/v1/models/stub", {}).headers["allow"] == "GET, HEAD"


def test_a_path_without_its_version_is_refused_with_the_right_one(gateway: RunningGateway) -> None:
    refused = gateway.post("/chat/completions", {})
    assert (refused.status, refused.json["error"]["code"]) == (404, "not_found")
    assert refused.json["error"]["message"].endswith("The base URL ends in /v1: /v1/chat/completions")
    assert gateway.post("/nothing", {}).json["error"]["message"].endswith("/openapi.json lists the routes.")


@pytest.mark.slow
def test_a_key_sees_the_models_that_it_may_use(shared_gateways: Gateways, upstream: Stub) -> None:
    options = ["--database", str(shared_gateways.folder / "scoped.db")]
    key = shared_gateways.command("gateway", "keys", "create", "one", "--model", "gpt-*", *options)
    gateway = shared_gateways(config=CONFIG.format(url=upstream.url), options=[*options, "--keys"])
    auth = {"authorization": f"Bearer {key}"}
    assert [item["id"] for item in gateway.get("/v1/models", **auth).json["data"]] == ["gpt-4o-mini"]
    shown = gateway.get("/v1/capabilities", **auth).json["models"]
    assert [item["id"] for item in shown] == ["gpt-4o-mini"]
    assert gateway.get("/v1/models/gpt-4o-mini", **auth).status == 200
    assert gateway.get("/v1/models/stub", **auth).status == 403
    assert gateway.get("/v1/models/gpt-4o-mini").status == 401
    other = shared_gateways.command("gateway", "keys", "create", "other", "--model", "none", *options)
    refused = gateway.post("/tokenize", {"content": "hi"}, authorization=f"Bearer {other}")
    assert refused.json["error"]["message"] == "model is missing, and no upstream lists any."


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/v1/tokenize", "/v1/plan", "/v1/enforce"])
@pytest.mark.parametrize("model", ["\ud800", "a,b", " stub", "", 5])
def test_what_names_no_model_is_refused(gateway: RunningGateway, path: str, model: object) -> None:
    body = {"model": model, "content": "hi", "prompt": "hi", "tokens": [1], "chunks": ["hi"]}
    assert gateway.post(path, body).status == 400


def test_a_request_without_a_model_is_told_how_to_name_one(gateway: RunningGateway) -> None:
    number = len(gateway.get("/v1/models").json["data"])
    refused = gateway.post("/tokenize", {"content": "hi"})
    message = f"model is missing, and there are {number}. Name one of /v1/models."
    assert (refused.status, refused.json["error"]["message"]) == (400, message)


@pytest.mark.slow
def test_counts_are_those_that_requests_are_judged_by(gateway: RunningGateway) -> None:
    messages = [{"role": "user", "content": "Hello, world!"}]
    for model in ("stub", "gpt-4o-mini"):
        body = {"model": model, "messages": messages, "max_tokens": 5}
        answer = gateway.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.data
        sent = int(answer.headers["x-tokenbox-input-tokens"])
        counted = gateway.post("/v1/chat/completions/input_tokens", body).json
        assert "input_tokens" in counted, counted
        assert counted["input_tokens"] == sent
        assert gateway.post("/v1/tokenize", {"model": model, "messages": messages}).json["count"] == sent
        anthropic = gateway.post("/v1/messages/count_tokens", body).json
        assert anthropic["input_tokens"] > 0
        responses = gateway.post(
            "/v1/responses/input_tokens", {"model": model, "input": "Hello, world!"}
        ).json
        assert responses["object"] == "response.input_tokens"


def test_one_number_on_every_route(gateway: RunningGateway) -> None:
    """The library's count is that of the routes, and the gate goes by it."""
    for seed in range(40):
        body = {"model": "gpt-4o-mini", **request(seed)}
        counted = gateway.post("/v1/chat/completions/input_tokens", body).json
        expected = tokenbox.count(body)
        assert (counted["input_tokens"], counted["tokenbox"]["exact"]) == (expected.total, expected.exact)
        chunks = {"model": "gpt-4o-mini", "messages": body["messages"]}
        verdict = gateway.post("/v1/enforce", {"model": "gpt-4o-mini", "chunks": body["messages"]}).json
        assert verdict["why"]["tokens_in"] == tokenbox.count(chunks).total, seed
    messages = [{"role": "user", "content": "Hello, world!"}]
    for model in ("stub", "gpt-4o-mini"):
        body = {"model": model, "messages": messages}
        counted = gateway.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
        verdict = gateway.post("/v1/enforce", {"model": model, "chunks": messages}).json
        assert verdict["why"]["tokens_in"] == counted
        sections = [
            {"id": "a", "role": "user", "content": "Hello, world!"},
            {"id": "b", "role": "user", "content": ""},
        ]
        verdict = gateway.post("/v1/enforce", {"model": model, "chunks": sections}).json
        assert verdict["why"]["tokens_in"] == counted, "sections with roles are messages"
        assert gateway.post("/v1/plan", {"model": model, "chunks": sections}).json["total"] == counted
        empty = {"model": model, "chunks": sections[1:]}
        assert gateway.post("/v1/enforce", empty).json["why"]["tokens_in"] == 0
        by_name = [
            gateway.post("/v1/enforce", {"model": model, "chunks": chunks, "tokenizer": "utf8-bytes"}).json[
                "why"
            ]
            for chunks in (messages, sections)
        ]
        assert by_name[0] == by_name[1]
    body = {"model": "gpt-4o-mini", "chunks": messages, "max_tokens_request": 7}
    sources = gateway.post("/v1/enforce", body).json["why"]["sources"]
    assert sources["max_ctx"] == limits_of("gpt-4o-mini").sources["max_ctx"]
    assert sources["reserve_out"] == "the request"


@pytest.mark.parametrize("mode", ["text", "json"])
@pytest.mark.parametrize("max_ctx", [None, 1_000, 20_000])
def test_the_default_reserve_is_that_of_the_library(mode: str, max_ctx: int | None) -> None:
    body = {"chunks": ["hi"], "model": "gpt-4o", "output_mode": mode, "max_ctx": max_ctx}
    use = resolve("gpt-4o")
    given = PolicyQuestion(body, chunks_of(body), use, get("o200k_base"), Uncertain.MARGIN).enforcement()
    expected = ctx.enforce("gpt-4o", ["hi"], mode, max_ctx=max_ctx, tokenizer="o200k_base").to_dict()
    assert isinstance(expected["why"], dict)
    assert given["ok"] is expected["ok"] is True
    assert given["why"]["reserve_out"] == expected["why"]["reserve_out"]
    assert given["why"]["sources"]["reserve_out"] == expected["why"]["sources"]["reserve_out"]


def test_the_operators_rule_for_estimates_is_that_of_every_route(
    start_gateway: Gateways, upstream: Stub
) -> None:
    """A bound over the window refuses a request, and plans and verdicts for it."""
    config = f'[upstreams.stub]\nurl = "{upstream.url}"\nkind = "openai-compatible"\n'
    gateway = start_gateway(config=config + '[policy]\nmax_ctx = 300\nuncertain = "bound"\n')
    messages = [{"role": "user", "content": "word " * 100}]
    refused = gateway.post("/v1/chat/completions", {"model": "stub", "messages": messages, "max_tokens": 7})
    assert refused.json["error"]["code"] == "context_length_exceeded"
    asked = {"model": "stub", "chunks": messages, "max_tokens_request": 7}
    verdict = gateway.post("/v1/enforce", asked).json
    assert (verdict["ok"], verdict["why"]["basis"]) == (False, "at_most")
    plan = gateway.post("/v1/plan", {"model": "stub", "chunks": messages, "reserve_out": 7})
    assert (plan.status, plan.json["error"]["code"]) == (400, "context_critical_overflow")


def test_a_plan_asks_the_upstream_with_the_clients_own_key() -> None:
    """Without it, an upstream for which the gateway has no key does not tell the window of its model."""
    auth = ((b"authorization", b"Bearer the-client's"),)
    asked: list[object] = []

    async def admit(_: object) -> Grant:
        return Grant(client_auth=auth)

    async def body(*_: object) -> bytes:
        return b'{"model": "m", "chunks": ["a"]}'

    async def upstream_of(model: str, client_auth: object) -> None:
        asked.append(client_auth)
        raise not_served(model)

    services: Any = SimpleNamespace(
        authenticator=SimpleNamespace(admit=admit),
        models=SimpleNamespace(upstream_of=upstream_of),
        settings=GatewaySettings(()),
    )
    incoming: Any = SimpleNamespace(body=body, memory=SimpleNamespace(add_values=lambda _: None))
    added: dict[str, Any] = {}
    gateway: Any = SimpleNamespace(add=lambda _, path, handler: added.update({path: handler}))
    Routes(services).add_to(gateway)
    for path in ("/v1/plan", "/v1/enforce"):
        with pytest.raises(Refusal, match="model_not_found"):
            loops.run(added[path](incoming, "r"))
    assert asked == [auth, auth]


def test_tokens_of_a_text_and_back(gateway: RunningGateway) -> None:
    text = "Grüße, 世界 <|endoftext|>"
    tokens = gateway.post("/tokenize", {"model": "gpt-4o-mini", "content": text}).json["tokens"]
    assert tokens == get("o200k_base").encode(text)
    back = gateway.post("/detokenize", {"model": "gpt-4o-mini", "tokens": tokens})
    assert back.json["content"] == text
    window = gateway.post("/v1/tokenize", {"model": "stub", "prompt": text}).json
    assert window["max_model_len"] == 8000
    whole = gateway.post("/v1/tokenize", {"model": "gpt-4o-mini", "prompt": text}).json
    assert (whole["tokens"], whole["count"], whole["exact"]) == (tokens, len(tokens), True)
    asked = {"model": "gpt-4o-mini", "prompt": text, "return_tokens": False}
    assert "tokens" not in gateway.post("/v1/tokenize", asked).json
    # By published rules a chat has so many, and nobody says which.
    chat = gateway.post("/v1/tokenize", {"model": "gpt-4o-mini", "messages": []}).json
    assert (chat["count"], chat["tokens"]) == (3, None)
    # vLLM says them with its count, of chats too.
    for body in ({"prompt": text}, {"messages": [{"role": "user", "content": text}]}):
        found = gateway.post("/v1/tokenize", {"model": "stub", **body}).json
        assert len(found["tokens"]) == found["count"] > 0
    bad = gateway.post("/detokenize", {"model": "gpt-4o-mini", "tokens": [10**9]})
    assert bad.status == 400


def test_the_library_over_http_is_the_library(gateway: RunningGateway) -> None:
    sections = [
        {"id": "rules", "content": "Keep this.", "priority": 0},
        {"id": "log", "content": "word " * 200, "priority": 5, "shrink": 1},
    ]
    answer = gateway.post("/v1/layout", {"sections": sections, "budget": 50, "tokenizer": "o200k_base"})
    assert answer.status == 200, answer.data
    assert answer.json == layout(sections, 50, "o200k_base").to_dict()
    sections[1]["group"] = "logs"
    options = {"policy": "degrade", "groups": {"logs": {"max": 20}}}
    body = {"sections": sections, "budget": 50, "tokenizer": "o200k_base", **options}
    degraded = gateway.post("/v1/layout", body)
    assert degraded.json == layout(sections, 50, "o200k_base", **options).to_dict()  # type: ignore[arg-type]
    plan = gateway.post("/v1/plan", {"chunks": ["one", "two"], "model": "stub"})
    assert plan.status == 200, plan.data
    verdict = gateway.post("/v1/enforce", {"chunks": ["word " * 9000], "model": "stub"})
    assert verdict.status == 200, verdict.data
    assert verdict.json["ok"] is False
    assert gateway.post("/v1/enforce", {"chunks": ["hi"], "max_ctx": 100}).json["ok"] is True
    over = gateway.post("/v1/layout", {"sections": sections[:1], "budget": 1})
    assert over.status == 400
    assert over.json["error"]["code"]


@pytest.mark.parametrize("model", ["", 7, []])
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/enforce", "/v1/layout", "/v1/tokenize", "/tokenize"])
def test_a_model_without_a_name_is_the_clients_mistake(
    gateway: RunningGateway, path: str, model: object
) -> None:
    given = {"sections": [{"id": "a", "content": "x"}], "budget": 10, "content": "x", "chunks": ["x"]}
    given = {
        key: given[key] for key in (("sections", "budget") if path == "/v1/layout" else ("chunks", "content"))
    }
    answer = gateway.post(path, {**given, "model": model})
    assert (answer.status, answer.json["error"]["param"]) == (400, "model"), answer.data


def test_a_request_names_the_code_that_the_operator_allowed(
    shared_gateways: Gateways, upstream: Stub, tmp_path: Path
) -> None:
    (tmp_path / "of_the_operator.py").write_text(
        "def last(candidates, budget, count):\n    return [len(candidates) - 1]\n\n\n"
        "def words(text):\n    return len(text.split())\n\n\n"
        "def other(candidates, budget, count):\n    return []\n"
    )
    allowed = "of_the_operator:last,of_the_operator:words"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    gateway = shared_gateways(upstream.url, env={"TOKENBOX_CODE_ALLOWED": allowed, "PYTHONPATH": path})
    asked = {"chunks": ["a b", "c d"], "max_ctx": 100, "tokenizer": "of_the_operator:words"}
    plan = gateway.post("/v1/plan", {**asked, "strategy": "of_the_operator:last"})
    assert [one["id"] for one in plan.json["packed"]] == ["chunk[1]"]
    assert gateway.post("/v1/enforce", {**asked, "strategy": "of_the_operator:last"}).json["ok"] is True
    refused = gateway.post("/v1/plan", {**asked, "strategy": "of_the_operator:other"})
    assert (refused.status, refused.json["error"]["param"]) == (400, "strategy")


@pytest.mark.parametrize(
    "named", ["file:{path}", "{path}", "os:getcwd", "tests.gateway.stub:make", "../o200k_base"]
)
def test_nothing_that_a_request_names_is_opened_or_imported(
    gateway: RunningGateway, tmp_path: Path, named: str
) -> None:
    secret = tmp_path / "tokenizer.json"
    secret.write_text('{"SECRET-c41": 1}', encoding="utf-8")
    secret.chmod(0o600)
    before = secret.stat().st_atime_ns
    name = named.format(path=secret)
    for path, body in (
        ("/v1/layout", {"sections": [{"id": "a", "content": "x"}], "budget": 10, "tokenizer": name}),
        ("/v1/layout", {"sections": str(secret), "budget": 10}),
        ("/v1/layout", {"sections": [{"id": "a", "file": str(secret)}], "budget": 100}),
        ("/v1/plan", {"chunks": ["x"], "max_ctx": 100, "tokenizer": name}),
        ("/v1/plan", {"chunks": ["x"], "max_ctx": 100, "strategy": name}),
        ("/v1/plan", {"chunks": [{"file": str(secret)}], "max_ctx": 100}),
        ("/v1/enforce", {"chunks": ["x"], "max_ctx": 100, "tokenizer": name}),
    ):
        answer = gateway.post(path, body)
        assert answer.status == 400, (path, answer.data)
        assert b"SECRET" not in answer.data
    # A model of that name is a name, and nothing else.
    for path in ("/tokenize", "/v1/tokenize", "/v1/chat/completions/input_tokens"):
        body = {"model": name, "content": "x", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}
        answer = gateway.post(path, body)
        assert answer.status in (200, 400, 404), answer.data
        assert b"SECRET" not in answer.data
    assert secret.stat().st_atime_ns == before
