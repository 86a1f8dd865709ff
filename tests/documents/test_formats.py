"""The three formats: the same document reads the same, and every key knows its line."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tokenbox import Keep, Section
from tokenbox.content.lenses import parse_pipeline
from tokenbox.documents import FORMATS, LayoutDocument, parse_text
from tokenbox.errors import DocumentError

if TYPE_CHECKING:
    from tokenbox.documents.source import KeyPath

HERE = Path(__file__).parent / "cases"

WRITTEN = {
    ".toml": """
"$schema" = "layout.schema.json"
budget = 8000
tokenizer = "cl100k_base"
separator = "\\n"
reclaim = true

[defaults]
shrink = 0.1
strategy = "squeeze"
keep = "tail"

[[sections]]
id = "rules"
content = "Be brief."
shrink = 0
role = "system"

[[sections]]
id = "log"
content_file = "part/text.txt"
priority = -3
min = 1_0
grow = "2.5e-1"
extra = ["a", ""]
keep = "ends"
""",
    ".yaml": """
$schema: layout.schema.json
budget: 8000
tokenizer: cl100k_base
separator: "\\n"
reclaim: true
defaults: {shrink: 0.1, strategy: &s squeeze, keep: tail}
sections:
  - id: rules
    content: Be brief.
    shrink: 0
    strategy: *s
    role: system
  - id: !!str log
    content_file: part/text.txt
    priority: -3
    min: 10
    grow: 2.5e-1
    extra: [a, ""]
    keep: ends
