"""Every built-in lens: pure, total, idempotent on any text; and what each does."""

from __future__ import annotations

import json
import sys

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.content.lensed import BYTES, seen
from tests.effort import examples
from tokenbox.content.lenses import describe, lens_names, parse_pipeline
from tokenbox.content.lenses.registry import find_kind
from tokenbox.tokenizers.estimates import Chars4

MANY = "word\n" * 10

# One spelling of each lens that needs nothing installed, and its argument variants.
SPELLINGS = [
    "trim",
    "squeeze",
    "lowercase",
    "uppercase",
    'replace("a+", "b")',
    'replace("  ", " ")',
    'replace("(.)(.)", "\\2")',
    'replace("\\w+", "<\\0>")',
    'replace("\\B", "")',
    'replace("(?s).", "\\\\\\\\")',
    *(f"{name}({n})" for name in ("head", "tail", "middle", "ends") for n in (0, 1, 2, 5)),
    *(f"{name}(tokens={n})" for name in ("head", "tail", "middle", "ends") for n in (0, 1, 7, 60)),
    "dedup_lines",
    "first_lines(0)",
    "first_lines(2)",
    "first_sentences(0)",
    "first_sentences(1)",
    "first_sentences(3)",
    "json_minify",
    "strip_markdown",
    "logs",
    "logs(context=0)",
    "diff",
    "diff(0)",
    "traceback",
    'traceback("a")',
    "test_report",
    "json_shorten",
    "json_shorten(text=2, items=1)",
    "json_shorten(0, 0)",
    "json_table",
    'json_table("a, b.c", rows=1)',
    'select("a b", lines=2)',
    'select("", lines=0)',
    "markdown_sections",
    'markdown_sections("a, b")',
]
EXTRA = ["html_to_text", "outline", 'outline("python")', 'outline("javascript")', 'outline("rust")']

PIECES = st.sampled_from(
    [
        *"ab. \t\n\r*_`~[]()<>#!|-=+\\\"'{}:,01/",
        *(
            "\r\n",
            "  ",
            "\n\n",
            "**",
            "```\n",
            "~~~",
            "<!--",
            "-->",
            "](",
            "http://x.y",
            "    ",
            "- ",
            "> ",
            "# ",
        ),
        *("---", "\u0301", "\u0600", "\u200d", "\u00a0", "\u2028", "\x00", "\ud800", "\udc00", "\U0001f1e6"),
        *("Σ", "İ", "ß", "。", "[... 3 lines left out ...]\n", "e.g. ", "A. ", "def f(x):\n", "class A {"),
        *("true", '"k"', "[a]: b\n", "|-|-|\n"),
    ]
)
HOSTILE = st.lists(PIECES, max_size=40).map("".join)
# Lines as tools write them, in any order.
TOOLS = """\
@@ -1,3 +1,4 @@
@@ -1 +1,2 @@ f
+a
-b
 c
 d
\\ No newline
diff --git a b
--- a/x
+++ b/yarn.lock
index 12..34
  File "a", line 1, in f
    x
Traceback:
  File "/lib/python3/b", line 2, in g
  at x (node:y:1:2)
  at z.f(A.java:1)
ValueError: 1
ok 1 - x
not ok 2
t.py ..F.
t.py .... [ 9%]
--- PASS: T (0.0s)
test a ... ok
2024-01-01 12:00:00 INFO a 1
2024-01-01 12:00:01 INFO a 2
2024-01-01 12:00:01 INFO a 2 [x3]
12:00:02 ERROR b 1
  at c
x [x2]
x

# A
## B
words a
```
[... 3 lines left out ...]
<div>
<p>a</p>
&lt;p&gt;
<script>1</script>
"""
LINES = st.lists(st.sampled_from(TOOLS.splitlines(keepends=True)), max_size=24).map("".join)
SAID = ["[... 3 characters left out ...]", "[... 1 item left out ...]"]
JSON = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "", "a", "abc", *SAID]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
).map(json.dumps)
ANY = st.text(st.characters(codec=None), max_size=60) | HOSTILE | LINES | JSON


@pytest.mark.parametrize("spelling", SPELLINGS + EXTRA)
@given(text=ANY)
@settings(max_examples=examples(60))
@example(text="")
@example(text="\\``")
@example(text="\\```")
@example(text="One1. \n\nx")
@example(text=".   \n\nx")
@example(text="[... 3 lines left out ...]\n" * 9)
@example(text="a\n  \n\r\n \r\r\n\nb")
def test_a_lens_is_total_deterministic_and_idempotent(spelling: str, text: str) -> None:
    if spelling in EXTRA:
        pytest.importorskip("tree_sitter", reason="the extra outline is not installed")
    pipeline = parse_pipeline(spelling)
    once = pipeline.apply(text, BYTES)
    assert isinstance(once, str)
    assert pipeline.apply(text, BYTES) == once
    assert pipeline.apply(once, BYTES) == once


