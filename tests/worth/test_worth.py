"""Words, queries and what they make of documents."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tokenbox.worth import SCALE, read_query
from tokenbox.worth.defined import defined_in, defined_with_members
from tokenbox.worth.documents import Document, DocumentRole, PieceSpan
from tokenbox.worth.fixed import log2
from tokenbox.worth.lexical import Lexical, tokens
from tokenbox.worth.query import NamedPath
from tokenbox.worth.recent import PastChange, RecentWork, lines_written
from tokenbox.worth.relevance import Relevance
from tokenbox.worth.standing import Standing
from tokenbox.worth.words import split, stem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
        ("größe 中文", ["größe", "中文"]),
        ("洗衣机在哪里 École", ["洗衣", "衣机", "机在", "在哪", "哪里", "école"]),
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


def test_headings_of_a_template_are_no_words() -> None:
    query = read_query(
        "Sessions leak\n\n### Steps to reproduce:\nopen one\n**Expected behavior**\nclosed\n"
        "## `Pool.drain` hangs\n"
    )
    texts = {word.text for word in query.words}
    assert {"open", "clos", "pool", "drain"} <= texts
    assert texts.isdisjoint({stem("steps"), stem("reproduce"), stem("expected"), stem("behavior")})


def test_a_traceback_is_about_its_last_line() -> None:
    query = read_query(
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/site-packages/shop/cart.py", line 12, in total\n'
        "    return rounded(x)\nshop.PriceUnknown: no price for the hammer\n"
    )
    weights = {word.text: word.weight for word in query.words}
    assert weights["ham"] > weights["round"]
    assert query.places[0] == NamedPath("shop/cart.py", (12,))


@pytest.mark.parametrize(
    ("trace", "places", "names"),
    [
        (
            "    at async flush (file:///home/u/src/parse.mjs:12:5)\n    at new Lexer (lex.js:3:1)",
            {"home/u/src/parse.mjs": 12, "lex.js": 3},
            ["flush", "Lexer"],
        ),
        ("x is null\nrender@http://localhost:51/src/App.tsx?t=1699:25:9", {"51/src/App.tsx": 25}, ["render"]),
        (
            "app/user.rb:12:in `block in save'\napp/shop.rb:3:in 'total'",
            {"app/user.rb": 12, "app/shop.rb": 3},
            ["save", "total"],
        ),
        ("lua: src/box.lua:12: in function 'total'", {"src/box.lua": 12}, ["total"]),
        (
            "#0  parse (x=1, y=0x0) at src/parse.c:123\n#1 0x4f3a in emit /build/src/emit.cc:44:7",
            {"src/parse.c": 123, "build/src/emit.cc": 44},
            ["parse", "emit"],
        ),
        ('{cart,total,2,[{file,"src/cart.erl"},{line,12}]}', {"src/cart.erl": 12}, []),
        (
            "#0      Cart.total (package:shop/src/cart.dart:12:5)",
            {"shop/lib/src/cart.dart": 12},
            ["Cart", "total"],
        ),
        ("src/Cart.hs:(12,5)-(14,6): Non-exhaustive patterns", {"src/Cart.hs": 12}, []),
        ("Error in total(x) : no price\n1: total(x) at R/cart.R#12", {"R/cart.R": 12}, ["total"]),
        ('File "src/cart.ml", line 12, characters 5-8:', {"src/cart.ml": 12}, []),
    ],
    ids=["node", "firefox", "ruby", "lua", "gdb", "erlang", "dart", "haskell", "r", "ocaml"],
)
def test_places_and_names_in_traces_of_many_languages(
    trace: str, places: dict[str, int], names: list[str]
) -> None:
    query = read_query(f"It fails\n{trace}\n")
    assert {place.path: place.lines[0] for place in query.places if place.lines} == places
    assert set(names) <= {name for name, weight in query.symbols.items() if weight > 1}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[ERROR] /home/u/src/Cart.java:[12,17] cannot find symbol", "home/u/src/Cart.java"),
        ("e: /home/u/src/Cart.kt: (12, 5): Unresolved reference", "home/u/src/Cart.kt"),
        ("PHP Parse error: syntax error in /var/www/src/Cart.php on line 12", "var/www/src/Cart.php"),
        ("./bin/cart.sh: line 12: total: command not found", "bin/cart.sh"),
        ('File "src/cart.ml", lines 12-14, characters 5-8:', "src/cart.ml"),
        ("/home/u/src/cart.js\n  12:5  error  'x' is not defined  no-undef", "home/u/src/cart.js"),
        (" ---- ----\n  Line   src/Cart.php\n ---- ----\n  12     Parameter #1 expects", "src/Cart.php"),
    ],
    ids=["maven", "kotlin", "php", "shell", "ocaml", "eslint", "phpstan"],
)
def test_the_line_of_what_compilers_and_linters_find(text: str, path: str) -> None:
    assert NamedPath(path, (12,)) in read_query(f"It fails\n{text}\n").places


def test_a_list_after_a_path_does_not_name_its_lines() -> None:
    assert read_query("See src/cart.py\n  1. round\n\n12 carts fail, src/shop.py: 3 errors").places == (
        NamedPath("src/cart.py"),
        NamedPath("src/shop.py"),
    )


def test_a_function_of_a_traceback_is_worth_more_than_the_place_of_its_line_in_another_version() -> None:
    data = b"x = 1\n" * 200
    query = read_query('It fails\n  File "shop/cart.py", line 12, in total\n')
    found = Relevance([Document("shop/cart.py", data), Document("shop/other.py", data)], query)
    here, elsewhere, other = (
        found.piece(i, PieceSpan(600, 660, 100, 110, (name,)))
        for i, name in ((0, "total"), (1, "total"), (0, "names"))
    )
    assert 2 * here > 3 * max(elsewhere, other)


def test_a_file_of_a_dart_package_is_in_its_lib() -> None:
    for paths in (("lib/src/cart.dart", "bin/cart.dart"), ("shop/lib/src/cart.dart", "a/lib/src/cart.dart")):
        found = Relevance(
            [Document(path, b"") for path in paths], read_query("x\n#0 f (package:shop/src/cart.dart:1:5)")
        )
        assert found.document(0) > found.document(1)


@pytest.mark.parametrize(
    ("frame", "named", "other"),
    [
        ('File "/x/python3/site-packages/shop/cart.py", line 7, in f', "src/shop/cart.py", "src/cart.py"),
        (r'File "C:\Py\Lib\site-packages\shop\cart.py", line 7', "src/shop/cart.py", "src/cart.py"),
        ("at f (/x/node_modules/@my/cart/src/a.ts:7:5)", "packages/cart/src/a.ts", "packages/b/src/a.ts"),
        ("at f (/x/node_modules/express/lib/a.js:7:5)", "lib/a.js", "site/lib/a.js"),
        ("/x/gems/active-cart-7.0.4/lib/cart.rb:7:in `f'", "active-cart/lib/cart.rb", "shop/lib/cart.rb"),
        ("\t/x/mod/a.b/cart/sdk@v1.2.3-rc.1/a/b.go:7 +0x1b", "sdk/a/b.go", "api/a/b.go"),
    ],
    ids=["python", "windows", "workspace of node", "node", "ruby", "go"],
)
def test_a_traceback_through_an_installed_package_names_its_source(
    frame: str, named: str, other: str
) -> None:
    data = b"x = 1\n" * 20
    found = Relevance([Document(named, data), Document(other, data)], read_query(f"It fails\n{frame}\n"))
    span = PieceSpan(0, 60, 0, 10, (), ())
    assert found.piece(0, span) > 2 * found.piece(1, span)


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


def test_what_a_template_says_to_the_reporter_is_not_asked() -> None:
    query = read_query(
        "Crash in `render`\r\n\r\n<!-- First read\r\nCONTRIBUTING.md. -->\r\n\r\nIt fails in src/page.py:7."
    )
    assert query.places == (NamedPath("src/page.py", (7,)),)
    assert not {"contribut", "read"} & {word.text for word in query.words}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("static gen_proto(x)", ["gen_proto", "gen", "proto"]),
        ("gen_proto", ["gen_proto", "gen", "proto"]),
        ("（gen_proto）", ["gen_proto", "gen", "proto"]),
        ("my_gen_proto", ["gen", "proto"]),
        ("gen_protocol", ["gen"]),
        ("gen_proto2", ["gen", "proto"]),
        ("_run(is_ok)", ["run", "is_ok", "ok"]),
        ("my rUN", ["run"]),
    ],
)
def test_an_identifier_is_found_whole_and_by_its_words(text: str, found: list[str]) -> None:
    lexical = Lexical(read_query("`gen_proto` must run where `is_ok`"))
    match = lexical.scan(text.encode())
    assert [lexical.words[word].text for word in match.word] == found
    assert sorted(lexical.read(text.encode())) == sorted(match.word)


def test_words_are_counted_alike_in_each_text() -> None:
    lexical = Lexical(read_query("escape the test of `gen_proto`"))
    text = b"gen_proto test_escape ByteString attest escaped gen_proto_2 other"
    first = lexical.read(text)
    assert first
    assert lexical.read(text) == lexical.read(b"attest ByteString " + text) == first


PARTS = st.sampled_from(
    ["line", "string", "test", "byte", "none", "sql", "256", "parser", "writing", "of", "mode"]
)
STYLES = st.sampled_from([str.lower, str.upper, str.capitalize])


@given(
    st.sets(PARTS, min_size=1),
    st.lists(st.lists(st.tuples(PARTS, STYLES, st.sampled_from(["", "_"])), min_size=1, max_size=4)),
    st.sampled_from([" ", "(", "\n", "，"]),
)
def test_words_are_found_where_identifiers_are_split(
    asked: set[str], identifiers_: list[list[tuple[str, Callable[[str], str], str]]], between: str
) -> None:
    names = ["".join(style(part) + glue for part, style, glue in parts) for parts in identifiers_]
    lexical = Lexical(read_query(" ".join(sorted(asked))))
    stems = {word.text: n for n, word in enumerate(lexical.words) if not word.whole}
    expected = Counter(stems[stem(word)] for name in names for word in split(name) if stem(word) in stems)
    found = lexical.scan(between.join(names).encode())
    assert Counter(word for word in found.word if not lexical.words[word].whole) == expected


def test_a_long_file_that_mentions_a_rare_symbol_of_the_query_is_a_candidate() -> None:
    matching = b"/* escape the path of a proto in the repository */\n" * 9
    long = b"int other(void) { return 1; }\n" * 9_000
    documents = [
        *(Document(f"{n}.c", matching) for n in range(60)),
        Document("b.c", long + b"gen_proto(1);\n"),
    ]
    found = Relevance(documents, read_query("Escape the path of the repository in gen_proto()"))
    assert found.document(60) > max(map(found.document, range(60)))


def test_the_names_of_a_folder_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    in_names = Lexical.in_names

    def noted(self: Lexical, names: Iterable[str]) -> Counter[int]:
        names = list(names)
        read.extend(names)
        return in_names(self, names)

    monkeypatch.setattr(Lexical, "in_names", noted)
    documents = [Document(f"far/off/cache/{name}.py", b"") for name in ("a", "b", "disk")]
    found = Relevance([*documents, Document("cache.py", b"")], read_query("the cache of the disk"))
    assert Counter(read) == Counter(["off", "cache", "a.py", "b.py", "disk.py", "", "cache.py"])
    assert found.document(2) > found.document(0) == found.document(1)


def test_trailers_of_a_commit_are_not_asked() -> None:
    said = "Cache the plan\n\nSee deadbeef0123456789\n\nTested-by: Ann\nPiperOrigin-RevId: 752841257\n"
    assert {word.text for word in read_query(said).words} == {"cach", "plan", "see"}


def test_a_lone_surrogate_in_a_query_is_no_word_and_no_error() -> None:
    assert [word.text for word in read_query("parse \ud800 config").words] == [
        word.text for word in read_query("parse ? config").words
    ]


def test_what_is_being_worked_on_is_worth_more_where_it_matches_as_well() -> None:
    documents = [Document("a.py", b"mark = 1\n"), Document("b.py", b"mark = 1\n"), Document("c.py", b"x\n")]
    other = PastChange(b"y", ())
    changes = [PastChange(b"x", ("b.py", "c.py")), *[other] * 19, PastChange(b"z", ("a.py", "b.py"))]
    recent = RecentWork(changes, documents)
    shares = [recent.document(i) for i in range(3)]
    assert shares[1] == SCALE > shares[2] > shares[0] > 0
    found = Relevance(documents, read_query("mark"), recent=recent)
    worths = [found.document(i) for i in range(3)]
    assert worths[1] > worths[0] > worths[2]


def test_a_piece_with_lines_of_recent_changes_is_worth_most() -> None:
    text = b"first = 1\nsecond = 2\nthird = 3\nfourth = 4\nfifth = 5\n"
    documents = [Document("a.py", text), Document("b.py", text)]
    ends = [0, *(n + 1 for n, letter in enumerate(text) if letter == 0x0A)]
    spans = [PieceSpan(start, end) for start, end in pairwise(ends)]
    pieces = [(i, span) for i in (0, 1) for span in spans]
    written = {"a.py": lines_written([b"    third = 3", b"}"])}
    worths = Standing(documents, recent=RecentWork([PastChange(b"", ("a.py",), written)], documents)).pieces(
        pieces
    )
    assert max(worths) == worths[2]
    assert min(worths[1], worths[3]) > max(worths[0], worths[4]), "beside a change"
    assert min(worths[:5]) > max(worths[5:]), "the other document was not changed"


def test_a_change_of_very_many_files_says_nothing_of_them() -> None:
    documents = [Document(f"{n}.py", b"x = 1\n") for n in range(31)]
    paths = [document.path for document in documents]
    assert RecentWork([PastChange(b"", paths)], documents).document(0) == 0
    assert RecentWork([PastChange(b"", paths[1:])], documents).document(1) == SCALE


def test_a_test_and_what_it_tests_are_worth_more_together() -> None:
    text = b"def measure(x):\n    return x\n"
    paths = ["src/tape.py", "tests/test_tape.py", "tests/test_other.py"]
    documents = [Document(paths[0], text), Document(paths[1], b"x\n"), Document(paths[2], b"x\n")]
    found = Relevance(documents, read_query("measure"))
    assert found.document(1) > found.document(2)


@pytest.mark.parametrize(
    ("query", "is_more"),
    [
        ("Period.measure fails", True),
        ("   at Shop.Period.measure(Date start)", True),
        ("tape::measure fails", True),
        ("Tape#measure fails", True),
        ("Interval.measure fails", False),
    ],
)
def test_a_member_is_worth_more_if_it_is_named_with_its_type_or_file(query: str, is_more: bool) -> None:
    documents = [Document("src/tape.cs", b"measure\n"), Document("src/other.cs", b"measure\n")]
    found = Relevance(documents, read_query(query))
    one, other = (
        found.piece(i, PieceSpan(0, 8, 0, 1, ("measure",), (around,)))
        for i, around in enumerate(("Period", "Count"))
    )
    assert (one > other * 5 // 4) is is_more


def test_what_is_beside_a_match_is_worth_more_than_what_is_not() -> None:
    data = b"x = 1\n" * 4 + b"mark = 2\n" + b"x = 1\n" * 5
    spans = [PieceSpan(6 * n, 6 * n + 6, n, n + 1) for n in range(4)] + [PieceSpan(24, 33, 4, 5)]
    spans += [PieceSpan(33 + 6 * n, 39 + 6 * n, 5 + n, 6 + n) for n in range(5)]
    found = Relevance([Document("a.py", data)], read_query("mark"))
    worths = found.pieces([(0, span) for span in spans])
    assert max(worths) == worths[4]
    assert worths[3] == worths[5] > worths[2] == worths[7]


def test_names_that_many_define_and_overloads_say_little() -> None:
    """``write`` is mentioned most, and defined in three places; ``Guard`` is defined once."""
    text = b"class Guard: pass\ndef write(): pass\ndef write(x): pass\n"
    documents = [
        Document("a.py", text),
        Document("b.py", b"def write(): pass\n"),
        Document("c.py", b"def write(): pass\n"),
        *(Document(f"u{n}.py", b"from a import Guard, write\n") for n in range(8)),
        *(Document(f"v{n}.py", b"from a import write\n") for n in range(4)),
        Document("tests/t.py", b"def Guard(): pass\n", role=DocumentRole.TEST),
    ]
    guard, first, second = [
        PieceSpan(0, 18, 50, 51, ("Guard",)),
        PieceSpan(18, 36, 51, 52, ("write",)),
        PieceSpan(36, 55, 52, 53, ("write",)),
    ]
    found = Standing(documents)
    spans = [(0, guard), (0, first), (0, second), (len(documents) - 1, PieceSpan(0, 18, 50, 51, ("Guard",)))]
    worths = found.pieces(spans)
    assert worths[0] > worths[1] > worths[2]
    assert worths[3] < worths[0] // 3


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("public readonly record struct TypePair(Type a)", ["TypePair"]),
        ("    public interface IHandler\r", ["IHandler"]),  # CRLF
        ("        public object Parse(Type type)", []),  # a method that returns an object
        ("object Routes extends Base", ["Routes"]),
        ("#define ITEM_key(item) (item)", ["ITEM_key"]),
        ("typedef unsigned int rel_time_t;", ["rel_time_t"]),
        ("} LIBEVENT_THREAD;", ["LIBEVENT_THREAD"]),
        ("int\nevent_del(struct event *ev)\n{", ["event_del"]),
        ("struct evbuffer *evbuffer_new(void)", ["evbuffer_new"]),
        ("struct event;", []),  # a forward declaration
        ("class EXPORT_API Timer {", ["Timer"]),
        ("defmodule Shop.Cart do", ["Cart"]),
        ("function M.open(path)", ["open"]),
        ("fun <T> List<T>.second(): T = this[1]", ["second"]),
        ("type Context struct {", ["Context"]),
        ("type (\n\tPage struct {", ["Page"]),
        ("    let result = run()", []),  # a local variable
        ("run(1, 2)", []),
    ],
)
def test_names_that_a_line_defines(line: str, names: list[str]) -> None:
    assert defined_in(f"{line}\n".encode()) == [name.encode() for name in names]


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("rust", "And, of course, for all of Unicode (see below)\nlet found = parse(\n", []),
        (
            "kotlin",
            (
                "public infix fun Throwable?.suppress(other: Throwable?) {\n"
                "fun <A, B> Map<A, List<B>>.zipped(x: A) = 1\npublic val <T> List<T>.tail: List<T>\n"
                "fun (suspend () -> Int).runIt() {}\nprivate fun <R : Any> List<\n"
                "class Engine private constructor(\nval later by lazy { 1 }\n"
            ),
            ["suppress", "zipped", "tail", "runIt", "Engine", "later"],
        ),
        (
            "rust",
            "type below.) If\ntype Result<T> = core::Result<T>;\nmacro_rules! twice {\n",
            ["Result", "twice"],
        ),
        ("rust", "/*!\nstruct Example {\n*/\npub struct Real {\n", ["Real"]),
        ("python", "from package import (A, B)\nadditional options (must appear after it)\n", []),
        ("python", "class that is one\nclass Cart(Base):\nasync def total(a):\n", ["Cart", "total"]),
        ("python", "if getattr(redis, 'x', None):\n", []),
        ("go", "type Page struct {\nfunc Open(path string) error {\nclass Foo {\n", ["Page", "Open"]),
        ("java", "public @interface Marked {\nreturned by the method (if any)\n", ["Marked"]),
        ("typescript", "export type Options = {\nexport const value = 1\n", ["Options", "value"]),
        ("c", "unsigned is_error(size_t code) { return low(code); }\nint later(void);\n", ["is_error"]),
        (
            "cpp",
            (
                "Entry* Entry::group() const\n{\nint util::total() {\nPacket::operator bool() const\n"
                "typedef void (API *Callback)(\n"
            ),
            ["total"],
        ),
        (
            "cpp",
            (
                "template <typename T, int N = 3> class Vector : Base<T> {\n"
                "template <class T> concept Countable = requires(T t) { t.x(); };\n"
                "using Handler = std::function<void(int)>;\nusing namespace std;\n"
                "static constexpr std::array<int, 3> kItems{\nconstexpr int kLimit = 4;\n"
            ),
            ["Vector", "Countable", "Handler", "kItems", "kLimit"],
        ),
        ("rust", "pub struct Marker;\nstatic mut COUNT: u8 = 1;\n", ["Marker", "COUNT"]),
        ("csharp", "public delegate void Run(int a);\nx = delegate (int a) {\n", ["Run"]),
        ("java", "public non-sealed class Circle extends Shape {\n", ["Circle"]),
        ("javascript", "exports.open = function () {\nmodule.exports = class Door {\n", ["open", "Door"]),
        ("javascript", "exports.open == 1\n", []),
        ("ruby", "Point = Struct.new(:x)\nLIMIT = 1\n", ["Point"]),
        ("lua", "M.open = function(x)\nlocal shut = function()\n", ["open", "shut"]),
        (
            "sql",
            'CREATE TABLE IF NOT EXISTS shop."carts" (\ncreate view open_carts as\n',
            ["carts", "open_carts"],
        ),
        ("c", "/* One line\nfor all of them (see below)\n*/\nint main(void)\n", ["main"]),
        ("kotlin", "data object Nothing\ntypealias Name = String\nfun run() {\n", ["Nothing", "Name", "run"]),
    ],
)
def test_names_are_defined_in_the_words_of_the_language(language: str, text: str, names: list[str]) -> None:
    assert defined_in(text.encode(), language) == [name.encode() for name in names]


def test_members_are_defined_for_the_focus_only() -> None:
    text = b"class Cart:\n    def total(self): pass\nfunc (c *Cart) Sum() int {\n"
    assert defined_in(text) == [b"Cart"]
    assert defined_with_members(text) == {b"Cart", b"total", b"Sum"}


def test_a_name_after_the_name_of_something_else_is_no_mention() -> None:
    """``sync.Mutex`` and ``log.info`` say nothing about a Mutex or an ``info`` of this project."""
    text = b"class Mutex:\n    pass\ndef info_of(): pass\n"
    foreign = [Document(f"u{n}.py", b"sync.Mutex(); log.info_of(); x().info_of\n") for n in range(8)]
    own = [Document(f"v{n}.py", b"locks.Mutex(); locks.info_of()\n") for n in range(8)]
    without = worths_of([Document("locks.py", text), *foreign], "Mutex", "info_of")
    assert without == worths_of([Document("locks.py", text)], "Mutex", "info_of")
    assert min(worths_of([Document("locks.py", text), *own], "Mutex", "info_of")) > max(without)
    scoped = Document("a.cpp", b"namespace locks {\nclass Mutex {\n};\n}\n")
    users = [Document(f"u{n}.cpp", b"locks::Mutex held; range...Mutex\n") for n in range(8)]
    assert worths_of([scoped, *users], "Mutex") > worths_of([scoped], "Mutex")


def test_in_vhdl_a_library_is_named_where_it_is_compiled() -> None:
    text = b"entity fifo is\nend entity;\n"
    users = [Document(f"u{n}.vhd", b"x : entity shop.fifo\n") for n in range(8)]
    found = [Document("fifo.vhd", text, defines=[b"fifo"]), *users]
    assert worths_of(found, "fifo") > worths_of(found[:1], "fifo")


def test_in_csharp_all_of_the_namespaces_around_a_text_are_known() -> None:
    text = b"namespace Shop\n{\n    public class Cart\n    {\n"
    inside = [Document(f"web/u{n}.cs", b"namespace Shop.Web\n{\n  Cart cart;\n") for n in range(8)]
    beside = [Document(f"web/u{n}.cs", b"namespace Other.Web\n{\n  Cart cart;\n") for n in range(8)]
    alone, known, unknown = (
        worths_of([Document("a.cs", text), *more], "Cart") for more in ([], inside, beside)
    )
    assert known > unknown == alone


def test_in_go_a_name_without_its_package_is_of_the_same_folder() -> None:
    text = b"package store\n\ntype Value struct {\n}\n"
    apart = [Document(f"web/u{n}.go", b"package web\n\nvar x = Item{Value: 1}\n") for n in range(8)]
    near = [Document(f"store/u{n}.go", b"package store\n\nvar x Value\n") for n in range(8)]
    using = [Document(f"web/u{n}.go", b"package web\n\nvar x store.Value\n") for n in range(8)]
    alone, other, same, used = (
        worths_of([Document("store/a.go", text), *more], "Value") for more in ([], apart, near, using)
    )
    assert alone == other
    assert same == used > alone


def test_a_file_that_merges_others_defines_nothing() -> None:
    """Its names are worth as much where they come from as if the merged file did not exist."""
    parts = [
        Document(f"part{p}.py", b"".join(b"class Part%dName%d: pass\n" % (p, n) for n in range(20)))
        for p in range(3)
    ]
    merged = Document("extras/all.py", b"".join(part.data for part in parts))
    users = [Document(f"u{n}.py", b"from part0 import Part0Name1\n") for n in range(8)]
    with_it = Standing([*parts, merged, *users])
    without = Standing([*parts, *users])
    span = PieceSpan(0, 1, 400, 440, ("Part0Name1",))
    assert with_it.pieces([(0, span)]) == without.pieces([(0, span)])
    assert with_it.document(3) < with_it.document(0)
    # A copy of one file is not a merged file: neither of the two is left out.
    copy = Document("copy.py", parts[0].data * 3)
    users += [Document(f"w{n}.py", b"from copy import Part0Name1\n") for n in range(8)]
    both = Standing([parts[0], parts[1], copy, *users])
    assert both.pieces([(2, span)])[0] > both.pieces([(1, span)])[0]


def worths_of(documents: list[Document], *names: str) -> list[int]:
    """The worths of pieces of the first document, each defining one of ``names``."""
    spans = [(0, PieceSpan(0, 1, 40 * n + 400, 40 * n + 440, (name,))) for n, name in enumerate(names)]
    return Standing(documents).pieces(spans)


def test_a_member_is_worth_its_mentions_whenever_its_name_is_asked_for() -> None:
    """Its name is not known before its file is cut, and may be in an outline and in no piece."""
    documents = [
        Document("a.py", b"class Cart:\n    def add_line(self): pass\n    def end(self): pass\n"),
        *(Document(f"u{n}.py", b"from a import Cart\nadd_line end\n") for n in range(8)),
    ]
    alone, after, before = Standing(documents), Standing(documents), Standing(documents)
    end = [(0, PieceSpan(0, 1, 400, 440, ("end",)))]
    after.pieces(end)
    before.count_members(["add_line", "end"])
    assert alone.name(0, "add_line") == after.name(0, "add_line") == before.name(0, "add_line") > 0
    assert before.pieces(end) == alone.pieces(end)


def test_a_type_is_worth_more_than_members_and_words_that_are_mentioned_as_often() -> None:
    text = b"class Cart:\n    def add_line(self): pass\ndef price(): pass\n"
    users = [Document(f"u{n}.py", b"from a import Cart, price\nadd_line\n") for n in range(8)]
    cart, member, word = worths_of([Document("a.py", text), *users], "Cart", "add_line", "price")
    assert cart > word > member


def test_a_member_that_all_mention_is_worth_no_more_than_half_of_the_best_name_of_its_file() -> None:
    text = b"class Cart:\n    def add_line(self): pass\n"
    users = [Document(f"u{n}.py", b"add_line\n") for n in range(64)]
    one = Document("one.py", b"from a import Cart\n")
    cart, member = worths_of([Document("a.py", text), one, *users], "Cart", "add_line")
    assert cart > member
    # Where no names are recognized, members are all that is known.
    unknown = Document("a.py", text, defines=[])
    assert worths_of([unknown, *users], "add_line") > worths_of([unknown, one], "add_line")


def test_mentions_count_in_the_same_family_of_languages_and_little_in_tests() -> None:
    text = b"class Cart {\nclass Shop {\nclass Till {\nclass Line {\n"
    documents = [
        Document("a.cpp", text),
        *(Document(f"u{n}.h", b"Cart\n") for n in range(4)),
        *(Document(f"u{n}.py", b"Shop\n") for n in range(9)),
        *(Document(f"t{n}.cpp", b"Till\n", role=DocumentRole.TEST) for n in range(9)),
        *(Document(f"s{n}.cpp", b"class Line {\n", role=DocumentRole.TEST) for n in range(9)),
    ]
    cart, shop, till, line = worths_of(documents, "Cart", "Shop", "Till", "Line")
    assert cart > till > shop
    assert abs(line - shop) < SCALE // 8  # the tests mean their own


@pytest.mark.parametrize(
    ("name", "ending", "call"),
    [
        ("make-point", "scm", b"(list (make-point 1 2))\n"),
        ("empty-cart?", "clj", b"(when (shop.core/empty-cart? cart))\n"),
        ("1000-MAIN", "cbl", b"           PERFORM 1000-MAIN.\n"),
        ("Get-Cart", "ps1", b"$cart = Get-Cart -Id 3\n"),
        ("valid?", "ex", b"if Cart.valid?(cart), do: :ok\n"),
    ],
)
def test_names_with_signs_are_mentioned_as_a_whole(name: str, ending: str, call: bytes) -> None:
    defined = Document(f"a.{ending}", b"", defines=[name.encode(), b"unused-name"])
    users = [Document(f"u{n}.{ending}", call) for n in range(8)]
    used, unused = worths_of([defined, *users], name, "unused-name")
    assert used > unused + SCALE


def test_what_an_interface_declares_is_defined_there() -> None:
    """Not in the file beside it as well: its name would count for less, and twice."""
    users = [Document(f"u{n}.ml", b"let x = total_price y\n") for n in range(8)]
    interface = Document("cart.mli", b"", defines=[b"total_price"])
    body = Document("cart.ml", b"", defines=[b"total_price", b"only_here"])
    other = Document("shop.ml", body.data, defines=body.defines)
    alone, declared, shared = (
        worths_of([interface, *more, *users], "total_price")[0] for more in ([], [body], [other])
    )
    assert declared == alone > shared
    in_body, unused = worths_of([body, interface, *users], "total_price", "only_here")
    assert declared > in_body > unused


def test_the_license_at_the_top_of_a_file_mentions_nothing() -> None:
    license_text = b"/*\n * Copyright 2026. Use of it is governed by the Apache 2.0 license.\n */\n\n"
    text = b"class Apache {\nclass Cart {\n"
    users = [Document(f"u{n}.kt", license_text + b"fun f(x: Cart) {}\n") for n in range(9)]
    apache, cart = worths_of([Document("a.kt", text), *users], "Apache", "Cart")
    assert cart > 4 * apache


def test_what_is_no_code_is_not_read_for_mentions(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def noted(data: bytes) -> list[bytes]:
        read.append(data)
        return tokens(data)

    monkeypatch.setattr("tokenbox.worth.standing.tokens", noted)
    page, code = b"# pages " * 9, b"def pages(): pass\n"
    Standing([Document("a.md", page, role=DocumentRole.OTHER), Document("b.py", code)])
    assert read == [code]


def test_a_text_that_mentions_a_name_twice_counts_once() -> None:
    code, once, twice = b"def pages(): pass\n", b"x = pages\n", b"x = pages\ny = pages(pages)\n"

    def worth(user: bytes, *, found: bool) -> int:
        documents = [Document("a.py", code), Document("b.py", user)]
        words = [set(tokens(document.data)) for document in documents] if found else None
        return Standing(documents, words).document(0)

    for found in (False, True):
        assert worth(once, found=found) == worth(twice, found=found)


def test_what_comes_with_a_language_is_not_in_a_folder_of_its_name() -> None:
    definition = Document("src/main/kotlin/a.kt", b"fun jvm() {}\nfun own() {}\n")
    users = [Document(f"u{n}.kt", b"import kotlin.jvm.JvmName\nimport main.own\n") for n in range(9)]
    jvm, own = worths_of([definition, *users], "jvm", "own")
    assert own > 4 * jvm


def test_a_prototype_in_a_header_is_worth_more_than_a_field_of_that_name() -> None:
    definition = Document("cart.c", b"int cart_add(int x) {\n")
    users = [Document(f"u{n}.c", b"cart_add\n") for n in range(8)]
    header, source = (
        worths_of([Document(path, b"x\n"), definition, *users], "cart_add")[0] for path in ("cart.h", "b.c")
    )
    assert header > source


def test_a_very_long_word_is_searched_without_a_word_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    word = "é" * 1_000
    found = tokenbox.select([f"x {word} y", "z " * 900], 2_100, word, tokenizer="utf8-bytes")
    assert found.text == f"x {word} y"
    assert capfd.readouterr().err == ""
