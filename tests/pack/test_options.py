"""Presets, the project's table, stripping, line numbers, commits, remote repositories, parts, watching."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tests.pack.test_packing import git
from tokenbox.cli import main
from tokenbox.cli.clipboard import copy
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.pack import PackCommand, _Run
from tokenbox.cli.watching import watch
from tokenbox.content.blocks import DocumentBlock
from tokenbox.errors import ContextCriticalOverflow, EmptyInput
from tokenbox.folder import (
    FileOrder,
    LevelRule,
    NoteKind,
    PackOptions,
    PackSettings,
    Strip,
    as_blocks,
    cloned,
    is_url,
    pack_source,
    read,
    settled,
    split,
    survey,
)
from tokenbox.folder.git import GitProblem, latest_changes, past_changes
from tokenbox.folder.options import SettingProblem
from tokenbox.folder.packed import SplitProblem
from tokenbox.folder.project import ProjectProblem
from tokenbox.folder.source import NothingToPack
from tokenbox.folder.stripping import stripped
from tokenbox.folder.walk import PathProblem

if TYPE_CHECKING:
    from typing import TypeAlias

    from tests.pack.conftest import Make, Packed

    Bytes: TypeAlias = pytest.CaptureFixture[bytes]

ALL = tuple(Strip)


@pytest.fixture
def repository(folder: Make) -> Path:
    root = folder({"a.py": "# why\ndef f(x):\n    return x  # inline\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "the first change")
    return root


@pytest.mark.parametrize(
    ("language", "before", "after"),
    [
        ("python", b"#!/bin/x\n# gone\nx = '# kept'  # gone\n", b"#!/bin/x\nx = '# kept'\n"),
        (
            "go",
            b"package p\n// gone\nvar x = 1 // gone\n/* a\nb */ var y = 2\n",
            b"package p\nvar x = 1\n var y = 2\n",
        ),
        ("rust", b"/// gone\nfn f() {} // gone\n", b"fn f() {}\n"),
        ("javascript", b"f('http://x') /* gone */ + 1\n", b"f('http://x')  + 1\n"),
        # More comments than the parser may read chunks of the source.
        ("python", b"# gone\nx = 1\n" * 3_000, b"x = 1\n" * 3_000),
        (None, b"# no grammar, no comment\n", b"# no grammar, no comment\n"),
    ],
)
def test_comments_are_left_out_and_strings_are_not(language: str | None, before: bytes, after: bytes) -> None:
    text, lines = stripped(before, language, {Strip.COMMENTS})
    assert text == after
    of_file, of_text = before.splitlines(), after.splitlines()
    for line, number in zip(of_text, lines or range(1, len(of_text) + 1), strict=True):
        assert line.strip()[:7] in of_file[number - 1]


def test_data_and_outputs_are_left_out() -> None:
    data = b"x = '" + b"QUJD" * 80 + b"'\n"
    assert stripped(data, "python", ALL) == (b"x = '[base64, 320 characters]'\n", None)
    digest = b"a" * 128
    assert stripped(digest, None, ALL) == (digest, None)


def test_the_numbers_of_lines_are_those_of_the_file_without_its_comments(folder: Make) -> None:
    """They were those of what is left, which no editor shows."""
    notes = "# note\n" * 60
    code = "".join(f"def f{n}(x):\n    return {n}  # note\n{notes}" for n in range(90))
    root = folder({"a.py": f"#!/bin/python\n{notes}{code}", "b.py": "x = 1\n"})
    pack = partial(tokenbox.pack, root, strip=["comments"], line_numbers=True, tokenizer="utf8-bytes")
    full = pack().text
    assert "\n1| #!/bin/python\n62| def f0(x):\n63|     return 0\n124| def f1(x):\n125|" in full
    assert "\n1| x = 1\n" in full
    # A line that the query names is one of the file, too.
    some = pack(budget=1_500, query="a.py:5022: it fails").text
    assert "\n5022| def f80(x):\n" in some
    assert "| def f40(x):" not in some


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Churn\n", "Who leaves?"]},
        {
            "cell_type": "code",
            "source": ["def rate(table):\n", "    return table.left.mean()"],
            "outputs": [
                {"output_type": "stream", "text": [f"row {n}\n" for n in range(90)]},
                {"data": {"image/png": "iVBOR" * 400}},
            ],
        },
        {
            "cell_type": "code",
            "source": "1 / 0",
            "outputs": [{"ename": "ZeroDivisionError", "evalue": "by zero"}],
        },
    ],
    "metadata": {"kernelspec": {"name": "python3"}},
}


def test_a_notebook_is_its_cells(folder: Make) -> None:
    root = folder({"a.ipynb": json.dumps(NOTEBOOK), "b.ipynb": "{no notebook"})
    text = tokenbox.pack(root, None, tokenizer="utf8-bytes").text
    assert (
        "\n# %% [markdown]\n# Churn\nWho leaves?\n\n"
        "# %%\ndef rate(table):\n    return table.left.mean()\n#> row 0\n" in text
    )
    assert "#> row 7\n#> ... " in text
    assert "row 8\n" not in text
    assert "iVBOR" not in text
    assert "# %%\n1 / 0\n#> ZeroDivisionError: by zero\n" in text
    assert "{no notebook" in text
    bare = tokenbox.pack(root, None, tokenizer="utf8-bytes", strip=["outputs"]).text
    assert "#>" not in bare
    assert "def rate(table):" in bare


def test_a_query_finds_the_cell_of_a_notebook(folder: Make) -> None:
    code = [
        {"cell_type": "code", "source": f"# Step {n}\nstep_{n} = load({n})\n" + f"plot({n})\n" * 30}
        for n in range(60)
    ]
    root = folder({"a.ipynb": json.dumps({"cells": code})})
    pack = tokenbox.pack(root, 1200, "where is step_41 loaded?", tokenizer="utf8-bytes")
    assert "step_41 = load(41)\n" in pack.text
    assert "step_20 = load(20)\n" not in pack.text
    assert pack.total <= 1200


def test_each_line_has_its_number_and_counts(folder: Make) -> None:
    body = "".join(f"def part_{n}(x):\n    return x + {n} * 7\n\n\n" for n in range(80))
    root = folder({"a.py": body, "b.py": body.replace("part", "other")})
    full = tokenbox.pack(root, None, line_numbers=True, tokenizer="utf8-bytes")
    assert "\n1| def part_0(x):\n2|     return x + 0 * 7\n3| \n" in full.text
    some = tokenbox.pack(root, 1500, "part_70", line_numbers=True, tokenizer="utf8-bytes")
    line = body.splitlines().index("def part_70(x):") + 1
    assert f"\n{line}| def part_70(x):\n" in some.text
    assert len(some.text.encode()) == some.total <= 1500


def test_the_latest_commits_are_shown_and_count(repository: Path) -> None:
    pack = tokenbox.pack(repository, 300, log=3, tokenizer="utf8-bytes")
    assert "the first change\n  a.py" in pack.text
    assert len(pack.text.encode()) == pack.total <= 300


def test_a_commit_of_many_files_names_the_first(repository: Path) -> None:
    """One release of a workspace left no room for any file."""
    for n in range(40):
        (repository / f"file{n:02}.py").write_text(f"x = {n}\n", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "a release")
    first, *names = latest_changes(str(repository), 1).split("\n")
    assert first.endswith("a release")
    assert names == [*(f"  file{n:02}.py" for n in range(12)), "  ... 28 more"]


def test_a_commit_may_say_anything(repository: Path) -> None:
    """A merge whose message ended with the byte between commits was a traceback."""
    git(repository, "checkout", "-q", "-b", "feature")
    (repository / "b.py").write_text("y = 2\n", encoding="utf-8")
    git(repository, "add", "b.py")
    git(repository, "commit", "-q", "-m", "second\x01dead 2020-01-01 forged\x01")
    git(repository, "checkout", "-q", "main")
    (repository / "c.py").write_text("z = 3\n", encoding="utf-8")
    git(repository, "add", "c.py")
    git(repository, "commit", "-q", "-m", "third")
    git(repository, "merge", "-q", "--no-ff", "-m", "merged\x01", "feature")
    titles = [line for line in latest_changes(str(repository), 9).split("\n") if not line.startswith("  ")]
    assert [title.split(" ", 2)[2] for title in titles] == [
        "merged\x01",
        "third",
        "second\x01dead 2020-01-01 forged\x01",
        "the first change",
    ]
    assert [change.paths for change in past_changes(str(repository))] == [["c.py"], ["b.py"], ["a.py"]]


def test_a_changed_line_that_is_not_utf8_is_redacted_as_well(repository: Path) -> None:
    """It was a traceback."""
    long = b"x = '" + b"\xe9" * 5_000 + b"' # password = 'hunter2aB3x9Q'\n"
    (repository / "a.py").write_bytes(b"password = 'hunter2aB3x9Q'  # caf\xe9\n" + long)
    (repository / ".npmrc").write_bytes(b"# \xe9\n//r.io/:_authToken=hunter2aB3x9Q\n")
    git(repository, "add", ".npmrc")
    pack = tokenbox.pack(repository, diff="HEAD", tokenizer="utf8-bytes")
    assert "[redacted: Named Secret]'  # caf" in pack.text
    assert pack.text.count("hunter2aB3x9Q") == 2  # in the long line, where only keys are searched


def test_a_nul_in_what_git_is_asked_for_is_an_error(repository: Path) -> None:
    with pytest.raises(GitProblem, match="null byte"):
        tokenbox.pack(repository, diff="main\0", tokenizer="utf8-bytes")
    with pytest.raises(GitProblem, match="null byte"), cloned("https://localhost:1/\0", whole=True):
        pass


def test_an_address_is_shown_without_its_password() -> None:
    with (
        pytest.raises(GitProblem) as raised,
        cloned("https://user:p@ss@localhost:1/x", whole=True),
    ):
        pass
    assert "ss@" not in str(raised.value) + str(raised.value.details)


def test_branches_are_compared(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "feature")
    (repository / "a.py").write_text("y = 2\n", encoding="utf-8")
    git(repository, "commit", "-q", "-am", "another")
    pack = tokenbox.pack(repository, diff="main...feature", tokenizer="utf8-bytes")
    assert "\n+y = 2\n" in pack.text


def test_patterns_choose_changes_too(repository: Path) -> None:
    """The changes of a lock file that --exclude left out could still exceed the budget."""
    (repository / "a.py").write_text("y = 2\n", encoding="utf-8")
    (repository / "b.lock").write_text("locked\n" * 500, encoding="utf-8")
    git(repository, "add", "b.lock")
    pack = tokenbox.pack(repository, 300, diff="HEAD", exclude=["*.lock"], tokenizer="utf8-bytes")
    assert "\n+y = 2\n" in pack.text
    assert "lock" not in pack.text
    pack = tokenbox.pack(repository, 300, diff="HEAD", include=["a.py"], tokenizer="utf8-bytes")
    assert "\n+y = 2\n" in pack.text


def test_the_record_has_the_worth_of_each_file(repository: Path) -> None:
    """Only --explain had it, and only as text."""
    (repository / "big.py").write_text("def area(w, h):\n    return w * h\n" * 90, encoding="utf-8")
    pack = tokenbox.pack(repository, 400, "the area", tokenizer="utf8-bytes")
    files = json.loads(json.dumps(pack.to_dict()["files"]))
    assert [file["worth"] for file in files] == [file.worth for file in pack.files]
    assert max(files, key=lambda file: file["worth"])["path"] == "big.py"
    whole = tokenbox.pack(repository, tokenizer="utf8-bytes")
    assert [file.worth for file in whole.files] == [None] * len(files)  # nothing had to be weighed


def test_a_change_of_a_file_below_a_tab_is_matched_and_noted_by_that_name(repository: Path) -> None:
    """Patterns saw the escape, and the note escaped the backslash of the escape again."""
    odd = "a\tb/uv.lock"
    (repository / "a\tb").mkdir()
    (repository / odd).write_text("locked\n" * 500, encoding="utf-8")
    git(repository, "add", odd)
    pack = tokenbox.pack(repository, diff="HEAD", tokenizer="utf8-bytes")
    assert [note.path for note in pack.notes] == ["a\\tb/uv.lock"]
    assert '<diff path="a\\tb/uv.lock">\n[500 lines added, 0 removed]\n' in pack.text
    assert "lock" not in tokenbox.pack(repository, diff="HEAD", exclude=[odd], tokenizer="utf8-bytes").text
    asked = tokenbox.pack(repository, diff="HEAD", priority=[f"{odd}=high"], tokenizer="utf8-bytes")
    assert "+locked" in asked.text


def test_many_changes_of_a_lock_file_are_counted_unless_they_are_asked_for(repository: Path) -> None:
    """They exceeded the budget, so that there was no pack of the changes to sources."""
    (repository / "uv.lock").write_text("locked\n" * 500, encoding="utf-8")
    git(repository, "add", "uv.lock")
    git(repository, "commit", "-q", "-m", "locks")
    (repository / "a.py").write_text("y = 2\n", encoding="utf-8")
    (repository / "Cargo.lock").write_text("few\n" * 9, encoding="utf-8")
    git(repository, "add", "Cargo.lock")
    for again, number in (
        (b"again\n" * 400, "400 lines added, 500 removed"),
        (b"", "0 lines added, 500 removed"),
    ):
        (repository / "uv.lock").write_bytes(again)
        pack = tokenbox.pack(repository, 900, diff="HEAD", tokenizer="utf8-bytes")
        assert f'<diff path="uv.lock">\n[{number}]\n' in pack.text
        assert "\n+y = 2\n" in pack.text
        assert "\n+few\n" in pack.text
        assert [(note.path, note.detail) for note in pack.notes if note.kind is NoteKind.COUNTED] == [
            ("uv.lock", number)
        ]
        with pytest.raises(ContextCriticalOverflow):
            tokenbox.pack(repository, 900, diff="HEAD", priority=["uv.lock=high"], tokenizer="utf8-bytes")
    (repository / "uv.lock").unlink()
    assert (
        "[0 lines added, 500 removed]"
        in tokenbox.pack(repository, 900, diff="HEAD", tokenizer="utf8-bytes").text
    )


def test_a_preset_goes_before_the_project_and_the_call_before_both() -> None:
    levels = (LevelRule.parse("t/**=outline"),)
    project = PackSettings(order=FileOrder.PATH, line_numbers=False, log=2, levels=levels)
    found = settled(PackSettings(log=7), "review", project)
    assert (found.log, found.line_numbers, found.diff, found.order) == (7, True, "HEAD", FileOrder.PATH)
    assert found.levels == levels
    assert settled(PackSettings(), "question", PackSettings()).order is FileOrder.WORTH
    with pytest.raises(SettingProblem, match="review, question, handover"):
        settled(PackSettings(), "fun", project)


def test_a_setting_of_the_project_is_one_of_those_there_are(folder: Make) -> None:
    with pytest.raises(SettingProblem, match="comments, base64, outputs"):
        survey([folder({"pyproject.toml": '[tool.tokenbox.pack]\nstrip = ["blanks"]\n'})])
    with pytest.raises(SettingProblem, match="path, worth"):
        survey([folder({"pyproject.toml": '[tool.tokenbox.pack]\norder = "size"\n'})])


def test_the_table_of_the_project_holds(folder: Make) -> None:
    table = """
