"""A pack without a query tells what the project is: lines of README, manifest and entry point."""

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


@pytest.mark.parametrize("budget", [800, 1_300, 2_000])
def test_room_kept_for_an_introduction_that_needs_less_is_spent(
    folder: Make, packed: Packed, budget: int
) -> None:
    """The entry point is chosen for its worth, so the room that was kept to introduce it is free."""
    manifest = '[project]\nname = "board"\n[project.scripts]\nb = "run:main"\n'
    entry_point = "import sys\n\n\ndef main(argv=()):\n    return sys.argv\n"
    source = packed(folder({**FILES, "pyproject.toml": manifest, "src/run.py": entry_point}))
    assert registry.get("o200k_base").count(shown(source, budget)) >= budget * 98 // 100


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
    found = [source.files[introduced.file].name for introduced in introductions(source.files)]
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
        ("# Board\n\n[![a](b.svg)](c)" + "&nbsp;" * 20 + "[![d](e.svg)](f)\n\n" + PROSE, PROSE),
        (":Web: https://a.b\n:Keywords: task, queue,\n  python, distributed, actors\n\n" + PROSE, PROSE),
        ("Donations\n---------\n\nOpen Collective funds\nall that we do here.\n\n" + PROSE, PROSE),
        ("# Sponsors\n\n## Acme\nAcme makes anvils.\n\n# What it is\n\n" + PROSE, PROSE),
        ("Sponsors\n===\n\nAcme\n---\nAcme makes anvils.\n\nBoard\n===\n\n" + PROSE, PROSE),
        ("# Finds sponsors\n\n## Usage\n\n" + PROSE, PROSE),
    ],
)
def test_where_prose_begins(folder: Make, packed: Packed, readme: str, first: str) -> None:
    source = packed(folder({"README.md": readme, "a.py": "x = 1\n"}))
    (introduced,) = introductions(source.files)
    assert source.files[introduced.file].data[introduced.start :].decode().startswith(first)


def test_what_tells_nothing_is_not_shown(folder: Make, packed: Packed) -> None:
    named = "setup(\n  name='b',\n)\n"
    files = {"README.md": "# Short\n", "pyproject.toml": "[tool.x]\na = 1\n", "setup.py": named}
    source = packed(folder({**files, "a.py": "x = 1\n"}))
    (introduced,) = introductions(source.files)
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
    assert all(introduced.start == 0 for introduced in introductions(source.files))  # not for minutes


RUN = "import sys\n\n\ndef main():\n    return sys.argv\n"


ENTRY_POINTS = [  # each: the files, the entry point, how what is shown begins
    # The manifest tells.
    (
        {"pyproject.toml": '[project.scripts]\nb = "board.run:main"\n', "src/board/run.py": RUN},
        "src/board/run.py",
        "def main",
    ),
    (
        {"setup.py": "entry_points={'x': ['b = board.run:main']}", "board/run.py": RUN, "main.py": RUN},
        "board/run.py",
        "def main",
    ),
    (
        {"package.json": '{"main": "./lib/b", "x": 1}', "lib/b.js": "// b\n'use strict';\nlet a = 1\n"},
        "lib/b.js",
        "let a",
    ),
    (
        {
            "package.json": '{"bin": {"b": "bin/b.js"}}',
            "bin/b.js": "#!/bin/env node\nrun()\n",
            "index.js": "x",
        },
        "bin/b.js",
        "run()",
    ),
    (
        {"package.json": '{"main": "lib"}', "lib/index.js": "a()\n", "lib/app.js": "b()\n"},
        "lib/index.js",
        "a()",
    ),
    (
        {"Cargo.toml": '[[bin]]\nname = "b"\npath = "tool/b.rs"\n', "tool/b.rs": "//! B.\nfn main() {\n}\n"},
        "tool/b.rs",
        "fn main",
    ),
    ({"package.json": '{"main": "dist/b.js"}', "src/index.ts": "export {}\n"}, "src/index.ts", "export"),
    # Its name tells.
    ({"setup.cfg": "[x]\ny = z:main\n", "board/__main__.py": RUN}, "board/__main__.py", "def main"),
    (
        {"cmd/b/main.go": "package main\n\nfunc main() {}\n", "cmd/b/x.go": "package main\n"},
        "cmd/b/main.go",
        "func main",
    ),
    (
        {
            "src/B.java": "class B {}\n",
            "src/Main.java": "class Main {\n  public static void main(String[] a) {}\n}\n",
        },
        "src/Main.java",
        "  public static",
    ),
    ({"b/Program.cs": "/* Of\nB. */\nusing System;\n", "b/C.cs": "class C {}\n"}, "b/Program.cs", "using"),
    ({"board/__init__.py": "# B\nfrom a import b\n", "board/a.py": "b = 1\n"}, "board/__init__.py", "from"),
    ({"lib/b.rb": "# frozen\nmodule B\nend\n", "lib/b/c.rb": "x\n"}, "lib/b.rb", "module"),
    (
        {
            "src/server.c": "#include <a.h>\n\nint main(int argc, char **argv) {\n}\n",
            "deps/x/main.c": "x\n",
        },
        "src/server.c",
        "int main",
    ),
]


@pytest.mark.parametrize(("files", "name", "first"), ENTRY_POINTS)
def test_the_entry_point(folder: Make, packed: Packed, files: dict[str, str], name: str, first: str) -> None:
    source = packed(folder(files))
    *_, introduced = introductions(source.files)
    assert source.files[introduced.file].name == name
    assert source.files[introduced.file].data[introduced.start :].decode().startswith(first)


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "x = 1\n"},
        {"tests/main.py": RUN},
        {"vendor/main.go": "package main\nfunc main() {}\n"},
        {"main.py": "# nothing\n"},
        {"index.md": "# B\n"},
    ],
)
def test_no_entry_point(folder: Make, packed: Packed, files: dict[str, str]) -> None:
    assert list(introductions(packed(folder(files)).files)) == []


def test_the_entry_point_is_shown_briefly(folder: Make, packed: Packed) -> None:
    calls = "".join(f"run({n})\n" for n in range(400))
    source = packed(folder({**MODULES, "index.js": f"// Runs.\n\n{calls}"}))
    text = shown(source, 4_000).split('path="index.js"')[1].split("</code>")[0]
    assert text.split("\n", 1)[1].startswith("[lines 3-")
    assert "]\nrun(0)\nrun(1)\n" in text
    assert registry.get("o200k_base").count(text) <= 80


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "# sponsor\n\nA text of us.\n\n" * 9_999),
        ("README.md", "a\n" + "=" * 300_000),
        ("README.md", "a\n===\n" * 50_000),
        ("package.json", '"main": {' * 40_000),
        ("package.json", '"main"' + ":" * 300_000),
        ("pyproject.toml", "'" + "a" * 300_000),
        ("pyproject.toml", "'a.b:c " * 40_000),
        ("main.c", "a " * 150_000),
        ("main.c", "/*" * 150_000),
        ("main.c", "//\n" * 99_999),
        ("main.c", "\n main" * 50_000),
    ],
)
def test_hostile_manifests_and_entry_points_take_linear_time(
    folder: Make, packed: Packed, name: str, text: str
) -> None:
    source = packed(folder({name: text, "a.py": "x = 1\n"}))
    assert len(list(introductions(source.files))) <= 1  # not for minutes
