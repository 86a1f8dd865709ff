"""Exact output, messages and exit statuses. If a change is right: make golden, and read what git shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.transcript import parts_of, replay

if TYPE_CHECKING:
    from tests.cli.transcript import CommandLine

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, tokenbox: CommandLine, request: pytest.FixtureRequest) -> None:
    recorded = path.read_bytes().decode()
    happened = replay(recorded, tokenbox)
    if request.config.getoption("--update-golden"):
        path.write_bytes(happened.encode())
        return
    assert happened == recorded


def test_every_command_has_a_transcript() -> None:
    from tokenbox.cli.app import build_app

    runs = {
        part.argument.split()[0]
        for path in TRANSCRIPTS
        for part in parts_of(path.read_text(encoding="utf-8"))
        if part.kind == "run" and part.argument
    }
    commands = {command.name for command in build_app().registered_commands}
    assert commands, "no commands found"
    assert commands - runs == set()
