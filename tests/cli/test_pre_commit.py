"""The hooks for pre-commit, installed and run by pre-commit itself, from this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 600
"""To install tokenbox from the package index, which only a hang takes."""
PRE_COMMIT = shutil.which(
    "pre-commit", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)
CONFIG = '[check.prompts]\nfiles = ["prompts/*.md"]\nbudget = 5\ngrowth = "0.5"\n'


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.slow
@pytest.mark.skipif(
    PRE_COMMIT is None or not (ROOT / ".git").exists(),
    reason="pre-commit is not installed here (pip install pre-commit), or this is not a clone",
)
def test_both_hooks(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "tokenbox", tmp_path / "theirs"
    git(tmp_path, "clone", "-q", "--no-local", "--depth", "1", ROOT.as_uri(), str(ours))
    (theirs / "prompts").mkdir(parents=True)
    (theirs / ".tokenbox").mkdir()
    (theirs / ".tokenbox" / "config.toml").write_text(CONFIG)
    (theirs / "prompts" / "a.md").write_text("hello")
    git(theirs, "init", "-q")
    git(theirs, "add", "-A")

    def hooks() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PRE_COMMIT), "try-repo", str(ours), "--all-files", "--verbose"],
            cwd=theirs,
            env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    first = hooks()  # before the first commit
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count("Passed") == 2
    git(theirs, "commit", "-qm", "first")
    (theirs / "prompts" / "a.md").write_text("hello hello hello")
    git(theirs, "add", "-A")
    grown = hooks()
    assert (grown.stdout.count("Passed"), grown.stdout.count("exit code: 3")) == (1, 1), grown.stdout
    assert "grew too much" in grown.stdout
    (theirs / "prompts" / "a.md").write_text("hello " * 9)
    git(theirs, "add", "-A")
    assert hooks().stdout.count("over budget") == 2
