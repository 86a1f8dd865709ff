"""The published schemas say what the code does: no more, no less."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tokenbox import ContextCriticalOverflow, Keep, Section, layout
from tokenbox.compose.diff import SCHEMA
from tokenbox.content.section import Cut
from tokenbox.content.weight import weight_text
from tokenbox.documents import LayoutDocument, layout_schema, parse_document, parse_text, result_schema
from tokenbox.engine.result import Action, Decision, Policy
from tokenbox.errors import DocumentError, UnknownTokenizer
from tokenbox.integers import MAX_INTEGER

CASES = Path(__file__).parent / "cases"
LAYOUT = Draft202012Validator(layout_schema())
RESULT = Draft202012Validator(result_schema())


@pytest.mark.parametrize("schema", [layout_schema(), result_schema()])
def test_the_schemas_are_schemas(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_the_defaults_it_states_are_the_defaults() -> None:
    schema = layout_schema()
    document, section = LayoutDocument(()), Section("a", "x")
    for key in ("tokenizer", "separator", "policy", "reclaim"):
        assert schema["properties"][key]["default"] == getattr(document, key)
    for key in schema["properties"]["defaults"]["properties"]:
        stated, real = schema["$defs"][key]["default"], getattr(section, key)
        assert stated == (
            int(weight_text(real)) if key in ("grow", "shrink") else list(real) if key == "forms" else real
        )


def test_the_words_it_lists_are_the_words() -> None:
    defs = layout_schema()["$defs"]
    assert defs["keep"]["enum"] == list(Keep)
    assert defs["cut"]["enum"] == list(Cut)
    assert layout_schema()["properties"]["policy"]["enum"] == list(Policy)
    assert defs["tokens"]["maximum"] == defs["priority"]["maximum"] == MAX_INTEGER
    results = result_schema()["$defs"]
    assert results["section"]["properties"]["decision"]["enum"] == list(Decision)
    assert results["step"]["properties"]["action"]["enum"] == list(Action)
    assert results["layout"]["properties"]["schema"]["const"] == SCHEMA


# A whole document, and each of its values replaced by each of these: most are wrong somewhere.
WHOLE: dict[str, Any] = {
    "$schema": "s",
    "budget": 10,
    "tokenizer": "utf8-bytes",
    "separator": "",
    "policy": "degrade",
    "groups": {"g": {"min": 1, "max": "50%", "priority": 3, "parent": "h"}, "h": {"max": 9}},
    "reclaim": False,
    "defaults": {
        "priority": 1,
        "min": 0,
        "grow": 0,
        "shrink": "0.5",
        "strategy": "squeeze",
        "role": "user",
        "keep": "tail",
        "max": "10 %",
        "cut": "line",
        "marker": "...",
    },
    "sections": [
        {"id": "a", "content": "x", "extra": ["y"], "priority": 3, "min": 1, "grow": 0.5, "keep": "head"},
        {"id": "b", "content_file": "part/text.txt", "extra_files": ["part/text.txt"], "shrink": 1},
        {"id": "c", "content": "", "role": None, "strategy": None, "with": "b", "shrink": 1},
        {"id": "d", "content": ["x", {"y": [1, None, 0.5]}], "group": "g", "shrink": 1},
        {
            "id": "e",
            "content": {"k": "v"},
            "forms": ["squeeze", {"text": "z"}, {"text_file": "part/text.txt"}],
            "max": 7,
            "cut": "never",
        },
    ],
}
VALUES: list[object] = [
    *(None, True, False, [], {}, [None], [[]], {"x": 1}),
    *(0, 1, -1, 0.5, -0.5, 1.0, -1.0, 1e300, MAX_INTEGER, MAX_INTEGER + 1, -MAX_INTEGER - 1),
    *(
        "",
        "x",
        "1",
        "1/3",
        "1/3%",
        "101%",
        "0.5",
        "-1",
        "1e3",
        "1.",
        ".5",
        ".",
        "e5",
        "NaN",
        " 1",
        "0x10",
        "head",
        "squeeze",
        "part/text.txt",
    ),
    *(["part/text.txt"], ["x", ""], ["x", 1]),
]
ABSENT = object()

# Errors that a schema cannot see.
BEYOND_A_SCHEMA = {
    "document_duplicate_id",
    "document_unknown_name",
    "document_bad_strategy",
    "document_file_missing",
    "document_file_unreadable",
}


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value in ``data``, and of one unknown key in each mapping."""
    found = [path]
    if isinstance(data, dict):
        for key, value in data.items():
            found += places(value, (*path, key))
        found += [
            (*path, key) for key in ("unknown", "content", "content_file", "extra_files") if key not in data
        ]
    elif isinstance(data, list):
        for i, value in enumerate(data):
            found += places(value, (*path, i))
    return found


