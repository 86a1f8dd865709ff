"""What a project's files may not say: a folder may have been written by somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.setting import Level
from tokenbox.named_code import allow, is_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenbox.config.keys import KeyName
    from tokenbox.config.setting import Setting

# Where a project's own settings may send a key: to the service whose key it is, and to this machine.
_HOSTS_OF_KEYS: Final = {"OPENAI_API_KEY": "api.openai.com", "ANTHROPIC_API_KEY": "api.anthropic.com"}
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def may_have_key(address: Setting, where: str) -> bool:
    """Whether the server at ``address`` may be sent the key in the variable or keyring entry ``where``.

    What the user says, in flags, the environment or the user's own file, always; what a project's files say
    only for the key's own service and for this machine.
    """
    host = urlsplit(str(address.value or "")).hostname
    return address.origin.level is not Level.PROJECT or host in {_HOSTS_OF_KEYS.get(where), *_HERE}


def own_paths(setting: Setting) -> list[Path]:
    """The files that a setting names, none where nothing is set.

    Raises ``ConfigError`` where a project's file names them: whoever wrote it would choose this user's keys.
    """
    if setting.origin.level in _BY_OTHERS:
        message = _refused(setting, "may not name keys")
        raise ConfigError(message, code=ConfigCode.BAD_VALUE, key=setting.name)
    value = setting.value
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [Path(str(path)).expanduser() for path in given]


def allow_code(layers: Sequence[Mapping[KeyName, Setting]], root: Path | None) -> list[str]:
    """Let the code run that this user's own settings name, and what ``code.allowed`` lets others name.

    That is ``module:function``, which any file may then name, and folders: what the files of a project there
    name is allowed, and looked for there. What a project's file says of it does not count; that is returned,
    to be told.
    """
    found = [layer[_ALLOWED] for layer in layers if _ALLOWED in layer]
    own = next((one for one in found if one.origin.level not in _BY_OTHERS), None)
    entries = [] if own is None else [str(entry) for entry in cast("tuple[object, ...]", own.value)]
    allow(*entries)
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
    return [_refused(one, "may not allow code") for one in found if one.origin.level in _BY_OTHERS]


_ALLOWED: Final = ("code", "allowed")
# Keys whose value may name code; and the files that somebody else may have written.
_NAMES_CODE: Final = frozenset({"tokenizer", "strategy", "sections", "blocks", "messages"})
_BY_OTHERS: Final = frozenset({Level.PROJECT, Level.STATE})


def _refused(setting: Setting, what: str) -> str:
    return (
        f"{setting.name} is set in {setting.source}, and a project's file {what}. "
        f"Set it for yourself: tokenbox config set --user {setting.name} ..."
    )
