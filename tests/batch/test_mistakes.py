"""Mistakes in the options of a batch are errors before anything is written."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.batch.rows import write_jsonl
from tokenbox import batch
from tokenbox.batch.errors import InvalidPlan

if TYPE_CHECKING:
    from pathlib import Path


def test_a_budget_that_is_no_column_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_jsonl(source, [{"id": 1, "text": "one two"}])
    with pytest.raises(InvalidPlan, match=r"no column 'many' \(--budget\)\. The columns are id, text\."):
        batch.run(source, output, task="layout", content="text", budget="many", keep=["other"])
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("keep", "id"),
        ("keep", 5),
        ("keep", [5]),
        ("keep", {"id": 1}),
        ("allow_outside", "no"),
        ("reclaim", "no"),
        ("overwrite", "no"),
        ("resume", 1),
        ("fail_fast", "false"),
    ],
)
def test_an_option_of_another_type_is_an_error_before_anything_is_written(
    tmp_path: Path, option: str, value: object
) -> None:
    source, output = write_jsonl(tmp_path / "in.jsonl", [{"id": 1, "text": "one"}]), tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(InvalidPlan, match=f"{option} must be .*not "):
        batch.run(source, output, task="count", **{option: value})  # type: ignore[arg-type]  # wrong by intent
    assert output.read_text() == "mine"


def test_the_command_refuses_an_output_in_its_own_memory(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    write_jsonl(source, [{"id": 1, "text": "one two"}])
    options = ["--content", "text", "--budget", "40", "-o", "memory://out.jsonl"]
    command = [sys.executable, "-m", "tokenbox", "batch", str(source), *options]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 2
    assert "lost when it ends" in ended.stderr
    assert "--output out.jsonl" in ended.stderr
