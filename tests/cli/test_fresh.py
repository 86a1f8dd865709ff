"""What a newcomer copies: examples of the help, and the script of the GitHub Action."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tokenbox.cli.app import GROUPS
from tokenbox.cli.listing import COMMANDS as LISTED

if TYPE_CHECKING:
    from tests.cli.transcript import CommandLine

ROOT = Path(__file__).parents[2]
FILES = {
    "rules.md": "Be brief.\n",
    "notes.md": "A note.\n",
    "README.md": "Read me.\n",
    "chat.json": '{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}',
    "prompt.toml": 'budget = 90\ntokenizer = "utf8-bytes"\n[[sections]]\nid = "a"\ncontent = "b"\n',
}
COMMANDS = ["estimate", "plan", "enforce", "fit", "layout", "inspect", "models", "init", "proof keygen"]


@pytest.mark.parametrize(("command", "file"), [("layout", "prompt.toml"), ("lcp encode", "manifest.toml")])
def test_the_help_shows_a_file_with_which_its_example_runs(
    tokenbox: CommandLine, command: str, file: str
) -> None:
    said = tokenbox(*command.split(), "--help").out.decode()
    shown = re.search(r"^  (\w+ = .*)$", said, re.MULTILINE)
    example = re.search(r"Example: tokenbox (.*)", said)
    assert shown is not None
    assert example is not None
    (tokenbox.folder / file).write_text(shown[1])
    result = tokenbox(*shlex.split(example[1]))
    assert result.status == 0, result.err


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("tools {}", '[{"type": "function", "function": {"name": "f"}}]'),
        ("cache {} {}", '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi."}]}'),
        ("estimate --model gpt-4o -t o200k_base --messages {}", '[{"role": "user", "content": "Hi."}]'),
        (
            "lcp encode {} -o context.bcp",
            '{"blocks": [{"type": "code", "path": "", "lang": "c", "content": ""}]}',
        ),
        ("layout - --format json", '{"budget": 9, "sections": [{"id": "a", "content": "Hi."}]}'),
    ],
)
def test_a_byte_order_mark_is_no_mistake(tokenbox: CommandLine, command: str, text: str) -> None:
    given = b"\xef\xbb\xbf" + text.encode()
    (tokenbox.folder / "a.json").write_bytes(given)
    result = tokenbox(*command.replace("{}", "a.json").split(), stdin=given)
    assert result.status == 0, result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_runs_where_nothing_is_set_up(
    tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("HOME", str(tokenbox.folder / "home"))
    for name, text in FILES.items():
        (tokenbox.folder / name).write_text(text)
    said = " ".join(tokenbox(*command.split(), "--help").out.decode().split())
    example = re.search(r"Example: tokenbox (.*?) (?:Options|Arguments|Usage|\Z)", said)
    assert example is not None, said
    result = tokenbox(*shlex.split(example[1]))
    assert result.status == 0, result.err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the Action's script is one of bash")
@pytest.mark.parametrize("grown", [False, True])
def test_the_script_of_the_action(tmp_path: Path, grown: bool) -> None:
    """With the variables of GitHub: the table is an output and in the summary, the status is kept."""
    action = (ROOT / "action.yml").read_text()
    (script,) = re.findall(r"run: \|\n((?:        .*\n)+)", action)
    repository, runner = tmp_path / "repository", tmp_path / "runner"
    (repository / "prompts").mkdir(parents=True)
    (repository / ".tokenbox").mkdir()
    runner.mkdir()
    settings = '[check.prompts]\nfiles = ["prompts/*.md"]\nbudget = 20\ngrowth = "0.1"\n'
    (repository / ".tokenbox" / "config.toml").write_text(settings)
    (repository / "prompts" / "a.md").write_text("one two three four\n")

    def git(*arguments: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *own, *arguments], cwd=repository, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "base")
    base = git("rev-parse", "HEAD")
    if grown:
        (repository / "prompts" / "a.md").write_text("one two three four five six seven\n")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "BASE": base,
        "RUNNER_TEMP": str(runner),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "TOKENBOX_USER_CONFIG": "",
    }
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=repository, env=environment, check=True
    )
    table = runner / "tokenbox-check.md"
    assert (runner / "output").read_text() == f"table={table}\nstatus={3 if grown else 0}\n"
    assert (runner / "summary").read_text() == table.read_text()
    assert ("| `prompts/a.md` | 8 | 20 | +3 | grew too much |" in table.read_text()) is grown


@pytest.mark.skipif(shutil.which("bash") is None, reason="the Action's script is one of bash")
def test_the_action_does_not_fail_where_it_may_not_comment() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (script,) = [step["run"] for step in steps if "gh pr comment" in step.get("run", "")]
    refused = f"gh() {{ echo 'Resource not accessible' >&2; return 1; }}\n{script}"
    run = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", refused],
        env={"NUMBER": "7", "TABLE": "table.md"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.startswith("::warning::tokenbox check could not comment")


def every_command() -> list[str]:
    """Return the commands, those of groups too."""
    inner = {name: tuple(f"{name} {group}" for group in groups) for name, groups in GROUPS.items()}
    return [*LISTED, *(path for paths in inner.values() for path in paths)]


@pytest.mark.parametrize("command", every_command())
def test_the_help_is_not_cut_and_its_example_is_one_line(tokenbox: CommandLine, command: str) -> None:
    said = tokenbox(*command.split(), "--help").out.decode()
    assert max(map(len, said.splitlines())) <= 80
    assert not re.search(r"[a-z]\.\.\.$", said, re.MULTILINE), said
    assert said.startswith(f"Usage: tokenbox {command} [OPTIONS]")
    assert "{" not in said.splitlines()[0]
    parts = said.split("\nCommands:\n")
    if len(parts) == 1:
        assert re.search(r"^  Example: .*\n(\n|\Z)", said, re.MULTILINE), said
        return
    for name in re.findall(r"^  (\w+)", parts[1], re.MULTILINE):
        if f"{command} {name}" not in every_command():
            inner = tokenbox(*command.split(), name, "--help").out.decode()
            assert re.search(r"^  Example: .*\n(\n|\Z)", inner, re.MULTILINE), inner
