"""Canonical JSON beside the reference implementation of RFC 8785."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.content.canonical import NotCanonical, canonical, parse_canonical, record_digest
from tokenbox.integers import MAX_INTEGER

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_as_the_reference(value: object) -> None:
    data = canonical(value)
    assert data == rfc8785.dumps(cast("None", value))
    assert parse_canonical(data) == value


@given(VALUES, st.booleans())
def test_another_spelling_is_refused(value: object, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, separators=(", ", ":")).encode()
    if data == canonical(value):
        assert parse_canonical(data) == value
    else:
        with pytest.raises(NotCanonical):
            parse_canonical(data)


def test_keys_are_sorted_as_utf16() -> None:
    value = {"\ufb33": 1, "\U0001f600": 2, "ö": 3}
    assert canonical(value) == rfc8785.dumps(cast("None", value))
    assert list(json.loads(canonical(value))) == ["ö", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    "value",
    [1.5, float("nan"), 2**53, -(2**53), Decimal(1), b"x", {1: 2}, {("a",): 1}, {1, 2}, object(), "\ud800"],
)
@pytest.mark.parametrize("around", [lambda v: v, lambda v: {"é": [v]}, lambda v: [{"é": 1}, v]])
def test_what_has_no_canonical_form(value: object, around: object) -> None:
    with pytest.raises(NotCanonical):
        canonical(around(value))  # type: ignore[operator]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1 ",
        b"01",
        b"-0",
        b"1.0",
        b"1e2",
        b"NaN",
        b"Infinity",
        b"9007199254740992",
        b"1" * 5000,
        b'"\\u0041"',
        b'"\\/"',
        b'"\\ud800"',
        b'"\xff"',
        b'{"a":1,"a":1}',
        b'{"b":1,"a":1}',
        b"[1,]",
        b"[1]\n",
        b"[" * 100_000,
        b"[" * 200 + b"]" * 200,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        "\ufeff1".encode(),
        "1".encode("utf-16"),
    ],
)
def test_what_is_not_canonical(data: bytes) -> None:
    with pytest.raises(NotCanonical):
        parse_canonical(data)


def test_a_digest_is_that_of_the_reference_implementation() -> None:
    record: Any = {"text": "é\u2028", "list": [1, None, True, ("a",)], "\U0001f600": 1, "\ufb33": 2}
    assert record_digest(record) == hashlib.sha256(rfc8785.dumps(record)).hexdigest()
    with pytest.raises(NotCanonical):
        record_digest({"share": 0.5})
