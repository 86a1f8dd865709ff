"""In front of a real llama.cpp server: counts are its own, and nothing that it would clip reaches it."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.attacks import mutations
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tests.gateway.running import Gateways, RunningGateway
    from tests.llama.server import LlamaServer, StartLlama

MODEL = "tiny"


@pytest.fixture(scope="module")
def small(start_llama: StartLlama) -> LlamaServer:
    return start_llama(n_ctx=512)


@pytest.fixture(scope="module")
def gateway(small: LlamaServer, shared_gateways: Gateways) -> RunningGateway:
    return shared_gateways(small.url)


def chat(text: str, **more: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 4, **more}


@pytest.mark.slow
def test_the_count_is_what_the_server_reports(gateway: RunningGateway) -> None:
    answer = gateway.post("/v1/chat/completions", chat("Hello, world! <|im_end|>"))
    assert answer.status == 200, answer.data
    used = answer.json["usage"]["prompt_tokens"]
    assert answer.json["tokenbox"]["input_tokens"] == used
    assert answer.json["tokenbox"]["exact"] is True
    assert answer.headers["x-tokenbox-input-tokens"] == str(used)
    assert answer.headers["x-tokenbox-reserved"] == "4"
    assert answer.headers["x-tokenbox-remaining"] == str(512 - 4 - used)
    assert answer.headers["x-tokenbox-estimated"] == "false"


def test_what_the_server_would_clip_silently_is_refused(gateway: RunningGateway, small: LlamaServer) -> None:
    body = chat("word " * 100, max_tokens=500)
    status, clipped = small.post("/v1/chat/completions", body)
    assert status == 200
    assert clipped["usage"]["completion_tokens"] < 500
    answer = gateway.post("/v1/chat/completions", body)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith(
        "This model's maximum context length is 512 tokens. However, you requested "
    )
    found = answer.json["tokenbox"]
    assert found["deficit"] == found["input_tokens"] + 500 - 512
    fix = found["fixes"][0]
    assert fix["change"] == "reduce_output"
    assert gateway.post("/v1/chat/completions", {**body, "max_tokens": fix["to"]}).status == 200
    assert gateway.post("/v1/chat/completions", {**body, "max_tokens": fix["to"] + 1}).status == 400


def test_a_stream_has_the_key_on_its_first_chunk_and_no_usage_nobody_asked_for(
    gateway: RunningGateway,
) -> None:
    answer = gateway.post("/v1/chat/completions", chat("hi", stream=True))
    frames = [frame.removeprefix(b"data: ") for frame in answer.data.split(b"\n\n") if frame]
    assert frames[-1] == b"[DONE]"
    chunks = [json.loads(frame) for frame in frames[:-1]]
    assert chunks[0]["choices"]
    assert chunks[0]["tokenbox"]["input_tokens"] == int(answer.headers["x-tokenbox-input-tokens"])
    assert all("tokenbox" not in chunk for chunk in chunks[1:])
    assert all(chunk["choices"] for chunk in chunks)


def test_fit_evicts_the_oldest_exchanges_and_says_so(gateway: RunningGateway) -> None:
    messages = [{"role": "system", "content": "Be brief."}]
    for i in range(20):
        messages += [
            {"role": "user", "content": f"question {i} " + "word " * 20},
            {"role": "assistant", "content": f"answer {i}"},
        ]
    messages.append({"role": "user", "content": "the last question"})
    body = {"model": MODEL, "messages": messages, "max_tokens": 16}
    assert gateway.post("/v1/chat/completions", body).status == 400
    answer = gateway.post("/v1/chat/completions", body, x_tokenbox_mode="fit")
    assert answer.status == 200, answer.data
    done = answer.json["tokenbox"]["done"]
    assert done["action"] == "evict"
    assert 0 not in done["evicted"]
    assert len(messages) - 1 not in done["evicted"]
    assert len(done["evicted"]) % 2 == 0
    assert done["after"] == answer.json["usage"]["prompt_tokens"] <= 512 - 16


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/completions"])
def test_other_apis_are_counted_as_exactly(gateway: RunningGateway, path: str) -> None:
    bodies = {
        "/v1/messages": {
            "model": MODEL,
            "max_tokens": 4,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "hi"}],
        },
        "/v1/responses": {"model": MODEL, "max_output_tokens": 4, "input": "hi"},
        "/v1/completions": {"model": MODEL, "max_tokens": 4, "prompt": "Once upon a time"},
    }
    answer = gateway.post(path, bodies[path])
    assert answer.status == 200, answer.data
    usage = answer.json["usage"]
    used = usage.get("prompt_tokens", usage.get("input_tokens"))
    cached = usage.get("cache_read_input_tokens", 0)
    assert answer.json["tokenbox"]["input_tokens"] == used + cached


FULL: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}]},
}


@pytest.mark.parametrize("path", FULL)
@pytest.mark.parametrize(
    "limits",
    [
        *({"max_tokens": 2, "n_predict": 20}, {"max_tokens": 20, "max_completion_tokens": 2}),
        *({"max_tokens": 2, "max_completion_tokens": 20}, {"max_output_tokens": 2, "n_predict": 20}),
        {"max_tokens": 0},
    ],
    ids=str,
)
def test_whatever_limit_the_server_heeds_is_reserved(
    gateway: RunningGateway, path: str, limits: dict[str, int]
) -> None:
    answer = gateway.post(path, {"model": MODEL, "max_tokens": 1, **FULL[path], **limits})
    assert answer.status == 200, answer.data
    usage = answer.json["usage"]
    made = usage["completion_tokens"] if "completion_tokens" in usage else usage["output_tokens"]
    assert 1 <= made <= int(answer.headers["x-tokenbox-reserved"])


def test_a_prompt_that_fills_the_window_has_no_place_for_an_answer(
    gateway: RunningGateway, small: LlamaServer
) -> None:
    last = {"model": MODEL, "prompt": list(range(300, 300 + 511)), "max_tokens": 1}
    assert gateway.post("/v1/completions", last).json["usage"]["completion_tokens"] == 1
    full = {"model": MODEL, "prompt": list(range(300, 300 + 512)), "max_tokens": 1}
    assert small.post("/v1/completions", full)[0] == 400
    refused = gateway.post("/v1/completions", full)
    assert refused.json["error"]["code"] == "context_length_exceeded"
    assert refused.json["tokenbox"]["exact"] is True  # tokens are what they are, whoever counts
    assert refused.json["tokenbox"]["deficit"] == 1


def test_a_refusal_says_about_what_each_message_is(gateway: RunningGateway) -> None:
    texts = ["Be brief, naïve 日本語.", "word " * 600]
    messages = [{"role": role, "content": text} for role, text in zip(("system", "user"), texts, strict=True)]
    refused = gateway.post("/v1/chat/completions", {"model": MODEL, "messages": messages})
    sizes = refused.json["tokenbox"]["messages"]
    tokenizer = get("two-vocabularies")
    assert [size["tokens"] for size in sizes] == [tokenizer.count(text) for text in texts]
    assert [size["exact"] for size in sizes] == [False, False]


def test_each_of_several_prompts_has_the_window_for_itself(
    gateway: RunningGateway, small: LlamaServer
) -> None:
    def size(text: str) -> int:
        return len(small.post("/tokenize", {"content": text})[1]["tokens"])

    # The vocabulary depends on the standard library of this Python.
    texts = [words * (30_000 // size(words * 100)) for words in ("word ", "some other words ")]
    prompts: list[object] = [*texts, [300, 301, 302]]
    sizes = [size(text) for text in texts]
    answer = gateway.post("/v1/completions", {"model": MODEL, "prompt": prompts, "max_tokens": 2})
    assert answer.status == 200, answer.data
    assert int(answer.headers["x-tokenbox-input-tokens"]) == sum(sizes) + 3 > 512
    assert answer.headers["x-tokenbox-estimated"] == "false"
    assert int(answer.headers["x-tokenbox-remaining"]) == 512 - 2 - max(sizes)
    prompts.append(texts[0] * 2)
    refused = gateway.post("/v1/completions", {"model": MODEL, "prompt": prompts, "max_tokens": 2})
    found = refused.json["tokenbox"]
    largest = size(texts[0] * 2)
    assert (refused.status, found["deficit"]) == (400, largest + 2 - 512)
    assert f"({largest} in the prompt, 2 in the completion)" in refused.json["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "Hello, naïve <|im_end|> 日本語!"},
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi <|im_end|>"},
            ]
        },
        {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        },
    ],
    ids=["text", "chat", "tools"],
)
def test_the_tokens_are_those_of_the_prompt(
    gateway: RunningGateway, small: LlamaServer, body: dict[str, Any]
) -> None:
    found = gateway.post("/v1/tokenize", {"model": MODEL, **body}).json
    assert (len(found["tokens"]), found["max_model_len"], found["exact"]) == (found["count"], 512, True)
    # The server makes of them the prompt that it renders.
    prompt = body["prompt"] if "prompt" in body else small.post("/apply-template", body)[1]["prompt"]
    said = small.post("/tokenize", {"content": prompt, "parse_special": True})[1]["tokens"]
    assert found["tokens"] == said


@pytest.mark.slow
def test_the_first_question_may_be_what_models_there_are(
    small: LlamaServer, shared_gateways: Gateways
) -> None:
    gateway = shared_gateways(f"llama={small.url}")
    (model,) = gateway.get("/v1/models").json["data"]
    figures = {name: model[name] for name in ("context_window", "max_model_len", "tokenizer")}
    assert figures == {"context_window": 512, "max_model_len": 512, "tokenizer": "llama:/tokenize"}
    (found,) = gateway.get("/v1/capabilities").json["models"]
    assert (found["kind"], found["upstream"]) == ("llama.cpp", "llama")


@pytest.mark.slow
def test_an_attack_anywhere_never_makes_the_real_server_say_too_long(gateway: RunningGateway) -> None:
    """Whatever passes fits: the server neither refuses it as too long, nor reports more than its window."""
    passed = 0
    for attack in islice(mutations(), 0, None, 91):
        answer = gateway.post(attack.path, attack.body)
        assert b"exceed_context_size" not in answer.data, attack.where
        if answer.status != 200:
            continue
        passed += 1
        usage = answer.json["usage"]
        assert usage.get("prompt_tokens", usage.get("input_tokens")) + 5 <= 512, attack.where
    assert passed
