"""Remembered choices: ``.tokenbox/state.json``.

Do not edit the file: an invalid one is reported and ignored, and the next choice overwrites it. Writes are
atomic and serialized by a lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.keys import KEYS, key_of, parse_key
from tokenbox.config.reading import FOLDER, given_value, own_folder
from tokenbox.documents.files import FileProblemError, read_bytes
from tokenbox.documents.source import DocumentCode
from tokenbox.errors import shown
from tokenbox.files import OWN, replace, turn
from tokenbox.records import from_json

if TYPE_CHECKING:
    from pathlib import Path

FILE = "state.json"
LOCK = "state.lock"
VERSION = 1
MAX_BYTES = 1 << 20
_KEYS = ("version", "values")


@dataclass(frozen=True, slots=True)
class State:
    """Chosen values by key. ``problems``: the reasons if the file is unusable."""

    values: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_state(root: Path) -> State:
    """Return the remembered choices of the project in ``root``. Never raises."""
    path = root / FOLDER / FILE
    try:
        data = read_bytes(path, "it", MAX_BYTES, "are what remembered choices may have")
    except FileProblemError as problem:
        return State() if problem.code is DocumentCode.FILE_MISSING else _ignored(problem.message)
    content = from_json(data)
    if not isinstance(content, dict) or not isinstance(content.get("values"), dict):
        return _ignored('it is not JSON with "values"')
    if content.get("version", VERSION) != VERSION:
        return _ignored(f"its version is {shown(content['version'])}, and this release reads {VERSION}")
    return State(content["values"], tuple(_unknown(key) for key in content if key not in _KEYS))


def remember(root: Path, key: str, value: object) -> None:
    """Remember a choice for the project in ``root`` until it is forgotten.

    Other choices stay, also those that another process makes meanwhile. Raises :class:`ConfigError`.
    """
    name = parse_key(key)
    row = None if name is None else key_of(name)
    if name is None or row is None or not row.remembered:
        kept = ", ".join(known.name for known in KEYS if known.remembered)
        raise ConfigError(
            f"{key} cannot be remembered. These can: {kept}. To set it: tokenbox config set {key} ...",
            code=ConfigCode.UNKNOWN_KEY,
            key=key,
        )
    _change(root, {key: given_value(row, name, value)})


def forget(root: Path, key: str) -> None:
    """Undo :func:`remember`. Raises :class:`ConfigError` if nothing is remembered for the key."""
    if key not in read_state(root).values:
        raise ConfigError(f"nothing is remembered for {key}.", code=ConfigCode.UNKNOWN_KEY, key=key)
    _change(root, {key: None})


def _change(root: Path, changes: Mapping[str, object]) -> None:
    folder = own_folder(root)
    try:
        folder.mkdir(exist_ok=True)
        with turn(folder / LOCK):
            values = {**read_state(root).values, **changes}
            kept = {key: value for key, value in sorted(values.items()) if value is not None}
            content = json.dumps({"version": VERSION, "values": kept}, indent=2, ensure_ascii=False) + "\n"
            replace(folder / FILE, content.encode(errors="backslashreplace"), new=OWN)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise ConfigError(
            f"the choice cannot be remembered in {folder / FILE}: {said}.", code=ConfigCode.NOT_WRITTEN
        ) from None


def _unknown(key: str) -> str:
    return (
        f"{FOLDER}/{FILE} has {shown(key)} beside its values, which is not understood and does not count. "
        "Remember a choice with: tokenbox config set --remember KEY VALUE"
    )


def _ignored(why: str) -> State:
    return State(problems=(f"{FOLDER}/{FILE} is ignored: {why.rstrip('.')}. The next choice overwrites it.",))
