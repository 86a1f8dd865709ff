# ruff: noqa: ANN401, TC003  # fixtures of many kinds; pytest reads no annotation
"""Tokenizers of files count as the libraries that made them; damaged and hostile files are refused."""

from __future__ import annotations

import base64
import json
import os
import pydoc_data.topics
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.tokenizers import corpora
from tokenbox.errors import InvalidText, MissingExtra, TokenizerError, VocabularyError
from tokenbox.tokenizers import gguf, utf8, vocabularies
from tokenbox.tokenizers.bpe import CHUNK, baseline
from tokenbox.tokenizers.files import llama3, open_chat_vocabulary, open_vocabulary
from tokenbox.tokenizers.patterns import LLAMA3, NAMED, TEKKEN
from tokenbox.tokenizers.special import PromptTokenizer
from tokenbox.tokenizers.vocabularies import LLAMA3_SPEC

pytestmark = pytest.mark.slow

TEXTS = corpora.texts()
PROSE = list(pydoc_data.topics.topics.values())
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train(pattern: str | None, specials: list[str] = SPECIALS) -> Tokenizer:
    """A byte-level BPE of 1,500 tokens; ``pattern`` None: ByteLevel's own."""
    engine = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    split = pre_tokenizers.Split(Regex(pattern), "isolated") if pattern is not None else None
    engine.pre_tokenizer = pre_tokenizers.Sequence([split, level]) if split is not None else level
    engine.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1_500, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(PROSE[:15], trainer)
    return engine


@pytest.fixture(scope="module")
def trained() -> dict[str | None, Tokenizer]:
    return {pattern: train(pattern) for pattern in (None, LLAMA3)}


def expected(engine: Tokenizer, text: str) -> list[int]:
    engine.encode_special_tokens = True
    return list(engine.encode(text, add_special_tokens=False).ids)


def fails(path: Path, says: str, **options: Any) -> None:
    with pytest.raises(VocabularyError, match=says) as caught:
        open_vocabulary(path, **options)
    assert str(path) in str(caught.value)


# tokenizer.json


