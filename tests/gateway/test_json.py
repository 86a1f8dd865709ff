"""JSON by orjson is what JSON by Python's own module was: ids of decisions, lines of the spool, answers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.content.canonical import canonical
from tokenbox.gateway.admission import decision_id
from tokenbox.gateway.asgi import json_bytes, json_object

KEYS = st.text(st.characters(max_codepoint=127))
# Also with half a character; two halves that meet would be one when they are read.
TEXTS = st.text() | st.text().map("\udc00{}".format)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1)


def values(texts: st.SearchStrategy[str], numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=12,
    )


@given(st.dictionaries(KEYS, values(st.text(), NUMBERS)))
@pytest.mark.slow
def test_the_id_of_a_decision_is_over_its_canonical_json(decision: dict[str, Any]) -> None:
    assert decision_id(decision) == hashlib.sha256(canonical(decision)).hexdigest()


@given(
    st.dictionaries(
        KEYS,
        values(
            TEXTS,
            st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        ),
    )
)
def test_what_is_written_is_read(value: dict[str, Any]) -> None:
    """Also numbers of more than 64 bits and half characters; by any reader that knows these."""
    assert json.loads(json_bytes(value)) == value


@given(
    st.dictionaries(
        KEYS,
        values(TEXTS, st.integers(-(2**63), 2**64 - 1) | st.floats()),
    )
)
def test_what_another_version_wrote_is_read(value: dict[str, Any]) -> None:
    """By Python's module, NaN and all: records of the spool, and what servers say."""
    line = json.dumps(value, separators=(",", ":"))
    assert repr(json_object(line.encode())) == repr(json.loads(line))


def test_what_is_no_object_is_none() -> None:
    for data in (b"[1]", b"1", b"", b'{"a":1', b"\xff", b'{"a":' * 100_000):
        assert json_object(data) is None


def test_an_answer_may_begin_with_a_byte_order_mark() -> None:
    """Some frameworks write that of UTF-8. In UTF-16 nobody would find a key that has to be hidden."""
    assert json_object(b'\xef\xbb\xbf{"id": "c1"}') == {"id": "c1"}
    assert json_object('{"id": "c1"}'.encode("utf-16")) is None
