"""Words, queries and what they make of documents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.worth import SCALE, read_query
from tokenbox.worth.documents import Document, PieceSpan
from tokenbox.worth.fixed import log2
from tokenbox.worth.query import NamedPath
from tokenbox.worth.references import ReferencePart, nearby, referring, ties
from tokenbox.worth.relevance import Relevance, lately, remembered
from tokenbox.worth.standing import Standing
from tokenbox.worth.words import split, stem

if TYPE_CHECKING:
    from random import Random


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_a_logarithm_in_integers(numerator: int, denominator: int) -> None:
    expected = max(0.0, math.log2(numerator / denominator))
    assert abs(log2(numerator, denominator) / SCALE - expected) < 0.001


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lowWaterMark", ["low", "water", "mark"]),
        ("HTTPServer_v2", ["http", "server", "v", "2"]),
        ("parse_URLs", ["parse", "url", "s"]),
        ("größe 中文", ["gr", "öß", "e", "中文"]),
    ],
)
def test_words_of_identifiers(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    "family",
    [
        ("parse", "parses", "parsed", "parsing", "parser"),
        ("validate", "validation", "validates", "validating"),
        ("query", "queries"),
        ("stop", "stops", "stopped", "stopping"),
        ("cache", "caching", "cached"),
    ],
)
def test_words_of_one_family_have_one_stem(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1


@given(st.text("abcdefghijklmnopqrstuvwxyz", max_size=14))
def test_a_stem_is_a_prefix_but_for_y(word: str) -> None:
    found = stem(word)
    assert word.startswith(found.removesuffix("i"))


@pytest.mark.parametrize("endless", ["x", "x/", "A1b+/", "字", "a.b"])
def test_what_is_too_long_for_a_name_is_none(endless: str) -> None:
    found = read_query(f"the total {endless * 40_000} is wrong\nsee cart.py:3 {endless * 40_000}")
    assert found.places == (NamedPath("cart.py", (3,)),)
    assert {word.text for word in found.words} == {"total", "wrong", "see", "cart", "py"}


def test_a_traceback_names_places_and_symbols() -> None:
    query = read_query(
        "ValueError: bad mark\nTraceback (most recent call last):\n"
        '  File "src/app/marks.py", line 41, in read_mark\n    raise'
    )
    assert NamedPath("src/app/marks.py", (41,)) in query.places
    assert "read_mark" in query.symbols


def test_what_trackers_add_is_no_query() -> None:
    words = {
        word.text
        for word in read_query("fix(parser): wrong line (#123)\n\nCo-authored-by: Someone <a@b.c>").words
    }
    assert words == {stem(word) for word in ("parser", "wrong", "line")}


def relevance(query: str, **texts: str) -> list[str]:
    """The names of documents, the best first."""
    documents = [Document(name.replace("__", "/"), text.encode()) for name, text in texts.items()]
    found = Relevance(documents, read_query(query))
    order = sorted(range(len(documents)), key=lambda i: -found.document(i))
    return [documents[i].path for i in order]


def test_rare_words_names_and_paths_decide() -> None:
    assert (
        relevance("evict the window", a="def evict(): pass\n", b="def keep(): window\n", c="x = 1\n")[0]
        == "a"
    )
    assert relevance("the parser", src__parser="x = 1\n", src__other="y = 2\n")[0] == "src/parser"
    assert relevance("see lib/b.py:3", lib__a="x\n", **{"lib__b.py": "y\n"})[0] == "lib/b.py"


def test_words_inside_identifiers_count_and_parts_of_words_do_not() -> None:
    assert relevance("water", a="lowWaterMark = 1\n", b="underwaterish = 2\n")[0] == "a"
    assert relevance("id", a="user_id = 1\n", b="width = wide\n")[0] == "a"


def test_the_piece_that_a_line_is_in_is_worth_most() -> None:
    data = "".join(f"line {n}\n" for n in range(100)).encode()
    found = Relevance([Document("a.py", data)], read_query('File "a.py", line 70, in x'))
    spans = [PieceSpan(at * 7, at * 7 + 70, at, at + 10) for at in range(0, 100, 10)]
    assert max(spans, key=lambda span: found.piece(0, span)).first == 60


def test_what_is_in_focus_brings_what_refers_to_it() -> None:
    documents = [
        Document("a.py", b"def make_widget():\n    return spin_gear()\n"),
        Document("b.py", b"from a import make_widget\n\nmake_widget()\n"),
        Document("c.py", b"def spin_gear():\n    pass\n"),
        *(Document(f"d{n}.py", b"print('other words')\n") for n in range(20)),
    ]
    query = nearby(read_query(""), documents, [documents[0].data], [NamedPath("a.py")])
    found = Relevance(documents, query)
    order = sorted(range(len(documents)), key=lambda i: -found.document(i))
    assert [documents[i].path for i in order[:3]] == ["a.py", "b.py", "c.py"] or order[0] == 0
    assert {documents[i].path for i in order[:3]} == {"a.py", "b.py", "c.py"}


def test_past_changes_credit_what_they_changed() -> None:
    documents = [Document("a.py", b"x"), Document("b.py", b"y")]
    messages = [(b"evict turns at the mark", ["b.py"]), (b"other things", ["a.py"])]
    assert remembered(messages, read_query("eviction mark"), documents).keys() == {1}


def test_standing_is_who_is_referred_to() -> None:
    documents = [
        Document("core.py", b"def central():\n    pass\n\n\ndef lonely():\n    pass\n"),
        *(Document(f"u{n}.py", b"from core import central\ncentral()\n") for n in range(9)),
    ]
    found = Standing(documents)
    assert found.document(0) > found.document(1)
    central, lonely = PieceSpan(0, 30, 0, 2, ("central",)), PieceSpan(32, 60, 4, 6, ("lonely",))
    assert found.piece(0, central) > found.piece(0, lonely)


def test_what_the_best_refer_to_comes_after_what_matches() -> None:
    parts = [
        ReferencePart(b"def best(): helper_of_it()", (b"best",), 100),
        *(ReferencePart(b"matches", (), 100) for _ in range(40)),
        ReferencePart(b"def helper_of_it(): pass", (b"helper_of_it",), 100),
        ReferencePart(b"best()", (b"calls_the_best",), 100),
        ReferencePart(b"best() # in a page", (), 20),
        ReferencePart(b"nothing", (b"alone",), 100),
    ]
    worths = [1000, *range(900, 860, -1), 10, 10, 10, 10]
    tie = ties({b"helper_of_it": 2, b"best": 3, b"matches": 40}, 100)
    assert set(tie) == {b"helper_of_it", b"best"}
    assert SCALE >= tie[b"helper_of_it"] >= tie[b"best"] > 0
    found = referring(parts, worths, len(parts), tie)
    assert found[:41] == worths[:41], "what matches keeps its worth"
    helper, caller, page, alone = found[41:]
    assert alone == 10 < page < min(helper, caller)
    assert max(helper, caller) < sorted(worths, reverse=True)[30], "it comes after the thirty best"
    assert referring(parts, worths, 20, tie) == worths, "too few to lead"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_references_take_no_worth_and_keep_the_best_in_order(worths: list[int], draw: Random) -> None:
    names = [b"alpha", b"beta", b"gamma"]
    parts = [
        ReferencePart(b" ".join(draw.choices(names, k=2)), draw.choices(names, k=1), 100) for _ in worths
    ]
    found = referring(parts, worths, len(worths), ties(dict.fromkeys(names, 2), len(worths) + 20))
    assert all(new >= old for new, old in zip(found, worths, strict=True))
    best = sorted(range(len(worths)), key=lambda n: -worths[n])[:30]
    assert [found[n] for n in best] == [worths[n] for n in best]


def test_a_traceback_is_about_its_last_line() -> None:
    query = read_query(
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/site-packages/shop/cart.py", line 12, in total\n'
        "    return rounded(x)\nshop.PriceUnknown: no price for the hammer\n"
    )
    weights = {word.text: word.weight for word in query.words}
    assert weights["ham"] > weights["round"]
    assert query.places[0] == NamedPath("usr/lib/site-packages/shop/cart.py", (12,))


def test_paths_as_windows_writes_them() -> None:
    query = read_query(r"at Shop.Total() in C:\work\src\Cart.cs:line 52, by GuzzleHttp\Client::send")
    assert [place for place in query.places if place.lines] == [NamedPath("work/src/Cart.cs", (52,))]
    assert "GuzzleHttp" in query.symbols
    assert read_query("a\\" * 100_000).places == ()


def test_the_path_of_an_installed_copy_names_the_longest_path_it_ends_with() -> None:
    paths = ("index.js", "router/index.js", "lib/router/index.js", "other/index.js")
    found = Relevance([Document(path, b"") for path in paths], read_query("at /app/lib/router/index.js:3:1"))
    worths = [found.document(i) for i in range(len(paths))]
    assert worths[2] > max(worths[0], worths[1], worths[3])
    copy = Relevance([Document(path, b"") for path in paths[:2]], read_query("at /x/lib/router/index.js:3"))
    assert copy.document(1) > copy.document(0)


def test_a_lone_surrogate_in_a_query_is_no_word_and_no_error() -> None:
    assert [word.text for word in read_query("parse \ud800 config").words] == [
        word.text for word in read_query("parse ? config").words
    ]


def test_what_was_changed_last_is_worth_more_where_it_matches_as_well() -> None:
    documents = [Document("a.py", b"mark = 1\n"), Document("b.py", b"mark = 1\n"), Document("c.py", b"x\n")]
    messages = [(b"x", ["b.py", "c.py"]), *[(b"y", [])] * 19, (b"z", ["a.py", "b.py"])]
    fresh = lately(messages, documents)
    assert fresh == {0: 50, 1: 100, 2: 100}
    found = Relevance(documents, read_query("mark"), fresh=fresh)
    worths = [found.document(i) for i in range(3)]
    assert worths[1] > worths[0] > worths[2]


def test_a_test_and_what_it_tests_are_worth_more_together() -> None:
    text = b"def measure(x):\n    return x\n"
    paths = ["src/tape.py", "tests/test_tape.py", "tests/test_other.py"]
    documents = [Document(paths[0], text), Document(paths[1], b"x\n"), Document(paths[2], b"x\n")]
    found = Relevance(documents, read_query("measure"))
    assert found.document(1) > found.document(2)


def test_what_is_beside_a_match_is_worth_more_than_what_is_not() -> None:
    data = b"x = 1\n" * 4 + b"mark = 2\n" + b"x = 1\n" * 5
    spans = [PieceSpan(6 * n, 6 * n + 6, n, n + 1) for n in range(4)] + [PieceSpan(24, 33, 4, 5)]
    spans += [PieceSpan(33 + 6 * n, 39 + 6 * n, 5 + n, 6 + n) for n in range(5)]
    found = Relevance([Document("a.py", data)], read_query("mark"))
    worths = found.pieces([(0, span) for span in spans])
    assert max(worths) == worths[4]
    assert worths[3] == worths[5] > worths[2] == worths[7]
