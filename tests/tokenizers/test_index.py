"""The index against direct counts, through random edits; small chunks, so that there are many boundaries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.tokenizers.counters import Quarters
from tokenbox.errors import InvalidText, TokenizerError
from tokenbox.tokenizers import index
from tokenbox.tokenizers.bpe import baseline
from tokenbox.tokenizers.index import TextIndex
from tokenbox.tokenizers.patterns import UNIVERSAL
from tokenbox.tokenizers.protocol import BaseTokenizer
from tokenbox.tokenizers.truncation import truncate

O200K = baseline("o200k_base", "tiktoken")
PARTS = (
    "a", "the ", " quick", "\n", "\n\n", "  ", "é", "e\u0301", "漢", "\uff0c", "\U0001f1e9\U0001f1ea",
    "1", "23", "/",
    "'s", "!!", "\r\n", "{", "A", "\u0600", "\u0d4e ", "\u00a0", "aaaaaaaaaaaaaaaa", "\ufffd",
)  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)
edits = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30), texts | st.just("")), max_size=8)


class Blanks(BaseTokenizer):
    """As GPT-2 treats white space: a run before a word leaves its last character to a piece of its own.

    So a cut between an empty line and a word is not safe, while one between a line and the next is.
    """

    cuts = UNIVERSAL

    def count(self, text: str) -> int:
        return len(re.findall(r" ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+", text))


class Off(BaseTokenizer):
    """Every long text has one token more: no boundary shows it, only the whole does."""

    cuts = UNIVERSAL

    def count(self, text: str) -> int:
        return len(text.split()) + (len(text) > 500)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "CHUNK", 24)
    monkeypatch.setattr(index, "BLOCK", 3)
    monkeypatch.setattr(index, "CONTEXT", 16)


@settings(max_examples=examples(200))
@given(texts, edits, st.sampled_from([O200K, Quarters(), Blanks(), Off()]))
@pytest.mark.slow
def test_counts_after_edits_are_the_direct_counts(
    text: str, changes: list[tuple[int, int, str]], tokenizer: BaseTokenizer
) -> None:
    held = TextIndex(text, tokenizer)
    for start, length, new in changes:
        end = start + length
        text = text[:start] + new + text[end:]
        assert held.replace(start, end, new) == tokenizer.count(text)
        assert (held.text(), len(held), held.total) == (text, len(text), tokenizer.count(text))
        for a, b in ((start // 2, end), (start, len(text)), (0, end), (3, len(text) - 3)):
            if b >= 0:
                assert held.count(a, b) == tokenizer.count(text[a:b])


@given(texts, st.integers(0, 120))
def test_the_longest_prefix_is_that_of_truncate(text: str, k: int) -> None:
    assert TextIndex(text, O200K).longest_prefix(k) == len(truncate(text, k, O200K))


def test_cuts_that_fail_are_not_used() -> None:
    text = "one two\nthree four\n\n\nfive six\nseven\n\neight " * 20
    held = TextIndex(text, Blanks())
    assert held.verified
    assert held.rules is UNIVERSAL
    parts = [chunk.text for block in held._blocks for chunk in block.chunks]  # noqa: SLF001
    assert len(parts) > 10
    assert not any(left.endswith("\n\n") for left in parts[:-1])
    assert held.total == Blanks().count(text)


def test_a_whole_that_disagrees_is_counted_directly() -> None:
    text = "one two three\n" * 60
    held = TextIndex(text, Off())
    assert (held.verified, held.rules, held.total) == (False, None, 181)
    assert held.replace(0, 600, "") == Off().count(text[600:])


def test_a_text_that_cannot_be_counted_changes_nothing() -> None:
    held = TextIndex("one two three\n" * 20, O200K)
    before = (held.text(), held.total)
    for start, end in ((5, 6), (0, 200)):
        with pytest.raises(InvalidText):
            held.replace(start, end, "\ud800")
        assert (held.text(), held.total) == before


def test_bounds_are_not_negative() -> None:
    held = TextIndex("abc", O200K)
    with pytest.raises(TokenizerError, match="0 or more"):
        held.count(-1, 2)
    assert held.count(2, 1) == 0
    assert TextIndex("", O200K).replace(0, 0, "one") == 1