def test_every_lens_has_its_property_tested() -> None:
    builtin = {d.name for d in describe() if d.builtin}
    assert {s.split("(")[0] for s in SPELLINGS + EXTRA} == builtin


def clusters(text: str) -> list[str]:
    found: list[str] = regex.findall(r"\X", text)
    return found


@given(text=ANY)
def test_trim_and_squeeze_only_take_or_shrink_white_space_clusters(text: str) -> None:
    def words(t: str) -> list[str]:
        return [c for c in clusters(t) if not c.isspace()]

    assert words(seen("trim", text)) == words(text)
    assert words(seen("squeeze", text)) == words(text)


@given(text=ANY, n=st.integers(0, 9))
def test_the_parts_are_where_they_say(text: str, n: int) -> None:
    assert text.startswith(seen(f"head({n})", text))
    assert text.endswith(seen(f"tail({n})", text))
    assert seen(f"middle({n})", text) in text
    assert text.startswith(seen(f"first_sentences({n})", text))


@given(text=st.text(max_size=80), n=st.integers(0, 60))
def test_parts_in_tokens_fit(text: str, n: int) -> None:
    for name in ("head", "tail", "middle", "ends"):
        assert BYTES.count(seen(f"{name}(tokens={n})", text)) <= n


@pytest.mark.slow
def test_case_mapping_settles_for_every_character() -> None:
    # Both mappings work character by character (but for the final sigma, which leaves none behind), so it is
    # enough that every character they write is one they leave alone.
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        assert all(c.lower() == c for c in character.lower()) or character == "Σ"
        assert all(c.upper() == c for c in character.upper())
    assert "Σ" not in "".join(chr(c).lower() for c in range(sys.maxunicode + 1))


