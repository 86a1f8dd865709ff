"""The command line, run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.transcript import CommandLine
from tokenbox.store import bundles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tokenbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    """Return a runner for ``tokenbox("count", "a.txt", stdin=b"")`` in an empty folder, ``tokenbox.folder``.

    All proof bundles have the same time, host and environment.
    """
    monkeypatch.setattr(bundles, "now", lambda: "2026-11-21T10:00:00.000000Z")
    monkeypatch.setattr(bundles, "host", lambda: "host")
    monkeypatch.setattr(bundles, "environment", lambda: {"python": "cpython 3.11.0"})
    return CommandLine(monkeypatch, tmp_path)
