"""Fixtures: folders to pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tokenbox.folder import PackSettings, read, survey
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from tokenbox.folder import PriorityRule, Source

    Make: TypeAlias = Callable[[Mapping[str, str | bytes]], Path]
    Packed: TypeAlias = Callable[..., Source]


class Memory(CountCache):
    """Remembers in this process what was found in files, so that packs of the same files parse once."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[bytes, bytes] = {}

    def recall(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        return {key: self.facts[key] for key in keys if key in self.facts}

    def remember(self, facts: Mapping[bytes, bytes]) -> None:
        self.facts.update(facts)


@pytest.fixture
def folder(tmp_path: Path) -> Make:
    """Return ``folder({"a/b.py": "x"})``, which creates a folder with these files."""

    def make(files: Mapping[str, str | bytes]) -> Path:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return make


@pytest.fixture
def packed() -> Packed:
    """Return ``packed(root, ...)``, which reads the files of a folder."""

    def make(
        *paths: Path,
        rules: Sequence[PriorityRule] = (),
        instructions: str | None = None,
        **settings: Any,
    ) -> Source:
        return read(survey(paths), PackSettings(**settings), rules=rules, instructions=instructions)

    return make