@pytest.mark.parametrize("pattern", [None, LLAMA3])
def test_a_tokenizer_json_counts_as_its_library(pattern: str | None, trained: Any, tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    trained[pattern].save(str(file))
    tokenizer = open_vocabulary(file)
    assert tokenizer.identity.name == "small"
    assert tokenizer.identity.exact
    assert tokenizer.cuts_proven
    for text in [*TEXTS, "".join(corpora.mixed(8_000, seed=4))]:
        tokens = expected(trained[pattern], text)
        assert tokenizer.encode(text) == tokens
        assert tokenizer.count(text) == len(tokens)
        assert tokenizer.decode(tokens) == text
    assert tokenizer.count("<|im_end|>") > 1


def test_a_fingerprint_is_of_the_content(trained: Any, tmp_path: Path) -> None:
    document = json.loads(trained[None].to_str())
    merges = [" ".join(pair) for pair in document["model"]["merges"]]
    same = {**document, "model": {**document["model"], "merges": merges}, "truncation": None}
    other = {**document, "normalizer": {"type": "NFC"}}
    files = {
        "a": json.dumps(document),
        "b": json.dumps(dict(reversed(same.items())), indent=3, ensure_ascii=False),
        "c": json.dumps(other),
    }
    found = {}
    for name, text in files.items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
        found[name] = open_vocabulary(tmp_path / f"{name}.json")
    assert (
        found["a"].identity.fingerprint == found["b"].identity.fingerprint != found["c"].identity.fingerprint
    )
    assert not found["c"].cuts_proven


def test_truncation_and_padding_of_a_tokenizer_json_do_not_count(trained: Any, tmp_path: Path) -> None:
    engine = Tokenizer.from_str(trained[None].to_str())
    engine.enable_truncation(5)
    engine.enable_padding(length=50)
    engine.save(str(tmp_path / "t.json"))
    text = PROSE[3]
    assert open_vocabulary(tmp_path / "t.json").count(text) == len(expected(trained[None], text))


def test_added_tokens_that_are_not_special_are_found_and_make_cuts_unproven(
    trained: Any, tmp_path: Path
) -> None:
    engine = Tokenizer.from_str(trained[None].to_str())
    engine.add_tokens(["x! y"])
    engine.save(str(tmp_path / "t.json"))
    tokenizer = open_vocabulary(tmp_path / "t.json")
    assert tokenizer.count("x! y") == 1
    assert not tokenizer.cuts_proven


def test_a_word_piece_vocabulary_has_no_cuts(tmp_path: Path) -> None:
    engine = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.save(str(tmp_path / "w.json"))
    tokenizer = open_vocabulary(tmp_path / "w.json")
    assert tokenizer.cuts is None
    assert tokenizer.count("ab ab c") == 5


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "not valid JSON"),
        (b"{}", "neither"),
        (b'{"model": []}', "neither"),
        (b'{"model": {}}', "not a usable tokenizer"),
        (b'{"model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}', "not a usable tokenizer"),
        (b'{"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}}', "random"),
        (b'{"model": "\xff"}', "not UTF-8"),
        (b'{"a":' * 100_000, "not valid JSON"),
        (b'{"vocab": [], "config": {}}', "not a complete tekken"),
        # A word of 4,000 letters took 13 seconds, one of 2,000 two.
        (b'{"model": {"type": "WordPiece", "max_input_chars_per_word": 9999}}', "words of 9,999 characters"),
    ],
)
def test_damaged_json_is_refused(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(data)
    fails(tmp_path / "tokenizer.json", says)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        value = {"type": "Sequence", "normalizers": [value]}
    return value


@pytest.mark.parametrize(
    ("normalizer", "says"),
    [
        (nested(200), "not a usable tokenizer"),
        (nested(450), "not a usable tokenizer|not valid JSON"),
        ({"type": "Sequence", "normalizers": [{"type": "NFC"}] * 101}, "101 steps; at most 100"),
        ({"type": "Prepend", "prepend": "x" * 2_000}, "2,000 characters before"),
    ],
)
def test_normalizers_that_no_model_has_are_refused(
    normalizer: Any, says: str, trained: Any, tmp_path: Path
) -> None:
    document = {**json.loads(trained[None].to_str()), "normalizer": normalizer}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    fails(tmp_path / "tokenizer.json", says)


@pytest.mark.parametrize("pattern", [{"String": "a"}, {"Regex": "a"}])
def test_what_normalizers_make_of_a_text_has_an_end(pattern: Any, trained: Any, tmp_path: Path) -> None:
    """Each makes it a thousand times as long; four took all memory."""
    step = {"type": "Replace", "pattern": pattern, "content": "a" * 1_000}
    sequence = {"type": "Sequence", "normalizers": [step] * 4}
    for normalizer, fits, fails_at in ((step, "a" * 100, "a" * 300_000), (sequence, "", "a")):
        document = {**json.loads(trained[None].to_str()), "normalizer": normalizer}
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        tokenizer = open_vocabulary(tmp_path / "tokenizer.json")
        assert tokenizer.count(fits) == len(expected(Tokenizer.from_str(json.dumps(document)), fits))
        with pytest.raises(TokenizerError, match="times as long, more than 268,435,456"):
            tokenizer.count(fails_at)


# Rank files


def ranks_of(engine: Tokenizer) -> dict[bytes, int]:
    """The ranks of a trained BPE: tiktoken's file format has the tokens in order of their merges."""
    letters = {letter: byte for byte, letter in gguf.byte_letters().items()}
    vocabulary = [
        t for t, _ in sorted(engine.get_vocab().items(), key=lambda item: item[1]) if t not in SPECIALS
    ]
    return {bytes(letters[letter] for letter in token): rank for rank, token in enumerate(vocabulary)}


def rank_file(ranks: dict[bytes, int]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


@pytest.mark.parametrize("pattern", [*NAMED, r"\s+|\S+"])
@pytest.mark.parametrize("engine", ["tiktoken", "fast"])
def test_a_rank_file_counts_as_tiktoken(pattern: str, engine: Any, trained: Any, tmp_path: Path) -> None:
    ranks = ranks_of(trained[LLAMA3])
    (tmp_path / "small.tiktoken").write_bytes(rank_file(ranks))
    tokenizer = open_vocabulary(tmp_path / "small.tiktoken", pattern=pattern, engine=engine)
    reference = tiktoken.Encoding(
        "r", pat_str=NAMED.get(pattern, pattern), mergeable_ranks=ranks, special_tokens={}
    )
    assert tokenizer.cuts_proven == (pattern in NAMED)
    for text in TEXTS:
        tokens = reference.encode_ordinary(text)
        assert tokenizer.encode(text) == tokens
        assert tokenizer.count(text) == len(tokens)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\s+(?!\S)|\s+|\S+", "x" + " " * 1_200_000 + "y"),
        (r"(?:(?:a|aa)+(?!x))+b|[\s\S]", "a" * 60),  # `regex` would take years
    ],
)
@pytest.mark.parametrize("engine", ["tiktoken", "fast"])
def test_an_unknown_pattern_on_which_tiktoken_fails_is_refused(
    pattern: str, text: str, engine: Any, trained: Any, tmp_path: Path
) -> None:
    (tmp_path / "small.tiktoken").write_bytes(rank_file(ranks_of(trained[LLAMA3])))
    tokenizer = open_vocabulary(tmp_path / "small.tiktoken", pattern=pattern, engine=engine)
    for count in (tokenizer.count, tokenizer.encode, lambda text: tokenizer.count_batch(["b", text])):
        with pytest.raises(TokenizerError, match=f"of {len(text):,} characters: its pattern backtracks"):
            count(text)
    assert tokenizer.count("b a") == 3


