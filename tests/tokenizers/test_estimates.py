# ruff: noqa: ANN401  # tokenizers of different classes
"""Estimates and callers' own tokenizers: what they count, where they may be cut, what is refused."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tests.tokenizers import corpora
from tokenbox.characters import unassigned
from tokenbox.errors import InvalidText, TokenizerError, UnsupportedOperation
from tokenbox.tokenizers.estimates import Chars4, CodeAware
from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import as_tokenizer
from tokenbox.tokenizers.utf8 import FacetUnits, Utf8Bytes

ALL: list[Any] = [Chars4(), CodeAware(), Utf8Bytes(), FacetUnits()]
TEXTS = corpora.texts()
text_of_parts = st.lists(st.sampled_from(corpora.PARTS) | st.text(max_size=4), max_size=12).map("".join)


@pytest.mark.parametrize("tokenizer", ALL)
def test_each_is_a_tokenizer_of_its_own(tokenizer: Any) -> None:
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.count("") == 0
    assert tokenizer.identity.exact == (tokenizer.identity.name in ("utf8-bytes", "facet-units"))
    assert len({other.identity.fingerprint for other in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("text", "count"), [("a", 1), ("abc", 1), ("abcd", 1), ("abcdefgh", 2), ("é" * 4, 2), ("😀" * 3, 3)]
)
def test_chars4_is_a_quarter_of_the_bytes(text: str, count: int) -> None:
    assert Chars4().count(text) == count


def rust_lines(text: str) -> list[str]:
    """``str::lines`` of Rust: split at newlines, without the empty line after the last one."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@given(text=st.text(alphabet="ab \t\n\r\x0b\x85", max_size=60))
