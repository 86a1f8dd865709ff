"""Hundreds of requests in front of a real llama.cpp server: each counted as the server reports it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.gateway.running import RunningGateway, StartGateway
    from tests.llama.server import StartLlama

REQUESTS = 400
N_CTX = 2048
WORDS = (
    *(
        "the",
        "def",
        "return",
        "naïve",
        "Grüße",
        "日本語",
        "한국어",
        "😀",
        "👩‍👩‍👧",
        "\u200b",
        "\u0301e",
        "\t\t",
    ),
    *(
        "\\t\\t",
        "<|im_end|>",
        "<|im_start|>user",
        "</s>",
        "<unk>",
        "[INST]",
        "{{ messages }}",
        "{% raw %}",
        "\\u0000",
    ),
    *("\r\n", "   ", "a" * 40, "1234567890", "𝔘𝔫𝔦", "مرحبا", "\ufeff", "<tool_call>", "&lt;", '"', "'", "`"),
)


def text(rng: random.Random) -> str:
    return rng.choice(["", " ", "\n"]).join(rng.choice(WORDS) for _ in range(rng.randrange(1, 30)))


def tools(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": text(rng),
                "parameters": {"type": "object", "properties": {text(rng)[:20]: {"type": "string"}}},
            },
        }
        for number in range(rng.randrange(1, 3))
    ]


def chat(rng: random.Random) -> dict[str, Any]:
    messages = [{"role": "system", "content": text(rng)}] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(3)):
        messages += [{"role": "user", "content": text(rng)}, {"role": "assistant", "content": text(rng)}]
    messages.append({"role": "user", "content": text(rng)})
    more = {"tools": tools(rng)} if rng.random() < 0.2 else {}
    return {"messages": messages, "max_tokens": 1, **more}


def request(rng: random.Random) -> tuple[str, dict[str, Any]]:
    at = rng.random()
    if at < 0.7:
        return "/v1/chat/completions", chat(rng)
    if at < 0.8:
        found = chat(rng)
        found["messages"] = [item for item in found["messages"] if item["role"] != "system"]
        found.pop("tools", None)
        return "/v1/messages", {**found, "system": text(rng)}
    if at < 0.9:
        return "/v1/responses", {"input": text(rng), "instructions": text(rng), "max_output_tokens": 1}
    return "/v1/completions", {"prompt": text(rng), "max_tokens": 1}


@pytest.mark.slow
def test_every_count_is_the_servers(start_llama: StartLlama, start_gateway: StartGateway) -> None:
    server = start_llama(n_ctx=N_CTX, n_parallel=2)
    gateway: RunningGateway = start_gateway(server.url)
    rng = random.Random(6)  # the same requests each time
    requests = [request(rng) for _ in range(REQUESTS)]

    def sent(asked: tuple[str, dict[str, Any]]) -> tuple[str, int, int, int | None, object]:
        path, body = asked
        answer = gateway.post(path, {"model": "tiny", **body})
        said = int(answer.headers["x-tokenbox-input-tokens"])
        if answer.status != 200:
            return path, answer.status, said, None, answer.json["tokenbox"]
        usage = answer.json["usage"]
        used = usage.get("prompt_tokens", usage.get("input_tokens")) + usage.get("cache_read_input_tokens", 0)
        return path, 200, said, used, answer.json["tokenbox"]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(sent, requests))
    answered = [answer for answer in answers if answer[1] == 200]
    wrong = [answer for answer in answered if answer[2] != answer[3] or answer[4]["exact"] is not True]  # type: ignore[index]
    assert wrong == []
    # What was refused was over what a slot has, by the server's own count.
    for path, status, said, _, _ in answers:
        assert status == 200 or (status == 400 and said + 1 > server.n_ctx), (path, status, said)
    assert len(answered) > 0.9 * REQUESTS
    assert gateway.metric("tokenbox_prediction_mismatches_total") == 0
    assert gateway.metric("tokenbox_predictions_reconciled_total") == len(answered)
