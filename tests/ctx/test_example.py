"""The example of a repository with a policy of its own: its hook and its CI job, really run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy"
NOTE = "prompts/review/2026-11-20-new.md"
TOO_MUCH = "One more thing to know about this repository and its many parts. " * 12


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    folder = shutil.copytree(EXAMPLE, tmp_path / "repository", ignore=ignored)
    for command in (["init", "-q"], ["config", "core.hooksPath", "hooks"], ["add", "-A"]):
        git(folder, *command)
    return folder


def environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TOKENBOX_", "GIT_"))}
    binaries = str(Path(sys.executable).parent)
    who = {
        f"GIT_{role}_{what}": "a@b.example" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return {
        **ours,
        **who,
        "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
        "PYTHON": sys.executable,
        "TOKENBOX_USER_CONFIG": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "git", *arguments)


def ci_steps() -> list[str]:
    """What the CI job runs, but for installing tokenbox, which is here already."""
    workflow: Any = yaml.safe_load((EXAMPLE / ".github" / "workflows" / "context.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["prompts-fit"]["steps"] if "run" in step]
    own = [step for step in steps if "pip install" not in step]
    assert own
    return own


def pre_commit_entry() -> str:
    config: Any = yaml.safe_load((EXAMPLE / ".pre-commit-config.yaml").read_text())
    (hook,) = config["repos"][0]["hooks"]
    assert hook["pass_filenames"] is False
    entry: str = hook["entry"]
    return entry


@pytest.mark.slow
def test_a_commit_that_fits_passes_and_one_that_does_not_is_refused(repository: Path) -> None:
    assert git(repository, "commit", "-qm", "first").returncode == 0

    (repository / NOTE).write_text(TOO_MUCH)
    git(repository, "add", "-A")
    refused = git(repository, "commit", "-qm", "too much")
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert "review: refused" in said
    assert "triage: ok" in said
    assert "- drop 2026-09-01-style" in said
    assert git(repository, "log", "--oneline").stdout.count("\n") == 1, "nothing was committed"

    # What the refusal says would help does.
    for name in re.findall(r"drop (\S+)", said):
        (repository / f"prompts/review/{name}.md").unlink()
    git(repository, "add", "-A")
    after = git(repository, "commit", "-qm", "less")
    assert after.returncode == 0, after.stdout + after.stderr


@pytest.mark.slow
def test_the_same_in_ci_and_with_pre_commit(repository: Path) -> None:
    commands = [*ci_steps(), pre_commit_entry()]
    for command in commands:
        assert run(repository, "sh", "-c", command).returncode == 0
    (repository / NOTE).write_text(TOO_MUCH * 3)
    for command in commands:
        refused = run(repository, "sh", "-c", command)
        own = command == "tokenbox check"  # which is about each file by itself
        assert refused.returncode == (3 if own else 4)
        assert ("over budget" if own else "too many") in refused.stdout


@pytest.mark.slow
def test_rules_that_are_too_long_are_refused_too(repository: Path) -> None:
    (repository / "prompts/review/rules.md").write_text(TOO_MUCH * 9)
    checked = run(repository, sys.executable, "context_policy.py")
    assert (checked.returncode, checked.stderr) == (4, "")
    assert "use a model with a window of at least" in checked.stdout
    planned = run(repository, sys.executable, "context_policy.py", "--plan")
    assert planned.returncode == 2
    assert planned.stderr.startswith("error: the critical sections need")


def test_the_plan_of_its_own_strategy(repository: Path) -> None:
    (repository / NOTE).write_text(TOO_MUCH)
    planned = run(repository, sys.executable, "context_policy.py", "--plan")
    assert planned.returncode == 0, planned.stderr
    assert "leaves out 2026-09-01-style" in planned.stdout
    assert "or summarize 2026-11-20-new" in planned.stdout
