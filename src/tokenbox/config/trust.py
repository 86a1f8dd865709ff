"""What a project's files may not say: a folder may have been written by somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tokenbox.config.errors import Code, ConfigError
from tokenbox.config.setting import Level

if TYPE_CHECKING:
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
    if setting.origin.level is Level.PROJECT:
        raise ConfigError(
            f"{setting.name} is set in {setting.source}, and a project's file may not name keys. "
            f"Set it for yourself: tokenbox config set --user {setting.name} FILE",
            code=Code.BAD_VALUE,
            key=setting.name,
        )
    value = setting.value
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [Path(str(path)).expanduser() for path in given]
