"""The setting ``upstreams.NAME.cache_marks``: breakpoints of a prompt cache that the client did not place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tokenbox.caching.changes import marked

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway, Stub

PATH = "/v1/messages"
SYSTEM = "You know the tariffs of every zone. " * 900
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-1"}
CONFIG = """
[upstreams.claude]
url = "{url}"
kind = "anthropic"
{marks}
[models."*"]
max_ctx = 200000
"""


def question(**more: Any) -> dict[str, Any]:  # JSON
    messages = [{"role": "user", "content": "Which zone is Brest in?"}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": SYSTEM, "messages": messages, **more}


@pytest.fixture(scope="module")
def marking(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=CONFIG.format(url=upstream.url, marks="cache_marks = true"))


def sent(gateway: RunningGateway, upstream: Stub, body: dict[str, Any]) -> dict[str, Any]:
    """What the upstream got."""
    answer = gateway.post(PATH, body, **HEADERS)
    assert answer.status == 200, answer.data
    return dict(upstream.seen[-1])


def test_the_system_prompt_and_the_end_are_marked(marking: RunningGateway, upstream: Stub) -> None:
    got = sent(marking, upstream, question())
    assert marked(got) == ["system[0]", "messages[0].content[0]"]
    assert got["system"][0]["text"] == SYSTEM
    assert got["messages"][0]["content"][0]["text"] == "Which zone is Brest in?"


@pytest.mark.slow
def test_it_is_off_by_default(shared_gateways: Gateways, upstream: Stub) -> None:
    gateway = shared_gateways(config=CONFIG.format(url=upstream.url, marks=""))
    assert sent(gateway, upstream, question()) == question()


@pytest.mark.parametrize(
    "body",
    [
        question(system="You are brief."),
        question(system=[{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]),
        question(model="llama-3"),
    ],
    ids=["too short to be cached", "marked by the client", "not a model of Anthropic"],
)
def test_other_requests_are_sent_as_they_came(
    marking: RunningGateway, upstream: Stub, body: dict[str, Any]
) -> None:
    assert sent(marking, upstream, body) == body
