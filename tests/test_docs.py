"""The documents show what really happens, and the checker that says so would notice if not."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from typing import Any

import pytest

from tools.check_docs import ROOT, DocsError, check_blocks, check_commands, documents

SOURCE = ROOT / "src"
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]

PYTHON = "<!-- run -->\n```python\nprint(6 * 7)\n```\n\nprints\n\n<!-- prints -->\n```text\n{}\n```\n"
CONSOLE = """
<!-- file greeting.txt -->
```text
hello
```
<!-- run -->
```console
$ cat greeting.txt
hello
$ printf '%s\\n' one \\
>   two
one
{}
```
"""


@pytest.mark.slow
def test_what_the_readme_shows_is_what_happens() -> None:
    """`make check` runs this and every other page."""
    path = ROOT / "README.md"
    assert path in documents()
    assert check_blocks(path.name, path.read_text(encoding="utf-8")), "the README shows nothing that runs"


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(("document", "right", "runs"), [(PYTHON, "42", 1), (CONSOLE, "two", 1)])
def test_wrong_output_is_found(document: str, right: str, runs: int) -> None:
    assert check_blocks("x.md", document.format(right)) == runs
    with pytest.raises(DocsError, match="not what is shown"):
        check_blocks("x.md", document.format("43"))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("<!-- run -->\n```python\nprint(1)\n```\n", "x.md:2: what it prints"),
        ("<!-- run -->\n```python\n1 / 0\n```\n", "x.md:2: it fails with exit status 1"),
        ("<!-- run -->\n\n```python\n```\n", "x.md:2: a mark must be followed"),
        ("text\n<!-- run -->", "x.md:2: a mark must be followed"),
        ("<!-- run -->\n```python\n", "x.md:2: the fence is never closed"),
        ("<!-- run -->\n```toml\na = 1\n```\n", "x.md:2: only python and console"),
        ("```console\n$ a\n## Next\n```\n", "x.md:1: the fence is not closed before the heading of line 3"),
        ("```python\na\n```toml\n```\n", "x.md:1: the fence is not closed before the one of line 3"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(document: str, why: str) -> None:
    with pytest.raises(DocsError) as caught:
        check_blocks("x.md", document)
    assert str(caught.value).startswith(why)


def test_an_undescribed_command_is_found() -> None:
    described = "`tokenbox count`, `tokenbox layout`"
    names = ("count", "layout", "schema")
    assert check_commands(names, f"{described}, `tokenbox schema`") == 3
    for page in (described, f"{described}\n```console\n$ tokenbox schema\n```\n"):
        with pytest.raises(DocsError, match="does not describe: schema"):
            check_commands(names, page)


def test_the_figures_of_the_comparison_are_those_of_the_results() -> None:
    rows = 0
    for row in re.findall(r"^\|(.*)\|$", (ROOT / "docs/comparison.md").read_text("utf-8"), re.MULTILINE):
        _, *figures, file = (cell.strip() for cell in row.split("|"))
        named = re.fullmatch(r"`(\w+\.md)`", file)
        if named is not None:
            results = (ROOT / "bench/results" / named[1]).read_text("utf-8")
            for figure in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", " ".join(figures)):
                assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?!\d|[.,]\d)", results), (figure, file)
            rows += 1
    assert rows > 10


def test_the_table_of_trimming_shows_what_fit_does() -> None:
    trimming: Any = import_module("bench.trimming")
    page = trimming.PAGE.read_text("utf-8").split(trimming.START)[1].split(trimming.END)[0]
    shown = [row.split(" | ")[2] for row in page.strip().splitlines()[2:]]
    made = [trimming.outcome(trimming.by_tokenbox, *case) for case in trimming.CASES.values()]
    assert shown == made


@pytest.mark.parametrize("index", ["README.md", "llms.txt"])
def test_every_page_is_in_the_index(index: str) -> None:
    linked = set(re.findall(r"\]\((docs/[\w.-]+)", (ROOT / index).read_text("utf-8")))
    not_for_users = {"docs/index.md", "docs/architecture.md", "docs/releasing.md"}
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - not_for_users
    assert pages - linked == set()
    assert linked <= pages | not_for_users
