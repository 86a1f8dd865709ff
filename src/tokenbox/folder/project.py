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
from dataclasses import dataclass
from decimal import Decimal

from tokenbox.documents.syntax_toml import parse_toml
from tokenbox.errors import DocumentError, TokenboxError
from tokenbox.files import is_inside
from tokenbox.folder.generated import as_text
from tokenbox.folder.names import shown
from tokenbox.folder.priorities import PriorityRule
from tokenbox.folder.reading import read_file
from tokenbox.folder.walk import is_left_out, project_folder

_FILE = "pyproject.toml"
_WHERE = f"[tool.tokenbox.pack] in {_FILE}"


class ProjectProblem(TokenboxError, code="project_settings_invalid"):
    """The table is invalid."""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings in the table; None for those that it does not contain. ``instructions``: a text."""

    ignore: tuple[str, ...] = ()
    priorities: tuple[PriorityRule, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    strip: tuple[str, ...] | None = None
    line_numbers: bool | None = None
    instructions: str | None = None
    order: str | None = None
    log: int | None = None
    history: bool | None = None


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


_LISTS = ("ignore", "include", "exclude", "strip")
_TABLES = {"priority": '"src/**" = "high"', "level": '"tests/**" = "outline"'}
_VALUES: dict[str, tuple[type, str]] = {
    "line_numbers": (bool, "true or false"),
    "history": (bool, "true or false"),
    "log": (int, "a number of commits"),
    "order": (str, "'path' or 'worth'"),
    "instructions": (str, "the path of a file"),
}


def _settings(table: object, folder: str, top: str) -> ProjectSettings:
    if not isinstance(table, dict):
        raise ProjectProblem(f"{_WHERE} must be a table, not {type(table).__name__}.")
    known = [*_LISTS, *_TABLES, *_VALUES]
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ProjectProblem(f"{_WHERE}: unknown key {unknown[0]!r}. The keys are {', '.join(known)}.")
    for key in _LISTS:
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
            raise ProjectProblem(f"{_WHERE}: {key!r} must be a list of strings, as in ['docs/generated/'].")
    for key, example in _TABLES.items():
        found = table.get(key, {})
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
            raise ProjectProblem(f"{_WHERE}: {key!r} must be a table of patterns, as in {example}.")
    for key, (kind, description) in _VALUES.items():
        if key in table and (type(table[key]) is not kind or (kind is int and table[key] < 0)):
            value = table[key]
            given = str(value) if isinstance(value, Decimal) else repr(value)
            raise ProjectProblem(f"{_WHERE}: {key!r} must be {description}, not {given}.")
    rules = [PriorityRule.of(glob, name, _WHERE) for glob, name in table.get("priority", {}).items()]
    instructions = table.get("instructions")
    return ProjectSettings(
        ignore=tuple(table.get("ignore", ())),
        priorities=tuple(rules),
        include=tuple(table.get("include", ())),
        exclude=tuple(table.get("exclude", ())),
        levels=tuple(table.get("level", {}).items()),
        strip=tuple(table["strip"]) if "strip" in table else None,
        line_numbers=table.get("line_numbers"),
        instructions=None if instructions is None else _text(instructions, folder, top),
        order=table.get("order"),
        log=table.get("log"),
        history=table.get("history"),
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
