"""Blocks of a folder: the tree, the differences, summaries, budgets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tokenbox.compose.render_blocks import render_blocks
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import CodeBlock, DiffBlock, FileTreeBlock, resolve_priorities
from tokenbox.lcp import decode, encode
from tokenbox.pack import CountAhead, collect, survey
from tokenbox.pack.difference import GitProblem
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from tests.pack.conftest import Make, Packed


ROOT = Path(__file__).parents[2]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no diff without git")


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(folder: Make) -> Path:
    root: Path = folder(
        {"a.py": "".join(f"line {n}\n" for n in range(40)), "old.txt": "old\n" * 9, "b.bin": b"\0a"}
    )
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def test_tree_first_then_files_by_path(folder: Make, packed: Packed) -> None:
    result = packed(folder({"b.py": "b", "a/c.py": "c", "a.py": "a", "B.py": "B"}))
    tree, *files = result.blocks[:5]
    assert isinstance(tree, FileTreeBlock)
    assert [entry.name for entry in tree.entries] == ["B.py", "a", "a.py", "b.py"]
    assert [file.path for file in files if isinstance(file, CodeBlock)] == ["B.py", "a/c.py", "a.py", "b.py"]
    assert result.summary(0) == "3 files here, 4 files in all\na/ (1 file)\n"


@needs_git
def test_diff_is_critical_and_comes_first(repository: Path, packed: Packed) -> None:
    text = (repository / "a.py").read_text()
    (repository / "a.py").write_text(text.replace("line 3\n", "--- line three\n").replace("line 30\n", ""))
    (repository / "old.txt").rename(repository / 'ne"w\n.txt')
    (repository / "b.bin").write_bytes(b"\0b")
    git(repository, "add", "-A")
    result = packed(repository, diff="HEAD")
    diffs = {block.path: block for block in result.blocks if isinstance(block, DiffBlock)}
    assert set(diffs) == {"a.py", "b.bin", 'ne"w\\n.txt'}
    first, second = diffs["a.py"].hunks
    assert (first.old_start, second.new_start) == (1, 28)
    assert first.lines.startswith(b"@@ -1,7 +1,7 @@\n line 0\n")
    assert b"-line 3\n+--- line three\n" in first.lines
    assert b"-line 30\n" in second.lines
    assert b"rename from old.txt" in diffs['ne"w\\n.txt'].hunks[0].lines
    assert diffs["b.bin"].hunks[0].lines == b"Binary files a/b.bin and b/b.bin differ\n"
    found = resolve_priorities(result.blocks)
    assert {found[i] for i, block in enumerate(result.blocks) if isinstance(block, DiffBlock)} == {
        Priority.CRITICAL
    }


@needs_git
def test_git_runs_no_program_of_the_repository(repository: Path, packed: Packed, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    filters = [f"filter.{name}.{way}" for name in ("py", "p=y.x") for way in ("clean", "process", "smudge")]
    for key in ("diff.external", "core.pager", "core.fsmonitor", "diff.py.textconv", *filters):
        git(repository, "config", key, str(program))
    git(repository, "config", "filter.py.required", "true")
    (repository / ".gitattributes").write_text("*.py diff=py filter=py\n*.txt filter=p=y.x\n")
    (repository / "a.py").write_text("new\n")
    assert any(isinstance(block, DiffBlock) for block in packed(repository, diff="HEAD").blocks)
    assert not ran.exists()


@needs_git
def test_what_git_cannot_do_is_said(repository: Path, packed: Packed, tmp_path: Path) -> None:
    for revision in ("no-such-revision", "--output=x", ""):
        with pytest.raises(GitProblem):
            packed(repository, diff=revision)
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q")
    (new / "a").write_text("a")
    with pytest.raises(GitProblem, match="no commit yet"):
        packed(new, diff="HEAD")
    other = tmp_path / "none"
    other.mkdir()
    (other / "a").write_text("a")
    with pytest.raises(GitProblem, match=r"(?i)not a git repository"):
        packed(other, diff="HEAD")
    assert [path.name for path in other.iterdir()] == ["a"]


@needs_git
def test_secrets_in_a_diff_are_redacted(repository: Path, packed: Packed) -> None:
    (repository / "a.py").write_text("k = 'ghp_" + "aB3dE6gH9j" * 3 + "kLmN12'\n")
    result = packed(repository, diff="HEAD")
    assert b"ghp_" not in encode(result.blocks)
    assert "in the diff" in str([note.detail for note in result.notes])


def test_summaries_are_made_only_when_asked_for(
    folder: Make, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tokenbox.pack.packing.summary_of", lambda text, _: asked.append(text))
    result = packed(folder({f"f{n}.py": f"x = {n}\n" * 50 for n in range(5)}))
    render_blocks(result.blocks, "utf8-bytes", 100_000, summarize=result.summary)
    assert asked == []
    render_blocks(result.blocks, "utf8-bytes", 900, summarize=result.summary)
    assert asked


def test_an_outline_that_would_fit_is_made() -> None:
    pytest.importorskip("tree_sitter_python", reason="outlines need the extra")
    counter = registry.get("o200k_base")
    result = collect(survey([ROOT / "src" / "tokenbox"]))
    checked = 0
    for index, block in enumerate(result.blocks):
        summary = result.summary(index) if isinstance(block, CodeBlock) else None
        if summary is not None and summary.startswith("[outline"):
            assert result.summary(index, counter.count(summary)) == summary
            assert result.summary(index, 9) is None
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("mode", ["xml", "markdown", "minimal"])
def test_this_package_in_no_budget_is_ever_over(packed: Packed, mode: str) -> None:
    result = packed(ROOT / "src" / "tokenbox" / "engine", ROOT / "README.md")
    counter = registry.get("utf8-bytes")
    whole = render_blocks(result.blocks, counter, None, mode).total
    for budget in (200, 1000, 5000, 20_000, whole - 1, whole, whole + 1):
        layout = render_blocks(result.blocks, counter, budget, mode, summarize=result.summary)
        assert len(layout.text.encode()) == layout.total <= budget


def test_a_pack_file_keeps_everything(folder: Make, packed: Packed) -> None:
    result = packed(folder({"a.py": "def f():\n    return 1\n" * 9, "b.md": "# b\n" * 40, "tests/t.py": "t"}))
    assert decode(encode(result.summarized())).blocks == result.summarized()


class Recorded(CountCache):
    """Knows how many texts had to be counted."""

    @property
    def counted(self) -> int:
        return self.info().misses


def test_counting_ahead_leaves_no_content_to_count(folder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several jobs, and a last one that is small.
    monkeypatch.setattr("tokenbox.pack.ahead._JOB", 25_000)
    root = folder({f"f{n}.py": f"x = {n}\n" * 2_000 for n in range(9)})
    cache, counter = Recorded(), registry.get("o200k_base")
    with CountAhead(counter, cache) as ahead:
        result = collect(survey([root]), made=ahead.add)
    assert cache.counted == 10
    layout = render_blocks(result.blocks, counter, cache=cache)
    assert cache.counted == 10
    assert layout.total == counter.count(layout.text)


def test_what_fails_ends_the_counting_ahead(folder: Make) -> None:
    with pytest.raises(GitProblem), CountAhead(registry.get("o200k_base"), CountCache()) as ahead:
        collect(survey([folder({"a.py": "x"})]), diff="HEAD", made=ahead.add)


def test_what_costs_nothing_to_count_is_not_counted_ahead(folder: Make) -> None:
    cache = Recorded()
    with CountAhead(registry.get("utf8-bytes"), cache) as ahead:
        collect(survey([folder({"a.py": "x"})]), made=ahead.add)
    assert cache.counted == 0
