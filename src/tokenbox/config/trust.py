"""Restrictions on settings in a project's files, which another person may have written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level
from tokenbox.named_code import allow, allow_entries, is_code

if TYPE_CHECKING:
    from tokenbox.config.keys import KeyName
    from tokenbox.config.setting import Setting

# The hosts to which a project's settings may send a key: its own service, and this machine.
_HOSTS_OF_KEYS: Final = {"OPENAI_API_KEY": "api.openai.com", "ANTHROPIC_API_KEY": "api.anthropic.com"}
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def may_have_key(address: Setting, where: str) -> bool:
    """Return whether the server at ``address`` may receive the key in ``where``, a variable or keyring entry.

    Addresses in flags, the environment or the user's own file always may; addresses in a project's files only
    if they are the key's own service or this machine.
    """
    host = urlsplit(str(address.value or "")).hostname
    return address.origin.level is not Level.PROJECT or host in {_HOSTS_OF_KEYS.get(where), *_HERE}


def own_paths(setting: Setting) -> list[Path]:
    """Return the files that a setting names; none if it is unset.

    Raises ``ConfigError`` if a project's file names them: its author would choose this user's keys.
    """
    if setting.origin.level in _BY_OTHERS:
        message = _refused(setting, "may not name keys")
        raise ConfigError(message, code=ConfigCode.BAD_VALUE, key=setting.name)
    value = setting.value
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [Path(str(path)).expanduser() for path in given]


def allow_code(layers: Sequence[Mapping[KeyName, Setting]], root: Path | None) -> list[str]:
    """Allow the code that the user's own settings name, and the code in ``code.allowed``.

    An entry is a ``module:function``, which any file may then name, or a project's folder: the code that the
    project's files name is allowed, and searched there. Entries in a project's own files are ignored; the
    returned warnings name them.
    """
    found = [layer[_ALLOWED] for layer in layers if _ALLOWED in layer]
    own = next((setting for setting in found if setting.origin.level not in _BY_OTHERS), None)
    entries = [] if own is None else [str(entry) for entry in cast("tuple[object, ...]", own.value)]
    allow_entries(entries)
    folders = {Path(entry).expanduser().resolve() for entry in entries if not is_code(entry)}
    trusted = root is not None and root.resolve() in folders
    for layer in layers:
        for name, setting in layer.items():
            if name[-1] not in _NAMES_CODE and name[0] != "tokenizers":
                continue
            if setting.origin.level not in _BY_OTHERS:
                allow(setting.value)
            elif trusted:
                allow(setting.value, folder=str(root))
    return [
        _refused(setting, "may not allow code") for setting in found if setting.origin.level in _BY_OTHERS
    ]


_ALLOWED: Final = ("code", "allowed")
# Keys whose value may name code; and the sources that another person may have written.
_NAMES_CODE: Final = frozenset({"tokenizer", "strategy", "sections", "blocks", "messages"})
_BY_OTHERS: Final = frozenset({Level.PROJECT, Level.STATE})


def _refused(setting: Setting, what: str) -> str:
    return (
        f"{setting.name} is set in {setting.source}, and a project's file {what}. "
        f"Set it for yourself: tokenbox config set --user {setting.name} ..."
    )
