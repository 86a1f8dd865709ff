"""What does not fit names the command that runs, and it does."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from tokenbox.cli.outcome import Exit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.transcript import CommandLine

FILES = {
    "chat.json": '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is due?"}]',
    "prompt.toml": '[[sections]]\nid = "rules"\ncontent = "Answer from the notes only, and say so."\n',
    "small.toml": 'budget = 2\n[[sections]]\nid = "rules"\nrole = "user"\ncontent = "Use notes."\n',
    "notes.md": "# Notes\n\nThe launch is on Friday.\n",
}


@pytest.mark.parametrize(
    "command",
    [
        "fit chat.json --budget 3 --model gpt-4o",
        "fit chat.json --model gpt-4o --budget=3",
        "fit -b 3 chat.json",
        "fit chat.json -b3 --explain",
        "layout prompt.toml --budget 2 -t o200k_base",
        "layout prompt.toml --budget 2 --tokenizer o200k_base --explain",
        "layout small.toml -t o200k_base",
        "layout small.toml -t o200k_base --messages",
        "pack notes.md --budget 20 --priority '*.md=critical'",
    ],
)
def test_the_command_that_an_overflow_names_runs(tokenbox: CommandLine, tmp_path: Path, command: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    refused = tokenbox(*shlex.split(command))
    assert refused.status == Exit.DOES_NOT_FIT
    *_, last = refused.err.splitlines()
    program, *arguments = shlex.split(last.removeprefix("Run: "))
    assert program == "tokenbox"
    assert tokenbox(*arguments).status == Exit.OK
