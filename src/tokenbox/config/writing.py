"""Write settings: the folder that ``tokenbox init`` makes, and one key, keeping comments and formatting."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from tokenbox.config import reading
from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.keys import KeyName, key_of, key_text
from tokenbox.config.reading import FILE, own_folder
from tokenbox.config.setting import Level, Origin, Setting
from tokenbox.files import OWN, replace

TEMPLATE = """\
# Settings of tokenbox for this project. `tokenbox config` shows all of them with their sources.
# Flags and TOKENBOX_... variables override this file. It overrides pyproject.toml and the user's own file.

# model = "gpt-5"              # the default model: an id, or a NAME of [models.NAME]

[policy]
# max_ctx = 128_000            # input and output together; default: the model's window
# reserve_out = 4_000          # kept free for the answer
# headroom = "0.05"            # share of the window kept free for safety
# strategy = "box"             # box, ladder, window or worth
# uncertain = "margin"         # an estimate that fits by its total, not by its bound: margin, bound or allow

# [models.local]               # a server, and the settings of its model
# endpoint = "http://localhost:8080"
# kind = "llama.cpp"
# key_env = "LOCAL_API_KEY"    # the variable that has the key; never write the key itself
# tokenizer = "llama3-bpe"

# [tokenizers]
# baselines = ["gpt-bpe"]      # tokenizers of the package to enable
# llama4-bpe = "vocabularies/llama4.json"

# [catalog."gpt-5"]            # corrections of `tokenbox models`
# max_input_tokens = 200_000
# price_input = "1.25"         # dollars per million tokens
"""
IGNORED = """\
# Files that tokenbox makes.
state.json
state.lock
proof/
*.sqlite*
"""


def init(folder: Path, *, force: bool = False) -> list[Path]:
    """Write ``.tokenbox/config.toml`` and ``.tokenbox/.gitignore`` in ``folder``, and return their paths.

    An existing ``.gitignore`` is kept. Raises :class:`ConfigError`, also for an existing config without
    ``force``.
    """
    config, ignored = own_folder(folder) / FILE, own_folder(folder) / ".gitignore"
    try:
        if (config.exists() or config.is_symlink()) and not force:
            raise ConfigError(
                f"{config} already exists. To replace it: tokenbox init --force",
                code=ConfigCode.EXISTS,
            )
        config.parent.mkdir(exist_ok=True)
        written = [config]
        replace(config, TEMPLATE.encode(), new=OWN)
        config.chmod(0o644)
        if not ignored.exists():
            replace(ignored, IGNORED.encode(), new=OWN)
            ignored.chmod(0o644)
            written.append(ignored)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise ConfigError(
            f"{error.filename2 or error.filename or config} cannot be written: {said}.",
            code=ConfigCode.NOT_WRITTEN,
        ) from None
    return written


def write_setting(path: Path, key: str, text: str) -> None:
    """Set a key in a settings file, which is created if missing.

    ``text``: the value as in a flag. Raises :class:`ConfigError`.
    """
    name = reading.name_of(key)
    row = key_of(name)
    reading.refuse_secrets(key_text(name), text, Origin(Level.FLAG, "tokenbox config set"))
    if row is None:
        raise ConfigError(reading.unknown_key(name), code=ConfigCode.UNKNOWN_KEY, key=key_text(name))
    value = reading.given_value(row, name, text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = ""
        if path.exists():
            reading.parse_file(path, str(path))  # report its errors before any change
            before = path.read_bytes().decode().removeprefix("\ufeff").replace("\r\n", "\n")
        replace(path, _with(before, name, value, str(path)).encode(), new=OWN)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or type(error).__name__}.",
            code=ConfigCode.NOT_WRITTEN,
        ) from None


def _with(text: str, name: KeyName, value: object, file: str) -> str:
    """Return ``text`` with the key set, keeping comments, order and spacing. Raises :class:`ConfigError`."""
    before = _settings(text, file)
    document = tomlkit.parse(text)
    try:
        table: Any = document
        for part in name[:-1]:
            table = table.setdefault(part, tomlkit.table())
        if isinstance(value, Decimal):
            value = format(value, "f")  # exact numbers are texts, as in "0.05"
        table[name[-1]] = list(value) if isinstance(value, tuple) else value
        changed = tomlkit.dumps(document)
        after = _settings(changed, file)
    except (ConfigError, TOMLKitError, TypeError, AttributeError) as error:
        raise _by_hand(name, file, str(error)) from None
    if {**before, name: after.get(name)} != after or after.get(name) is None:
        raise _by_hand(name, file, "another setting would change")
    return changed


def _by_hand(name: KeyName, file: str, why: str) -> ConfigError:
    return ConfigError(
        f"{key_text(name)} cannot be set in {file} as it is written ({why[:200]}). Set it by hand.",
        code=ConfigCode.NOT_WRITTEN,
        key=key_text(name),
    )


def _settings(text: str, file: str) -> dict[KeyName, object]:
    found: dict[KeyName, Setting] = reading.settings_in(
        reading.parse_text(text, file), Level.PROJECT, base=Path(), in_pyproject=False
    )
    return {name: setting.value for name, setting in found.items()}