def changed(path: tuple[str | int, ...], value: object) -> object:
    if not path:
        return value
    data = copy.deepcopy(WHOLE)
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    if value is not ABSENT:
        inner[path[-1]] = value
    else:
        inner.pop(path[-1], None) if isinstance(inner, dict) else inner.pop(path[-1])
    return data


def our_verdict(data: object) -> str | None:
    try:
        parse_document(data, base=CASES)
    except DocumentError as error:
        return error.code
    return None


def agree(data: object) -> bool:
    """Return True if the code takes the document; the schema must say the same where it can."""
    code = our_verdict(data)
    if code not in BEYOND_A_SCHEMA:
        refusal = next(LAYOUT.iter_errors(data), None)
        assert (code is None) == (refusal is None), (code, refusal)
    return code is None


def test_the_whole_document_is_good() -> None:
    assert agree(WHOLE)


@pytest.mark.slow
@pytest.mark.parametrize("path", places(WHOLE), ids=str)
def test_the_schema_and_the_code_agree(path: tuple[str | int, ...]) -> None:
    verdicts = set()
    for value in [*VALUES, ABSENT]:
        if path or value is not ABSENT:
            verdicts.add(agree(changed(path, value)))
    # Somewhere in the table there is a refusal to agree on, but where any plain data is good.
    assert False in verdicts or path[-1] == "$schema" or "content" in path[:-1]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(places(WHOLE)), json_values)
def test_they_agree_on_any_value_anywhere(path: tuple[str | int, ...], value: object) -> None:
    agree(changed(path, value))


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.glob("*.json")))
def test_they_agree_on_the_cases(name: str) -> None:
    try:
        text = (CASES / name).read_text()
        json.loads(text, parse_constant=float, object_pairs_hook=strict)
    except ValueError:
        return  # not JSON, so nothing for a schema to say
    refusals = list(LAYOUT.iter_errors(json.loads(text)))
    # weight_huge is 1e99999999, which is infinite for json.loads; the others have what no schema sees.
    beyond = {"weight_nan.json", "weight_huge.json", "content_surrogate.json", "file_absolute.json"}
    beyond |= {"content_item.json", "content_key.json", "with_itself.json"}
    beyond |= {"with_nobody.json"}
    with pytest.raises(DocumentError):
        parse_text(text, ".json", base=CASES)
    assert bool(refusals) == (name not in beyond)


def strict(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


SECTIONS = [
    Section("rules", "Be brief. " * 3),
    Section("notes", "one  two\n\n\nthree " * 8, shrink=1, min=3, strategy="squeeze", grow=1),
    Section("log", "a line\n" * 20, priority=3, shrink=2, extra=("more", "and more"), grow=1, keep=Keep.TAIL),
    Section("empty", "", shrink=1),
]


@pytest.mark.parametrize("tokenizer", ["utf8-bytes", "chars4", "o200k_base"])
def test_every_result_is_as_its_schema_says(tokenizer: str) -> None:
    decisions = set()
    for budget in range(0, 420, 7):
        try:
            result = layout(SECTIONS, budget, tokenizer, reclaim=budget % 2 == 0).to_dict()
        except ContextCriticalOverflow as overflow:
            result = {"error": overflow.to_dict()}
        as_read = json.loads(json.dumps(result))
        assert as_read == result
        RESULT.validate(as_read)
        decisions |= {section["decision"] for section in as_read.get("sections", ())}
    assert decisions >= {"kept", "expanded", "truncated", "dropped"}


def test_other_errors_are_as_the_schema_says() -> None:
    with pytest.raises(DocumentError) as bad_document:
        parse_document({}, base=CASES)
    with pytest.raises(UnknownTokenizer) as unknown:
        layout([], 1, "o200k-base")
    for error in (bad_document.value, unknown.value):
        RESULT.validate(json.loads(json.dumps({"error": error.to_dict()})))


@pytest.mark.parametrize("key", ["fixed_load", "budget", "deficit", "critical", "smallest_change"])
def test_an_overflow_without_its_figures_is_refused(key: str) -> None:
    with pytest.raises(ContextCriticalOverflow) as caught:
        layout(SECTIONS, 0, "utf8-bytes")
    error = caught.value.to_dict()
    assert RESULT.is_valid({"error": error})
    del error[key]
    assert not RESULT.is_valid({"error": error})


def test_a_caller_may_change_what_it_got() -> None:
    layout_schema()["title"] = "mine"
    assert layout_schema()["title"] == "tokenbox layout document"
