"""In ``enforce`` nothing far over the window reaches an upstream, wherever in a request it is put."""

from __future__ import annotations

import http.client
import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.attacks import CHAT, COMPLETIONS, EMBEDDINGS, LONG, WINDOW, Attack, Server, mutations
from tokenbox.catalog import Figure
from tokenbox.content.message import InvalidMessage
from tokenbox.content.request import FREE_FIELDS
from tokenbox.gateway.admission import Counted, judge
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.counting import count_here
from tokenbox.gateway.protocols import PROTOCOLS
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import Limits, Mode
from tokenbox.models import Stated, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.running import Gateways, RunningGateway

CONFIG = """
[upstreams.it]
url = "http://127.0.0.1:{port}"
kind = "{kind}"
[policy]
max_ctx = {window}
"""
KINDS = ("openai", "vllm", "anthropic", "ollama", "openai-compatible")
# Why a long text may stand there: it costs no tokens of the window.
COSTS_NOTHING = {
    **dict.fromkeys(FREE_FIELDS, "it governs sampling, billing or the answer: no model reads it"),
    **dict.fromkeys(
        ("url", "image_url"), "an image's address or data, whose length says nothing of its size"
    ),
}


class Line:
    """A connection to a gateway, which is kept."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._line = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=60)

    def close(self) -> None:
        self._line.close()

    def ask(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        self._line.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
        answer = self._line.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module", params=KINDS)
def attacked(request: pytest.FixtureRequest, shared_gateways: Gateways) -> Iterator[tuple[Server, Line]]:
    server = Server(request.param)
    config = CONFIG.format(port=server.port, kind=request.param, window=WINDOW)
    line = Line(shared_gateways(config=config))
    yield server, line
    line.close()
    server.close()


def reason(attack: Attack) -> str | None:
    """Why the long text of an attack costs nothing; None if it does."""
    return next((COSTS_NOTHING[step] for step in attack.where if step in COSTS_NOTHING), None)


def test_a_long_text_at_every_path_of_every_shape_is_over_the_window() -> None:
    """Where nobody but this process counts."""
    limits, use = Limits(), resolve("m", settings=Stated(context_window=Figure(WINDOW, "configured")))
    through = []
    for attack in islice(mutations(), 0, None, 7):
        try:
            call = read_call(PROTOCOLS[attack.path], json.dumps(attack.body).encode(), limits)
            counted = Counted(count_here(call, use), "here")
        except (Refusal, InvalidMessage):
            continue
        if judge(call, counted, use, Mode.ENFORCE).fits and reason(attack) is None:
            through.append((attack.path, attack.where))
    assert through == []


# Each kind of upstream gets one in so many of them, and other kinds get others.
EVERY = 60


@pytest.mark.slow
def test_a_long_text_anywhere_reaches_no_upstream(attacked: tuple[Server, Line]) -> None:
    server, line = attacked
    through: dict[tuple[str, tuple[str | int, ...]], None] = {}
    tried = 0
    for attack in islice(mutations(), KINDS.index(server.kind), None, EVERY):
        tried += 1
        before = len(server.ran)
        status, answer = line.ask(attack.path, attack.body)
        if len(server.ran) > before and reason(attack) is None:
            through[attack.path, attack.where] = None
        assert status < 500 or answer["error"]["code" if "code" in answer["error"] else "type"] in (
            "count_unavailable",
            "overloaded_error",
        ), (attack.where, answer)
    assert tried > 100
    assert not through, f"{len(through)} of {tried}: " + "\n".join(map(str, through))


def long_chat(**more: object) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": LONG}], **more}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, long_chat()),
        (CHAT, long_chat(model="misspelt")),
        (CHAT, long_chat(stream=True)),
        (CHAT, long_chat(truncation="auto", truncate_prompt_tokens=10)),
        (CHAT, {**long_chat(), "max_tokens": -1}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": ["hi"] * 32 + [LONG]}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [1] * (10 * WINDOW)}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [[1, 2], [1] * (10 * WINDOW)]}),
        (COMPLETIONS, {"model": "m", "max_tokens": 5, "prompt": [1, LONG]}),
        (EMBEDDINGS, {"model": "m", "input": ["hi"] * 100 + [LONG]}),
        (CHAT, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}] * 5_000}),
        (CHAT, {"model": "m", "max_tokens": 10 * WINDOW, "messages": [{"role": "user", "content": "hi"}]}),
        (
            CHAT,
            long_chat(messages=[{"role": "user", "content": [{"type": "text", "text": LONG, "tokens": 0}]}]),
        ),
    ],
)
def test_known_ways_around(attacked: tuple[Server, Line], path: str, body: dict[str, Any]) -> None:
    server, line = attacked
    before = len(server.ran)
    status, answer = line.ask(path, body)
    assert (status, len(server.ran)) in ((400, before), (503, before)), answer


def test_a_missing_model_does_not_switch_counting_off(attacked: tuple[Server, Line]) -> None:
    """The count of what is served stays exact, where it was."""
    _, line = attacked
    small = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    path = "/v1/chat/completions/input_tokens"
    _, before = line.ask(path, small)
    line.ask(CHAT, {**small, "model": "misspelt"})
    _, after = line.ask(path, small)
    assert before == after
