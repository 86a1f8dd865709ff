"""The same bytes on every Python: what asks for Unicode data, on characters that only some of them know.

The digests below hold on every Python. The suite runs on one of them.
"""

from __future__ import annotations

import hashlib
import random
import sys
import unicodedata

import pytest

import tokenbox
from tokenbox import characters
from tokenbox.content.lenses import parse_pipeline
from tokenbox.render.lines import printable
from tokenbox.render.xml import guard
from tokenbox.tokenizers import get
from tokenbox.worth.query import read_query
from tokenbox.worth.words import split

# Unicode 15, 15.1, 16 and 17: a letter, a small and a capital one, a digit, a mark, a sign, an ideograph, an
# emoji; small letters that got their capitals in 16; and what was there all the time.
LATER = "\U00011f04\U0001df25\U00010d50\U00011f51\U00010efd\U00011f43\U0002ebf0\U0001fae8\ua7da\U00010940"
KNOWN = "\u0264\u019b\u10fc\ua7f3 \u00e9\u0130\u03a3\u00df\u0e01\u0663"
WORDS = [
    "fast",
    "Dr",
    "x1",
    ".",
    ". ",
    "\n",
    "\n\n",
    "*",
    "_",
    "`",
    "[",
    "]",
    "</context",
    "ERROR ",
    "= ",
    "12:30:00 ",
]
LENSES = (
    "dedup_lines", "diff", "first_sentences(3)", "json_minify", "logs", "lowercase",
    'markdown_sections("FAST")', "outline", 'select("fast x1 \U00011f04")', "squeeze", "strip_markdown",
    "test_report", "traceback", "trim", "uppercase", "head(tokens=40)",
)  # fmt: skip


def texts() -> list[str]:
    chance = random.Random(16)
    pieces = [*WORDS, *LATER, *LATER, *KNOWN]
    return ["".join(chance.choices(pieces, k=60)) for _ in range(120)]


def digest(values: object) -> str:
    return hashlib.sha256(ascii(values).encode()).hexdigest()[:16]


@pytest.mark.parametrize("lens", LENSES)
def test_a_lens_makes_the_same_on_every_python(lens: str) -> None:
    pipeline, bytes_ = parse_pipeline(lens), get("utf8-bytes")
    assert digest([pipeline.apply(text, bytes_) for text in texts()]) == EXPECTED[lens]


def test_a_layout_is_the_same_on_every_python() -> None:
    made = []
    for number, text in enumerate(texts()):
        for cut in ("word", "sentence", "grapheme", "line"):
            section = {
                "id": "a",
                "content": text,
                "shrink": 1,
                "cut": cut,
                "keep": ("head", "tail")[number % 2],
            }
            made.append(tokenbox.layout([section], 70, "facet-units").digest)
    assert digest(made) == EXPECTED["layout"]


def test_a_query_and_its_words_are_the_same_on_every_python() -> None:
    asked = map(read_query, texts())
    read = [(one.words, [(at.path, at.lines) for at in one.places], one.symbols) for one in asked]
    assert digest([*map(split, texts()), *read]) == EXPECTED["query"]


def test_what_is_rendered_is_the_same_on_every_python() -> None:
    # A letter that one Python does not know is no letter on the other: the tag before it is a tag.
    assert guard("</context\U00011f04>", None)[0] == guard("</context!>", None)[0].replace("!", "\U00011f04")
    assert (
        digest([*map(printable, texts()), *[guard(text, None)[0] for text in texts()]]) == EXPECTED["render"]
    )


def test_what_was_assigned_later_is_nothing() -> None:
    assert set(characters.known(LATER)) == {"\uffff"}
    assert len(characters.known("a" + LATER)) == 1 + len(LATER)
    assert characters.category(LATER[0]) == characters.category("\u0378") == "Cn"
    for change in (characters.lower, characters.upper, characters.casefold):
        assert change(LATER) == LATER
    assert (
        characters.upper("\u0264a\u00df\u00e9") == "\u0264ASS\u00c9"
    )  # U+0264 got its capital in Unicode 16
    assert characters.lower("\u00c9\u03a3a" + LATER) == "\u00e9\u03c3a" + LATER


@pytest.mark.slow
def test_what_was_there_is_as_python_says() -> None:
    every = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if not 0xD800 <= ord(c) <= 0xDFFF)
    old = characters.known(every).replace("\uffff", "")
    assert len(old) > 280_000
    assert unicodedata.unidata_version != "14.0.0" or characters.upper(old) == old.upper()
    assert all(characters.category(c) == unicodedata.category(c) for c in old[:5_000])


EXPECTED = {
    "dedup_lines": "93105ca70529432a",
    "diff": "93105ca70529432a",
    "first_sentences(3)": "a2daaef758b28c52",
    "json_minify": "93105ca70529432a",
    "logs": "93105ca70529432a",
    "lowercase": "a29357ea69e944ec",
    'markdown_sections("FAST")': "84174a9a4f590b60",
    "outline": "93105ca70529432a",
    'select("fast x1 \U00011f04")': "93105ca70529432a",
    "squeeze": "c0dbc596f9d64d35",
    "strip_markdown": "5c3248dd53922af8",
    "test_report": "93105ca70529432a",
    "traceback": "93105ca70529432a",
    "trim": "4c162af20286f54b",
    "uppercase": "d38ea88de5bc1ac5",
    "head(tokens=40)": "c7f584110d704fee",
    "layout": "510d77042116313e",
    "query": "a5ab773fdd58f4ad",
    "render": "4d8a9010250616f7",
}
