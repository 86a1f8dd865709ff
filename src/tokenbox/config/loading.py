"""Load settings from all sources into layers, and keep those of the current folder for the next call."""

from __future__ import annotations

import difflib
import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path

from tokenbox.config import keys, reading
from tokenbox.config.config import Config
from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level, Origin, Setting
from tokenbox.config.state import FILE as STATE_FILE
from tokenbox.config.state import read_state
from tokenbox.config.trust import Layer, allow_code, without_risks
from tokenbox.config.values import from_toml

# The minimum similarity of a suggestion: all variables have the same prefix.
_MIN_SIMILARITY = 0.85


def load(
    folder: str | Path = ".",
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Load the settings for ``folder``. Raises :class:`ConfigError`.

    ``env``: the environment (default: the process's). ``flags``: values by key, as in
    ``{"policy.headroom": "0.1"}``; None means not given.
    """
    env = os.environ if env is None else env
    problems: list[str] = []
    layers: list[Layer] = [_flags(flags or {}, Path(folder)), _environment(env, Path(folder), problems)]
    files: list[str] = []
    project = reading.find_project(Path(folder))
    if project is not None:
        layers.append(_remembered(project, problems))
        for path in project.files:
            name = _short(path, Path(folder))
            layers.append(reading.read_settings(path, Level.PROJECT, name=name, base=project.root))
            files.append(name)
    own = reading.user_file(env)
    if own is not None and os.path.exists(own):  # False, not an error, if it is not accessible
        layers.append(reading.read_settings(own, Level.USER, name=str(own), base=own.parent))
        files.append(str(own))
    root = None if project is None else project.root
    layers, warnings = without_risks(layers, root)
    problems += [*warnings, *allow_code(layers, root)]
    return Config(layers, root, tuple(files), tuple(problems))


def _flags(flags: Mapping[str, object], folder: Path) -> dict[keys.KeyName, Setting]:
    found = {}
    for text, value in flags.items():
        name = keys.parse_key(text)
        row = None if name is None else keys.key_of(name)
        if isinstance(value, str):
            reading.refuse_secrets(
                text, value, Origin(Level.FLAG, f"--{text.rpartition('.')[2].replace('_', '-')}")
            )
        if name is None or row is None:
            raise ConfigError(reading.unknown_key(name or (text,)), code=ConfigCode.UNKNOWN_KEY, key=text)
        if value is not None:
            found[name] = _checked(row, name, value, Origin(Level.FLAG, row.flag), folder)
    return found


def _environment(env: Mapping[str, str], folder: Path, problems: list[str]) -> dict[keys.KeyName, Setting]:
    """Return the settings in variables. Empty ones are ignored; unknown ones of ours are problems."""
    known = keys.by_variable()
    found = {}
    for variable, text in env.items():
        if not variable.startswith(keys.ENVIRONMENT_PREFIX) or variable in keys.OTHER_VARIABLES or not text:
            continue
        row = known.get(variable)
        if row is None:
            near = difflib.get_close_matches(variable[:100], known, 1, _MIN_SIMILARITY)
            hint = f"Did you mean {near[0]}?" if near else "tokenbox config shows all settings."
            problems.append(f"the environment has {variable[:100]}, which is not a setting. {hint}")
        else:
            origin = Origin(Level.ENVIRONMENT, variable)
            found[row.parts] = _checked(row, row.parts, text, origin, folder)
    return found


def _checked(
    row: keys.SettingKey, name: keys.KeyName, value: object, origin: Origin, folder: Path
) -> Setting:
    reading.refuse_secrets(keys.key_text(name), value, origin)
    found = reading.given_value(row, name, value, str(origin))
    if row.kind is keys.ValueKind.TOKENIZER:
        found = reading.tokenizer_name(str(found), folder)
    return Setting(name, found, origin)


def _remembered(project: reading.Project, problems: list[str]) -> dict[keys.KeyName, Setting]:
    state = read_state(project.root)
    problems += state.problems
    file, found = f"{reading.FOLDER}/{STATE_FILE}", {}
    for text, value in state.values.items():
        name = keys.parse_key(text)
        row = None if name is None else keys.key_of(name)
        read = None if row is None or not row.remembered else from_toml(row, value)
        if name is None or read is None:
            problems.append(
                f"{file} has {text[:100]} = {str(value)[:60]!r}, which is not understood and does not count. "
                f"Remove it with: tokenbox config forget {shlex.quote(text[:100])}"
            )
        else:
            found[name] = Setting(name, read, Origin(Level.STATE, file))
    return found


def _short(path: Path, folder: Path) -> str:
    """Return the path relative to ``folder`` if it is inside, otherwise unchanged."""
    here = Path(os.path.abspath(folder))  # without resolving links
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


# The settings of calls by folder and our variables, with the times at which their files were changed.
_kept: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Config, tuple[int | None, ...]]] = {}
_MAX_KEPT = 64
_lock = threading.Lock()


def current() -> Config:
    """Return the settings of the current folder. Changes of their files or the environment are detected.

    A new file is detected only after :func:`reload`.
    """
    key = (
        os.getcwd(),
        tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(keys.ENVIRONMENT_PREFIX))),
    )
    with _lock:
        kept = _kept.get(key)
        if kept is not None and kept[1] == tuple(map(_mtime, kept[0].files)):
            return kept[0]
    config = load()
    with _lock:
        if len(_kept) >= _MAX_KEPT:  # a process that works in one folder after the other
            _kept.clear()
        _kept[key] = config, tuple(map(_mtime, config.files))
    return config


def reload() -> None:
    """Clear the cache; the next call reads the settings again."""
    with _lock:
        _kept.clear()


def _mtime(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns  # before every request
    except OSError:
        return None