def test_a_published_rank_file_needs_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "anything").write_bytes(rank_file(vocabularies.load("cl100k_base")))
    tokenizer = open_vocabulary(tmp_path / "anything")
    assert tokenizer.identity.fingerprint == baseline("cl100k_base").identity.fingerprint
    assert tokenizer.identity.name == "anything"
    named = open_vocabulary(tmp_path / "anything", pattern="cl100k_base")
    assert named.identity == tokenizer.identity


def test_nothing_is_guessed_about_a_rank_file(trained: Any, tmp_path: Path) -> None:
    file = tmp_path / "small.tiktoken"
    file.write_bytes(rank_file(ranks_of(trained[LLAMA3])))
    fails(file, "Set `pattern`")
    with pytest.raises(VocabularyError, match="cannot use"):
        open_vocabulary(file, pattern="((")
    file.write_bytes(file.read_bytes()[:-3])
    fails(file, "same rank|line", pattern="gpt2")  # the last rank lost its last digits


def test_llama3_is_only_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.model"
    file.write_bytes(rank_file(vocabularies.load("cl100k_base")))
    with pytest.raises(VocabularyError, match="SHA-256"):
        llama3(file)
    with pytest.raises(VocabularyError, match="does not exist"):
        llama3(tmp_path / "none")


def test_the_special_tokens_of_llama3_are_numbered_as_published() -> None:
    special = LLAMA3_SPEC.special_tokens
    assert sorted(special.values()) == list(range(128_000, 128_256))
    assert special["<|begin_of_text|>"] == 128_000
    assert special["<|eot_id|>"] == 128_009
    assert special["<|reserved_special_token_2|>"] == 128_012
    assert special["<|reserved_special_token_245|>"] == 128_255


def test_llama3_comes_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match="llama3"):
        llama3()
    (tmp_path / "llama_models" / "llama3").mkdir(parents=True)
    (tmp_path / "llama_models" / "__init__.py").write_text("raise ImportError")
    (tmp_path / "llama_models" / "llama3" / "tokenizer.model").write_text("not it")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(VocabularyError, match=r"llama_models/llama3/tokenizer\.model is not"):
        llama3().count("read on the first count")


