"""A project to pack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a folder with code and a Unicode text, next to a folder with a secret that must stay private."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    for name in ("cart", "mail", "money"):
        lines = [f"def {name}_{n}(x):\n    return x + {n}\n" for n in range(40)]
        (root / "src" / f"{name}.py").write_text("\n".join(lines))
    (root / "notes.md").write_text("# Größe\n\nGrüße 🌍 and e\u0301 and \U0001f469\u200d\U0001f680.\r\n" * 50)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the launch code is 0000")
    return root
