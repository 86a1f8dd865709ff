"""Boundaries against a full split by regex's own \\X."""

from __future__ import annotations

import hashlib
import sys
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.tokenizers.graphemes import boundaries, ceil_boundary, floor_boundary, next_boundary

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


# What a cut depends on. If a release of regex changes it, layouts that cut such text change their bytes: the
# lower bound in pyproject.toml then moves with this figure.
TABLES = "cb133a598617f617a91930c1e6d5418177fbd12aaa7dc71c2250befd20ccee4e"


def test_the_tables_that_cuts_depend_on_are_the_known_ones() -> None:
    names = ["GCB", "ExtPict", "InCB"]
    values = {
        "GCB": ["Prepend", "Extend", "ZWJ", "SpacingMark", "RI", "L", "V", "T", "LV", "LVT", "Control"],
        "ExtPict": ["Yes"],
        "InCB": ["Consonant", "Linker", "Extend"],
    }
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))))
    digest = hashlib.sha256()
    for name in names:
        for value in values[name]:
            found = regex.finditer(rf"\p{{{name}={value}}}+", every)
            digest.update(f"{name}={value}: {[match.span() for match in found]}".encode())
    assert digest.hexdigest() == TABLES
    khmer = "\u1780\u17d2\u179a\u17bb\u17c6"  # a consonant, one below it, a vowel and a sign: one cluster
    assert list(boundaries(khmer)) == [0, 5]
