"""Counters are pickled as the call that opened them, for the workers of Celery and multiprocessing."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tokenbox.conversation import ChatFormat
from tokenbox.errors import TokenizerError, UnsupportedOperation
from tokenbox.tokenizers.bpe import from_ranks
from tokenbox.tokenizers.files import open_vocabulary
from tokenbox.tokenizers.registry import available, get
from tokenbox.tokenizers.vocabularies import BpeSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.llama import model as llama

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
HI = [{"role": "user", "content": "hi there"}]


def again(counter: Any) -> Any:  # noqa: ANN401  # a tokenizer or a chat format
    return pickle.loads(pickle.dumps(counter))


@pytest.mark.parametrize("name", [entry.name for entry in available()])
def test_a_tokenizer_of_the_package_is_the_same_one(name: str) -> None:
    assert again(get(name)) is get(name)
    assert len(pickle.dumps(get(name))) < 500


@pytest.mark.parametrize(
    "opened",
    [
        lambda _: ChatFormat.openai("gpt-4o"),
        lambda _: ChatFormat.openai("gpt-4o").priced(7),
        lambda model: ChatFormat.open(model.gguf),
        lambda model: ChatFormat.open(model.folder, server="llama.cpp", now=NOW, x=1),
        lambda model: ChatFormat.open(model.folder, template="{{ messages[0].content }}!"),
    ],
)
def test_a_chat_format_counts_alike(opened: Callable[[llama.Model], Any], model: llama.Model) -> None:
    chat = opened(model)
    found = again(chat)
    assert found.identity == chat.identity
    assert found.count_messages(HI) == chat.count_messages(HI)
    assert found.media_tokens == chat.media_tokens


def test_costs_of_media_do_not_change_the_format_that_they_were_given_for() -> None:
    chat = ChatFormat.openai("gpt-4o")
    assert chat.priced(7) is not chat
    assert (chat.priced(7).media_tokens, chat.media_tokens) == (7, None)


def test_a_file_is_found_from_another_folder_and_must_not_have_changed(
    model: llama.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokenizer.json"
    shutil.copy(model.folder / "tokenizer.json", file)
    monkeypatch.chdir(tmp_path)
    tokenizer = open_vocabulary("tokenizer.json")
    data = pickle.dumps(tokenizer)
    monkeypatch.chdir("/")
    assert pickle.loads(data).identity == tokenizer.identity
    document = json.loads(file.read_bytes())
    document["pre_tokenizer"] = None
    file.write_text(json.dumps(document))
    with pytest.raises(TokenizerError, match=r"^tokenizer is not the one that was pickled"):
        pickle.loads(data)


def test_a_tokenizer_of_ranks_says_that_it_has_neither_a_name_nor_a_file() -> None:
    ranks = {bytes([n]): n for n in range(256)}
    own = from_ranks(ranks, BpeSpec("mine", "1", r"\w+|\W+", {}))
    with pytest.raises(UnsupportedOperation, match="mine cannot be pickled: it was not opened"):
        pickle.dumps(own)
