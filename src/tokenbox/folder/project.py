"""What a project says of its own packs: ``[tool.tokenbox.pack]`` in its ``pyproject.toml``.

    [tool.tokenbox.pack]
    ignore = ["docs/generated/"]
    [tool.tokenbox.pack.priority]
    "src/**" = "high"

Patterns are relative to the packed folder. The file is looked for in that folder and in those above it, up to
where git is at home.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass

from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown
from tokenbox.folder.priorities import PriorityRule
from tokenbox.folder.reading import read_file
from tokenbox.folder.walk import project_folder

_FILE = "pyproject.toml"
_WHERE = f"[tool.tokenbox.pack] in {_FILE}"


class ProjectProblem(TokenboxError):
    """The table cannot be used."""

    code = "project_settings_invalid"


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What the table says."""

    ignore: tuple[str, ...] = ()
    priorities: tuple[PriorityRule, ...] = ()


def project_settings(root: str) -> ProjectSettings:
    """The settings for the folder ``root``. Raises :class:`ProjectProblem` and ``PriorityProblem``."""
    top = project_folder(root)
    folder = root
    while True:
        table = _table(folder)
        if table is not None:
            return _settings(table)
        if folder == top:
            return ProjectSettings()
        folder = os.path.dirname(folder)  # noqa: PTH120


def _table(folder: str) -> object:
    content, _ = read_file(folder, _FILE)
    if content is None or b"tokenbox" not in content:
        return None
    try:
        found: object = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        place = shown(os.path.join(folder, _FILE))  # noqa: PTH118
        raise ProjectProblem(f"{place} is no TOML: {error}. Mend it.", file=place) from None
    for key in ("tool", "tokenbox", "pack"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _settings(table: object) -> ProjectSettings:
    if not isinstance(table, dict):
        raise ProjectProblem(f"{_WHERE} is a table, not {type(table).__name__}.")
    unknown = sorted(set(table) - {"ignore", "priority"})
    if unknown:
        raise ProjectProblem(f"{_WHERE}: there is no key {unknown[0]!r}. There are 'ignore' and 'priority'.")
    ignore = table.get("ignore", [])
    if not isinstance(ignore, list) or not all(isinstance(line, str) for line in ignore):
        raise ProjectProblem(f"{_WHERE}: 'ignore' is a list of patterns, as in ['docs/generated/'].")
    priority = table.get("priority", {})
    if not isinstance(priority, dict) or not all(isinstance(name, str) for name in priority.values()):
        raise ProjectProblem(f'{_WHERE}: \'priority\' is a table of patterns, as in "src/**" = "high".')
    return ProjectSettings(
        tuple(ignore), tuple(PriorityRule.of(glob, name, _WHERE) for glob, name in priority.items())
    )
