"""The longest cut, against trying every cluster boundary from the end."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.tokenizers.counters import Quarters
from tokenbox.errors import TokenizerError
from tokenbox.tokenizers import measures
from tokenbox.tokenizers.bpe import baseline
from tokenbox.tokenizers.protocol import BaseTokenizer
from tokenbox.tokenizers.truncation import KEEP, truncate

pytestmark = pytest.mark.slow

O200K = baseline("o200k_base", "tiktoken")
PARTS = (
    "a", "b", "the ", " quick", "\n", "\n\n", "  ", "    ", "é", "e\u0301", "漢", "字",
    "\uff0c", "\U0001f1e9\U0001f1ea",
    "\U0001f468\u200d\U0001f469", "\u0915\u094d\u0937",
    "ก", "กำ", "1", "23", "4567", "/", "'s", "!!", "\r\n", "{",
    "A",
    "BC", "_", "\u0600", "\u0d4e", "\u00a0", "aaaaaaaa", "한국", "\ufffd",
)  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=50).map("".join) | st.text(max_size=30)


class Unknown(BaseTokenizer):
    """Counts as o200k, says nothing of cuts; records how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self, text: str) -> int:
        self.calls += 1
        return O200K.count(text)


class Claims(Unknown):
    """Claims cuts that do not hold: the whole text costs one token more than its words."""

    cuts = O200K.cuts

    def count(self, text: str) -> int:
        return len(text.split()) + (5 if len(text) > 40 else 0)


def keep_clusters(text: str, m: int, keep: str) -> str:
    places = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    n = len(places) - 1
    front = (n - m) // 2
    return {
        "head": text[: places[m]],
        "tail": text[places[n - m] :],
        "middle": text[places[front] : places[front + m]],
        "ends": text[: places[(m + 1) // 2]] + text[places[n - m // 2] :],
    }[keep]


def slow_longest(text: str, k: int, tokenizer: BaseTokenizer, keep: str) -> str:
    n = len(regex.findall(r"\X", text))
    cuts = (keep_clusters(text, m, keep) for m in range(n, -1, -1))
    return next(cut for cut in cuts if tokenizer.count(cut) <= k)


@settings(max_examples=examples(300))
@given(texts, st.integers(0, 60), st.sampled_from(KEEP), st.sampled_from([O200K, Quarters()]), st.booleans())
def test_it_is_the_longest(text: str, k: int, keep: str, tokenizer: BaseTokenizer, told: bool) -> None:
    size = tokenizer.count(text) if told else None
    assert truncate(text, k, tokenizer, keep, size=size) == slow_longest(text, k, tokenizer, keep)


@given(texts, st.integers(0, 60), st.sampled_from(KEEP), st.sampled_from([Unknown(), Claims()]))
def test_without_known_cuts_it_fits_and_is_a_cut(
    text: str, k: int, keep: str, tokenizer: BaseTokenizer
) -> None:
    cut = truncate(text, k, tokenizer, keep)
    assert tokenizer.count(cut) <= k
    assert cut in {keep_clusters(text, m, keep) for m in range(len(regex.findall(r"\X", text)) + 1)}


class Absorbs(BaseTokenizer):
    """One token for each character, and one for a marker with the blanks beside it."""

    def count(self, text: str) -> int:
        return len(re.sub(r"\s*<marker>\s*", "m", text))


@pytest.mark.parametrize("keep", KEEP)
def test_a_text_that_fits_is_kept_though_much_shorter_ones_do_not(keep: str) -> None:
    text = "\t \n  <marker>   \n"
    assert truncate(text, 1, Absorbs(), keep) == text
    assert truncate(text * 100, 100, Absorbs(), keep) == text * 100


def test_an_unknown_counter_is_asked_few_times() -> None:
    tokenizer = Unknown()
    text = "the quick brown fox jumps over the lazy dog. " * 2_000
    assert O200K.count(truncate(text, 5_000, tokenizer)) == 5_000
    assert tokenizer.calls <= 12


@pytest.mark.parametrize(
    "text",
    [
        # Each of several segments that are too long to be measured as one.
        "a" * 10_000,
        " " * (measures.LONG + 500),
        "漢字" * 4_000,
        "a" + "\u0301" * 20_000,
        "\U0001f1e9" * 8_000,
        "aB3/" * 3_000,
    ],
    ids=["letter", "spaces", "han", "marks", "flags", "base64"],
)
@pytest.mark.parametrize("keep", KEEP)
def test_hostile_runs(text: str, keep: str) -> None:
    whole = O200K.count(text)
    for k in (0, 7, whole // 2, whole - 1):
        cut = truncate(text, k, O200K, keep)
        assert O200K.count(cut) <= k
        # No gaps of more than a few tokens: only a single cluster that is too large leaves nothing.
        assert O200K.count(cut) >= k - 3 or cut == ""
    assert truncate(text, whole, O200K, keep) is text


def test_long_segments_are_exact_for_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "LONG", 64)
    monkeypatch.setattr(measures, "_MARK_EVERY", 16)
    for text in ("a" * 700, "漢字語學" * 120, "aB3dE/" * 100, "=" * 500 + "-" * 300):
        for k in (3, 40, 61, O200K.count(text) - 1):
            assert truncate(text, k, O200K) == slow_longest(text, k, O200K, "head")


@pytest.mark.parametrize("budget", [-1, 1.5, True, "3", None])
def test_a_budget_that_is_no_whole_number_is_refused(budget: object) -> None:
    with pytest.raises(TokenizerError, match="max_tokens is"):
        truncate("a", budget, O200K)  # type: ignore[arg-type]


def test_an_unknown_keep_is_refused() -> None:
    with pytest.raises(TokenizerError, match="head, tail, middle, ends"):
        truncate("a", 1, O200K, "start")


@pytest.mark.parametrize("tokenizer", ["o200k_base", len, None])
def test_only_a_tokenizer_cuts(tokenizer: object) -> None:
    with pytest.raises(TokenizerError, match="is not a tokenizer"):
        truncate("one two three", 1, tokenizer)  # type: ignore[arg-type]