""",
    ".json": """{
"$schema": "layout.schema.json",
"budget": 8000, "tokenizer": "cl100k_base", "separator": "\\n", "reclaim": true,
"defaults": {"shrink": 0.1, "strategy": "squeeze", "keep": "tail"},
"sections": [
  {"id": "rules", "content": "Be brief.", "shrink": 0, "role": "system"},
  {"id": "log", "content_file": "part/text.txt", "priority": -3, "min": 10, "grow": 25e-2,
   "extra": ["a", ""], "keep": "ends", "role": null}
]}
""",
}
WRITTEN[".yml"] = WRITTEN[".yaml"]


def read(text: str, suffix: str) -> LayoutDocument:
    return parse_text(text, suffix, base=HERE)


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_document_in_every_format(suffix: str) -> None:
    squeeze = parse_pipeline("squeeze")
    assert read(WRITTEN[suffix], suffix) == LayoutDocument(
        sections=(
            Section("rules", "Be brief.", strategy=squeeze, role="system", keep=Keep.TAIL),
            Section(
                "log",
                "text of a part\r\nsecond line\r\n",  # as it is in the file
                priority=-3,
                min=10,
                grow=Fraction(1, 4),
                shrink=Fraction(1, 10),
                strategy=squeeze,
                extra=("a", ""),
                keep=Keep.ENDS,
            ),
        ),
        budget=8000,
        tokenizer="cl100k_base",
        separator="\n",
        reclaim=True,
    )


@pytest.mark.parametrize("suffix", FORMATS)
def test_upper_case_suffix_is_the_same_format(suffix: str) -> None:
    assert read(WRITTEN[suffix], suffix.upper()) == read(WRITTEN[suffix], suffix)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".toml", "[[sections]]\nid = 'a'\ncontent = ''\ngrow = {}"),
        (".yaml", "sections:\n- id: a\n  content: ''\n  grow: {}"),
        (".json", '{{"sections": [{{"id": "a", "content": "", "grow": {}}}]}}'),
    ],
)
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0.1", Fraction(1, 10)),
        ("0.30000000000000004", Fraction(30000000000000004, 10**17)),
        ("1.0e-30", Fraction(1, 10**30)),
        ("-0.0", 0),
        ('"0.1"', Fraction(1, 10)),
        ("3.0", 3),
    ],
)
def test_weights_are_exactly_what_is_written(suffix: str, text: str, written: str, meant: Fraction) -> None:
    assert read(text.format(written), suffix).sections[0].grow == meant


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".toml", "[[sections]]\nid = 'a'\ncontent = {{x = {0}, y = [{0}, 1.10, {{z = 3}}]}}"),
        (".yaml", "sections:\n- id: a\n  content: {{x: {0}, y: [{0}, 1.10, {{z: 3}}]}}"),
        (".json", '{{"sections": [{{"id": "a", "content": {{"x": {0}, "y": [{0}, 1.10, {{"z": 3}}]}}}}]}}'),
    ],
)
def test_a_number_of_a_content_keeps_its_digits(suffix: str, text: str) -> None:
    """It became a float: 1.2345678901234567e+19."""
    number = "12345678901234567890.12345678901234567890"
    items = read(text.format(number), suffix).sections[0].items
    assert items == (f"x: {number}", f'y: [{number}, 1.10, {{"z": 3}}]')


def test_null_takes_a_default_back() -> None:
    text = (
        "defaults: {strategy: squeeze, role: user}\nsections: [{id: a, content: x, strategy: null, role: ~}]"
    )
    assert read(text, ".yaml").sections == (Section("a", "x"),)


# In each of these a key lN, or a value N in a list, stands on line N.
LINES = {
    ".toml": '''l1 = 1 # [[not.a.table]] "
"l2" = """
l0 = 0
[[no]]""\\"""" # three quotes end it
l5 = """"quoted""""
l6 = \'\'\'it's
[no]\'\'\'
'l8' = {l8 = 1, x.l8 = [8, {l8 = [8]}]}
l9 = [
  10, # ten
  [11, 1.5, {l11 = 2024-01-01}],
  12, "]", 12,
]

[table]
l16.l16 = []
[[table.list]] # first
l18 = 1
[[table.list]]
l20 = "#"
[table.list.deep]
l22 = 1\r
l23 = '"'
[l24]
''',
    ".json": """{
"l2": "}\\"{", "x": {"l2": [2, {"l2": [2]}]},

"l4":
  {"l5": "\\n", "\\u006c5\\u005f": 1},
"l6": [
  [7, 7], {},
  [],
  9, "[", 9]
}""",
    ".yaml": """l1: &a |
  text
  l0: 0
l4: "two
  lines"
? l6
: - 7
  - 8
  - [9, {l9: 9},
     10]
l11: *a
l12: >-

  folded
""",
}


@pytest.mark.parametrize("suffix", LINES)
def test_every_key_knows_its_line(suffix: str) -> None:
    text = LINES[suffix]
    parse, _ = FORMATS[suffix]
    source = parse(text, None, 1)
    checked = 0
    for path, value in leaves(source.data, ()):
        key = path[-1]
        stated = re.fullmatch(r"l(\d+)_?", key) if isinstance(key, str) else None
        line = (
            int(stated[1]) if stated else value if isinstance(key, int) and isinstance(value, int) else None
        )
        if line is not None:
            assert source.line(path) == line, path
            checked += 1
    # No key of the text was missed, and none was found inside a string.
    keys = set(re.findall(r"\bl([1-9]\d*)\b", text))
    assert {str(source.line(path)) for path, _ in leaves(source.data, ()) if is_marked(path)} == keys
    assert checked > len(keys)
    assert parse(text, None, 101).line(first_path(source.data)) == source.line(first_path(source.data)) + 100  # type: ignore[operator]


def is_marked(path: KeyPath) -> bool:
    return isinstance(path[-1], str) and re.fullmatch(r"l\d+", path[-1]) is not None


def first_path(data: object) -> KeyPath:
    return next(path for path, _ in leaves(data, ()) if is_marked(path))


def leaves(data: object, path: KeyPath) -> list[tuple[KeyPath, object]]:
    """Every value in ``data`` but ``data`` itself, with its path."""
    items: list[tuple[str | int, object]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    found: list[tuple[KeyPath, object]] = []
    for key, value in items:
        found += [((*path, key), value), *leaves(value, (*path, key))]
    return found


def test_the_line_of_a_stream_is_the_line_of_an_error() -> None:
    for text in ('{"sections": [], "budget": -1}', '{"sections": [],, }', '{"a": 1, "a": 2}', " "):
        with pytest.raises(DocumentError) as caught:
            parse_text(text, ".json", base=HERE, name="stream.jsonl", first_line=17)
        assert (caught.value.file, caught.value.line) == ("stream.jsonl", 17)


def test_duplicate_ids_name_both_places() -> None:
    text = "sections:\n- {id: a, content: x}\n- {id: b, content: x}\n- {id: a, content: x}"
    with pytest.raises(DocumentError) as caught:
        read(text, ".yaml")
    details = caught.value.details
    assert [details[key] for key in ("id", "first", "second", "first_line", "line")] == ["a", 0, 2, 2, 4]
    assert "sections[0] (line 2)" in str(caught.value)


@pytest.mark.parametrize("depth", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("opening", ["[", '{"a":', "? ", "- ", "a = [", "a = {b = ", "[a.", "a.", "&a ["])
def test_deep_nesting_is_one_clear_error(suffix: str, opening: str, depth: int) -> None:
    with pytest.raises(DocumentError):
        read(opening * depth, suffix)