# tekken.json


def tekken(ranks: dict[bytes, int], specials: int = 10, **config: Any) -> dict[str, Any]:
    order = [bytes([byte]) for byte in range(256)] + [token for token in ranks if len(token) > 1]
    return {
        "config": {
            "pattern": TEKKEN,
            "num_vocab_tokens": len(order),
            "default_vocab_size": len(order) - 20 + specials,
            "default_num_special_tokens": specials,
            "version": "v3",
            **config,
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(order)
        ],
    }


@pytest.mark.parametrize("engine", ["tiktoken", "fast"])
def test_a_tekken_json_counts_as_tiktoken_above_its_special_tokens(
    engine: Any, trained: Any, tmp_path: Path
) -> None:
    document = tekken(ranks_of(trained[LLAMA3]))
    (tmp_path / "tekken.json").write_text(json.dumps(document))
    tokenizer = open_vocabulary(tmp_path / "tekken.json", engine=engine)
    assert tokenizer.identity.version == "v3"
    assert tokenizer.cuts_proven
    ranks = {base64.b64decode(e["token_bytes"]): e["rank"] for e in document["vocab"][:-20]}
    reference = tiktoken.Encoding("t", pat_str=TEKKEN, mergeable_ranks=ranks, special_tokens={})
    for text in TEXTS:
        assert tokenizer.encode(text) == [token + 10 for token in reference.encode_ordinary(text)]
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.count_batch(TEXTS) == [len(reference.encode_ordinary(text)) for text in TEXTS]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d["config"].pop("pattern"),
        lambda d: d["config"].update(default_vocab_size="many"),
        lambda d: d["config"].update(default_vocab_size=10**12),
        lambda d: d["config"].update(default_vocab_size=10),
        lambda d: d["config"].update(pattern=None),
        lambda d: d["vocab"].pop(300),
        lambda d: d["vocab"][300].update(token_bytes="!"),
        lambda d: d["vocab"][300].update(token_bytes="YQ=="),
        lambda d: d["vocab"].insert(0, 5),
        lambda d: d.update(vocab=[]),
        lambda d: d.update(special_tokens=[{"rank": 1}]),
    ],
)
def test_a_damaged_tekken_json_is_refused(damage: Any, trained: Any, tmp_path: Path) -> None:
    document = tekken(ranks_of(trained[LLAMA3]))
    damage(document)
    (tmp_path / "tekken.json").write_text(json.dumps(document))
    fails(tmp_path / "tekken.json", "Fetch")


# SentencePiece


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def piece_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    lines = [line for topic in PROSE[:15] for line in topic.splitlines() if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "small"),
        vocab_size=500,
        model_type=request.param,
        byte_fallback=True,
        minloglevel=2,
    )
    return folder / "small.model"


def test_a_sentencepiece_model_counts_as_its_library(piece_model: Path) -> None:
    tokenizer = open_vocabulary(piece_model)
    reference = sentencepiece.SentencePieceProcessor(model_file=str(piece_model))
    assert tokenizer.cuts is None
    for text in TEXTS:
        tokens = reference.encode(text)
        assert tokenizer.encode(text) == tokens
        assert tokenizer.count(text) == len(tokens)
        assert tokenizer.decode(tokens) == reference.decode(tokens)


def test_a_damaged_sentencepiece_model_is_refused(piece_model: Path, tmp_path: Path) -> None:
    data = piece_model.read_bytes()
    for damaged in (b"", data[:1000], b"\n" + bytes(100), b"\n\xff\xff\xff\xff\x0f"):
        (tmp_path / "x.model").write_bytes(damaged)
        fails(tmp_path / "x.model", "not a complete SentencePiece")
    fails(piece_model, "no pattern", pattern="gpt2")


