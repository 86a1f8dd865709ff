"""Which files are packed, by git's own verdict, and how urgent they are."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pack.conftest import Memory
from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, CodeBlock, DocumentBlock, resolve_priorities
from tokenbox.errors import ContextCriticalOverflow, EmptyInput
from tokenbox.folder import (
    LevelRule,
    PackOptions,
    as_blocks,
    globs,
    ignore,
    pack_source,
    parse_rule,
    read,
    survey,
)
from tokenbox.folder.ignore import DEFAULT_RULES, IgnoreRules
from tokenbox.folder.languages import kind_of
from tokenbox.folder.listing import FileShown
from tokenbox.folder.options import LevelProblem, SettingProblem
from tokenbox.folder.priorities import PriorityProblem
from tokenbox.folder.project import ProjectProblem
from tokenbox.render.templates import block_description

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.pack.conftest import Make, Packed
    from tokenbox.folder import Source


NAMES = [
    *(
        "a.log",
        "keep.log",
        "build/x.c",
        "build/keep.c",
        "src/build/y.c",
        "src/a.log",
        "src/keep.log",
        "src/deep/z.tmp",
    ),
    *(
        "docs/a.md",
        "docs/b/c.md",
        "foo",
        "foo.d/x",
        "bar/foo",
        "sp ace.txt",
        "#hash",
        "!bang",
        "x/y/z.txt",
        "abc/1",
        "tail ",
    ),
]
RULES = [
    {".gitignore": "*.log\n!keep.log\n"},
    {".gitignore": "/build/\n!build/keep.c\n"},
    {".gitignore": "build\n", "src/.gitignore": "!build\n"},
    {".gitignore": "*.tmp\n", "src/.gitignore": "*.log\n!deep/\n"},
    {".gitignore": "docs/*\n!docs/b/\n"},
    {".gitignore": "docs/**/c.md\n**/foo\n"},
    {".gitignore": "foo/\n\\#hash\n\\!bang\nsp ace.txt\n"},
    {".gitignore": "/*\n!/src/\n/src/*\n!/src/keep.log\n"},
    {".gitignore": "x/**\n", "x/.gitignore": "!*\n"},
    {".gitignore": "[a-b]*\n?oo\n"},
    {".gitignore": "*\n!*/\n!*.md\n"},
    {".gitignore": "# only words\n\n   \n"},
    {".gitignore": "[z-a]oo\n[[:alpha:]]bc\n[[:nonsense:]]*\n[]f]oo\n"},
    {".gitignore": "a.log\\\n[a\n*.tmp\r\n"},
    {".gitignore": "sp?ace.txt\nba[^x]\nx**/z.txt\nsrc/**\\/z.tmp\n/tail\\ "},
    {".gitignore": "foo**/x\n**foo\n!bar/**/foo\n"},
]
# What random rules and names are made of.
STEPS = ["a", "b", "foo", "foo.o", "x[1]", "nl\nx", "*s", "b\\s", "-d", "\u00e9", "tr "]
PATTERNS = [
    *(
        "*",
        "**",
        "**/",
        "/**",
        "a/**",
        "a/**/b",
        "**/foo",
        "foo**",
        "f**o",
        "a/*",
        "*/b",
        "foo/",
        "!foo/",
        "!*/",
    ),
    *(
        "?",
        "??",
        "[ab]",
        "[!a]",
        "[^a]*",
        "[a-]",
        "[--z]*",
        "[]a]",
        "[a",
        "[\\]]",
        "x[[]1]",
        "[[:lower:]]*",
        "[z-a]",
    ),
    *(
        "*.o",
        "*s",
        "\\*s",
        "b\\\\s",
        "a\\",
        "x\\[1\\]",
        "!a",
        "!b",
        "/",
        "//",
        "./a",
        "tr\\ ",
        "tr ",
        "\u00e9",
        "!**/a",
    ),
]


def git_reads_stars_after_a_prefix_anew() -> bool:
    """From 2.53 on, git takes the stars of ``x**/z`` as one. The rules follow the git of most machines."""
    said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = said.split()[2].split(".")[:2]
    return (int(major), int(minor)) >= (2, 53)


@pytest.mark.skipif(shutil.which("git") is None, reason="git itself is what this compares with")
@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
def test_ignored_as_git_does(folder: Make, rules: dict[str, str]) -> None:
    if any("x**/" in text for text in rules.values()) and git_reads_stars_after_a_prefix_anew():
        pytest.skip("this git reads x**/ otherwise than git before 2.53, which the rules follow")
    assert_as_git(folder({**dict.fromkeys(NAMES, "x"), **rules}))


@pytest.mark.skipif(shutil.which("git") is None, reason="git itself is what this compares with")
@pytest.mark.parametrize("seed", range(25))
def test_random_rules_ignore_as_git_does(folder: Make, seed: int) -> None:
    random = Random(seed)
    files: dict[str, str] = {}
    for _ in range(30):
        # What is a folder in one path is none in another.
        steps = [f"{random.choice(STEPS)}{'/' * (depth < 2)}" for depth in range(random.randrange(3))]
        path = "".join(f"{step.rstrip('/')}.d/" for step in steps) + random.choice(STEPS)
        files[path] = "x"
    folders = ["", *{path.rpartition("/")[0] + "/" for path in files if "/" in path}]
    for where in folders[:1] + random.sample(sorted(folders[1:]), min(3, len(folders) - 1)):
        # Many patterns are matched in groups.
        patterns = random.choices(PATTERNS, k=4 if seed % 5 else 150)
        files[f"{where}.gitignore"] = "\n".join(patterns).replace("foo", "foo*")
    assert_as_git(folder(files))


def test_a_hostile_pattern_takes_no_time(folder: Make) -> None:
    hostile = "*a" * 40 + "b\n" + "**/a/" * 30 + "b\n"
    deep = "a/" * 100 + "a" * 200
    start = time.process_time()
    root = folder({".gitignore": hostile, deep: "x", "a" * 250: "x"})
    assert len(survey([root]).found.files) == 3
    parse_rule("*a" * 40 + "b=high")
    assert time.process_time() - start < 10  # it would be years


def test_names_need_no_expressions(folder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 100,000 files took three seconds to compile."""
    names = [f"name{i}" for i in range(200)]
    root = folder(
        {".gitignore": "\n".join([*names, "!name7", "/a/name8.txt", "a/b/"]), **dict.fromkeys(names, "x")}
    )
    compiled = watched(monkeypatch)
    rules = IgnoreRules([]).inside("", str(root), [".gitignore"])
    assert [name for name in names if not rules.ignores(name, is_folder=False)] == ["name7"]
    assert rules.ignores("a/name8.txt", is_folder=False)
    assert not rules.ignores("name8.txt", is_folder=False)
    assert rules.ignores("a/b/", is_folder=True)
    assert not rules.ignores("a/b", is_folder=False)
    assert not compiled


