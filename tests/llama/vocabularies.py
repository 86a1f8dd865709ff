"""Comparison of our tokenizers of GGUF vocabularies with a real llama.cpp server."""

from __future__ import annotations

import inspect
import pydoc_data.topics
from typing import TYPE_CHECKING

from tests.llama import model as models
from tests.llama.corpus import stop
from tests.llama.server import serve
from tests.llama.shapes import SHAPES
from tokenbox.tokenizers.files import open_chat_vocabulary
from tokenbox.tokenizers.gguf import SPLITTING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.llama.server import LlamaServer
    from tokenbox.tokenizers.special import ChatVocabulary

LANGUAGES = (
    "naïve café 🧑‍🚀👩‍👩‍👧 \u00a0\u2003x\u200b",
    "日本語のテキスト、一二三。 한국어 문장입니다. 中文，测试！",
    "Ünïcödé ſ 'ſ don't DON'T we'Ll I'M they'VE 'tis",
    "здравствуй мир العربية हिन्दी ไทย e\u0301 ﬁ",
    "1234567890 12 3.14159 1e-10 ½ ² Ⅷ ٣٤ 0x1F",
    "  two\n\n\nthree \t\r\n\r\n   four\n \n  five   ",
    "a-b_c/d\\e[f]{g}(h)<i>|j|&k;%l$m#n@o!p?q:r,s.t",
    "<|im_end|><tool_call>x</tool_call> <|im_start|> <|endoftext|><|nope|>",
    "".join(map(chr, range(1, 0x250))),
)


def texts() -> Iterator[str]:
    """Yield prose, code, texts in many languages, and requests."""
    yield from LANGUAGES
    yield inspect.getsource(models)
    yield from list(pydoc_data.topics.topics.values())[:10]
    yield from (str(body) for body in SHAPES.values())


def proven_kinds(folder: Path) -> set[str]:
    """Return the kinds of vocabularies whose counts of all texts equal the server's."""
    found = set()
    vocabulary, merges, _ = models.train()
    for number, pre in enumerate(sorted(SPLITTING)):
        model = models.Model(folder / f"vocabulary-{number}")
        model.folder.mkdir(parents=True)
        models.write_gguf(model.gguf, vocabulary, merges, models.TURNS, pre=pre)
        try:
            server = serve(model, 512, 1)
        except AssertionError:  # the server does not support this kind
            continue
        try:
            opened = open_chat_vocabulary(model.gguf)
            if all_equal(server, opened):
                found.add(opened.kind)
        finally:
            stop(server)
    return found


def all_equal(server: LlamaServer, vocabulary: ChatVocabulary) -> bool:
    for text in texts():
        body = {"content": text, "add_special": False, "parse_special": True}
        status, answer = server.post("/tokenize", body)
        if status != 200 or len(answer["tokens"]) != vocabulary.prompts.count(text):
            return False
    return True
