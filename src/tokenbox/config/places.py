"""Find the settings files: the project's, in the nearest parent folder, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_config_path

from tokenbox.config.reading import mentions_us

FOLDER = ".tokenbox"
FILE = "config.toml"
PYPROJECT = "pyproject.toml"
# The variable with the path of the user's file; if empty, no user's file is read.
USER_VARIABLE = "TOKENBOX_USER_CONFIG"


@dataclass(frozen=True, slots=True)
class Project:
    """The nearest folder with settings, and its settings files in order of precedence."""

    root: Path
    files: tuple[Path, ...]

    @property
    def state(self) -> Path:
        """The file of remembered choices."""
        return self.root / FOLDER / "state.json"


def find_project(folder: Path) -> Project | None:
    """Return the nearest folder, from ``folder`` up, with ``.tokenbox`` or ``[tool.tokenbox]``.

    Settings of folders further up are not merged.
    """
    here = Path(os.path.abspath(folder))  # without resolving links
    for root in (here, *here.parents):
        ours, pyproject = root / FOLDER, root / PYPROJECT
        has_ours = os.path.isdir(ours)  # False, not an error, if it is not accessible
        has_table = mentions_us(pyproject)
        if has_ours or has_table:
            own = (ours / FILE,) if has_ours and os.path.lexists(ours / FILE) else ()
            return Project(root, (*own, *((pyproject,) if has_table else ())))
    return None


def user_file(env: Mapping[str, str]) -> Path | None:
    """Return the path of the user's own file, existing or not; None if the environment disables it."""
    if USER_VARIABLE in env:
        named = env[USER_VARIABLE]
        return Path(named) if named else None

    return user_config_path("tokenbox", appauthor=False) / FILE
