"""Modes and what ``fit`` does: who decides, what leaves, what is said of it, and what never leaves."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tracemalloc
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import until
from tokenbox.content.items import read_item
from tokenbox.gateway.authentication import Grant
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.fitting import _CallSession, fit_actions
from tokenbox.gateway.models import not_served
from tokenbox.gateway.protocols import CHAT
from tokenbox.gateway.settings import GatewaySettings, RequestLimits
from tokenbox.gateway.summaries import summary_of
from tokenbox.store.keys import GatewayKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.gateway.running import Answer, Gateways, RunningGateway, Stub
    from tokenbox.gateway.refusals import Refusal

PATH = "/v1/chat/completions"
CONFIG = """
[upstreams.stub]
url = "{url}"
kind = "vllm"
[policy]
max_ctx = 400
[models.watched]
max_ctx = 400
mode = "observe"
[routes.completions]
mode = "observe"
[gateway]
fit = {fit}
"""


def config(upstream: Stub, *fit: str) -> str:
    return CONFIG.format(url=upstream.url, fit=json.dumps(list(fit)))


@pytest.fixture(scope="module")
def gateway(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=config(upstream, "evict"))


def talk(exchanges: int, words: int = 20) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(exchanges):
        messages.append({"role": "user", "content": f"question {number} " + "word " * words})
        messages.append({"role": "assistant", "content": f"answer {number}"})
    return [*messages, {"role": "user", "content": "the last question"}]


def chat(messages: Sequence[object], model: str = "m", **more: object) -> dict[str, Any]:
    return {"model": model, "max_tokens": 10, "messages": list(messages), **more}


@pytest.mark.slow
def test_who_decides_the_mode(gateway: RunningGateway, upstream: Stub) -> None:
    large = talk(30)
    before = len(upstream.seen)
    assert gateway.post(PATH, chat(large)).status == 400
    assert len(upstream.seen) == before, "it was sent all the same"
    # The model's own, the route's, and the header before both.
    watched = gateway.post(PATH, chat(large, "watched"))
    assert (watched.status, watched.headers["x-tokenbox-mode"]) == (200, "observe")
    assert watched.headers["x-tokenbox-remaining"] == "0"
    prompt = {"model": "m", "max_tokens": 10, "prompt": "word " * 1000}
    assert gateway.post("/v1/completions", prompt).headers["x-tokenbox-mode"] == "observe"
    assert gateway.post("/v1/completions", prompt, x_tokenbox_mode="enforce").status == 400
    assert gateway.post(PATH, chat(large, "watched"), x_tokenbox_mode="enforce").status == 400
    fitted = gateway.post(PATH, chat(large), x_tokenbox_mode="fit")
    assert (fitted.status, fitted.headers["x-tokenbox-mode"]) == (200, "fit")
    wrong = gateway.post(PATH, chat(large), x_tokenbox_mode="rush")
    assert (wrong.status, wrong.json["error"]["code"]) == (400, "invalid_mode")


def test_a_pattern_for_all_models(start_gateway: Gateways, upstream: Stub) -> None:
    settings = config(upstream, "evict").partition("[policy]")[0]
    gateway = start_gateway(config=settings + '[models."*"]\nmax_ctx = 700\n[models.small]\nmax_ctx = 30\n')
    answer = gateway.post(PATH, chat(talk(1)))
    used, left = (int(answer.headers[f"x-tokenbox-{name}"]) for name in ("input-tokens", "remaining"))
    assert used + 10 + left == 700
    small = gateway.post(PATH, chat(talk(1), "small"))
    assert (small.status, small.json["tokenbox"]["window"]) == (400, 30)


def test_the_window_is_kept_to_the_token(gateway: RunningGateway) -> None:
    fits = gateway.post(PATH, chat(talk(3)))
    left = int(fits.headers["x-tokenbox-remaining"])
    used = int(fits.headers["x-tokenbox-input-tokens"])
    assert left + used + 10 == 400
    assert gateway.post(PATH, chat(talk(3), max_tokens=10 + left)).status == 200
    refused = gateway.post(PATH, chat(talk(3), max_tokens=11 + left))
    assert refused.status == 400
    found = refused.json["tokenbox"]
    assert (found["deficit"], found["input_tokens"], found["reserved"]) == (1, used, 11 + left)
    assert [item["role"] for item in found["messages"]] == [item["role"] for item in talk(3)]
    assert found["fixes"][0]["to"] == 10 + left


def changes(refused: Answer) -> list[str]:
    return [fix["change"] for fix in refused.json["tokenbox"]["fixes"]]


def test_an_answer_without_a_fitting_budget_is_refused_in_every_mode(gateway: RunningGateway) -> None:
    for mode in ("enforce", "fit"):
        refused = gateway.post(PATH, chat(talk(0), max_tokens=500), x_tokenbox_mode=mode)
        assert refused.json["error"]["code"] == "context_length_exceeded"
        assert "fit" not in changes(refused)  # nothing that leaves makes room for that answer
        # What must be kept does not fit either.
        refused = gateway.post(PATH, chat([{"role": "user", "content": "x " * 3000}]), x_tokenbox_mode=mode)
        assert refused.json["error"]["code"] == "context_length_exceeded"
        assert ("fit" in changes(refused)) is (mode == "enforce")  # it has just been tried


def long_result() -> list[dict[str, Any]]:
    call = {"id": "t1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    result = "FIRST " + "filler words of a log file " * 300 + " LAST"
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "read the log"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": result},
    ]


def anthropic(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    result = messages[3]["content"]
    return {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "read the log"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": result}],
            },
        ],
    }


def responses(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "t1", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "t1", "output": messages[3]["content"]}
    return {
        "model": "m",
        "max_output_tokens": 10,
        "input": [{"role": "user", "content": "read the log"}, call, output],
    }


@pytest.fixture(scope="module")
def cutting(shared_gateways: Gateways, upstream: Stub) -> RunningGateway:
    return shared_gateways(config=config(upstream, "truncate", "evict"), options=["--mode", "fit"])


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        (PATH, chat(long_result()), "messages"),
        ("/v1/messages", anthropic(long_result()), "messages"),
        ("/v1/responses", responses(long_result()), "input"),
    ],
)
def test_truncation_cuts_the_middle_of_a_long_result(
    cutting: RunningGateway, upstream: Stub, path: str, body: dict[str, Any], key: str
) -> None:
    answer = cutting.post(path, body)
    assert answer.status == 200, answer.data
    done = answer.json["tokenbox"]["done"]
    assert (done["action"], done["keep"]) == ("truncate", "ends")
    assert done["messages"] == [len(body[key]) - 1]
    assert done["after"] <= 390 < done["before"]
    sent = upstream.seen[-1][key]
    # Nothing but that text is another one.
    assert sent[:-1] == body[key][:-1]
    text = json.dumps(sent[-1])
    assert "FIRST" in text
    assert "LAST" in text
    assert len(text) < 2000


def test_old_results_are_masked_before_anything_leaves(gateway: RunningGateway, upstream: Stub) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(6):
        call = {"id": f"t{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"read {number}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"t{number}", "content": "a line of a log file " * 8},
        ]
    messages.append({"role": "user", "content": "the last question"})
    answer = gateway.post(PATH, chat(messages), x_tokenbox_mode="fit")
    assert answer.status == 200, answer.data
    # Masks, then what is left of long results, then whole exchanges, each as far as it is needed.
    assert answer.headers["x-tokenbox-fit"] == "mask, cut, evict"
    done = answer.json["tokenbox"]["done"]
    actions = [step["action"] for step in done["steps"]]
    assert (actions[0], actions[-1]) == ("mask", "evict")
    assert done["steps"][0]["messages"] == [3]  # the oldest result first
    sent = upstream.seen[-1]["messages"]
    assert (sent[0], sent[-1]) == (messages[0], messages[-1])


def test_the_bodies_that_were_tried_are_not_kept() -> None:
    """The search tries many, and each may be as large as the request."""
    call = read_call(CHAT, json.dumps(chat(talk(40, words=5_000))).encode(), RequestLimits())
    whole: Any = SimpleNamespace(verdict=SimpleNamespace(tokens=1))
    tokenizer: Any = SimpleNamespace()
    session = _CallSession(call, whole, tokenizer, lambda _: whole)
    for number in range(len(call.input)):
        session.add(number, read_item(call.input[number]))
    tracemalloc.start()
    try:
        for number in range(40):
            session.total_with({number: None})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(call.data)


def test_what_was_done_is_told_in_the_order_of_its_steps() -> None:
    cut = {"action": "truncate", "messages": [3]}
    gone = {"action": "evict", "steps": [{"action": "mask"}, {"action": "mask"}, {"action": "evict"}]}
    assert fit_actions({"action": "several", "steps": [cut, gone]}) == "truncate, mask, evict"
    assert fit_actions({**gone, "action": "compact"}) == "mask, compact"


def test_what_truncation_cannot_do_eviction_does(cutting: RunningGateway, upstream: Stub) -> None:
    messages = talk(30, words=300)
    answer = cutting.post(PATH, chat(messages))
    assert answer.status == 200, answer.data
    done = answer.json["tokenbox"]["done"]
    assert done["action"] == "several"
    assert [step["action"] for step in done["steps"]] == ["truncate", "evict"]
    sent = upstream.seen[-1]["messages"]
    assert sent[0] == messages[0]
    assert sent[-1] == messages[-1]
    assert int(answer.headers["x-tokenbox-input-tokens"]) <= 390


@pytest.mark.slow
def test_compaction_puts_a_summary_in_place_of_what_leaves(start_gateway: Gateways, upstream: Stub) -> None:
    """The model may have another name, and its server another field for the limit."""
    settings = config(upstream, "compact", "evict") + 'summary_model = "short"\n'
    settings = settings.replace("[models.watched]\nmax_ctx = 400", "[models.watched]\nmax_ctx = 40000")
    settings = settings.replace('kind = "vllm"', 'kind = "openai"')
    settings += '[models.short]\nalias_of = "watched"\n'
    gateway = start_gateway(config=settings, options=["--mode", "fit"])
    messages = talk(30)
    before = len(upstream.seen)
    answer = gateway.post(PATH, chat(messages))
    assert answer.status == 200, answer.data
    done = answer.json["tokenbox"]["done"]
    assert done["action"] == "compact"
    assert done["summary"]["model"] == "watched"
    asked, sent = upstream.seen[before:]
    assert asked["model"] == "watched"
    assert asked.keys() == {"model", "messages", "max_completion_tokens"}
    assert "question 0" in asked["messages"][1]["content"]
    assert sent["messages"][0]["content"] == (
        "Be brief.\n\nSummary of the earlier conversation:\nHello there"
    )
    assert sent["messages"][-1] == messages[-1]
    assert len(sent["messages"]) == len(messages) - len(done["evicted"])
    # A summary that fails loses nothing: it is a plain eviction.
    failing = [*messages]
    failing[0] = {"role": "system", "content": "Be brief."}
    gateway.post(PATH, chat(failing))
    gateway.stop()
    with closing(sqlite3.connect(start_gateway.folder / "data" / "tokenbox" / "tokenbox.db")) as database:
        rows = dict(
            database.execute("SELECT category, count(*) FROM tokenbox_calls GROUP BY category").fetchall()
        )
    assert rows == {"chat, fitted by compact": 2, "summarize": 2}


def test_a_key_that_may_ask_by_an_alias_alone_gets_a_summary_by_its_model() -> None:
    """What may be asked for was decided before; only another model for summaries is checked."""
    seen: list[str] = []

    async def nowhere(model: str, _: object) -> None:
        raise not_served(model)

    def observe(_: object, refusal: Refusal) -> None:
        seen.append(refusal.code)

    for summary_model in (None, "other"):
        settings = GatewaySettings((), summary_model=summary_model)
        models = SimpleNamespace(upstream_of=nowhere)
        services: Any = SimpleNamespace(settings=settings, models=models, observe=observe)
        call = read_call(CHAT, json.dumps(chat(talk(1), "real")).encode(), RequestLimits())
        grant = Grant("k", key=GatewayKey("k", "k", ("alias",), (), (), "", None, None))
        summary = asyncio.run(summary_of(services, "text", 10, call, grant))
        assert summary is None
    assert seen == ["model_not_found", "model_not_allowed"]


@pytest.mark.slow
def test_a_summary_that_fails_is_a_plain_eviction(start_gateway: Gateways, upstream: Stub) -> None:
    settings = config(upstream, "compact") + 'summary_model = "watched"\n'
    gateway = start_gateway(config=settings, options=["--mode", "fit"])  # which is too small for it
    answer = gateway.post(PATH, chat(talk(30)))
    assert answer.status == 200, answer.data
    assert answer.json["tokenbox"]["done"]["action"] == "evict"
    assert '"refused":"summary_too_large"' in gateway.log
    until(lambda: gateway.metric("tokenbox_upstream_running") == 0)
