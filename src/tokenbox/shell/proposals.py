"""Commands that the model proposes. Each runs only when the person approves, or has allowed it beforehand."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME: Final = "run_command"
RUN_COMMAND: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Propose a shell command to the user, who may run it. Its output comes back.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
# With one of these a command can do more than its first words say.
_MORE: Final = re.compile(r"[;&|<>`$(){}\n\r\\!*?\[\]~#]")


def arguments_of(text: str) -> Mapping[str, Any] | None:
    """The arguments a model wrote; None if they are not a JSON object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_allowed(command: str, allowed: Iterable[str]) -> bool:
    """Whether the user's own list allows ``command``.

    An entry allows itself. It also allows more words behind its own, but only in a command that the shell
    takes for plain words: ``git log`` allows ``git log -3`` and not ``git log; rm x`` or ``git log > x``.
    """
    entries = list(allowed)
    if command in entries:
        return True
    if _MORE.search(command):
        return False
    try:
        words = shlex.split(command)
        return any(entry.split() and words[: len(entry.split())] == entry.split() for entry in entries)
    except ValueError:
        return False
