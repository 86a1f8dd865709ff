"""The vocabularies in the package are the published ones, and a rank file is read whole or refused."""

from __future__ import annotations

import base64
import hashlib
import lzma
from pathlib import Path

import pytest
import tiktoken_ext.openai_public

from tokenbox.errors import VocabularyError
from tokenbox.tokenizers import vocabularies
from tokenbox.tokenizers.bpe import baseline
from tokenbox.tokenizers.vocabularies import BASELINES

NAMES = sorted(vocabularies.PUBLISHED_SHA256)
BYTES = [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize("name", NAMES)
def test_our_constants_are_those_tiktoken_publishes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def no_download(address: str, expected_hash: str) -> dict[bytes, int]:
        asked[address.rsplit("/", 1)[-1]] = expected_hash
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", no_download)
    published = tiktoken_ext.openai_public.ENCODING_CONSTRUCTORS[name]()
    assert asked == {f"{name}.tiktoken": vocabularies.PUBLISHED_SHA256[name]}
    assert published["pat_str"] == BASELINES[name].pattern
    assert published["special_tokens"] == BASELINES[name].special_tokens


@pytest.mark.parametrize("name", NAMES)
def test_the_package_holds_the_published_vocabulary(name: str) -> None:
    ranks = vocabularies.load(name)
    lines = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    assert hashlib.sha256(lines).hexdigest() == vocabularies.PUBLISHED_SHA256[name]
    assert vocabularies.read_rank_file(lines, name) == ranks


@pytest.mark.parametrize("name", NAMES)
def test_the_packed_file_is_known_so_that_it_need_not_be_rebuilt(name: str) -> None:
    folder = Path(vocabularies.__file__).parent / "data"
    data = (folder / f"{name}.xz").read_bytes()
    assert hashlib.sha256(data).hexdigest() == vocabularies.PACKED_SHA256[name]


def packed(tokens: list[bytes], preset: int | None = None) -> bytes:
    """Pack tokens of at most 255 bytes as those in the package are packed."""
    return lzma.compress(
        b"".join((b"TBV1", len(tokens).to_bytes(4, "little"), bytes(map(len, tokens)), *tokens)),
        preset=preset,
    )


def test_a_packed_vocabulary_has_its_tokens_in_order() -> None:
    tokens = [*BYTES, b"ab", b"x" * 255]
    assert vocabularies.unpack(packed(tokens)) == tokens


def test_another_vocabulary_under_a_published_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = list(vocabularies.load("cl100k_base"))
    tokens[1000:1002] = tokens[1001], tokens[1000]
    (tmp_path / "cl100k_base.xz").write_bytes(packed(tokens))
    monkeypatch.setattr(vocabularies, "_DATA", tmp_path)
    with pytest.raises(VocabularyError, match="SHA-256"):
        vocabularies.load("cl100k_base")
    with pytest.raises(VocabularyError, match="missing"):
        vocabularies.load("o200k_base")
    with pytest.raises(VocabularyError, match="There are"):
        baseline("p50k_base")


GOOD = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(BYTES))


def test_a_rank_file_may_have_gaps_blank_lines_and_crlf() -> None:
    data = GOOD.replace(b"\n", b"\r\n") + b"\n" + base64.b64encode(b"ab") + b" 300"
    assert vocabularies.read_rank_file(data, "f") == {**{t: i for i, t in enumerate(BYTES)}, b"ab": 300}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no tokens"),
        (GOOD[: len(GOOD) // 2], "line"),
        (GOOD[: GOOD.index(b"\n", 900) + 1], "have no token"),
        (GOOD + b"!!!! 256\n", "line 257"),
        (GOOD + b"YWI 256\n", "line 257"),
        (GOOD + b"YWI= x\n", "line 257"),
        (GOOD + b"YWI= -1\n", "line 257"),
        (GOOD + b"YWI= 99999999999999999999\n", "line 257"),
        (GOOD + b"YWI= 256 257\n", "line 257"),
        (GOOD + b"QQ== 256\n", "repeats the token of rank 65"),
        (GOOD + b"YWI= 65\n", "the same rank"),
        (GOOD + b"\xff\xfe 256\n", "line 257"),
    ],
)
def test_what_is_no_rank_file_is_refused_by_its_line(data: bytes, says: str) -> None:
    with pytest.raises(VocabularyError, match=says):
        vocabularies.read_rank_file(data, "some.tiktoken")
