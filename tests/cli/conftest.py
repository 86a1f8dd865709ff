"""The command line, run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.transcript import CommandLine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tokenbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    """``tokenbox("count", "a.txt", stdin=b"")`` in an empty folder, ``tokenbox.folder``."""
    return CommandLine(monkeypatch, tmp_path)
