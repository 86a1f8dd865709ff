"""The llama.cpp server of the tests is what it says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import URLError

import pytest
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from tests.llama.server import LlamaServer, StartLlama

TEXTS = [
    "",
    "hello world",
    "naïve 🧑‍🚀 text\n\n  def f(x):\n\treturn x\n",
    "<|im_end|> <tool_call>",
    "word " * 700,
]


def test_it_counts_as_the_tokenizer_that_was_written_with_it(llama: LlamaServer) -> None:
    engine = Tokenizer.from_file(str(llama.model.tokenizer_json))
    for text in TEXTS:
        body = {"content": text, "add_special": False, "parse_special": True}
        status, answer = llama.post("/tokenize", body)
        assert status == 200
        assert answer["tokens"] == engine.encode(text, add_special_tokens=False).ids


def test_it_says_what_a_prompt_counts_before_and_after(llama: LlamaServer) -> None:
    body = {"messages": [{"role": "user", "content": "hi there"}], "max_tokens": 1}
    _, before = llama.post("/v1/chat/completions/input_tokens", body)
    status, answer = llama.post("/v1/chat/completions", body)
    assert status == 200
    assert before["input_tokens"] == answer["usage"]["prompt_tokens"] > 0


def test_options(start_llama: StartLlama) -> None:
    small = start_llama(n_ctx=512, n_parallel=2, template="turns")
    assert small is start_llama(n_ctx=512, n_parallel=2, template="turns")
    _, models = small.get("/v1/models")
    assert models["data"][0]["meta"]["n_ctx"] == small.n_ctx == 256
    status, answer = small.post(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 900}]}
    )
    assert (status, answer["error"]["type"]) == (400, "exceed_context_size_error")


def test_a_server_can_be_ended_and_come_back(start_llama: StartLlama) -> None:
    server = start_llama(n_ctx=512, fresh=True)
    assert server.get("/health")[0] == 200
    server.kill()
    with pytest.raises(URLError):
        server.get("/health")
    again = start_llama(n_ctx=512, fresh=True, port=server.port)
    assert again.url == server.url
    assert again.get("/health")[0] == 200