[tool.tokenbox.pack]
exclude = ["*.md"]
strip = ["comments"]
line_numbers = true
instructions = "say.txt"
[tool.tokenbox.pack.level]
"pyproject.toml" = "listed"
"""
    root = folder(
        {"pyproject.toml": table, "a.py": "x = 1  # gone\n", "b.md": "# B\n", "say.txt": "Be brief."}
    )
    pack = tokenbox.pack(root, 400, tokenizer="utf8-bytes")
    assert "1| x = 1\n" in pack.text
    assert "Be brief." in pack.text
    assert "# B" not in pack.text
    assert "gone" not in pack.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../outside.txt", "outside of the project"),
        ("/etc/hostname", "outside of the project"),
        ("link.txt", "outside of the project"),
        ("linked/outside.txt", "outside of the project"),
        (".git/config", "never packed"),
        (".env", "ignored"),
        ("private/notes.txt", "ignored"),
        ("none.txt", "not a text file"),
        ("src", "not a text file"),
        ("picture.bin", "not a text file"),
        ("say.txt\\u0000", "not a text file"),
    ],
)
def test_the_instructions_of_a_project_are_a_file_in_it(folder: Make, name: str, message: str) -> None:
    """A repository that somebody else wrote shows nothing else of the machine."""
    table = f'[tool.tokenbox.pack]\ninstructions = "{name}"\n'
    files: dict[str, str | bytes] = {"src/a.py": "x = 1\n", "say.txt": "Be brief.", "picture.bin": b"\0\1"}
    root = folder({"pyproject.toml": table, **files})
    (root.parent / "outside.txt").write_text("private", encoding="utf-8")
    folder(
        {
            ".git/config": "[remote]",
            ".env": "A=1",
            ".gitignore": ".env\n/private/\n",
            "private/notes.txt": "x",
        }
    )
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "linked").symlink_to(root.parent)
    with pytest.raises(ProjectProblem, match=message):
        tokenbox.pack(root, 400, tokenizer="utf8-bytes")


def test_the_instructions_may_be_above_the_packed_folder(repository: Path) -> None:
    (repository / "pyproject.toml").write_text('[tool.tokenbox.pack]\ninstructions = "say.txt"\n', "utf-8")
    (repository / "say.txt").write_text("Be brief.", encoding="utf-16")
    (repository / "src").mkdir()
    (repository / "src" / "b.py").write_text("y = 2\n", encoding="utf-8")
    assert "Be brief." in tokenbox.pack(repository / "src", 400, tokenizer="utf8-bytes").text


def test_secrets_in_instructions_are_redacted(folder: Make) -> None:
    root = folder({"a.py": "x = 1\n"})
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    pack = tokenbox.pack(root, 400, instructions=f"token: {secret}", tokenizer="utf8-bytes")
    assert secret not in pack.text
    assert [str(note) for note in pack.notes] == ["instructions:1: a secret, redacted (GitHub Token)"]
    assert secret in tokenbox.pack(root, instructions=secret, redact=False, tokenizer="utf8-bytes").text


def test_a_query_and_instructions_may_be_utf_16(folder: Make, capsysbinary: Bytes) -> None:
    """PowerShell writes UTF-16 by default."""
    root = folder(
        {"cats.py": "def purr():\n    return 1\n" * 9, "dogs.py": "def bark():\n    return 1\n" * 9}
    )
    (root.parent / "issue.md").write_text("purr() is wrong", encoding="utf-16")
    issue = str(root.parent / "issue.md")
    arguments = ["pack", str(root), "--query-file", issue, "--instructions", issue, "--budget", "300"]
    assert main([*arguments, "--tokenizer", "utf8-bytes"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "purr() is wrong" in text
    assert "def purr" in text
    assert "def bark" not in text


@pytest.mark.parametrize("option", ["--query-file", "--instructions"])
def test_a_binary_file_is_no_query_and_no_instructions(
    option: str, folder: Make, capsysbinary: Bytes
) -> None:
    root = folder({"a.py": "x = 1\n"})
    image = root.parent / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert main(["pack", str(root), option, str(image), "--budget", "300"]) == 2
    assert capsysbinary.readouterr().err.decode() == (
        f"error: {image} is a binary file, not text. Name a text file. (input_unreadable)\n"
    )


def test_a_bcp_pack_has_the_commits_and_the_instructions(repository: Path) -> None:
    source = read(survey([repository]), PackSettings(log=3), instructions="Be brief.")
    titles = [block.title for block in as_blocks(source) if isinstance(block, DocumentBlock)]
    assert titles == ["git log", "instructions"]
    shown = tokenbox.render_blocks(as_blocks(source), "utf8-bytes", 400).text
    assert "the first change" in shown
    assert "Be brief." in shown


def test_a_remote_repository_is_cloned_and_goes_again(repository: Path) -> None:
    git(repository, "branch", "other")
    assert is_url("https://example.org/a/b") and is_url("git@example.org:a/b.git") and not is_url("src/a:b")  # noqa: PT018
    with cloned(f"file://{repository}#other", whole=False) as found:
        assert tokenbox.pack(found, tokenizer="utf8-bytes").files[0].path == "a.py"
    assert not Path(found).exists()
    with (
        pytest.raises(GitProblem, match="cannot clone file:///nowhere"),
        cloned("file:///nowhere", whole=True),
    ):
        pass


def test_the_command_to_clone_names_the_branch_of_the_address(capsysbinary: Bytes) -> None:
    assert main(["pack", "file:///nowhere/b#v1"]) == 2
    assert b"Try it yourself: git clone --branch=v1 file:///nowhere/b (" in capsysbinary.readouterr().err
    with pytest.raises(PathProblem, match=re.escape("first: git clone --branch=v1 https://example.org/a/b")):
        tokenbox.pack("https://u:p@example.org/a/b#v1", tokenizer="utf8-bytes")


def test_parts_are_within_their_limit_and_lose_nothing(folder: Make) -> None:
    root = folder({f"f{n}.txt": f"text {n} " * 20 for n in range(9)})
    pack = tokenbox.pack(root, tokenizer="utf8-bytes")
    parts = split(pack, "utf8-bytes", 700)
    assert len(parts) > 1
    assert all(len(part.text.encode()) == part.total <= 700 for part in parts)
    assert [n for part in parts for n in range(9) if f"text {n} " in part.text] == list(range(9))
    with pytest.raises(SplitProblem, match="Raise the limit of a part to 158"):
        split(pack, "utf8-bytes", 60)


def test_watching_runs_again_after_a_change_and_ends_when_interrupted() -> None:
    states = iter([1, 1, 1, 2, 2, 3, 3, 3])
    failed = NothingToPack("no file is left.")
    outcomes: list[Exception | None] = [None, failed, None]  # a file is away for a while
    reported: list[Exception] = []

    def run() -> None:
        if (outcome := outcomes.pop(0)) is not None:
            raise outcome

    def wait() -> None:
        if not outcomes:
            raise KeyboardInterrupt

    watch(run, lambda: next(states), reported.append, wait)
    assert (outcomes, reported) == ([], [failed])
    outcomes.append(failed)
    with pytest.raises(NothingToPack):  # nothing was packed before
        watch(run, lambda: 1, reported.append, wait)


def test_a_pack_does_not_contain_itself(folder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each run of --watch would be a change for the next, and packs of packs would grow."""
    root = folder({"a.py": "x = 1\n", "a.py.txt": "text\n"})
    monkeypatch.chdir(root)
    command = ["pack", ".", "--no-cache", "-t", "utf8-bytes", "-o"]
    for arguments, written in ((["a"], "a"), (["b.xml", "--split", "250"], "b.1.xml")):
        assert main([*command, *arguments]) == 0
        first = (root / written).read_bytes()
        assert main([*command, *arguments]) == 0
        assert (root / written).read_bytes() == first
        (root / written).unlink()
    (root / "b.1.xml").write_text("written before")
    choices = PackCommand(["."], output="b.xml", split=90)
    state = _Run(choices, PackSettings(), (".",), None, (), None).state()
    assert set(state) == {"a.py", "a.py.txt"}
    assert main(["pack", "a.py", "--no-cache", "-o", "a.py"]) == 2  # and does not replace its only source
    assert (root / "a.py").read_text() == "x = 1\n"


