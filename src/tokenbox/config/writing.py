"""Setting a key in a file of settings, which stays as its writer left it, comments and all."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.config.errors import Code, ConfigError
from tokenbox.config.keys import KeyName, Kind, key_of, key_text
from tokenbox.config.places import FILE, FOLDER
from tokenbox.config.reading import name_of, parse_file, parse_text, refuse_secrets, settings_in, unknown_key
from tokenbox.config.setting import Level, Origin
from tokenbox.config.state import replace_file
from tokenbox.config.values import from_text

if TYPE_CHECKING:
    from tokenbox.config.setting import Setting


# A value that was written in more lines is changed by hand.
MAX_LINES = 200


def write_setting(root: Path, key: str, text: str) -> Path:
    """Set a key in the ``.tokenbox/config.toml`` of the folder ``root``, which is made if it is not there.

    ``text`` is the value as a flag would have it. Returns the file. Raises :class:`ConfigError`.
    """
    name = name_of(key)
    row = key_of(name)
    refuse_secrets(key_text(name), text, Origin(Level.FLAG, "tokenbox config set"))
    if row is None:
        raise ConfigError(unknown_key(name), code=Code.UNKNOWN_KEY, key=key_text(name))
    value = from_text(row, text)
    if value is None:
        said = "" if row.kind in (Kind.VARIABLE, Kind.ENDPOINT) else f", not {text[:60]!r}"
        raise ConfigError(
            f"{key_text(name)} must be {row.expected}{said}.", code=Code.BAD_VALUE, key=key_text(name)
        )
    path = root / FOLDER / FILE
    try:
        path.parent.mkdir(exist_ok=True)
        before = ""
        if path.exists():
            parse_file(path, str(path))  # what is wrong with it is told before anything changes
            before = path.read_bytes().decode().removeprefix("\ufeff").replace("\r\n", "\n")
        replace_file(path, _with(before, name, _toml(value), str(path)).encode())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or type(error).__name__}.", code=Code.NOT_WRITTEN
        ) from None
    return path


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_quoted(str(item)) for item in value)}]"
    return _quoted(format(value, "f") if isinstance(value, Decimal) else str(value))


def _quoted(text: str) -> str:
    """A TOML basic string: as JSON's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _with(text: str, name: KeyName, value: str, file: str) -> str:
    """``text`` with the key set, in the first of the places where it may stand that changes nothing else."""
    before = _settings(text, file)
    wanted = {**before, name: None}
    for candidate in _candidates(text, name, value, file):
        try:
            after = _settings(candidate, file)
        except ConfigError:
            continue
        others_stay = all(after.get(key) == said for key, said in before.items() if key != name)
        if after.keys() == wanted.keys() and others_stay and name in after:
            return candidate
    raise ConfigError(
        f"{key_text(name)} cannot be set in {file} as it is written. Do it by hand: {name[-1]} = {value}",
        code=Code.NOT_WRITTEN,
        key=key_text(name),
    )


def _settings(text: str, file: str) -> dict[KeyName, object]:
    found: dict[KeyName, Setting] = settings_in(
        parse_text(text, file), Level.PROJECT, base=Path(), in_pyproject=False
    )
    return {name: setting.value for name, setting in found.items()}


def _candidates(text: str, name: KeyName, value: str, file: str) -> list[str]:
    """The text with the entry in place of the old one, or first in its table, or in a table at the end."""
    entry = f"{key_text(name[-1:])} = {value}"
    located = parse_text(text, file).locate()
    lines = [f"{line}\n" for line in text.split("\n")]  # TOML knows no other ends of lines
    if lines[-1] == "\n":
        lines.pop()
    found = []
    if name in located:
        at = located[name] - 1
        ends = range(at + 1, min(at + MAX_LINES, len(lines)) + 1)
        for new in (entry, f"{key_text(name)} = {value}"):  # in its table, or with dots
            found += ["".join([*lines[:at], f"{new}\n", *lines[end:]]) for end in ends]
    elif name[:-1] in located:
        at = located[name[:-1]]
        found.append("".join([*lines[:at], f"{entry}\n", *lines[at:]]))
    if len(name) == 1:
        found.append("".join([f"{entry}\n", *lines]))
    gap = "\n" if lines else ""
    found.append("".join([*lines, f"{gap}[{key_text(name[:-1])}]\n{entry}\n"]))
    return found