# GGUF


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def header(values: dict[str, Any], version: int = 3) -> bytes:
    pairs = b"".join(_string(key) + _value(value) for key, value in values.items())
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(values)) + pairs


def of_model(engine: Tokenizer, pre: str) -> dict[str, Any]:
    model = json.loads(engine.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.scores": [0] * len(tokens),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIALS else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.chat_template": "{{ messages }}",
    }


@pytest.mark.parametrize(("pattern", "pre"), [(None, "gpt-2"), (LLAMA3, "dbrx"), (LLAMA3, "llama-bpe")])
def test_a_gguf_counts_as_the_tokenizer_it_was_made_of(
    pattern: str | None, pre: str, trained: Any, tmp_path: Path
) -> None:
    (tmp_path / "model.gguf").write_bytes(header(of_model(trained[pattern], pre)) + bytes(64))
    tokenizer = open_vocabulary(tmp_path / "model.gguf")
    assert tokenizer.cuts_proven
    assert tokenizer.identity.name == "model"
    for text in TEXTS:
        if "'ſ" in text and pattern is not None:
            continue  # llama.cpp's own patterns fold no case, so this is not a contraction there
        tokens = expected(trained[pattern], text)
        assert tokenizer.encode(text) == tokens
        assert tokenizer.count(text) == len(tokens)
        assert tokenizer.decode(tokens) == text


def test_digits_are_split_off_for_starcoder_and_its_like(trained: Any, tmp_path: Path) -> None:
    engine = Tokenizer.from_str(trained[None].to_str())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    (tmp_path / "model.gguf").write_bytes(header(of_model(trained[None], "starcoder")))
    tokenizer = open_vocabulary(tmp_path / "model.gguf")
    for text in TEXTS:
        assert tokenizer.encode(text) == expected(engine, text)


@pytest.mark.parametrize("pre", ["starcoder", "gpt-2", "llama-bpe", "qwen2"])
def test_digits_and_letters_of_unicode_16_are_symbols_to_llama_cpp(
    pre: str, trained: Any, tmp_path: Path
) -> None:
    """``tests/llama`` asks a server. Only a symbol is one piece with a sign after it."""
    values = of_model(trained[None], pre)
    letters = gguf.byte_letters()
    joined = [f"{letters[byte]}!" for byte in range(0x80, 0xC0)]
    values["tokenizer.ggml.tokens"] += joined
    values["tokenizer.ggml.token_type"] += [1] * len(joined)
    values["tokenizer.ggml.merges"] = [" ".join(pair) for pair in joined] + values["tokenizer.ggml.merges"]
    (tmp_path / "model.gguf").write_bytes(header(values))
    tokenizer = open_vocabulary(tmp_path / "model.gguf")
    for newer in "\U00010d40\U00016130\U0001e5f1\u1c89\U000105c0":
        assert tokenizer.count(f"{newer}!") < tokenizer.count(newer) + tokenizer.count("!")
    for older in "\u0660\u0966\u0431":
        assert tokenizer.count(f"{older}!") == tokenizer.count(older) + tokenizer.count("!")


