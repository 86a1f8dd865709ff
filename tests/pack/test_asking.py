"""What a pack is asked for beside a query: focus, changes, history, levels, only some files."""

from __future__ import annotations

import re
import shutil
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.pack.conftest import Memory
from tests.pack.test_packing import git, module
from tokenbox.content.lenses.definitions import definitions
from tokenbox.folder import LevelRule, PackOptions, pack_source, pieces
from tokenbox.folder.focus import FocusProblem, in_focus
from tokenbox.folder.git import past_changes
from tokenbox.folder.listing import FileShown
from tokenbox.folder.options import LevelProblem
from tokenbox.folder.weighing import weigh

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pack.conftest import Make, Packed
    from tokenbox.content.lenses.definition import Definition
    from tokenbox.content.lenses.languages import Language

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no history without git")


@pytest.fixture
def project(folder: Make) -> Path:
    files = {f"src/other{n}.py": module(f"other_{n}", f"more_{n}") for n in range(6)}
    files["src/gear.py"] = module("spin_gear", "stop_gear")
    files["src/widget.py"] = "from gear import spin_gear\n\n\n" + module("make_widget").replace(
        "    return value\n", "    return spin_gear(value)\n"
    )
    root: Path = folder(files)
    return root


def shown(
    packed: Packed, root: Path, budget: int, options: PackOptions, **reading: object
) -> dict[str, FileShown]:
    pack = pack_source(packed(root, **reading), "o200k_base", budget, options=options)
    assert pack.total <= budget
    return {file.path: file.shown for file in pack.files if file.shown is not FileShown.LISTED}


def test_a_focus_brings_what_it_refers_to(project: Path, packed: Packed) -> None:
    found = shown(packed, project, 1200, PackOptions(focus=("src/widget.py:make_widget",)))
    assert {"src/widget.py", "src/gear.py"} <= set(found)
    with pytest.raises(FocusProblem, match="no file"):
        shown(packed, project, 1200, PackOptions(focus=("nowhere.py",)))
    with pytest.raises(FocusProblem, match="line 2 is before line 9"):
        shown(packed, project, 1200, PackOptions(focus=("src/widget.py:9-2",)))
    with pytest.raises(FocusProblem, match="defines no"):
        shown(packed, project, 1200, PackOptions(focus=("src/widget.py:nothing",)))


def test_a_focus_brings_the_definitions_of_what_it_uses_before_its_file(folder: Make, packed: Packed) -> None:
    """Also one that many files mention, and one that only this file does."""
    used = "def make_widget(order):\n    check(order, Order)\n    return _rounded(order)\n\n\n"
    files = {f"src/other{n}.py": module(f"other_{n}") + "print(Order)\n" for n in range(9)}
    files["src/orders.py"] = module("before_order") + "\n\nclass Order:\n    number = 17\n"
    files["src/widget.py"] = (
        used + module("wide", "tall", "deep") + "\n\ndef _rounded(x):\n    return x + 0.5\n"
    )
    asked = PackOptions(focus=("src/widget.py:make_widget",))
    pack = pack_source(packed(folder(files)), "o200k_base", 800, options=asked)
    assert "return _rounded(order)" in pack.text
    assert "number = 17" in pack.text
    assert "x + 0.5" in pack.text


