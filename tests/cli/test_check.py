"""Budgets of prompts: what is over, what grew, and what is wrong with the question."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.waiting import SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.transcript import CommandLine

CONFIG = """
[check.prompts]
files = ["prompts/*.md", "prompts/a*"]
budget = 10
growth = "0.5"
tokenizer = "utf8-bytes"
[check.chats]
files = ["*.json"]
budget = 100
model = "gpt-4o"
"""
CHAT = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hello"}]


@pytest.fixture
def project(tokenbox: CommandLine) -> Path:
    folder = tokenbox.folder
    (folder / ".tokenbox").mkdir()
    (folder / ".tokenbox" / "config.toml").write_text(CONFIG)
    (folder / "prompts").mkdir()
    (folder / "prompts" / "a.md").write_text("four")
    (folder / "prompts" / "b|c.md").write_text("ten bytes.")
    (folder / "chat.json").write_text(json.dumps(CHAT))
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.example commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


@pytest.mark.usefixtures("project")
def test_a_chat_counts_as_a_request(tokenbox: CommandLine) -> None:
    found = {one["file"]: one for one in json.loads(tokenbox("check", "--json").out)["files"]}
    # OpenAI's rules: 3 for the reply, 4 for each message, and the 4 and 1 tokens of the texts.
    assert found["chat.json"]["tokens"] == 3 + 4 + 4 + 4 + 1
    assert found["chat.json"]["exact"] is True
    assert found["prompts/a.md"]["tokens"] == 4


def test_what_is_over_and_what_grew(tokenbox: CommandLine, project: Path) -> None:
    assert tokenbox("check", "--base", "HEAD").status == 0
    (project / "prompts" / "a.md").write_text("sevens!")
    (project / "prompts" / "b|c.md").write_text("eleven bytes")
    (project / "prompts" / "new.md").write_text("new")
    result = tokenbox("check", "--base", "HEAD", "--json")
    assert result.status == 3
    said = json.loads(result.out)
    outcomes = {one["file"]: (one["outcome"], one["change"]) for one in said["files"]}
    assert outcomes == {
        "prompts/a.md": ("grew too much", 3),
        "prompts/b|c.md": ("over budget", 2),
        "prompts/new.md": ("ok", None),
        "chat.json": ("ok", 0),
    }
    assert said["wrong"] == 2
    assert "config set check.prompts.budget 12" in result.err
    assert "at most 50 % are allowed" in result.err.replace("50.0", "50")
    # Without a base nothing has grown.
    assert tokenbox("check", "prompts", "--json").out.count(b'"over budget"') == 1


def test_a_renamed_file_is_compared_with_its_old_name(tokenbox: CommandLine, project: Path) -> None:
    (project / "prompts" / "a.md").write_text("one two\n" * 5)
    (project / ".tokenbox" / "config.toml").write_text(CONFIG.replace("budget = 10\n", ""))
    commit = "-c user.name=a -c user.email=a@b.example commit -qam longer"
    subprocess.run(["git", *commit.split()], cwd=project, check=True)
    subprocess.run(["git", "mv", "prompts/a.md", "prompts/an ümlaut.md"], cwd=project, check=True)
    (project / "prompts" / "an ümlaut.md").write_text("one two\n" * 8)
    result = tokenbox("check", "prompts", "--base", "HEAD", "--json")
    found = {one["file"]: (one["outcome"], one["before"]) for one in json.loads(result.out)["files"]}
    assert found == {"prompts/an ümlaut.md": ("grew too much", 40), "prompts/b|c.md": ("ok", 10)}
    assert result.status == 3


def test_a_check_without_a_limit_is_refused(tokenbox: CommandLine, project: Path) -> None:
    """It would pass whatever the files have."""
    config = project / ".tokenbox" / "config.toml"
    config.write_text("[check.'my own']\nfiles = ['chat.json']\n")
    result = tokenbox("check")
    assert result.status == 2
    assert "so it checks nothing" in result.err
    assert "tokenbox config set 'check.\"my own\".budget' 2000" in result.err
    assert tokenbox("config", "set", 'check."my own".budget', "3").status == 0
    assert "config set 'check.\"my own\".budget' 29" in tokenbox("check").err
    config.write_text("[check.own]\nfiles = ['chat.json']\ngrowth = '0.1'\n")
    result = tokenbox("check")
    assert (result.status, result.err) == (0, "note: check.own.growth is checked only with --base REV.\n")
    assert tokenbox("check", "--base", "HEAD").err == ""


def test_the_figures_of_an_estimate_add_up(tokenbox: CommandLine, project: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    chat = {"messages": [{"role": "user", "content": [image]}]}
    (project / "chat.json").write_text(json.dumps(chat))
    config = project / ".tokenbox" / "config.toml"
    config.write_text("[check.own]\nfiles = ['chat.json']\nbudget = 100\nmodel = 'gpt-4o'\n")
    assert tokenbox("check").err == (
        "chat.json: ~1,452 tokens (1,525 with the safety margin of an estimate), 1,425 over its budget. "
        "Shorten it, or: tokenbox config set check.own.budget 1525\n"
    )


def test_a_pattern_stays_in_the_project(tokenbox: CommandLine, project: Path) -> None:
    config = project / ".tokenbox" / "config.toml"
    config.write_text("[check.own]\nfiles = ['../*.md']\ngrowth = '0.1'\n")
    result = tokenbox("check", "--base", "HEAD")
    assert result.status == 2
    assert "not a pattern of files below the project's folder: it leads out of it." in result.err


def test_a_table_for_a_pull_request(tokenbox: CommandLine, project: Path) -> None:
    (project / "prompts" / "a.md").write_text("sevens!")
    lines = tokenbox("check", "--base", "HEAD", "--markdown").out.decode().splitlines()
    assert lines == [
        "**tokenbox check**: 3 files, 1 over",
        "",
        "| file | tokens | budget | change | outcome |",
        "|---|---:|---:|---:|---|",
        "| `prompts/a.md` | 7 | 10 | +3 | grew too much |",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], "no check is called 'none'. Declared checks: prompts, chats."),
        (["--base", "nope"], "git does not know the revision 'nope' here. Fetch it: git fetch origin nope"),
        (["--base", "origin/main"], "Fetch it: git fetch origin main"),
        (["--base", "nope~1"], "Fetch it: git fetch --unshallow"),
        (["--base", "--output=x"], "git does not know the revision"),
        (["--json", "--markdown"], "do not go together"),
    ],
)
def test_what_cannot_be_checked(
    tokenbox: CommandLine, project: Path, arguments: list[str], said: str
) -> None:
    result = tokenbox("check", *arguments)
    assert result.status == 2
    assert said in result.err + result.out.decode()
    assert not (project / "x").exists()


def test_a_misspelt_model_is_reported(tokenbox: CommandLine, project: Path) -> None:
    settings = project / ".tokenbox" / "config.toml"
    settings.write_text(settings.read_text().replace('model = "gpt-4o"', 'model = "gpt4o"'))
    assert "note: no model is called gpt4o" in tokenbox("check").err


def test_no_checks_and_no_files(tokenbox: CommandLine) -> None:
    assert "No check is declared" in tokenbox("check").err
    (tokenbox.folder / ".tokenbox").mkdir()
    (tokenbox.folder / ".tokenbox" / "config.toml").write_text("[check.x]\nfiles = ['*.md']\nbudget = 9\n")
    result = tokenbox("check")
    assert (result.status, "matches no file" in result.err) == (2, True)


@pytest.mark.parametrize("pattern", ["/etc/*.conf", "**.md", "a\\nb/**.md"])
def test_what_is_no_pattern(tokenbox: CommandLine, pattern: str) -> None:
    (tokenbox.folder / ".tokenbox").mkdir()
    (tokenbox.folder / ".tokenbox" / "config.toml").write_text(
        f'[check.x]\nfiles = ["{pattern}"]\nbudget = 9\n'
    )
    result = tokenbox("check")
    assert result.status == 2
    assert result.err.startswith("error: check.x.files ")  # Python 3.13 takes ** in a word as *


def test_before_the_first_commit_and_without_a_repository(tokenbox: CommandLine, project: Path) -> None:
    shutil.rmtree(project / ".git")
    result = tokenbox("check", "--base", "HEAD")
    assert (result.status, "this is not a git repository" in result.err) == (2, True)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    assert tokenbox("check", "--base", "HEAD").status == 0  # the hook of the first commit
    assert "git does not know" in tokenbox("check", "--base", "HEAD~1").err


def test_a_chat_that_no_server_takes_is_named_and_can_be_mended(tokenbox: CommandLine, project: Path) -> None:
    """Otherwise the commit that mends it would be refused because of the one before."""
    (project / "chat.json").write_text('[{"role": "nobody", "content": "Hello"}]')
    result = tokenbox("check", "--base", "HEAD")
    assert (result.status, "chat.json: " in result.err) == (2, True)
    commit = "-c user.name=a -c user.email=a@b.example commit -qam broken"
    subprocess.run(["git", *commit.split()], cwd=project, check=True)
    (project / "chat.json").write_text(json.dumps(CHAT))
    found = json.loads(tokenbox("check", "chats", "--base", "HEAD", "--json").out)["files"]
    assert [(one["outcome"], one["before"]) for one in found] == [("ok", None)]


def test_in_the_hook_of_a_linked_worktree(project: Path, tmp_path: Path) -> None:
    """Git names the repository to it, but not where its worktree begins: the project is in a folder of it."""
    below = project / "below"
    shutil.copytree(project / ".tokenbox", below / ".tokenbox")
    shutil.copytree(project / "prompts", below / "prompts")
    (below / ".tokenbox" / "config.toml").write_text(CONFIG.partition("[check.chats]")[0])
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for command in (
        ("add", "-A"),
        (*who, "commit", "-qm", "below"),
        ("worktree", "add", "-q", tmp_path / "linked"),
    ):
        subprocess.run(["git", *command], cwd=project, check=True)
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\ncd below && {sys.executable} -m tokenbox check --base HEAD\n")
    hook.chmod(0o755)
    (tmp_path / "linked" / "below" / "prompts" / "a.md").write_text("sevens!")
    refused = subprocess.run(
        ["git", *who, "commit", "-qam", "grown"],
        cwd=tmp_path / "linked",
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (refused.returncode, "grew too much" in refused.stdout + refused.stderr) == (1, True), refused


def test_a_file_that_was_moved_is_missed(tokenbox: CommandLine, project: Path) -> None:
    """A check must not look at one file less without saying so."""
    config = project / ".tokenbox" / "config.toml"
    config.write_text(CONFIG.replace('"prompts/a*"', '"prompts/gone.md"'))
    result = tokenbox("check")
    assert result.status == 2
    assert "prompts/gone.md, which matches no file" in result.err


def test_no_program_of_the_repository_is_run(tokenbox: CommandLine, project: Path) -> None:
    (project / ".gitattributes").write_text("* filter=own\n")
    for key in ("core.fsmonitor", "filter.own.clean", "filter.own.smudge", "diff.external"):
        subprocess.run(["git", "config", key, "touch ran; cat"], cwd=project, check=True)
    (project / "prompts" / "a.md").write_text("five!")
    assert tokenbox("check", "--base", "HEAD").status == 0
    assert not (project / "ran").exists()
