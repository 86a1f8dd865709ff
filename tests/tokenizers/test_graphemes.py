"""Boundaries against a full split by regex's own \\X."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import pairwise, product

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.tokenizers.graphemes import boundaries, ceil_boundary, classes, floor_boundary, next_boundary

PARTS = (
    *"a b\r\n\t\x00é©ⓐ",
    "\r\n",
    "\u0301",
    "\u200d",
    "\ufe0f",
    "\u0903",
    "\u0600",
    "\u0d4e",
    "\u00ad",
    "\U0001f1e9",
    "\U0001f1ea",
    "\U0001f468",
    "\U0001f3fd",
    "\u2764",
    "\u1100",
    "\u1161",
    "\u11a8",
    "\uac00",
    "\uac01",
    "\u0915",
    "\u0924",
    "\u094d",
    "\u093c",
    "\u0e01",
    "\u0e33",
    "漢",
)
texts = st.lists(st.sampled_from(PARTS), max_size=20).map("".join) | st.text(max_size=20)


def split(text: str) -> list[int]:
    return [0, *(match.end() for match in regex.finditer(r"\X", text))]


@given(texts, st.integers(0, 30), st.integers(0, 30))
def test_boundaries_are_those_of_the_whole_text(text: str, a: int, b: int) -> None:
    every = split(text)
    assert list(boundaries(text)) == every
    start = every[min(a, len(every) - 1)]
    end = min(len(text), start + b)
    assert list(boundaries(text, start, end)) == [p for p in every if start <= p <= end]


@given(texts)
def test_floor_next_and_ceil(text: str) -> None:
    every = split(text)
    for i in range(len(text) + 1):
        assert floor_boundary(text, i) == max(p for p in every if p <= i)
        assert ceil_boundary(text, i) == min(p for p in every if p >= i)
    for place, following in pairwise(every):
        assert next_boundary(text, place) == following


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a" + "\u0301" * 300_000, 0),
        ("\U0001f1e9" * 300_000, 200_000),
        ("\u0600" + "\U0001f1e9" * 300_000, 199_999),
        ("\U0001f468\u200d" * 150_000, 0),
    ],
)
def test_hostile_runs_end(text: str, place: int) -> None:
    found = floor_boundary(text, 200_000)
    assert found == place
    assert found in boundaries(text)


# What a cut depends on: it is a part of the package, so no Python and no regex brings another. A change of it
# changes the bytes of layouts that cut such text.
TABLE = "58e477601adf478e9be080e4e81df465e9192cd0cef8a9e85a64a641d5e926e7"


def test_the_table_that_cuts_depend_on_is_the_known_one() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert hashlib.sha256(classes(every).encode()).hexdigest() == TABLE
    khmer = "\u1780\u17d2\u179a\u17bb\u17c6"  # a consonant, one below it, a vowel and a sign: one cluster
    assert list(boundaries(khmer)) == [0, 5]


ONE_OF_EACH = dict(
    zip(
        "rncoPSFLVTABZECkKxX",
        "\r\n\0a\u0600\u0903\U0001f1e6\u1100\u1160\u11a8\uac00\uac01\u200d\u231a\u0915\u094d\u1cf5\u0300\u200c",
        strict=True,
    )
)


@pytest.mark.slow
def test_all_texts_of_four_classes_are_cut_as_regex_cuts_them() -> None:
    """Four in a row are enough for every rule, and each boundary looks at one character on its right."""
    assert classes("".join(ONE_OF_EACH.values())) == "".join(ONE_OF_EACH)
    for letters in product(ONE_OF_EACH.values(), repeat=4):
        text = "".join(letters)
        assert list(boundaries(text)) == split(text), [hex(ord(c)) for c in text]


def test_no_table_of_regex_is_asked() -> None:
    """A process that cuts text without ``regex``, whose tables differ by release."""
    code = """
import sys
sys.modules["regex"] = None
from tokenbox.tokenizers.graphemes import classes
from tokenbox.tokenizers.graphemes import boundaries, floor_boundary
text = "e\\u0301\\u1780\\u17d2\\u179a\\U0001f468\\u200d\\U0001f469"
print(list(boundaries(text)), floor_boundary(text, 4), floor_boundary(text, 7))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[0, 2, 5, 8] 2 5\n", "")