def test_a_file_in_focus_is_parsed_once(
    project: Path, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = packed(project)
    parsed: list[bytes] = []

    def counted(data: bytes, language: Language) -> tuple[Definition, ...]:
        parsed.append(data)
        return definitions(data, language)

    monkeypatch.setattr(pieces, "definitions", counted)
    options = PackOptions(focus=("src/widget.py:1-9", "src/widget.py:make_widget"))
    pack_source(source, "o200k_base", 300, options=options, cache=Memory())
    widget = next(file.data for file in source.files if file.path == "src/widget.py")
    assert parsed.count(widget) == 1


@pytest.fixture
def with_tools(folder: Make) -> Path:
    """Source about headers and windows, and files of other kinds about the same or something else."""
    files = {f"src/part{n}.py": module(f"parse_header_{n}", f"exclude_part_{n}") for n in range(40)}
    files["src/windows.py"] = "# exclude windows\n" * 24 + module("exclude_windows", "include_windows")
    files |= {
        ".github/workflows/test.yml": "jobs:\n  test:\n    runs-on: windows\n    uses: provenance\n" * 24,
        "docs/headers.md": "# Headers\n\nHow a header is parsed and checked.\n" * 30,
        "Dockerfile": "FROM scratch\nCOPY parts image\n" * 40,
    }
    root: Path = folder(files)
    return root


@pytest.mark.parametrize(
    ("query", "path", "is_about_it"),
    [
        ("Exclude windows from our CI", ".github/workflows/test.yml", True),
        ("ci: exclude windows", ".github/workflows/test.yml", True),
        ("The docker image excludes windows", "Dockerfile", True),
        ("docs: say how a header is parsed", "docs/headers.md", True),
        ("exclude provenance on windows", ".github/workflows/test.yml", True),  # no source file has the word
        ("exclude windows", ".github/workflows/test.yml", False),
        ("exclude windows [skip ci]", ".github/workflows/test.yml", False),
        ("exclude windows\n\nSee the docs, and our CI.", ".github/workflows/test.yml", False),
        ("parse_header_3 returns None", "docs/headers.md", False),
    ],
)
def test_a_query_may_be_about_something_else_than_source(
    with_tools: Path, packed: Packed, query: str, path: str, is_about_it: bool
) -> None:
    source = packed(with_tools)
    worth = weigh(source, PackOptions(query))
    worths = {file.name: worth.document(i) for i, file in enumerate(source.files)}
    best = max(of for name, of in worths.items() if name.startswith("src/"))
    assert (worths[path] * 4 > best) is is_about_it, worths


FOCUSED = {
    "app.py": "import os\n",
    "web/app.py": "class Session:\n    def get(self):\n        return 1\n\n\ndef get():\n    return 2\n",
    "web/views/page.py": "def page():\n    return 3\n",
    "api/views/page.py": "def page():\n    return 4\n",
    "tx.go": "package a\n\nfunc (tx *Tx) Rollback() {\n}\n",
}


@pytest.mark.parametrize(
    ("focus", "places"),
    [
        ("app.py", {"app.py": ()}),
        ("./web/app.py", {"web/app.py": ()}),
        (
            "views/page.py",
            "2 files end with 'views/page.py': api/views/page.py, web/views/page.py. Give more",
        ),
        ("page.py", "2 files end with 'page.py'"),
        ("web", {"web/app.py": (), "web/views/page.py": ()}),
        ("web/", {"web/app.py": (), "web/views/page.py": ()}),
        ("web/views", {"web/views/page.py": ()}),
        (".", dict.fromkeys(FOCUSED, ())),
        ("web/app.py:Session", {"web/app.py": tuple(range(1, 8))}),
        ("web/app.py:Session.get", {"web/app.py": tuple(range(1, 8))}),
        ("tx.go:Tx.Rollback", {"tx.go": (1, 2, 3, 4)}),
        ("tx.go:Db.Rollback", "defines no 'Db.Rollback'. Did you mean Rollback?"),
        ("web/app.py:2", {"web/app.py": (2,)}),
        ("web/app.py:6-99", {"web/app.py": (6, 7)}),
        ("web/app.py:8", "focus web/app.py:8: the file has 7 lines."),
        ("web/app.py:Sesion", "defines no 'Sesion'. Did you mean Session?"),
        ("web/app.py:Session.put", "defines no 'Session.put'."),
        ("web:Session", "'web' is a folder, which defines nothing."),
        ("web/ap.py", "there is no file 'web/ap.py' in the pack. Did you mean web/app.py?"),
        ("", "there is no file '' in the pack."),
        (":Session", "there is no file '' in the pack."),
        ("nowhere.rs", "there is no file 'nowhere.rs' in the pack."),
    ],
)
def test_what_is_in_focus(
    folder: Make, packed: Packed, focus: str, places: str | dict[str, tuple[int, ...]]
) -> None:
    files = packed(folder(FOCUSED)).files
    if isinstance(places, dict):
        assert {one.place.path: one.place.lines for one in in_focus(files, [focus])} == places
    else:
        with pytest.raises(FocusProblem, match=re.escape(places)):
            in_focus(files, [focus])


@pytest.mark.parametrize(
    ("focus", "path"),
    [
        ("src/12:30.py", "src/12:30.py"),
        ("12:30.py:noon", "src/12:30.py"),
        ("a\tb/c.py", "a\\tb/c.py"),
        ("a\\tb/c.py", "a\\tb/c.py"),
        ("a\tb", "a\\tb/c.py"),
        ("b:c/d.py:last", "b:c/d.py"),
        ("b:c", "b:c/d.py"),
        ("b", "b"),
    ],
)
def test_a_focus_names_any_name(folder: Make, packed: Packed, focus: str, path: str) -> None:
    files = {"src/12:30.py": module("noon"), "a\tb/c.py": "", "b": "c = 1\n", "b:c/d.py": module("last")}
    assert [one.place.path for one in in_focus(packed(folder(files)).files, [focus])] == [path]


def test_a_focus_is_not_on_files_of_the_same_name(folder: Make, packed: Packed) -> None:
    text = "".join(f"value_{n} = {n} * 17\n" for n in range(60))
    root = folder(
        {f"{path}main.py": text.replace("value", path[:1] or "x") for path in ("", "a/", "b/", "c/")}
    )
    assert set(shown(packed, root, 600, PackOptions(focus=("main.py",)))) == {"main.py"}


def test_large_files_do_not_keep_out_the_others(folder: Make, packed: Packed) -> None:
    """Without a query, what many files use is shown, however large the files are that even more use."""
    large = "".join(f"    value = {n} * 17 + len('some text') - {n} // 3\n" for n in range(2_500))
    files = {f"large{n}.py": f"def large_{n}():\n{large}" for n in range(3)}
    files["small.py"] = "def small_tool(value):\n    return value\n"
    for n in range(9):
        uses = "from large0 import large_0\nfrom large1 import large_1\nfrom large2 import large_2\n"
        files[f"use{n}.py"] = uses + ("from small import small_tool\nsmall_tool(1)\n" if n < 6 else "")
    found = shown(packed, folder(files), 1_000, PackOptions())
    assert {"large0.py", "small.py"} <= set(found)


@needs_git
def test_changes_bring_their_files_and_what_refers_to_them(project: Path, packed: Packed) -> None:
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(project, *arguments)
    path = project / "src/gear.py"
    path.write_text(path.read_text().replace("def spin_gear(value):", "def spin_gear(value, fast=False):"))
    found = shown(packed, project, 1500, PackOptions(), diff="HEAD")
    assert {"src/gear.py", "src/widget.py"} <= set(found)


@needs_git
def test_changes_bring_the_definitions_that_the_changed_function_uses(folder: Make, packed: Packed) -> None:
    """Also those that its unchanged lines use. What a change removed may be mentioned nowhere."""
    used = (
        "def make_widget(order):\n    one = Order(order)\n" + "    one = one + 1\n" * 12 + "    return one\n"
    )
    files = {f"src/other{n}.py": module(f"other_{n}") for n in range(9)}
    files["src/orders.py"] = module("before_order") + "\n\nclass Order:\n    number = 17\n"
    files["src/widget.py"] = f"{used}\n\ndef gone_for_good():\n    pass\n"
    root = folder(files)
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(root, *arguments)
    (root / "src/widget.py").write_text(used.replace("    return one", "    return [one]"))
    pack = pack_source(packed(root, diff="HEAD"), "o200k_base", 900)
    assert "-def gone_for_good" in pack.text
    assert "one = Order(order)" in pack.text
    assert "number = 17" in pack.text


@needs_git
def test_history_says_which_files_a_change_touched(project: Path, packed: Packed) -> None:
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(project, *arguments)
    (project / "src/other3.py").write_text(module("other_3", "more_3", "third"))
    git(project, "commit", "-qam", "Throttle uploads of customers")
    options = PackOptions("throttle uploads", history=True)
    assert "src/other3.py" in shown(packed, project, 900, options)

    # Without a query as well, what was changed last is worth more than before.
    source = packed(project)
    worths = [
        {file.path: file.worth or 0 for file in pack_source(source, "o200k_base", 900, options=asked).files}
        for asked in (PackOptions(), PackOptions(history=True))
    ]
    assert [worth["src/other3.py"] > worth["src/other2.py"] > 0 for worth in worths] == [False, True]

    # A partial clone may lack the contents of old commits.
    renamed = (project / "src/other3.py").rename(project / "src/customers.py")
    renamed.write_text(f"{renamed.read_text()}\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "A better name for what shows customers")
    for folder in (project / ".git/objects").glob("??"):
        for stored in folder.iterdir():
            if b"blob" in zlib.decompress(stored.read_bytes())[:4]:
                stored.unlink()
    options = PackOptions("show customers a better name", history=True)
    assert "src/customers.py" in shown(packed, project, 900, options)


@needs_git
def test_the_lines_that_changes_wrote_are_known_whatever_git_is_told(project: Path) -> None:
    git(project, "init", "-q")
    settings = {
        "diff.noprefix": "true", "diff.algorithm": "minimal", "diff.context": "9", "color.ui": "always",
        "log.showSignature": "true", "diff.external": "false", "format.pretty": "oneline",
        "diff.submodule": "log", "diff.mnemonicPrefix": "true", "log.follow": "true",
    }  # fmt: skip
    for name, value in settings.items():
        git(project, "config", name, value)
    odd = project / "src" / 'a "b" ü.py'
    odd.write_text("one = 1\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "\x01 begins\x02 and ends \x02")
    odd.write_text("one = 1\n\x01two = 2\nthree = 3\n++ b/x\n")
    git(project, "commit", "-qam", "Second")
    git(project, "mv", "src/gear.py", "src/cog.py")
    git(project, "commit", "-qm", "Third")
    changes = past_changes(str(project), lines=True)
    assert [change.message.strip() for change in changes][:2] == [b"Third", b"Second"]
    assert set(changes[0].paths) == {"src/gear.py", "src/cog.py"}
    assert changes[1].paths == ['src/a "b" ü.py']
    assert changes[1].written == {'src/a "b" ü.py': {b"\x01two = 2", b"three = 3", b"++ b/x"}}
    assert not changes[0].written, "a new name writes no line"
    assert [change.paths for change in past_changes(str(project / "src"))][1] == ['a "b" ü.py']


@needs_git
def test_without_a_query_history_shows_what_recent_changes_wrote(project: Path, packed: Packed) -> None:
    body = "\n".join(f"def part_{n}():\n    return {n}\n" * 8 for n in range(40))
    (project / "src/long.py").write_text(body)
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(project, *arguments)
    for n in range(3):
        head = "def part_31():\n"
        body = body.replace(head, f"{head}    show('by the commit number {n}')\n", 1)
        (project / "src/long.py").write_text(body)
        git(project, "commit", "-qam", f"change {n}")
    source = packed(project)
    texts = [
        pack_source(source, "o200k_base", 900, options=PackOptions(history=x)).text for x in (False, True)
    ]
    assert ["by the commit number 2" in text for text in texts] == [False, True]


def test_levels_limit_what_is_shown(project: Path, packed: Packed) -> None:
    rules = (LevelRule.parse("src/gear.py=listed"), LevelRule.parse("src/widget.py=outline"))
    found = shown(packed, project, 20_000, PackOptions("spin the gear of the widget", levels=rules))
    assert "src/gear.py" not in found
    assert found.get("src/widget.py") in (None, FileShown.OUTLINE)
    for bad in ("x", "x=y", "=full"):
        with pytest.raises(LevelProblem):
            LevelRule.parse(bad)


def test_levels_limit_what_is_shown_without_a_budget(project: Path, packed: Packed) -> None:
    rules = (LevelRule.parse("src/widget.py=outline"),)
    pack = pack_source(packed(project), "o200k_base", None, options=PackOptions(levels=rules))
    assert {file.shown for file in pack.files if file.path != "src/widget.py"} == {FileShown.FULL}
    assert [file.shown for file in pack.files if file.path == "src/widget.py"] == [FileShown.OUTLINE]
    assert pack.rendering.budget is None


def test_only_some_files(project: Path, packed: Packed) -> None:
    source = packed(project, include=["src/*.py"], exclude=["other*"])
    assert [file.name for file in source.files] == ["src/gear.py", "src/widget.py"]
