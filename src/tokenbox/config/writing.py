"""Set a key in a settings file, keeping its comments and formatting."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.keys import KeyName, key_of, key_text
from tokenbox.config.reading import (
    given_value,
    name_of,
    parse_file,
    parse_text,
    refuse_secrets,
    settings_in,
    unknown_key,
)
from tokenbox.config.setting import Level, Origin
from tokenbox.files import OWN, replace

if TYPE_CHECKING:
    from tokenbox.config.setting import Setting


def write_setting(path: Path, key: str, text: str) -> None:
    """Set a key in a settings file, which is created if missing.

    ``text``: the value as in a flag. Raises :class:`ConfigError`.
    """
    name = name_of(key)
    row = key_of(name)
    refuse_secrets(key_text(name), text, Origin(Level.FLAG, "tokenbox config set"))
    if row is None:
        raise ConfigError(unknown_key(name), code=ConfigCode.UNKNOWN_KEY, key=key_text(name))
    value = given_value(row, name, text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = ""
        if path.exists():
            parse_file(path, str(path))  # report its errors before any change
            before = path.read_bytes().decode().removeprefix("\ufeff").replace("\r\n", "\n")
        replace(path, _with(before, name, value, str(path)).encode(), new=OWN)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or type(error).__name__}.",
            code=ConfigCode.NOT_WRITTEN,
        ) from None


def _with(text: str, name: KeyName, value: object, file: str) -> str:
    """Return ``text`` with the key set, keeping comments, order and spacing. Raises :class:`ConfigError`."""
    import tomlkit  # noqa: PLC0415  # 20 ms, only needed for writing
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

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
    found: dict[KeyName, Setting] = settings_in(
        parse_text(text, file), Level.PROJECT, base=Path(), in_pyproject=False
    )
    return {name: setting.value for name, setting in found.items()}
