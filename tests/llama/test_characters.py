"""Letters and digits that are newer than llama.cpp's tables are symbols there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.llama import model as models
from tests.llama.corpus import stop
from tests.llama.server import serve
from tokenbox.content.request import read_request
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.tokenizers import get, gguf

if TYPE_CHECKING:
    from pathlib import Path

RUNS = re.findall(r"\\x\{(\w+)\}-\\x\{(\w+)\}", gguf.NEWER)
# The first and last character of each run, and those beside it.
PLACES = sorted(
    {place + step for run in RUNS for place in (int(end, 16) for end in run) for step in (-1, 0, 1)}
)


def joining_vocabulary() -> tuple[list[str], list[str]]:
    """Return the tokens and merges of a BPE that joins every character to a sign after it, within a piece."""
    letters = gguf.byte_letters()
    ends = [letters[byte] for byte in range(0x80, 0xC0)]
    pairs = [(end, sign) for end in ends for sign in "1a!"]
    return [*models.CONTROL, *models.USER_DEFINED, *letters.values(), *map("".join, pairs)], [
        " ".join(pair) for pair in pairs
    ]


@pytest.mark.slow
def test_no_count_by_a_tokenizer_json_is_exact_for_llama_cpp(tmp_path: Path) -> None:
    """The package ``tokenizers`` knows letters that are symbols to the server."""
    model = models.write(tmp_path / "model", models.TURNS)
    tokens, merges = joining_vocabulary()
    document = json.loads(model.tokenizer_json.read_text())
    document["model"] |= {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in merges],
    }
    for token in document["added_tokens"]:
        token["id"] = tokens.index(token["content"])
    model.tokenizer_json.write_text(json.dumps(document))
    models.write_gguf(model.gguf, tokens, merges, models.TURNS)
    requests = [{"messages": [{"role": "user", "content": "\U00010d401"}]}, {"prompt": "\U00010d401"}]
    for body in requests:
        by_file = ChatFormat.open(model.gguf).count_request(read_request(body))
        by_folder = ChatFormat.open(model.folder, server="llama.cpp").count_request(read_request(body))
        assert by_file.exact
        assert not by_folder.exact
        assert by_folder.total < by_file.total <= by_folder.at_most


@pytest.mark.slow
@pytest.mark.parametrize("pre", ["starcoder", "gpt-2", "llama-bpe", "qwen2"])
def test_newer_letters_and_digits_are_split_as_by_the_server(tmp_path: Path, pre: str) -> None:
    model = models.Model(tmp_path)
    models.write_gguf(model.gguf, *joining_vocabulary(), models.TURNS, pre=pre)
    tokenizer, server = get(f"file:{model.gguf}"), serve(model, 512, 1)
    try:
        for character in map(chr, PLACES):
            text = "".join(
                f"{before}{character}{after}" for before in ("#", "#1", "#a", "# ") for after in "1a!"
            )
            _, answer = server.post("/tokenize", {"content": text, "add_special": False})
            assert tokenizer.encode(text) == answer["tokens"], f"U+{ord(character):04X}"
    finally:
        stop(server)
