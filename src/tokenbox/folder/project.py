"""A project's settings for its packs: ``[tool.tokenbox.pack]`` in its ``pyproject.toml``.

    [tool.tokenbox.pack]
    ignore = ["docs/generated/"]
    include = ["src/", "tests/"]
    strip = ["base64", "outputs"]
    line_numbers = true
    instructions = "docs/for-models.md"
    [tool.tokenbox.pack.priority]
    "src/**" = "high"
    [tool.tokenbox.pack.level]
    "tests/**" = "outline"

Patterns are relative to the packed folder. The file is searched in that folder and in those above it, up to
the root of the git repository. Options of the call or the command line, and presets, override it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tokenbox.documents.syntax_toml import parse_toml
from tokenbox.errors import DocumentError, TokenboxError
from tokenbox.files import is_inside
from tokenbox.folder.generated import as_text
from tokenbox.folder.names import shown
from tokenbox.folder.options import LevelRule, PackSettings, file_order, strips
from tokenbox.folder.priorities import PriorityRule
from tokenbox.folder.reading import read_file
from tokenbox.folder.walk import is_left_out, project_folder

_FILE = "pyproject.toml"
_WHERE = f"[tool.tokenbox.pack] in {_FILE}"


class ProjectProblem(TokenboxError, code="project_settings_invalid"):
    """The table is invalid."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings in the table. ``instructions``: a text. ``pack``: those that a call may override."""

    ignore: tuple[str, ...] = ()
    priorities: tuple[PriorityRule, ...] = ()
    instructions: str | None = None
    pack: PackSettings = field(default_factory=PackSettings)


def project_settings(root: str, within: str | None = None) -> ProjectSettings:
    """Return the settings for the folder ``root``. Raises :class:`ProjectProblem` and ``PriorityProblem``."""
    top = project_folder(root, within)
    folder = root
    while True:
        table = _table(folder)
        if table is not None:
            return _settings(table, folder, top)
        if folder == top:
            return ProjectSettings()
        folder = os.path.dirname(folder)


def _table(folder: str) -> object:
    content, _ = read_file(folder, _FILE)
    if content is None or b"tokenbox" not in content:
        return None
    place = shown(os.path.join(folder, _FILE))
    try:
        found = parse_toml(content.decode(), place).data
    except UnicodeDecodeError as error:
        raise ProjectProblem(f"{place} is not valid TOML: {error}. Correct it.", file=place) from None
    except DocumentError as error:
        raise ProjectProblem(f"{error} Correct it.", file=place) from None
    for key in ("tool", "tokenbox", "pack"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


_TEXTS = list, "a list of strings, as in ['docs/generated/']"
# Each key, with the type of its value.
_KEYS: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("ignore", "include", "exclude", "strip"), _TEXTS),
    "priority": (dict, 'a table of patterns, as in "src/**" = "high"'),
    "level": (dict, 'a table of patterns, as in "tests/**" = "outline"'),
    **dict.fromkeys(("line_numbers", "history"), (bool, "true or false")),
    "log": (int, "a number of commits"),
    "order": (str, "'path' or 'worth'"),
    "instructions": (str, "the path of a file"),
}


def _is_of(kind: type, value: Any) -> bool:  # noqa: ANN401  # a value of any kind
    """Return whether a value has the type, and what is in it is text. A number is at least 0."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    is_negative = isinstance(value, int) and value < 0
    return type(value) is kind and all(isinstance(part, str) for part in inside) and not is_negative


def _settings(table: object, folder: str, top: str) -> ProjectSettings:
    if not isinstance(table, dict):
        raise ProjectProblem(f"{_WHERE} must be a table, not {type(table).__name__}.")
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise ProjectProblem(f"{_WHERE}: unknown key {unknown[0]!r}. The keys are {', '.join(_KEYS)}.")
    for key, value in table.items():
        kind, description = _KEYS[key]
        if not _is_of(kind, value):
            given = str(value) if isinstance(value, Decimal) else repr(value)
            raise ProjectProblem(f"{_WHERE}: {key!r} must be {description}, not {given:.60}.")
    texts = {key: tuple(table.get(key, ())) for key in ("ignore", "include", "exclude")}
    levels = [LevelRule.parse(f"{glob}={level}") for glob, level in table.get("level", {}).items()]
    return ProjectSettings(
        texts["ignore"],
        tuple(PriorityRule.of(glob, name, _WHERE) for glob, name in table.get("priority", {}).items()),
        _text(table["instructions"], folder, top) if "instructions" in table else None,
        PackSettings(
            include=texts["include"] or None,
            exclude=texts["exclude"] or None,
            levels=tuple(levels) or None,
            strip=strips(table["strip"]) if "strip" in table else None,
            order=file_order(table["order"]) if "order" in table else None,
            line_numbers=table.get("line_numbers"),
            log=table.get("log"),
            history=table.get("history"),
        ),
    )


def _text(name: str, folder: str, top: str) -> str:
    """Return the text of a file of the project: a repository may not show other files of the machine."""
    problem = "is not a text file. Correct the path"
    path = os.path.realpath(os.path.join(folder, name.replace("\0", "\ufffd")))
    if not is_inside(path, top):
        problem = "is outside of the project. Move it there, or give it as an option"
    elif path != top and is_left_out(path, top):
        problem = "is never packed, or ignored. Name another file, or give it as an option"
    elif os.path.isfile(path):
        content, _ = read_file(folder, path)
        if content is not None and (decoded := as_text(content)):
            return decoded[0].decode()
    raise ProjectProblem(f"{_WHERE}: 'instructions' names {shown(name)}, which {problem}.")
