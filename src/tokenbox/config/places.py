"""Which files there are: the project's, found by walking up as git does, and the user's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.config.reading import mentions_us

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".tokenbox"
FILE = "config.toml"
PYPROJECT = "pyproject.toml"
# Another place for the user's file; empty for none.
USER_VARIABLE = "TOKENBOX_USER_CONFIG"


@dataclass(frozen=True, slots=True)
class Project:
    """The nearest folder with settings, and the files that have them, the first first."""

    root: Path
    files: tuple[Path, ...]

    @property
    def state(self) -> Path:
        """Where chosen values are remembered."""
        return self.root / FOLDER / "state.json"


def find_project(folder: Path) -> Project | None:
    """The nearest folder from ``folder`` up with a ``.tokenbox``, or ``[tool.tokenbox]`` in pyproject.toml.

    Nothing is merged from folders further up.
    """
    here = Path(os.path.abspath(folder))  # noqa: PTH100  # as the user sees it, links and all
    for root in (here, *here.parents):
        ours, pyproject = root / FOLDER, root / PYPROJECT
        has_ours = os.path.isdir(ours)  # noqa: PTH112  # false, not an error, where it may not be looked at
        has_table = mentions_us(pyproject)
        if has_ours or has_table:
            own = (ours / FILE,) if has_ours and os.path.lexists(ours / FILE) else ()
            return Project(root, (*own, *((pyproject,) if has_table else ())))
    return None


def user_file(env: Mapping[str, str]) -> Path | None:
    """The user's own file, whether it exists or not. None where the environment says there is none."""
    if USER_VARIABLE in env:
        named = env[USER_VARIABLE]
        return Path(named) if named else None
    from platformdirs import user_config_path  # noqa: PLC0415  # only on use

    return user_config_path("tokenbox", appauthor=False) / FILE
