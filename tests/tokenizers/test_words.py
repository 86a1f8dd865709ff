"""Counting by words gives what counting the whole gives, for every published pattern."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizers import corpora
from tokenbox.errors import InvalidText
from tokenbox.tokenizers import bpe, vocabularies, words
from tokenbox.tokenizers.patterns import NAMED
from tokenbox.tokenizers.vocabularies import BpeSpec
from tokenbox.tokenizers.words import WordCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

# Words, and what may stand around a space: every kind of white space, marks, digits, contractions, signs.
PARTS = [
    *("the", "of", "don't", "'s", "isn’t", "x=1", "1234567", "a/b", "//", "}", "};", "--", "É", "e\u0301"),
    *("日本", "，", "\u0301", "\u200d", "🙂", "'", "'S", "/", "ſ", "\ufeff", "ABCd", "iOS", "\nthe"),
    *(" ", " ", " ", " ", " ", "  ", "\n", "\r\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u3000", "\u2028"),
    *("\u180e", "\u200b", "\n\n", " \n", "\n "),
]
# What is known after a while, so that what follows it is looked at word by word.
KNOWN = "the of \nthe " * 15
TEXTS = st.builds(
    lambda known, parts: known + "".join(parts),
    st.sampled_from(["", KNOWN]),
    st.lists(st.sampled_from(PARTS), max_size=40),
)


@cache
def reference(pattern: str) -> tiktoken.Encoding:
    """tiktoken with a small vocabulary, which it makes in no time: what counts here is the pattern."""
    letters = [bytes([n]) for n in range(256)]
    pairs = [b" t", b"he", b" the", b"th", b"the", b" o", b"of", b" of", b"//"]
    # White space that is one token where it is one piece: so a cut in a piece shows.
    pairs += [
        b"\r\n",
        b"\n\n",
        b"  ",
        b"    ",
        b"\n ",
        b" \n",
        b"\n \n",
        b"\t ",
        b" \t",
        b"\xc2\xa0",
        b"\xc2\xa0 ",
    ]
    ranks = {token: n for n, token in enumerate([*letters, *pairs])}
    return tiktoken.Encoding(pattern, pat_str=NAMED[pattern], mergeable_ranks=ranks, special_tokens={})


@cache
def by_words(pattern: str) -> WordCounts:
    """One for all texts: what was learned from one of them is used in the next."""
    return made(pattern, [])


def made(pattern: str, asked: list[str]) -> WordCounts:
    """Counts with the small vocabulary; ``asked`` gets each text that is encoded."""

    def encode(text: str) -> list[int]:
        asked.append(text)
        return reference(pattern).encode_ordinary(text)

    return WordCounts(encode, reference(pattern).decode_single_token_bytes)


@pytest.fixture(scope="module", autouse=True)
def _short_texts_too() -> Iterator[None]:
    """What is found wrong in a short text is seen at once; such texts are counted whole otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_SHORT", 0)
        yield


@pytest.mark.parametrize("pattern", sorted(NAMED))
@given(text=TEXTS)
def test_the_words_counts_add_up(pattern: str, text: str) -> None:
    counts = by_words(pattern)
    while counts.count(KNOWN) is None:
        pass
    found = counts.count(text)
    assert found in (None, len(reference(pattern).encode_ordinary(text)))


@pytest.mark.parametrize("pattern", sorted(NAMED))
def test_a_known_word_after_an_odd_one_is_no_cut(pattern: str) -> None:
    """What stands before the space decides, also where the word after it is known."""
    counts, encode = made(pattern, []), reference(pattern).encode_ordinary
    known = "\nthe of " * 8 + "the"
    for _ in range(3):
        assert counts.count(known) in (None, len(encode(known)))
    for odd in ("x\t", "x\xa0", "x\u3000", "x\n", "", "\x1c", "x\r\n\t"):
        # The first may be learned from.
        for text in (f"a{f' {odd}' * 40} b", f"{known} {odd} {known}", f"{odd} {known}"):
            for _ in range(10):
                assert counts.count(text) in (None, len(encode(text))), repr(text)


def test_most_of_a_prose_is_known_after_a_while() -> None:
    """It is used at all: a text of known words is not counted as a whole again."""
    asked: list[str] = []
    counts, text = made("o200k_base", asked), "the quick brown fox jumps over the lazy dog, of course " * 20
    while counts.count(text) is None:
        assert len(asked) < 1000
    counts.count(text)  # what of it was not at the beginning
    asked.clear()
    assert counts.count(text) == len(reference("o200k_base").encode_ordinary(text))
    assert asked == [" "]  # after the last space; nothing is remembered of it


def test_what_is_not_known_is_counted_in_one_call() -> None:
    asked: list[str] = []
    counts = made("o200k_base", asked)
    while counts.count(KNOWN) is None:
        assert len(asked) < 1000
    asked.clear()
    text = f"{KNOWN}one thing of the other\n"
    assert counts.count(text) == len(reference("o200k_base").encode_ordinary(text))
    assert asked == [" one thing other\n"]


def test_a_text_that_nobody_has_seen_costs_little_more() -> None:
    """Of its own characters, and of calls, so few are counted beside it, however long it is."""
    asked: list[str] = []
    counts = made("o200k_base", asked)
    texts = [" ".join(f"{number}x{n}" for n in range(1000)) for number in range(80)]
    assert [counts.count(text) for text in texts] == [None] * len(texts)
    assert len(asked) <= 4 * len(texts)
    assert sum(map(len, asked)) < sum(map(len, texts)) / 100
    asked.clear()
    long = [" ".join(f"{number}x{n}" * 100 for n in range(100)) for number in range(80)]
    assert [counts.count(text) for text in long] == [None] * len(long)
    assert not asked  # they are too long to be remembered


def test_words_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MAX_WORDS", 100)
    counts = made("o200k_base", [])
    for number in range(50):
        text = " ".join(f"w{number}x{n}" for n in range(20))
        counts.count(text)
        assert len(counts._known) <= 100  # noqa: SLF001  # nothing else shows it


def test_the_corpus_is_counted_as_tiktoken_counts_it() -> None:
    """The tokenizer itself, which takes this way for texts of its length, each text three times."""
    for name in ("o200k_base", "cl100k_base"):
        tokenizer = bpe.baseline(name, "tiktoken")
        spec = tokenizer.spec
        whole = tiktoken.Encoding(
            name, pat_str=spec.pattern, mergeable_ranks=vocabularies.load(name), special_tokens={}
        )
        texts = [text for text in corpora.texts() if len(text) < 50_000]
        texts += [" ".join(text.split()) for text in texts]
        expected = [len(whole.encode_ordinary(text)) for text in texts]
        for _ in range(3):
            assert [tokenizer.count(text) for text in texts] == expected


def test_broken_text_is_named_as_it_always_is() -> None:
    tokenizer = bpe.baseline("o200k_base", "tiktoken")
    for _ in range(3):
        with pytest.raises(InvalidText, match="character 70 "):
            tokenizer.count("word " * 14 + "\ud800 and so on, and so on")


def test_a_pattern_of_the_users_own_is_counted_whole() -> None:
    """Nothing is known of it: this one lets a piece go on after a space."""
    ranks = {bytes([n]): n for n in range(256)} | {b"a b": 256, b" b": 257}
    tokenizer = bpe.from_ranks(ranks, BpeSpec("own", "1", r"(?s).+", {}))
    read = partial(tiktoken.Encoding, "own", pat_str=r"(?s).+", special_tokens={})
    text = "a b " * 40
    for _ in range(3):
        assert tokenizer.count(text) == len(read(mergeable_ranks=ranks).encode_ordinary(text))
