"""The operator's listener: keys, users and teams over HTTP, figures, readiness."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.gateway.running import Answer, ask
from tests.services import free_port
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/chat/completions"
KEY = "an-operator's-own-key"
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
[gateway]
keys = true
admin_port = {port}
admin_key_env = "TOKENBOX_ADMIN"
"""


class Operated(NamedTuple):
    gateway: RunningGateway
    url: str

    def admin(self, method: str, path: str, body: object = None, key: str | None = KEY) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        return ask(urllib.request.Request(self.url + path, data, headers, method=method))

    def chat(self, key: str, **more: object) -> Answer:
        body = {"model": "stub", "max_tokens": 3, "messages": [{"role": "user", "content": "0000"}], **more}
        return self.gateway.post(PATH, body, authorization=f"Bearer {key}")


@pytest.fixture(scope="module")
def operated(shared_gateways: Gateways, upstream: Stub) -> Operated:
    port = free_port()
    gateway = shared_gateways(
        config=CONFIG.format(url=upstream.url, port=port),
        options=["--database", str(shared_gateways.folder / "own.db")],
        env={"TOKENBOX_ADMIN": KEY},
    )
    return Operated(gateway, f"http://127.0.0.1:{port}")


@pytest.mark.slow
def test_a_key_is_made_used_limited_and_revoked(operated: Operated) -> None:
    made = operated.admin("POST", "/admin/keys", {"name": "alice", "quotas": ["1000 tokens/month"]})
    assert made.status == 201, made.data
    secret = made.json["key"]
    answer = operated.chat(secret)
    assert answer.status == 200
    usage = operated.admin("GET", "/admin/keys/alice").json["usage"]
    used = answer.json["usage"]["total_tokens"]
    assert [(one["quota"], one["used"], one["left"]) for one in usage] == [
        ("1000 tokens/month", used, 1000 - used)
    ]
    limited = operated.admin("PATCH", "/admin/keys/alice", {"quotas": [f"{used} tokens/month"]})
    assert limited.json["quotas"] == [f"{used} tokens/month"]
    assert made.json["id"] in {key["id"] for key in operated.admin("GET", "/admin/keys").json["keys"]}
    assert KEY not in operated.admin("GET", "/admin/keys").data.decode()
    assert secret not in operated.admin("GET", "/admin/keys").data.decode()
    large = operated.admin("POST", "/admin/keys", {"name": "x" * (1 << 20)})
    assert (large.status, large.json["error"]["code"]) == (413, "body_too_large")
    assert operated.admin("DELETE", "/admin/keys/alice").json["revoked"] is not None
    assert operated.admin("GET", "/admin/keys/nobody").status == 404


def test_the_keys_of_a_team_share_its_quotas(operated: Operated) -> None:
    put = operated.admin("PUT", "/admin/teams/research", {"quotas": ["40 tokens/month"], "models": ["stub"]})
    assert put.json["quotas"] == ["40 tokens/month"]
    keys = [
        operated.admin("POST", "/admin/keys", {"name": name, "team": "research"}).json["key"]
        for name in ("bob", "carol")
    ]
    answers = [operated.chat(keys[number % 2]) for number in range(6)]
    good = [answer for answer in answers if answer.status == 200]
    used = sum(answer.json["usage"]["total_tokens"] for answer in good)
    assert 0 < used <= 40 < used + good[0].json["usage"]["total_tokens"]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) == 6 - len(good)
    assert "the quota of this team is 40 tokens/month" in refused[0].json["error"]["message"]
    usage = operated.admin("GET", "/admin/teams/research").json["usage"]
    assert [(one["of"], one["used"]) for one in usage] == [("team:research", used)]
    assert operated.chat(keys[0], model="other").json["error"]["code"] == "model_not_allowed"
    removed = operated.admin("DELETE", "/admin/teams/research")
    assert (removed.status, removed.json["error"]["code"]) == (409, "gateway_owner")
    no_team = operated.admin("POST", "/admin/keys", {"name": "dan", "team": "none"})
    assert (no_team.status, no_team.json["error"]["type"]) == (409, "invalid_request_error")


