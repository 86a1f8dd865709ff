"""The Token Box Model as data: every vector of token_box_model.json, laid out and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tokenbox

FILE = Path(__file__).with_name("token_box_model.json")
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["vectors"]
FIELDS = {
    "name",
    "rule",
    "tokenizer",
    "separator",
    "options",
    "budget",
    "sections",
    "expected",
    "error",
}


def run(vector: dict[str, Any]) -> tokenbox.Layout:
    return tokenbox.layout(
        vector["sections"],
        vector["budget"],
        vector["tokenizer"],
        vector["separator"],
        **vector["options"],
    )


def observed(result: tokenbox.Layout) -> dict[str, Any]:
    return {
        "text": result.text,
        "total": result.total,
        "joins": result.joins,
        "decisions": [section.decision.value for section in result.sections],
        "sizes": [section.size for section in result.sections],
        "base_sizes": [section.base_size for section in result.sections],
        "fixed_load": result.fixed_load,
    }


def part_of(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Of ``found``, what ``expected`` speaks of."""
    return {
        key: part_of(value, found[key]) if isinstance(value, dict) else found[key]
        for key, value in expected.items()
    }


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    if "error" in vector:
        with pytest.raises(tokenbox.ContextCriticalOverflow) as caught:
            run(vector)
        found = caught.value.to_dict() | {"critical": [list(item) for item in caught.value.critical]}
        assert part_of(vector["error"], found) == vector["error"]
        return
    result = run(vector)
    assert part_of(vector["expected"], observed(result)) == vector["expected"]
    assert result.pricing == "exact" or vector["tokenizer"] == "code-aware"


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_every_vector_whose_whole_fits_changes_nothing(vector: dict[str, Any]) -> None:
    plain = [{**section, "extra": []} for section in vector["sections"]]
    roomy = run({**vector, "sections": plain, "budget": 10_000})
    exact = run({**vector, "sections": plain, "budget": roomy.total})
    whole = vector["separator"].join(s["content"] for s in plain if s["content"])
    assert roomy.text == exact.text == whole
    assert roomy.total == exact.total
    assert not exact.log
    assert {section.decision.value for section in exact.sections} <= {"kept"}


def test_vectors_are_well_formed() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(set(names)) == len(names) > 50
    for vector in VECTORS:
        assert set(vector) <= FIELDS
        assert ("expected" in vector) != ("error" in vector)
        assert vector["rule"]
