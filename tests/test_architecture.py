"""docs/architecture.md names what is there, and so do the other pages for those who change the code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`, `(\w+)`", PAGE)))


def test_the_page_walks_the_five_journeys() -> None:
    assert len(re.findall(r"^## Journey \d", PAGE, re.MULTILINE)) == 5
    assert len(PLACES) > 25


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_what_the_page_names_is_there(file: str, name: str) -> None:
    source = (ROOT / "src" / "tokenbox" / file).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.MULTILINE), f"{file} has no {name}"


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [re.sub(r"[()]", "", line) for c in contracts if c["id"] == "layers" for line in c["layers"]]
    assert PAGE.split("```text\n")[1].split("```")[0].splitlines() == checked


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/releasing.md",
        "docs/stability.md",
        "docs/extending.md",
        "docs/architecture.md",
    ],
)
def test_files_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tools|tests|docs|bench|examples)/[\w./-]+)`", text))
    named |= set(re.findall(r"\]\((docs/[\w.-]+|[A-Z]+\.md)\)", text))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_what_a_page_tells_you_to_make_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in ("CONTRIBUTING.md", "docs/releasing.md", "docs/architecture.md", "README.md"):
        asked = set(re.findall(r"make ([a-z]+)\b(?=[`\s])", (ROOT / page).read_text(encoding="utf-8")))
        commands = {word for word in asked if f"`make {word}" in (ROOT / page).read_text(encoding="utf-8")}
        assert commands <= targets, page


def test_the_hooks_of_the_repository_run_what_is_there() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} >= {"ruff", "ruff-format", "mypy", "imports"}
    assert all(hook["language"] == "system" and hook["entry"].startswith(".venv/bin/") for hook in hooks)


@pytest.mark.slow  # make check runs it too
def test_the_reference_is_what_the_code_says_whatever_the_hash_seed() -> None:
    """It was written with another seed than this one."""
    run = subprocess.run(
        [sys.executable, "tools/reference.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
def test_a_name_of_a_class_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.slow
def test_no_module_imports_what_is_private_to_another() -> None:
    private = [
        f"{path.relative_to(ROOT)}: {node.module}.{name.name}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokenbox")
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__")
    ]
    assert private == []


def test_every_exception_to_the_rules_has_its_reason() -> None:
    """``# noqa: S301  # our own``: why the rule does not hold there."""
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"# noqa(?!: [A-Z]+\d+(, [A-Z]+\d+)*  # [\w`])", line)
    ]
    assert bare == []


@pytest.mark.slow
def test_an_import_in_a_function_has_its_reason() -> None:
    """Commands load what they run, and packages of extras are optional: those need no words."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        if "cli" not in path.parts
        for lines in [path.read_text(encoding="utf-8").splitlines()]
        for function in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for before, node in pairwise([None, *function.body])
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokenbox")
        if not isinstance(before, ast.ImportFrom)  # the reason of a block stands at its first line
        if "#" not in "".join(lines[node.lineno - 2 : node.end_lineno])
    ]
    assert bare == []


# As in ``(...)*+`` and ``(...){2,}+``; ``()*+`` stands in sets of characters.
_POSSESSIVE_GROUP = re.compile(r"(?<!\()\)(?:[*+?]|\{[0-9,]+\})\+")


@pytest.mark.slow
def test_a_possessive_group_ends_with_a_branch_that_fails() -> None:
    """Python before 3.11.5 keeps what a round of such a group read that then failed (cpython 106052).

    A last branch ``(?!)`` sets it back to where the round began.
    """
    groups = 0
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
                continue
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            for group in _POSSESSIVE_GROUP.finditer(text):
                groups += 1
                assert text[: group.start()].rstrip().endswith("(?!)"), f"{path}:{node.lineno}: {text[:200]}"
    assert groups > 10
