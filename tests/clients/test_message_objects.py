"""Message objects of six libraries: read alike, and given back as the objects they were."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
STAMP, LOCK = HERE / ".venv-objects/installed", HERE / "locks/objects.txt"
THINKS = {"openai responses", "anthropic", "langchain", "llama-index", "pydantic-ai"}


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, Any]]:
    if not (STAMP.exists() and STAMP.read_bytes() == LOCK.read_bytes()):
        pytest.skip("the libraries are not installed; make clients installs them")
    done = subprocess.run(
        [".venv-objects/bin/python", "python/message_objects.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "library",
    [
        "openai chat",
        "openai responses",
        "anthropic",
        "langchain",
        "llama-index",
        "pydantic-ai",
        "openai agents",
    ],
)
def test_objects_of_a_library(facts: dict[str, dict[str, Any]], library: str) -> None:
    found = facts[library]
    roles = [role for role in found["roles"] if role != "assistant"]
    assert roles == ["system", "user", "tool"]
    assert found["calls"] == [["weather", {"city": "Paris"}]]
    assert found["texts"] == ["Be brief.", "Weather in Paris?", "18", "18 degrees."]
    assert found["reasoning"] == (["Look it up."] if library in THINKS else [])
    assert found["same_objects"]
    assert found["evicted_some"]
    assert found["kept_are_given"]


def test_what_people_put_together_from_answers(facts: dict[str, dict[str, Any]]) -> None:
    shapes = {name: found for name, found in facts.items() if ":" in name}
    assert len(shapes) == 6
    assert [name for name, found in shapes.items() if not all(found.values())] == []