def test_a_pattern_with_a_star_needs_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 such patterns each file was compared with each of 2,000 expressions."""
    compiled = watched(monkeypatch)
    ends = [f"*.{i:x}" for i in range(200)]
    rules = IgnoreRules([*ends, "!keep*", "tmp-*.log", "*~/", "keep*.b"])
    ignored = [".7", "a.7", "a.b.c7", "tmp-.log", "tmp-1.log", "d/tmp-1.log", "keep.b", "tmp-.b"]
    kept = ["a.7x", "keep.7", "keep", "tmp.log", "tmp-1.log2", "a~", "a.c8"]
    assert [name for name in [*ignored, *kept] if rules.ignores(name, is_folder=False)] == ignored
    assert rules.ignores("a~", is_folder=True)
    assert not compiled
    # Each length of the ends is a look-up for each file, so there is a limit.
    many = IgnoreRules([f"{'a' * i}*{'b' * j}" for i in range(1, 30) for j in range(1, 30)])
    assert compiled
    assert many.ignores("a" * 29 + "b" * 29, is_folder=False)
    assert not many.ignores("a" * 29 + "c", is_folder=False)


def test_a_pattern_with_several_stars_needs_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 such patterns took half a second for each file."""
    compiled = watched(monkeypatch)
    rules = IgnoreRules(["*ab*cde", "x*y*z*", "***.a**b", "!*keep*ab*cde"])
    ignored = ["abcde", "-ab-cde", "ab cde-cde", "xyz", "x-y-z-", "q.ab", "n.a.b"]
    kept = ["abcd", "cdeab", "abcdex", "xzy", "yxz", "q.b", "keep-ab-cde"]
    assert [name for name in [*ignored, *kept] if rules.ignores(name, is_folder=False)] == ignored
    assert not compiled


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which each expression that is compiled from now on is added."""
    compiled: list[bytes] = []

    def counted(sources: Sequence[bytes]) -> Callable[[bytes], list[int]]:
        compiled.extend(sources)
        return globs.matching(sources)

    monkeypatch.setattr(ignore, "matching", counted)
    return compiled


def assert_as_git(root: Path) -> None:
    for command in (["init", "-q"], ["config", "core.excludesFile", "/dev/null"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=root, capture_output=True, check=True
    )
    assert set(survey([root]).found.files) == {name for name in listed.stdout.decode().split("\0") if name}


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 500_000, "[" + "[:alpha:]" * 100_000 + "]", "**/" * 300_000, "[" + "[:" * 500_000 + "]"],
    ids=["stars", "classes", "folders", "open"],
)
def test_a_pattern_longer_than_any_path_takes_no_time(folder: Make, pattern: str) -> None:
    root = folder({"a.py": "x = 1\n", "b.py": "y = 1\n", ".gitignore": f"{pattern}\nb.py\n"})
    started = time.process_time()
    assert set(survey([root]).found.files) == {"a.py", ".gitignore"}
    assert time.process_time() - started < 10


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_an_exception_is_no_pattern_of_files(folder: Make, packed: Packed, option: str) -> None:
    """``--exclude '!a.py'`` left out a.py."""
    with pytest.raises(SettingProblem, match=re.escape(f"{option} '!a.py'")):
        packed(folder({"a.py": "x = 1\n"}), **{option: ["!a.py"]})
    with pytest.raises(LevelProblem):
        LevelRule.parse("!a.py=listed")


def test_tokenboxignore_goes_before_gitignore(folder: Make) -> None:
    root = folder(
        {"a.log": "", "b.log": "", ".gitignore": "*.log\n", ".tokenboxignore": "!a.log\n.*ignore\n"}
    )
    assert list(survey([root]).found.files) == ["a.log"]


def test_rules_above_the_packed_folder_hold_up_to_the_repository(folder: Make) -> None:
    root = folder({".gitignore": "*.log\n/sub/x\n", "sub/a.log": "", "sub/x": "", "sub/y": ""})
    assert list(survey([root / "sub"]).found.files) == ["a.log", "x", "y"]
    (root / ".git").mkdir()
    assert list(survey([root / "sub"]).found.files) == ["y"]


def test_what_is_named_is_packed_whatever_the_rules_say(folder: Make) -> None:
    root = folder(
        {".git/HEAD": "", ".gitignore": "/out/\n*.log\n", "out/a.txt": "", "out/b.log": "", "c.log": ""}
    )
    assert list(survey([root / "out"]).found.files) == ["a.txt", "b.log"]
    assert list(survey([root / "c.log"]).found.files) == ["c.log"]


def test_git_is_never_packed(folder: Make) -> None:
    root = folder({".git/config": "x", "sub/.git/config": "x", ".gitignore": "!.git\n!.git/**\n", "a": "a"})
    assert list(survey([root]).found.files) == [".gitignore", "a"]


def test_default_rules_can_be_taken_back(folder: Make) -> None:
    assert "node_modules/" in DEFAULT_RULES
    files = {"node_modules/a.js": "", "b.js": ""}
    assert list(survey([folder(files)]).found.files) == ["b.js"]
    root = folder({".tokenboxignore": "!node_modules/\n"})
    assert "node_modules/a.js" in survey([root]).found.files


def test_what_tokenbox_itself_writes_is_not_packed(folder: Make) -> None:
    files = {
        ".tokenbox/proof/a/evidence.json": "{}",
        ".tokenbox/state.json": "{}",
        "b/.tokenbox/config.toml": "",
    }
    files |= {"b/.tokenbox/proof/a/result.json": "{}", "proof/a.py": ""}
    assert tuple(survey([folder(files)]).found.files) == ("b/.tokenbox/config.toml", "proof/a.py")


def priorities(source: Source) -> dict[str, str]:
    """The class of each file in a ``.bcp`` pack."""
    blocks = as_blocks(source)
    found = zip(blocks, resolve_priorities(blocks), strict=True)
    named = {
        block_description(block): priority.display
        for block, priority in found
        if not isinstance(block, AnnotationBlock)
    }
    return {file.name: named[file.name] for file in source.files}


def test_priorities_of_blocks(folder: Make, packed: Packed) -> None:
    minified = "var a=1;" * 2000
    result = packed(
        folder(
            {
                "README.md": "r",
                "src/x.py": "x",
                "src/pkg/__main__.py": "m",
                "tests/test_x.py": "t",
                "package-lock.json": "{}",
                "vendor/lib.py": "v",
                "app.min.js": "m",
                "LICENSE": "l",
                "gen.py": "# @generated by a program\n",
                "locked.txt": f"a==1 \\\n    --hash=sha256:{'0' * 64}\n",
                "bundle.js": minified,
                "src/foo_test.go": "package foo",
            }
        )
    )
    assert priorities(result) == {
        "LICENSE": "background", "README.md": "high", "app.min.js": "background", "bundle.js": "background",
        "gen.py": "background", "locked.txt": "background", "package-lock.json": "background",
        "src/foo_test.go": "low",
        "src/pkg/__main__.py": "normal", "src/x.py": "normal", "tests/test_x.py": "low",
        "vendor/lib.py": "background",
    }  # fmt: skip
    assert resolve_priorities(as_blocks(result))[0] is Priority.HIGH


def test_rules_of_the_project_and_the_caller(folder: Make, packed: Packed) -> None:
    table = (
        '[tool.tokenbox.pack]\nignore = ["*.txt"]\n'
        '[tool.tokenbox.pack.priority]\n"*.py" = "low"\n"a.py" = "high"\n'
    )
    root = folder({"pyproject.toml": table, "a.py": "a", "b.py": "b", "c.py": "c", "d.txt": "d"})
    result = packed(root, rules=[parse_rule("c.py=critical")])
    assert priorities(result) == {"a.py": "high", "b.py": "low", "c.py": "critical", "pyproject.toml": "high"}


@pytest.mark.parametrize("text", ["src", "=high", "a=urgent", "#a=high", "!a=high"])
def test_bad_priority_rules(text: str) -> None:
    with pytest.raises(PriorityProblem):
        parse_rule(text)


def test_a_text_with_many_dots_is_no_key(folder: Make) -> None:
    table = f'[tool.tokenbox.pack]\nignore = ["x"]\n[project]\ndescription = "{"a. " * 200}"\n'
    assert set(survey([folder({"pyproject.toml": table, "x": "", "y": ""})]).found.files) == {
        "pyproject.toml",
        "y",
    }


def test_a_number_of_a_wrong_kind_is_shown_as_it_is_written(folder: Make) -> None:
    with pytest.raises(ProjectProblem, match=r"a number of commits, not 2\.5\."):
        survey([folder({"pyproject.toml": "[tool.tokenbox.pack]\nlog = 2.5\n"})])


@pytest.mark.parametrize(
    "table",
    [
        "[",
        *(f"tool.tokenbox.pack{key} = 1" for key in ("", ".x", ".ignore", ".priority")),
        "tool.tokenbox.pack.log = -1",
        # tomllib raises no error of its own for these, or takes quadratic time.
        "tool.tokenbox.pack.log = " + "1" * 5_000,
        "x = " + "[" * 5_000,
        ".".join("a" * 100_000) + " = 1",
    ],
)
def test_bad_project_tables(folder: Make, table: str) -> None:
    with pytest.raises(ProjectProblem):
        survey([folder({"pyproject.toml": f"# tokenbox\n{table}\n"})])


def test_the_language_of_a_template_is_that_of_its_text() -> None:
    assert kind_of("src/image.lisp.in", b"").outline == "lisp"
    assert kind_of("CMakeLists.txt.in", b"").outline == "cmake"
    assert kind_of("requirements.in", b"").outline == "other"


def test_a_header_of_objective_c_is_read_as_such() -> None:
    assert kind_of("a.h", b"// A\n#import <B/B.h>\n\n@interface A : B\n- (int)c;\n@end\n").outline == "objc"


@pytest.mark.parametrize(
    ("name", "content", "lang"),
    [
        ("a.py", "", Lang.PYTHON),
        ("run", "#!/usr/bin/env python3\n", Lang.PYTHON),
        ("run2", "#!/bin/sh\n", Lang.SHELL),
        ("a.h", "class A {};\n", Lang.CPP),
        ("b.h", "int a;\n", Lang.C),
        ("c.h", "/*" + "\n * long\n" * 900 + "*/\nnamespace a {}\n", Lang.CPP),
        ("a.TSX", "", Lang.TYPESCRIPT),
        ("data", '{"a": 1}', Lang.JSON),
        ("pyproject.toml", "", Lang.TOML),
        ("a.kt", "", Lang.UNKNOWN),
    ],
)
def test_language_by_name_and_content(
    folder: Make, packed: Packed, name: str, content: str, lang: Lang
) -> None:
    block = as_blocks(packed(folder({name: content})))[1]
    assert isinstance(block, CodeBlock)
    assert (block.path, block.lang) == (name, lang)


def test_documents_binaries_and_encodings(folder: Make, packed: Packed) -> None:
    result = packed(
        folder(
            {
                "a.md": "# a",
                "b.png": b"\x89PNG\0",
                "c.txt": "h\u00e9".encode("latin-1"),
                "d.txt": "d".encode("utf-16"),
            }
        )
    )
    blocks = {block.title: block.text for block in as_blocks(result) if isinstance(block, DocumentBlock)}
    assert blocks == {"a.md": "# a", "c.txt": "h\u00e9", "d.txt": "d"}
    assert {(note.path, note.kind.value) for note in result.notes} == {
        ("b.png", "binary"), ("c.txt", "decoded"), ("d.txt", "decoded"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def with_a_critical_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Memory]:
    text = "".join(f"def f{n}(x):\n    return x + {n}\n\n\n" for n in range(60))
    root = tmp_path_factory.mktemp("critical")
    for name, letter in (("must.py", "f"), ("also.py", "g"), ("other.py", "h")):
        (root / name).write_text(text.replace("f", letter), encoding="utf-8")
    return read(survey([root]), rules=[parse_rule("must.py=critical")]), Memory()


@given(st.integers(0, 3_000), st.sampled_from(["xml", "markdown", "minimal"]), st.booleans())
@pytest.mark.slow
def test_critical_files_are_full_or_the_error_says_the_least_budget(
    with_a_critical_file: tuple[Source, Memory], budget: int, mode: str, asks: bool
) -> None:
    source, cache = with_a_critical_file
    options = PackOptions("the function h7" if asks else None)
    try:
        pack = pack_source(source, "o200k_base", budget, mode, options=options, cache=cache)
    except EmptyInput:
        assert budget < 20
    except ContextCriticalOverflow as error:
        least = error.smallest_change["minimum_budget"]
        assert isinstance(least, int)
        assert least > budget
        assert pack_source(source, "o200k_base", least, mode, options=options, cache=cache).total <= least
    else:
        assert pack.total <= budget
        assert next(file.shown for file in pack.files if file.path == "must.py") is FileShown.FULL
