"""Find the files of settings, read them, check each key by the table; errors have file, line and key.

A project's files are in the nearest parent folder that has some.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_config_path

from tokenbox.config import keys
from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level, Origin, Setting
from tokenbox.config.values import from_text, from_toml, looks_secret
from tokenbox.documents.files import FileProblemError, decode, read_bytes
from tokenbox.documents.syntax_toml import parse_toml
from tokenbox.errors import DocumentError
from tokenbox.files import is_inside

if TYPE_CHECKING:
    from tokenbox.documents.source import DocumentSource

MAX_BYTES = 1 << 20
TABLE = ("tool", "tokenbox")

# Names of settings that would contain a secret.
_SECRET_NAMES = frozenset(
    "key api_key apikey token api_token auth_token access_token private_key secret password passwd "
    "authorization bearer credentials".split()
)
# The size of the largest number that a message repeats.
_MAX_SHOWN_BITS = 128
_VOCABULARIES = (".tiktoken", ".json", ".model", ".gguf")


def mentions_us(pyproject: Path) -> bool:
    """Return whether a pyproject.toml has a ``[tool.tokenbox]``.

    Invalid TOML counts if it seems to have one: reading it then reports the error.
    """
    try:
        data = read_bytes(pyproject, str(pyproject), MAX_BYTES, "")
    except FileProblemError:
        return False
    if b"tokenbox" not in data:
        return False
    try:
        found: object = parse_toml(data.decode(), None).data
    except (DocumentError, UnicodeDecodeError):
        return b"tool.tokenbox" in data
    for part in TABLE:
        found = found.get(part) if isinstance(found, Mapping) else None
    return isinstance(found, Mapping)


def read_settings(path: Path, level: Level, *, name: str, base: Path) -> dict[keys.KeyName, Setting]:
    """Return the settings of a file, with paths relative to ``base``. Errors name it ``name``.

    Raises :class:`ConfigError`.
    """
    return settings_in(parse_file(path, name), level, base=base, in_pyproject=path.name == "pyproject.toml")


def parse_file(path: Path, name: str) -> DocumentSource:
    try:
        data = read_bytes(path, "the file", MAX_BYTES, "are what a file of settings may have")
        text = decode(data, "the file")
    except FileProblemError as problem:
        raise ConfigError(problem.message, code=ConfigCode.UNREADABLE, file=name) from None
    return parse_text(text, name)


def parse_text(text: str, name: str) -> DocumentSource:
    try:
        return parse_toml(text.removeprefix("\ufeff").replace("\r\n", "\n"), name)
    except DocumentError as error:
        message = error.message.partition(": ")[2] if error.message.startswith(name) else error.message
        raise ConfigError(message, code=ConfigCode.SYNTAX, file=name, line=error.line) from None


def settings_in(
    source: DocumentSource, level: Level, *, base: Path, in_pyproject: bool
) -> dict[keys.KeyName, Setting]:
    """Return the settings of a parsed file. Raises :class:`ConfigError` for the first invalid one."""
    reader = _Reader(source, level, base, TABLE if in_pyproject else ())
    top: object = source.data
    for part in reader.prefix:
        top = top.get(part) if isinstance(top, Mapping) else None
    if isinstance(top, Mapping):
        reader.read_table((), top)
    elif top is not None:
        raise reader.error((), ConfigCode.WRONG_TYPE, "[tool.tokenbox] must be a table.")
    return reader.found


class _Reader:
    def __init__(self, source: DocumentSource, level: Level, base: Path, prefix: keys.KeyName) -> None:
        self.found: dict[keys.KeyName, Setting] = {}
        self.prefix = prefix
        self._source, self._level, self._base = source, level, base

    def read_table(self, outer: keys.KeyName, table: Mapping[object, object]) -> None:
        for part, value in table.items():
            name = (*outer, str(part))
            if len(name) == 1 and name[0] in keys.ELSEWHERE:
                self._check_elsewhere(name[0])
            elif (row := keys.key_of(name)) is not None and not _is_inner(row, value):
                self.found[name] = self._setting(row, name, value)
            elif keys.is_table(name) and isinstance(value, Mapping):
                self.read_table(name, value)
            else:
                raise self._unknown(name, value)

    def error(self, name: keys.KeyName, code: ConfigCode, message: str) -> ConfigError:
        return ConfigError(
            message,
            code=code,
            file=self._source.name,
            line=self._source.line((*self.prefix, *name)),
            key=keys.key_text(name) or None,
        )

    def _setting(self, row: keys.SettingKey, name: keys.KeyName, value: object) -> Setting:
        text = keys.key_text(name)
        refuse_secrets(text, value, self._place(name))
        checked = from_toml(row, value)
        if checked is None:
            code = ConfigCode.WRONG_TYPE if _is_other_type(row, value) else ConfigCode.BAD_VALUE
            given = f"{_instead_of(row, value)}.".replace("?.", "?")
            message = f"{text} must be {row.expected}{given}{row.correction(value)}"
            raise self.error(name, code, message)
        if row.kind is keys.TOKENIZER:
            checked = tokenizer_name(str(checked), self._base)
        elif row.kind is keys.DATABASE and "://" not in str(checked):  # a file, wherever the command runs
            checked = os.path.join(self._base, os.path.expanduser(str(checked)))
        return Setting(name, checked, self._place(name))

    def _place(self, name: keys.KeyName) -> Origin:
        return Origin(self._level, self._source.name, self._source.line((*self.prefix, *name)))

    def _check_elsewhere(self, table: str) -> None:
        home = keys.ELSEWHERE[table]
        if home and not self.prefix:
            raise self.error(
                (table,),
                ConfigCode.UNKNOWN_KEY,
                f"[{table}] is not read from here. Move it to [tool.tokenbox.{table}] in {home}.",
            )

    def _unknown(self, name: keys.KeyName, value: object) -> ConfigError:
        text = keys.key_text(name)
        refuse_secrets(text, value, self._place(name))
        code = ConfigCode.WRONG_TYPE
        if keys.is_table(name):
            message = f"{text} must be a table, [{text}]."
        elif (row := keys.key_of(name)) is not None:
            message = f"{text} must be {row.expected}, not a table."
        else:
            code, split = ConfigCode.UNKNOWN_KEY, _split_by_dots(name, value)
            quoted = None if split is None else f"a name with dots needs quotes: [{keys.key_text(split)}]."
            message = quoted or unknown_key(name)
        return self.error(name, code, message)


def name_of(text: str) -> keys.KeyName:
    """Parse a key. Raises :class:`ConfigError`."""
    name = keys.parse_key(text)
    if name is None:
        raise ConfigError(
            f"{text[:60]!r} is not a key. Keys are written as policy.headroom, or as "
            'models."gpt-5.1".max_ctx with a name that has dots.',
            code=ConfigCode.UNKNOWN_KEY,
            key=text[:60],
        )
    return name


# Common wrong keys, and the right ones.
_MEANT: Mapping[str, str] = {
    "model.default": "model",
    "model.name": "model",
    "models.default": "model",
    "default.model": "model",
    "default_model": "model",
    "budget": "policy.max_ctx",
    "max_tokens": "policy.max_ctx",
    "token_budget": "shell.token_budget",
    "tokenizer": "models.NAME.tokenizer",
    "endpoint": "models.NAME.endpoint",
    "upstream": "upstreams.NAME.url",
    "port": "gateway.port",
    "host": "gateway.host",
    "database": "store.database",
    "cap": "cost.cap_at_dollars",
}


# The last part of a key as other tools call it, with ours, the likeliest first.
_MEANT_LAST: Mapping[str, tuple[str, ...]] = {
    "window": ("max_ctx",),
    "context_window": ("max_ctx",),
    "context_length": ("max_ctx",),
    "num_ctx": ("max_ctx",),
    "max_tokens": ("max_ctx",),
    "max_input_tokens": ("max_ctx",),
    "max_output_tokens": ("reserve_out",),
    "url": ("endpoint",),
    "base_url": ("endpoint", "url"),
    "api_base": ("endpoint", "url"),
}


def unknown_key(name: keys.KeyName) -> str:
    text, known = keys.key_text(name), keys.names_near(name)
    if (plain := keys.parse_key(name[0])) is not None and len(plain) > 1 and keys.key_of(plain) is not None:
        hint = f"Write {name[0]} without quotes."
    elif name[0] in ("tool", "tokenbox"):
        hint = "Tables have no prefix here, as in [policy]; in pyproject.toml it is [tool.tokenbox.policy]."
    elif len(name) > 3 and keys.key_of((name[0], name[1], name[-1])) is not None:
        meant = keys.key_text((name[0], ".".join(name[1:-1]), name[-1]))
        hint = f"A name with dots needs quotes: {meant}"
    elif keys.key_of(tuple("NAME" if part == keys.ANY else part for part in name)) is not None:
        hint = 'Only [models] takes "*"; here, give a name.'
    elif (near := _nearest(name, text, known)) is not None:
        hint = f"Did you mean {near}?"
    elif known:
        hint = f"There are: {', '.join(keys.key_text((*name[:-1], word)) for word in known)}."
    else:
        hint = "tokenbox config shows all keys."
    return f"there is no key {text}. {hint}"


def _nearest(name: keys.KeyName, text: str, known: Sequence[str]) -> str | None:
    """Return the key that is probably meant; None if none is near. ``known``: the keys of its table."""
    if text in _MEANT:
        return _MEANT[text]
    if known:
        alike = [word for word in _MEANT_LAST.get(name[-1], ()) if word in known]
        near = alike or difflib.get_close_matches(name[-1][:100], known, 1)
        return keys.key_text((*name[:-1], near[0])) if near else None
    every = [key.name.replace(keys.ANY, "NAME") for key in keys.KEYS]
    return next(iter(difflib.get_close_matches(text[:100], every, 1)), None)


# Where the password of a database belongs, by the last part of the key of its address.
_PASSWORDS: Mapping[str, str] = {
    "database": "Put the password into the environment variable PGPASSWORD, or into ~/.pgpass.",
    "redis": "Put the password into the environment variable REDISCLI_AUTH.",
}


def refuse_secrets(key: str, value: object, origin: Origin) -> None:
    """Raise for a setting that contains the key of a service. The message does not repeat it."""
    last = key.rpartition(".")[2].lower().replace("-", "_")
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    named = last in _SECRET_NAMES and not isinstance(value, Mapping)
    if named or any(isinstance(text, str) and looks_secret(text) for text in texts):
        instead = (
            'Put it in an environment variable and name that: key_env = "OPENAI_API_KEY"; or in the keyring, '
            'and name its entry: keyring = "openai".'
        )
        raise ConfigError(
            f"{key} seems to hold a key, and settings are not a place for one: they are shown and shared. "
            f"{_PASSWORDS.get(last, instead)} A key that was committed should be replaced.",
            code=ConfigCode.SECRET,
            where=str(origin),
            file=origin.name if origin.level in (Level.PROJECT, Level.USER) else None,
            line=origin.line,
            key=key,
        )


def given_value(row: keys.SettingKey, name: keys.KeyName, value: object, where: str | None = None) -> object:
    """Return the value of a variable, a flag or a command. Raises :class:`ConfigError`, without a secret."""
    found = from_text(row, value) if isinstance(value, str) else from_toml(row, value)
    if found is not None:
        return found
    may_be_secret = row.kind in (keys.VARIABLE, keys.ENDPOINT)
    instead = "" if may_be_secret else f", not {str(value)[:60]!r}"
    raise ConfigError(
        f"{keys.key_text(name)} must be {row.expected}{instead}.{row.correction(value)}",
        code=ConfigCode.BAD_VALUE,
        where=where,
        key=keys.key_text(name),
    )


def tokenizer_name(text: str, base: Path) -> str:
    """Return a name unchanged, and the path of a file, relative to ``base``, as ``file:PATH``."""
    path = text.removeprefix("file:")
    if path == text and "/" not in text and os.sep not in text and not text.endswith(_VOCABULARIES):
        return text
    return f"file:{os.path.join(base, os.path.expanduser(path))}"  # for any text


def _is_inner(row: keys.SettingKey, value: object) -> bool:
    """Return whether the value is a table below ``tokenizers.*``, which takes any name."""
    return row.parts[-1] == keys.ANY and isinstance(value, Mapping)


def _split_by_dots(name: keys.KeyName, value: object) -> keys.KeyName | None:
    """Return ``("models", "gpt-5.1")`` for [models.gpt-5.1], which TOML reads as three tables; else None."""
    if len(name) < 2 or (name[0], keys.ANY) not in keys.tables():  # a table of the user's names
        return None
    parts = list(name[1:])
    while isinstance(value, Mapping):
        if any(keys.key_of((name[0], name[1], str(part))) for part in value):
            return (name[0], ".".join(parts))
        if len(value) != 1:
            return None
        ((part, value),) = value.items()
        parts.append(str(part))
    return None


_TEXTS = (
    keys.TEXT, keys.CHOICE, keys.DAY, keys.ENDPOINT, keys.VARIABLE, keys.TOKENIZER, keys.PATH, keys.DATABASE,
)  # fmt: skip


def _is_other_type(row: keys.SettingKey, value: object) -> bool:
    if row.kind in _TEXTS:
        return not isinstance(value, str)
    if row.kind in (keys.TEXTS, keys.CHOICES):
        return not isinstance(value, list)
    return isinstance(value, str | bool | list | Mapping)


def _instead_of(row: keys.SettingKey, value: object) -> str:
    """Return the wrong value in short form, but not that of a variable's name, which may be a secret."""
    if row.kind in (keys.VARIABLE, keys.ENDPOINT):
        return ""
    if isinstance(value, Mapping):
        return ", not a table" + (". Did you mean [models.NAME]?" if row.name == "model" else "")
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f", not a number of {value.bit_length():,} bits"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    quoted = f'"{text[:60]}"' if isinstance(value, str) else text[:60]
    return f", not {quoted}{'...' if len(text) > 60 else ''}"  # as cut above


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


def own_folder(root: Path) -> Path:
    """Return the folder for the settings of the project in ``root``, to write in.

    Raises :class:`ConfigError` for a link out of the project: its author would choose what is written.
    """
    folder = root / FOLDER
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder. Rename or remove it.", code=ConfigCode.NOT_WRITTEN)
    if not is_inside(folder, root):
        raise ConfigError(
            f"{folder} is a link that leads out of the project. Replace it by a folder.",
            code=ConfigCode.NOT_WRITTEN,
        )
    return folder


def user_file(env: Mapping[str, str]) -> Path | None:
    """Return the path of the user's own file, existing or not; None if the environment disables it."""
    if USER_VARIABLE in env:
        named = env[USER_VARIABLE]
        return Path(named) if named else None

    return user_config_path("tokenbox", appauthor=False) / FILE