def test_code_aware_is_the_sample_code_of_its_specification(text: str) -> None:
    lines = rust_lines(text)
    indented = sum(line.startswith((" ", "\t")) for line in lines)
    ratio = 3 if lines and indented * 100 // len(lines) > 30 else 4
    expected = max(1, len(text.encode()) // ratio) if text else 0
    assert CodeAware().count(text) == expected


@pytest.mark.parametrize(
    ("indented", "plain", "divisor"), [(3, 7, 4), (31, 69, 3), (30, 69, 4), (4, 9, 4), (5, 11, 3), (1, 0, 3)]
)
def test_code_aware_needs_more_than_30_percent(indented: int, plain: int, divisor: int) -> None:
    text = " x\n" * indented + "xx\n" * plain
    assert CodeAware().count(text) == len(text) // divisor


@pytest.mark.slow
@given(a=text_of_parts, b=text_of_parts)
@pytest.mark.parametrize("tokenizer", [Chars4(), Utf8Bytes()])
def test_weights_add_up(tokenizer: Any, a: str, b: str) -> None:
    assert tokenizer.weigh(a) + tokenizer.weigh(b) == tokenizer.weigh(a + b)
    assert tokenizer.count_of(tokenizer.weigh(a)) == tokenizer.count(a)


@given(text=text_of_parts)
def test_facet_units_are_the_bytes_of_the_normalized_text(text: str) -> None:
    normalized = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    assert FacetUnits().count(text) == len(normalized.encode()) == len(FacetUnits().encode(text))
    assert FacetUnits().decode(FacetUnits().encode(text)) == normalized


# Deferred, as it looks at each character that there is.
composing = st.deferred(
    lambda: st.sampled_from(
        [
            chr(c)
            for c in range(0x110000)
            if unicodedata.combining(chr(c)) or unicodedata.decomposition(chr(c))
        ]
    )
)


@given(
    text=st.lists(
        composing | st.sampled_from("aeoAK\r\n\x00 =<") | st.characters(codec="utf-8"),
        max_size=8,
    ).map("".join)
)
def test_facet_units_add_up_at_their_cuts(text: str) -> None:
    rules = FacetUnits.cuts
    for place in range(1, len(text)):
        if rules.is_cut(text[place - 1], text[place]):
            assert FacetUnits().count(text[:place]) + FacetUnits().count(text[place:]) == FacetUnits().count(
                text
            )


def test_bytes_come_back() -> None:
    for text in TEXTS:
        assert Utf8Bytes().encode(text) == list(text.encode())
        assert Utf8Bytes().decode(Utf8Bytes().encode(text)) == text


@pytest.mark.parametrize("tokenizer", ALL)
def test_what_cannot_be_counted_is_refused(tokenizer: Any) -> None:
    for text in ("\ud800", "ascii and \udfff", "é\udc00\r\n"):
        with pytest.raises(InvalidText):
            tokenizer.count(text)
    for value in (None, 5, b"bytes", ["a"]):
        with pytest.raises(TokenizerError, match="only text"):
            tokenizer.count(value)


@pytest.mark.parametrize("tokenizer", [Utf8Bytes(), FacetUnits()])
@pytest.mark.parametrize("tokens", [[256], [-1], ["a"], None, 5, [1.5]])
def test_what_are_no_bytes_is_refused(tokenizer: Any, tokens: Any) -> None:
    with pytest.raises(TokenizerError, match="0 to 255"):
        tokenizer.decode(tokens)


@pytest.mark.parametrize("tokenizer", [Chars4(), CodeAware()])
def test_an_estimate_has_no_tokens(tokenizer: Any) -> None:
    with pytest.raises(UnsupportedOperation):
        tokenizer.encode("text")
    with pytest.raises(UnsupportedOperation):
        tokenizer.decode([1])


@pytest.mark.parametrize("tokenizer", ALL)
def test_a_megabyte_of_anything_is_counted(tokenizer: Any) -> None:
    for unit in ("a", " ", "\u0301", "\r", "\n \n ", "e\u0301"):
        assert tokenizer.count(unit * (1_000_000 // len(unit))) > 0


# A mark of Unicode 15: Python 3.11 knows nothing of it, later ones put the accent before it.
LATER = "e\U00010efd\u0301" * 3


def test_facet_units_are_the_same_on_every_python() -> None:
    assert FacetUnits().count(LATER) == len(LATER.encode()) == 21
    assert FacetUnits().count("e\u0301\U00010efd e\u0301") == len("\u00e9\U00010efd \u00e9".encode())
    assert unassigned(LATER + "caf\u00e9 \u4e2d\U0001f468 \u0378") == "\u0378\U00010efd"


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the table is that of Python 3.11")
@pytest.mark.slow
def test_the_table_is_that_of_unicode_14() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    assert unassigned("".join(every)) == "".join(c for c in every if unicodedata.category(c) == "Cn")


def test_objects_of_other_libraries_count_as_they_do() -> None:
    text = "Context is a resource. <|endoftext|> caf\u00e9"
    ranks = {bytes([i]): i for i in range(256)}
    own = tiktoken.Encoding("own", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens={})
    taken = as_tokenizer(own)  # type: ignore[arg-type]  # as libraries hand them over
    assert taken.count(text) == len(own.encode_ordinary(text))
    assert taken.identity.exact
    model = tokenizers.models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")])
    library = tokenizers.Tokenizer(model)
    assert as_tokenizer(library).count("abab") == 2  # type: ignore[arg-type]

    class Fast:  # as of transformers
        name_or_path = "house/model"
        backend_tokenizer = library

    class Slow:
        name_or_path = "house/slow"

        def __call__(self, text: str) -> dict[str, object]:
            return {"input_ids": []}

        def convert_tokens_to_ids(self, tokens: object) -> list[int]:
            return []

        def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
            return [0] * (len(text) + 2 * add_special_tokens)

    assert as_tokenizer(Fast()).count("abab") == 2  # type: ignore[arg-type]
    assert as_tokenizer(Fast()).identity.name == "house/model"  # type: ignore[arg-type]
    assert as_tokenizer(Slow()).count("abab") == 4  # type: ignore[arg-type]


def test_a_counter_that_returns_nonsense_gets_a_short_message() -> None:
    with pytest.raises(TokenizerError) as caught:
        as_tokenizer(lambda text: list(text * 999)).count("x")  # type: ignore[arg-type,return-value]
    assert "gave ['x', 'x'" in str(caught.value)
    assert "a count is an integer, 0 or more." in str(caught.value)
    assert len(str(caught.value)) < 260


@pytest.mark.parametrize("count", [10**5_000, -(10**5_000)], ids=["huge", "hugely negative"])
def test_a_count_that_python_cannot_show_is_refused(count: int) -> None:
    conversation = tokenbox.Conversation("Be brief.", count=lambda _: count)
    with pytest.raises(TokenizerError, match="a value of type int; a count is an integer"):
        conversation.estimate_tokens()
    assert "not counted" in repr(conversation)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]}
    with pytest.raises(TokenizerError, match="media_tokens gave a value of type int"):
        tokenbox.fit([image], 10_000, "o200k_base", media_tokens=count)


class Own:
    """A tokenizer of the caller's, with all methods of the protocol."""

    def __init__(self, answer: object) -> None:
        self.identity = TokenizerIdentity("own", "1", "f" * 64, exact=True)
        self._answer = answer

    def count(self, text: str) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def count_batch(self, texts: Sequence[str]) -> Any:
        return [self.count(text) for text in texts]

    def encode(self, text: str) -> list[int]:
        return []

    def decode(self, tokens: Sequence[int]) -> str:
        return ""


@pytest.mark.parametrize("answer", [-5, 1.5, None, True, ValueError("boom")])
def test_a_callers_tokenizer_is_not_believed(answer: object) -> None:
    """An object with the methods of the protocol is validated as a function is: the guard stays closed."""
    calls: list[Callable[[], object]] = [
        lambda: tokenbox.count("text", tokenizer=Own(answer)),
        lambda: tokenbox.fit([{"role": "user", "content": "text"}], 100, Own(answer)),
        lambda: tokenbox.layout([{"id": "a", "content": "text"}], 100, Own(answer)),
        lambda: tokenbox.ctx.enforce("m", ["text"], max_ctx=100, tokenizer=Own(answer)),
    ]
    for call in calls:
        with pytest.raises(TokenizerError, match=r"the tokenizer own (gave|failed)"):
            call()


def test_a_callers_tokenizer_keeps_its_identity_and_its_weights() -> None:
    class Characters(AdditiveTokenizer):
        _identity = TokenizerIdentity("characters", "1", "c" * 64, exact=True)

        def weigh(self, text: str) -> int:
            return len(text)

        def count_of(self, weight: int) -> int:
            return weight

    found = as_tokenizer(Characters())
    assert isinstance(found, AdditiveTokenizer)
    assert found.identity == Characters().identity
    assert found.count_batch(["abc", ""]) == [3, 0]
    with pytest.raises(TokenizerError, match="surrogate"):
        found.weigh("\ud800")
    assert as_tokenizer(found) is found