@pytest.mark.parametrize(
    ("spelling", "text", "result"),
    [
        ("trim", " \n\ta b\u00a0\r\n", "a b"),
        ("trim", " \u0301a", " \u0301a"),
        ("squeeze", "a  \t b\n\n \n\nc", "a b\n\nc"),
        ("squeeze", "a\r\n\r\n\r\nb", "a\r\n\r\nb"),
        ("squeeze", "a   \u0301b", "a  \u0301b"),
        ("lowercase", "ΑΣ İ", "ας i̇"),
        ("uppercase", "straße", "STRASSE"),
        (r'replace("\d+", "N")', "a 12 b 3", "a N b N"),
        (r'replace("(\w+)@\w+", "\1 at home")', "me@x", "me at home"),
        ('replace("  ", " ")', "a        b", "a b"),
        (r'replace("\d+", "<\0>")', "a 12", "a 12"),
        ("head(2)", "a\nb\nc", "a\nb\n"),
        ("head(2)", "a\rb\r\nc", "a\rb\r\n"),
        ("tail(2)", "a\nb\nc", "b\nc"),
        ("middle(2)", "a\nb\nc\nd\n", "b\nc\n"),
        ("ends(3)", f"a\nb\n{MANY}d\ne", "a\nb\n[... 11 lines left out ...]\ne"),
        ("ends(2)", f"a\n{'b' * 40}\nc", "a\n[... 1 line left out ...]\nc"),
        ("ends(2)", "a\nb\nc", "a\nb\nc"),
        ("ends(4) |> ends(2)", f"a\nb\n{MANY}c\nd", "a\n[... 12 lines left out ...]\nd"),
        ("head(tokens=3)", "abcdef", "abc"),
        ("tail(tokens=3)", "abcdef", "def"),
        ("head(tokens=2)", "ae\u0301", "a"),
        ("dedup_lines", "one line\nb\none line\n\n\nb", "one line [x2]\nb\n\n\nb"),
        (
            "dedup_lines",
            "if x:\n    y()\n    y()\nz\nif x:\n    w()\n",
            "if x:\n    y() [x2]\nz\nif x:\n    w()\n",
        ),
        ("first_lines(1)", "one\n" + "two\r\n" * 9, "one\n[... 9 lines left out ...]\r\n"),
        (
            "first_lines(1)",
            "one\n[... 9 lines left out ...]\nten\neleven",
            "one\n[... 11 lines left out ...]",
        ),
        ("first_lines(1)", "one\ntwo", "one\ntwo"),
        ("first_sentences(1)", "See Dr. Who at 3.14, e.g. now. Then go.", "See Dr. Who at 3.14, e.g. now."),
        ("first_sentences(2)", "Title\n\nOne. Two.", "Title\n\nOne."),
        ("first_sentences(1)", "「好。」再見。", "「好。」"),
        (
            "json_minify",
            ' { "a" : 1.50e+3 , "a" : [ 1, "x y\\u00e9" ] } ',
            '{"a":1.50e+3,"a":[1,"x y\\u00e9"]}',
        ),
        ("json_minify", "[ 01 ]", "[ 01 ]"),
        ("json_minify", "[ NaN ]", "[ NaN ]"),
        ("json_minify", "[ 1, ]", "[ 1, ]"),
        ("json_minify", "[ 1. ]", "[ 1. ]"),
        ("json_minify", "[ 1e ]", "[ 1e ]"),
        ("json_minify", r'[ "\u" ]', r'[ "\u" ]'),
        ("json_minify", '{ "a" : 1 ]', '{ "a" : 1 ]'),
    ],
)
def test_what_a_lens_does(spelling: str, text: str, result: str) -> None:
    assert seen(spelling, text) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("## Title ##\n", "Title\n"),
        ("# C#\n", "C#\n"),
        ("a *b* **c** ***d*** _e_ __f__ ~~g~~", "a b c d e f g"),
        (
            "snake_case 2 * 3 * 4 a*b*c f(*args, **kwargs) 2**3**4",
            "snake_case 2 * 3 * 4 a*b*c f(*args, **kwargs) 2**3**4",
        ),
        ("这是**重点**内容", "这是重点内容"),
        ("[a](http://x (y) z) [b](http://x_(y) 'z') ![c](d.png)", "[a](http://x (y) z) b c"),
        ("[![i](i.png)](x)", "i"),
        ("[a][r] a[0][1] [r]\n\n[R]: http://x\n", "a a[0][1] r\n\n"),
        ("`code` and `a*b` and ``x`y``", "code and `a*b` and ``x`y``"),
        ("`a_b` and `a_`", "a_b and `a_`"),
        ("a <!-- b\nc --> d", "a  d"),
        ("> a\n> > b\n", "a\nb\n"),
        ("> ```\n> # x\n> ```\n", "    # x\n"),
        ("a\n\n---\nb", "a\n\n\nb"),
        ("Title\n=====\ntext", "Title\ntext"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\n", "| a | b |\n| 1 | 2 |\n"),
        ("* one\n- two\n1. three\n", "* one\n- two\n1. three\n"),
        ("<https://x.y/_a_> https://x.y/_b_", "https://x.y/_a_ https://x.y/_b_"),
        (r"\*not\* emphasis", r"\*not\* emphasis"),
        ("```python\n# note\nx = a*b*c\n```\n", "    # note\n    x = a*b*c\n"),
        ("```\nnever closed *x*", "```\nnever closed x"),
    ],
)
def test_strip_markdown(text: str, result: str) -> None:
    assert seen("strip_markdown", text) == result


JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=JSON_VALUES, indent=st.integers(0, 3), ascii_only=st.booleans())
def test_json_minify_agrees_with_the_standard_library(value: object, indent: int, ascii_only: bool) -> None:
    pretty = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert seen("json_minify", pretty) == json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)


@given(text=HOSTILE)
def test_json_minify_changes_only_what_python_reads_as_json(text: str) -> None:
    result = seen("json_minify", text)
    if result != text:
        assert json.loads(result) == json.loads(text)


def test_deep_json_needs_no_stack() -> None:
    deep = "[ " * 100_000 + "]" * 100_000
    assert seen("json_minify", deep) == "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "unit", ["*", "[", "`", ">", "_", "#", "<!--", "](", "*a", "[](", "~~a", "``a", ". ", "a\n", '"']
)
@pytest.mark.parametrize(
    "spelling",
    ["strip_markdown", "first_sentences(9)", "json_minify", "squeeze", "trim", "ends(3)", "first_lines(3)"],
)
@pytest.mark.parametrize("times", [4_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_long_runs_of_marks(spelling: str, unit: str, times: int) -> None:
    # Anything quadratic would take minutes here.
    text = unit * times
    once = seen(spelling, text)
    assert seen(spelling, once) == once


def test_an_estimate_is_marked() -> None:
    result = parse_pipeline("ends(tokens=20)").apply("word " * 100, Chars4())
    assert "[... ~" in result


def test_names_are_sorted_and_described() -> None:
    assert list(lens_names()) == sorted(lens_names())
    for line in describe():
        assert line.description
        assert line.takes.startswith(line.name)
        kind = find_kind(line.name)
        assert kind is not None
        if kind.builtin and line.name != "outline":
            parse_pipeline(line.example)
