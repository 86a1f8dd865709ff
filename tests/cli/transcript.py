"""Sessions of the command line as plain files: input files, commands, and their output.

A line that begins with @ starts a part:

    @file NAME      the content of a file, up to the next @
    @run ARGUMENTS  a command, split as by a shell
    @stdin          its input
    @out  @err      its output (`@out cut`: the output does not end with a newline)
    @exit N         its exit status, if not 0
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.cli import clock, main
from tokenbox.store import stores

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


# Variables from outside the tests. The folder of the cache of counts is set by the tests.
OUTER_VARIABLES = [
    name for name in os.environ if name.startswith("TOKENBOX_") and name != "TOKENBOX_CACHE_DIR"
]


class Result(NamedTuple):
    """The output and the exit status of a command."""

    out: bytes
    err: str
    status: int


@dataclass
class CommandLine:
    """Runs commands in this process as in a pipe: no terminal, 80 columns, UTF-8."""

    monkeypatch: pytest.MonkeyPatch
    folder: Path

    def __call__(self, *arguments: str, stdin: bytes = b"", encoding: str = "utf-8") -> Result:
        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for name in ("stdout", "stderr")}
        with self.monkeypatch.context() as patch:
            patch.chdir(self.folder)
            patch.setenv("COLUMNS", "80")
            # Isolate the command from the user's settings and files, and fix the time.
            for name in OUTER_VARIABLES:
                patch.delenv(name, raising=False)
            patch.setenv("TOKENBOX_USER_CONFIG", "")
            patch.setattr(stores, "default_path", lambda: Path("tokenbox.db"))
            patch.setattr(clock, "now", lambda: datetime(2026, 11, 21, 12, tzinfo=UTC))
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            status = main(arguments)
            for stream in streams.values():
                stream.flush()
        out, err = (stream.detach().getvalue() for stream in streams.values())
        return Result(out, err.decode(encoding), status)


class Part(NamedTuple):
    """An @ line and the text below it."""

    kind: str
    argument: str
    text: str


def parts_of(transcript: str) -> list[Part]:
    found = re.split(r"^@(file|run|stdin|out|err|exit)\b *(.*)\n", transcript, flags=re.MULTILINE)
    assert not found[0].startswith("@"), "a transcript must begin with a line that explains it"
    return [Part("about", "", found[0]), *(Part(*found[i : i + 3]) for i in range(1, len(found), 3))]


def replay(transcript: str, command: CommandLine) -> str:
    """Run the commands; return the transcript with their current output."""
    parts = parts_of(transcript)
    written = [parts[0].text]
    for at, part in enumerate(parts):
        if part.kind == "file":
            path = command.folder / part.argument
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(part.text.encode())
            written.append(f"@file {part.argument}\n{part.text}")
        elif part.kind == "run":
            following = parts[at + 1 : at + 2]
            stdin = following[0].text if following and following[0].kind == "stdin" else None
            written.append(f"@run {part.argument}\n")
            written.append("" if stdin is None else f"@stdin\n{stdin}")
            written += _outcome(command(*shlex.split(part.argument), stdin=(stdin or "").encode()))
    return "".join(written)


def _outcome(result: Result) -> Sequence[str]:
    parts = []
    out = result.out.decode()
    if out:
        parts.append(f"@out\n{out}" if out.endswith("\n") else f"@out cut\n{out}\n")
    if result.err:
        parts.append(f"@err\n{result.err}")
    if result.status:
        parts.append(f"@exit {result.status}\n")
    return parts
