"""Fixtures: working directories with and without settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.ctx.asking import SETTINGS
from tokenbox import ctx
from tokenbox.tokenizers.ownership import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TOKENBOX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOKENBOX_USER_CONFIG", "")
    ctx.reload()
    yield tmp_path
    FAMILIES.disable_all_baselines()
    ctx.reload()


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / ".tokenbox").mkdir()
    (folder / ".tokenbox" / "config.toml").write_text(SETTINGS)
    return folder
