"""A pack without a query tells what the project is: lines of the README and of the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tokenbox.content.block_kinds import Priority
from tokenbox.folder import PackOptions, PriorityRule, pack_source
from tokenbox.folder.introducing import introductions
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from tests.pack.conftest import Make, Packed
    from tokenbox.folder import Source

MODULES = {
    f"src/m{n}.py": "".join(f"def f{n}_{k}(x):\n    return f{(n + 1) % 40}_{k}(x)\n\n\n" for k in range(20))
    for n in range(40)
}
BADGES = (
    '# Board\n\n<p align="center"><img src="logo.png"></p>\n[![build](https://a.b/c.svg)](https://a.b/c)\n'
)
PROSE = "Board draws boards of wood, one after the other, and counts the nails in each.\n"
MORE = "".join(f"\nParagraph {n} tells more about nails than anybody wants to read.\n" for n in range(200))
MANIFEST = '[project]\nname = "board"\n' + "".join(f'x{n} = "{n}"\n' for n in range(200))
FILES = {**MODULES, "README.md": BADGES + PROSE + MORE, "pyproject.toml": MANIFEST}


def shown(source: Source, budget: int, **options: object) -> str:
    counter = registry.get("o200k_base")
    return pack_source(source, counter, budget, options=PackOptions(**options)).text  # type: ignore[arg-type]


def test_the_readme_from_its_first_prose_and_the_manifest(folder: Make, packed: Packed) -> None:
    source = packed(folder(FILES))
    text = shown(source, 4_000)
    readme = text.split('<doc title="README.md"')[1].split("</doc>")[0]
    mark, shows = readme.split("\n", 1)[1].split("\n", 1)
    assert mark in {f"[lines 5-{3 + shows.count(chr(10)) + n}]" for n in (1, 2)}  # the last may be blank
    assert shows.startswith(PROSE)
    manifest = text.split('path="pyproject.toml"')[1].split("</code>")[0]
    assert "[lines 1-" in manifest
    assert 'name = "board"' in manifest
    count = registry.get("o200k_base").count
    assert count(readme) <= 120
    assert count(manifest) <= 80
    assert "[outline of lines" in text


def test_numbers_of_its_lines(folder: Make, packed: Packed) -> None:
    assert f"\n5| {PROSE}" in shown(packed(folder(FILES)), 4_000, line_numbers=True)


def test_more_of_it_with_a_larger_budget_and_all_of_it_if_there_is_room(folder: Make, packed: Packed) -> None:
    source = packed(folder(FILES))
    lines = [shown(source, budget).count("\nParagraph ") for budget in (2_000, 8_000, 16_000)]
    assert lines == sorted(lines)
    assert lines[0] < lines[-1]
    assert BADGES + PROSE + MORE.rstrip() in shown(source, 100_000)


@pytest.mark.parametrize(
    "options",
    [{"query": "what does f3_7 return"}, {"focus": ("src/m3.py",)}],
)
def test_none_with_a_goal(folder: Make, packed: Packed, options: dict[str, object]) -> None:
    assert PROSE not in shown(packed(folder(FILES)), 2_000, **options)


def test_none_if_the_user_said_what_is_shown_of_it(folder: Make, packed: Packed) -> None:
    root = folder(FILES)
    low = packed(root, rules=[PriorityRule("README.md", Priority.BACKGROUND)])
    assert PROSE not in shown(low, 2_000)
    first = packed(root, rules=[PriorityRule("src/**", Priority.HIGH)])
    assert PROSE not in shown(first, 2_000)


def test_the_first_of_the_table_at_the_top(folder: Make, packed: Packed) -> None:
    others = {"Makefile": "all:\n", "AGENTS.md": PROSE, "docs/README.md": PROSE, "package.json": "{}\n"}
    source = packed(folder({**FILES, **others}))
    found = [source.files[introduced.file].name for introduced in introductions(source.files, 8_000)]
    assert found == ["README.md", "pyproject.toml"]


@pytest.mark.parametrize(
    ("readme", "first"),
    [
        ("Board\n=====\n\n.. image:: https://a.b/c.svg\n   :target: https://a.b\n\n" + PROSE, PROSE),
        ("[English](a.md) | [中文](b.md)\n\n" + PROSE, PROSE),
        ("[uv](https://a.b) is a tool that manages packages of Python.\n", "[uv]"),
        ("# 板\n\n这个项目把木板一块接一块地画出来，并且数清楚每块木板上的钉子。\n", "这个"),
        ('# Nu <!-- toc -->\n![a nu](a.gif "A picture of a new shell.")\n\nA new type of shell.\n', "A new"),
        ("# Board\n" + PROSE, PROSE),
        (":Web: https://a.b\n:Keywords: task, queue,\n  python, distributed, actors\n\n" + PROSE, PROSE),
        ("Donations\n---------\n\nOpen Collective funds\nall that we do here.\n\n" + PROSE, PROSE),
    ],
)
def test_where_prose_begins(folder: Make, packed: Packed, readme: str, first: str) -> None:
    source = packed(folder({"README.md": readme, "a.py": "x = 1\n"}))
    (introduced,) = introductions(source.files, 8_000)
    assert source.files[introduced.file].data[introduced.start :].decode().startswith(first)


def test_what_tells_nothing_is_not_shown(folder: Make, packed: Packed) -> None:
    named = "setup(\n  name='b',\n)\n"
    files = {"README.md": "# Short\n", "pyproject.toml": "[tool.x]\na = 1\n", "setup.py": named}
    source = packed(folder({**files, "a.py": "x = 1\n"}))
    (introduced,) = introductions(source.files, 8_000)
    assert source.files[introduced.file].data[introduced.start :] == b"  name='b',\n)\n"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 300_000,
        "<" * 300_000,
        "a" * 300_000,
        "![](" * 80_000,
        " " * 300_000,
        "\n " * 99_999,
        "#\n" * 99_999,
    ],
)
def test_a_hostile_readme_takes_linear_time(folder: Make, packed: Packed, text: str) -> None:
    source = packed(folder({"README.md": text, "a.py": "x = 1\n"}))
    assert all(introduced.start == 0 for introduced in introductions(source.files, 8_000))  # not for minutes