def test_the_clipboard_is_reached_by_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wl-copy"
    program.write_text(f"#!/bin/sh\n/bin/cat > {tmp_path}/copied\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    copy(b"text")
    assert (tmp_path / "copied").read_bytes() == b"text"
    program.unlink()
    with pytest.raises(UsageProblem, match="clipboard"):
        copy(b"text")


def test_without_grammars_it_says_so(
    folder: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = folder({"a.py": "x = 1\n", "b.go": "package b\n", "c.txt": "c"})
    monkeypatch.setattr("tokenbox.content.lenses.syntax.works", lambda language: language == "go")
    assert main(["pack", str(root), "-t", "utf8-bytes", "--no-cache"]) == 0
    assert "cut at blank lines: 1 (python)" in capsys.readouterr().err


def test_patterns_that_leave_out_everything_are_named(folder: Make) -> None:
    root = folder({"a.py": "x = 1\n", "b.go": "package b\n"})
    with pytest.raises(NothingToPack, match=r"--include py leaves out all 2 files\. .* --include '\*\.py'"):
        tokenbox.pack(root, 100, include=["py"])
    with pytest.raises(NothingToPack, match=r"--exclude \* leaves out all 2 files\.$"):
        tokenbox.pack(root, 100, exclude=["*"])


@pytest.mark.parametrize("query", [None, "the eleventh"])
def test_an_error_names_the_smallest_budget_and_that_budget_is_enough(
    folder: Make, packed: Packed, query: str | None
) -> None:
    body = "".join(f"def part_{n}(x):\n    return x * {n} + {n * n}\n\n\n" for n in range(40))
    source = packed(folder({f"module_{n}.py": body for n in range(12)}))
    with pytest.raises(EmptyInput) as refused:
        pack_source(source, "o200k_base", 20, options=PackOptions(query))
    least = refused.value.details["minimum_budget"]
    assert isinstance(least, int)
    pack = pack_source(source, "o200k_base", least, options=PackOptions(query))
    assert "module_0.py" in pack.text
    assert "... 11 more" in pack.text
    assert 20 < pack.total <= least


def test_the_named_budget_is_enough_beside_an_empty_file(folder: Make, packed: Packed) -> None:
    """An empty file is never chosen, and a small one only beside the room of the tree."""
    source = packed(folder({"empty.txt": "", "small.txt": "a b c", "long.md": "one two three\n" * 90}))
    with pytest.raises(EmptyInput) as refused:
        pack_source(source, "o200k_base", 10)
    least = refused.value.details["minimum_budget"]
    assert isinstance(least, int)
    assert pack_source(source, "o200k_base", least).total <= least


@pytest.mark.parametrize(("size", "budget"), [(1, 400), (100, 400), (1, None)])
def test_the_order_of_files_in_python(tmp_path: Path, size: int, budget: int | None) -> None:
    (tmp_path / "a.py").write_text("def wanted():\n    return 1\n")
    (tmp_path / "b.py").write_text("def other():\n    return 2\n" * size)
    shown = {
        order: tokenbox.pack(tmp_path, budget, "wanted", tokenizer="o200k_base", order=order).text
        for order in ("path", "worth")
    }
    assert shown["path"].index("wanted") < shown["path"].index("other")
    assert shown["worth"].index("other") < shown["worth"].index("wanted")  # the best last