def test_a_quota_of_a_user_holds_beside_that_of_the_key(operated: Operated) -> None:
    operated.admin("PUT", "/admin/users/erin", {"quotas": ["$1/month"]})
    body = {"name": "erin's laptop", "user": "erin", "quotas": ["1000 tokens/day"]}
    key = operated.admin("POST", "/admin/keys", body).json
    assert (key["user"], key["quotas"]) == ("erin", ["1000 tokens/day"])
    unpriced = operated.chat(key["key"]).json["error"]
    assert unpriced["code"] == "model_unpriced"  # money needs a price
    assert re.search(r"price_input and price_output, .* in \[catalog\.", unpriced["message"])
    operated.admin("PUT", "/admin/users/erin", {"quotas": ["1 tokens/month"]})


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/admin/keys", {"name": ""}, 409, "gateway_key"),
        ("POST", "/admin/keys", {"name": "x", "quota": ["1 tokens/day"]}, 400, "invalid_request"),
        ("POST", "/admin/keys", {"name": "x", "quotas": ["a lot"]}, 400, "invalid_quota"),
        ("POST", "/admin/keys", {"name": "x", "quotas": "1 tokens/day"}, 400, "invalid_request"),
        ("POST", "/admin/keys", {"name": "x", "quotas": {}}, 400, "invalid_request"),
        ("POST", "/admin/keys", {"name": "x", "models": ""}, 400, "invalid_request"),
        ("PATCH", "/admin/keys/x", {}, 400, "invalid_request"),
        ("PUT", "/admin/teams/x", {"models": False}, 400, "invalid_request"),
        ("POST", "/admin/keys", {"name": "x", "modes": ["none"]}, 400, "invalid_request"),
        ("POST", "/admin/keys", {"name": "x", "expires": "2001-01-01"}, 400, "invalid_time"),
        ("POST", "/admin/keys", {"name": "x", "expires": "9999-12-31T23:59-23:59"}, 400, "invalid_time"),
        ("POST", "/admin/keys", [], 400, "invalid_request"),
        ("PUT", "/admin/teams/a%2Fb", {}, 409, "gateway_owner"),
        ("DELETE", "/admin/teams/nobody", None, 409, "gateway_owner"),
        ("PUT", "/admin/keys", {}, 405, "method_not_allowed"),
        ("GET", "/admin/nothing", None, 404, "not_found"),
        ("POST", "/v1/chat/completions", {"model": "stub"}, 404, "not_found"),
    ],
)
def test_what_is_wrong_is_said(
    operated: Operated, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = operated.admin(method, path, body)
    assert (answer.status, answer.json["error"]["code"]) == (status, code), answer.data


@pytest.mark.parametrize("key", [None, "wrong", "", KEY + "x", KEY[:-1], "\u00e9"])
def test_nobody_but_the_operator_comes_in(operated: Operated, key: str | None) -> None:
    for method, path in (("GET", "/admin/keys"), ("POST", "/admin/keys"), ("GET", "/admin/teams")):
        answer = operated.admin(method, path, None if method == "GET" else {"name": "mallory"}, key)
        assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_admin_key")


def test_what_is_the_operators_is_not_on_the_public_port(operated: Operated) -> None:
    for path in ("/metrics", "/readyz", "/admin/keys"):
        assert operated.gateway.get(path, authorization=f"Bearer {KEY}").status == 404, path
    assert operated.gateway.get("/healthz").status == 200
    for path in ("/metrics", "/readyz", "/healthz"):
        assert operated.admin("GET", path, key=None).status == 200, path


def test_a_page_whose_name_leads_here_learns_nothing(operated: Operated) -> None:
    """To its browser the gateway is its own site, so that it names no origin (DNS rebinding)."""
    for path in ("/metrics", "/readyz", "/healthz", "/admin/keys"):
        for host, status in (("example.org:8641", 403), ("127.0.0.1.example.org", 403), ("[::1]:8641", 200)):
            headers = {"host": host, "authorization": f"Bearer {KEY}"}
            assert ask(urllib.request.Request(operated.url + path, headers=headers)).status == status
    # With keys, the public port may have any name.
    assert operated.gateway.get("/healthz", host="example.org").status == 200


def test_status_asks_the_operators_listener(operated: Operated, shared_gateways: Gateways) -> None:
    assert shared_gateways.command("gateway", "status", operated.url).startswith("ready")
    with pytest.raises(AssertionError, match="ADMIN_PORT"):
        shared_gateways.command("gateway", "status", operated.gateway.url)


def test_readiness_is_looked_up_once_however_many_ask(operated: Operated, upstream: Stub) -> None:
    def looks() -> int:
        return upstream.looks

    before = looks()
    threads = [threading.Thread(target=operated.admin, args=("GET", "/readyz")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert looks() - before <= 5  # one a second


def test_without_a_key_of_the_operator_nobody_comes_in(start_gateway: Gateways, upstream: Stub) -> None:
    port = free_port()
    gateway = start_gateway(upstream.url, options=["--admin-port", str(port)])
    operated = Operated(gateway, f"http://127.0.0.1:{port}")
    for key in (None, "", "None"):
        answer: Any = operated.admin("GET", "/admin/keys", key=key)
        assert (answer.status, answer.json["error"]["code"]) == (403, "admin_key_unset")


def test_a_short_key_of_the_operator_is_not_taken(start_gateway: Gateways, upstream: Stub) -> None:
    config = CONFIG.format(url=upstream.url, port=free_port())
    gateway = start_gateway(config=config, env={"TOKENBOX_ADMIN": "short"}, wait=False)
    assert gateway.process.wait(SECONDS) != 0
    assert "TOKENBOX_ADMIN" in gateway.log
