"""Tokens that a file types as ordinary or user-defined, and llama.cpp as control tokens, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.llama import model as models
from tests.llama.corpus import stop
from tests.llama.server import serve
from tokenbox import ChatFormat
from tokenbox.tokenizers import get
from tokenbox.tokenizers.files import open_chat_vocabulary
from tokenbox.tokenizers.gguf import CONTROL_NAMES, SHOWN_NAMES

if TYPE_CHECKING:
    from pathlib import Path

# Names that look like these and are no control tokens there.
ORDINARY = ("<s>", "<pad>", "<|user|>", "<|tool_call|>", "<repo_name>", "[/INST]", "<think>")
FILLING = ("fim", "PRE", "SUF", "MID", "PAD", "REPO", "repo", "fix|>", "middle|>", "file_sep")


def of_the_middle(name: str) -> bool:
    return any(part in name for part in FILLING)


# All that end an answer go together; of those that fill in the middle the server looks for one of a kind.
GROUPS = [
    [name for name in sorted(CONTROL_NAMES) if not of_the_middle(name)],
    ["<|end|>", "<|return|>", *SHOWN_NAMES],
    ["<|end|>", "<|return|>", "<|call|>", *SHOWN_NAMES],
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"],
    ["<PRE>", "<SUF>", "<MID>", "<PAD>", "<REPO>"],
    list(ORDINARY),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinary", "user-defined"])
@pytest.mark.parametrize("names", GROUPS, ids=["ends", "end", "gpt-oss", "fill", "fill, older", "ordinary"])
def test_tokens_count_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], kind: str
) -> None:
    vocabulary, merges, _ = models.train()
    tokens = [*(token for token in vocabulary if token not in names), *names]
    monkeypatch.setattr(models, "CONTROL", ("<|endoftext|>", "<|im_start|>"))
    if kind == "user-defined":
        monkeypatch.setattr(models, "USER_DEFINED", tuple(names))
    model = models.Model(tmp_path)
    models.write_gguf(model.gguf, tokens, merges, models.TURNS, pre="qwen2")
    server: Any = serve(model, 512, 1)
    try:
        prompts, texts = open_chat_vocabulary(model.gguf).prompts, get(f"file:{model.gguf}")
        for name in names:
            for text in (name, f"a{name}b"):
                for special, counter in ((True, prompts), (False, texts)):
                    body = {"content": text, "add_special": False, "parse_special": special}
                    _, answer = server.post("/tokenize", body)
                    assert counter.count(text) == len(answer["tokens"]), (text, special)
        messages = [{"role": "user", "content": "Hello there"}]
        _, answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})
        count = tokenbox.count(messages, tokenizer=ChatFormat.open(model.gguf))
        assert count.total == answer["usage"]["prompt_tokens"]
    finally:
        stop(server)