def test_user_defined_tokens_of_a_gguf_are_found_the_longest_first(trained: Any, tmp_path: Path) -> None:
    values = of_model(trained[None], "gpt-2")
    tokens = values["tokenizer.ggml.tokens"] + ["<tool>", "<tool>!"]
    values["tokenizer.ggml.tokens"] = tokens
    values["tokenizer.ggml.token_type"] = values["tokenizer.ggml.token_type"] + [4, 4]
    (tmp_path / "model.gguf").write_bytes(header(values))
    tokenizer = open_vocabulary(tmp_path / "model.gguf")
    longer, shorter = len(tokens) - 1, len(tokens) - 2
    plain = [expected(trained[None], text) for text in ("one ", " two", " ")]
    assert tokenizer.encode("one <tool>! two") == [*plain[0], longer, *plain[1]]
    assert tokenizer.encode("<tool> <tool>!<tool>") == [shorter, *plain[2], longer, shorter]
    assert tokenizer.count("<tool>" * 10_000) == 10_000
    assert not tokenizer.cuts_proven
    with pytest.raises(InvalidText):
        tokenizer.count("<tool>\ud800")
    with pytest.raises(TokenizerError):
        tokenizer.count(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokenizer.ggml.model": "llama"}, "of the kind 'llama'"),
        ({"tokenizer.ggml.pre": "default"}, "splits text by 'default'"),
        ({"tokenizer.ggml.pre": 5}, "splits text by 5"),
        ({"tokenizer.ggml.tokens": ["a", "b"]}, "have no token"),
        ({"tokenizer.ggml.tokens": 7}, "has no tokenizer.ggml.tokens"),
        ({"tokenizer.ggml.merges": ["no such"]}, "not a usable tokenizer"),
        ({"tokenizer.ggml.token_type": [1]}, "does not fit"),
    ],
)
def test_a_gguf_that_cannot_be_exact_is_refused(change: Any, says: str, trained: Any, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(header({**of_model(trained[None], "gpt-2"), **change}))
    fails(tmp_path / "model.gguf", says)


U64 = struct.pack("<Q", 2**63)


@pytest.mark.parametrize(
    "data",
    [
        b"GGUF",
        b"GGUF" + struct.pack("<I", 3),
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        header({}, version=1),
        header({}),
        b"GGUF" + struct.pack("<IQ", 3, 0) + U64,
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + U64,
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _string("k") + struct.pack("<I", 8) + U64,
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _string("k") + struct.pack("<I", 77),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _string("k") + struct.pack("<II", 9, 8) + U64,
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _string("k") + struct.pack("<II", 9, 4) + U64,
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + _string("k")
        + struct.pack("<I", 9)
        + struct.pack("<IQ", 9, 1) * 50,
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + _string("tokenizer.ggml.tokens")
        + struct.pack("<II", 9, 4)
        + U64,
    ],
)
def test_a_damaged_gguf_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    fails(tmp_path / "model.gguf", "GGUF|of the kind None")


@given(data=st.data())
def test_a_gguf_cut_or_changed_anywhere_is_read_or_refused(
    data: st.DataObject, tmp_path_factory: Any
) -> None:
    values = {"a": 1, "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.token_type": [1, 2], "b": "text"}
    whole = bytearray(header(values))
    place = data.draw(st.integers(4, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    file.write_bytes(whole[: data.draw(st.integers(4, len(whole)))])
    with pytest.raises(VocabularyError):
        open_vocabulary(file)


# Any file


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    fails(tmp_path, "a directory")
    fails(tmp_path / "none.json", "does not exist")
    (tmp_path / "text.txt").write_text("hello")
    fails(tmp_path / "text.txt", "not a vocabulary in a supported format")
    (tmp_path / "empty").write_bytes(b"")
    fails(tmp_path / "empty", "not a vocabulary in a supported format")
    (tmp_path / "x.tiktoken").write_bytes(b"\x00\xff" * 100)
    fails(tmp_path / "x.tiktoken", "line 1", pattern="gpt2")
    os.mkfifo(tmp_path / "pipe")
    fails(tmp_path / "pipe", "not a regular file")
    with pytest.raises(VocabularyError, match="not a regular file"):
        open_chat_vocabulary(tmp_path / "pipe")  # which would be waited for
    for opens in (open_vocabulary, open_chat_vocabulary):
        with pytest.raises(VocabularyError, match="cannot be read"):
            opens("a\0b")


@pytest.mark.parametrize(("module", "name"), [("tokenizers", "small.json"), ("sentencepiece", "small.model")])
def test_a_missing_package_is_named(
    module: str, name: str, trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = trained[None].to_str().encode() if name.endswith("json") else b"\n\x05hello"
    (tmp_path / name).write_bytes(data)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"tokenbox-llm\[files\]"):
        open_vocabulary(tmp_path / name)


def refuses(tokenizer: Any) -> None:
    assert tokenizer.count("") == 0
    assert tokenizer.encode("") == []
    for text in ("\ud800", "x" * (CHUNK + 1) + "\udc00"):
        with pytest.raises(InvalidText):
            tokenizer.count(text)
        with pytest.raises(InvalidText):
            tokenizer.encode(text)
    for value in (None, 5, b"bytes", ["a"]):
        with pytest.raises(TokenizerError, match="only text"):
            tokenizer.count(value)
    for tokens in ([-1], [2**40], ["a"], None):
        with pytest.raises(TokenizerError, match="not token ids"):
            tokenizer.decode(tokens)
    for unit in ("a", "a ", "\u0301", "a\n \n "):  # SentencePiece takes blanks alone for nothing
        assert tokenizer.count(unit * (200_000 // len(unit))) > 0


def test_all_file_tokenizers_refuse_the_same(trained: Any, tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text(trained[None].to_str(), encoding="utf-8")
    (tmp_path / "small.tiktoken").write_bytes(rank_file(ranks_of(trained[None])))
    refuses(open_vocabulary(tmp_path / "small.json"))
    refuses(open_vocabulary(tmp_path / "small.tiktoken", pattern="gpt2"))


def test_sentencepiece_models_refuse_the_same(piece_model: Path) -> None:
    refuses(open_vocabulary(piece_model))


def test_special_tokens_of_endless_length_are_refused() -> None:
    """All their beginnings were kept, to see which overlap: 0.9 GB for one of 30,000 characters."""
    with pytest.raises(VocabularyError, match="30,000 characters"):
        PromptTokenizer(utf8.Utf8Bytes(), ["<s>", "x" * 30_000])


def test_overlapping_special_tokens_go_by_the_rule_of_their_library() -> None:
    """llama.cpp takes the longest first, wherever it is; tokenizers goes from the left."""
    spellings, text = ["[ab", "b]cdef"], "x [ab]cdef y"
    assert PromptTokenizer(utf8.Utf8Bytes(), spellings).count(text) == len("x [a") + 1 + len(" y")
    assert PromptTokenizer(utf8.Utf8Bytes(), spellings, leftmost=True).count(text) == len("x ") + 1 + len(
        "]cdef y"
    )


@pytest.mark.parametrize(
    ("added", "text"),
    [
        # Content, special, normalized: those in normalized text are searched for last.
        ([("B", False, False), ("aB", True, True)], "AcbaBAbAbB "),
        (
            [("a", True, True), ("b", False, False), ("bb", True, True), ("cbbB", False, True)],
            "bbc  cba cbbB",
        ),
        ([("[ab", True, True), ("b]cd", True, False)], "x [ab]cd [ab"),
        ([("ab", True, False), ("abc", False, False), ("bcd", True, False)], "abcd abbcd"),
    ],
)
def test_prompts_are_split_at_added_tokens_in_the_order_of_their_library(
    added: list[tuple[str, bool, bool]], text: str, trained: Any, tmp_path: Path
) -> None:
    engine = Tokenizer.from_str(trained[None].to_str())
    for content, special, normalized in added:
        add = engine.add_special_tokens if special else engine.add_tokens
        add([AddedToken(content, special=special, normalized=normalized)])
    engine.save(str(tmp_path / "tokenizer.json"))
    engine.encode_special_tokens = False
    prompts = open_chat_vocabulary(tmp_path).prompts
    for cut in range(len(text) + 1):
        assert prompts.count(text[:cut]) == len(engine.encode(text[:cut], add_special_tokens=False).ids)


@pytest.mark.parametrize("given", [5, None, b"x", [], ""])
def test_only_a_path_names_a_vocabulary(given: Any) -> None:
    openers: list[Callable[[Any], object]] = [open_vocabulary, open_chat_vocabulary]
    for opened in (*openers, llama3) if given is not None else openers:
        with pytest.raises(VocabularyError, match="is given by its path, not"):
            opened(given)
