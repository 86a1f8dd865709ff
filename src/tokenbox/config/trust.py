"""Whether a key of this user may go where settings say: a folder may have been written by somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

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
