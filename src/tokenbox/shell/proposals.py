"""Commands that the model proposes. Each runs only if the user approves or has allowed it in the settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tokenbox.records import from_json

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
_NUMBER: Final = re.compile(r"-[0-9]+")
# Shell syntax with which a command can do more than its first words.
_SHELL_SYNTAX: Final = re.compile(r"[;&|<>`$(){}\n\r\\!*?\[\]~#]")


def arguments_of(text: str) -> Mapping[str, Any] | None:
    """Parse the arguments of a tool call; None if they are not a JSON object."""
    value = from_json(text or "{}")
    return value if isinstance(value, dict) else None


def is_allowed(command: str, allowed: Iterable[str]) -> bool:
    """Return True if the user's own list allows ``command``.

    An entry allows itself, and itself followed by plain words: ``git log`` allows ``git log -3 src`` but not
    ``git log; rm x`` or ``git log > x``, nor further options: ``git log --output=x`` writes a file.
    """
    entries = list(allowed)
    if command in entries:
        return True
    if _SHELL_SYNTAX.search(command):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(_begins(words, entry.split()) for entry in entries)


def _begins(words: Sequence[str], entry: Sequence[str]) -> bool:
    more = words[len(entry) :]
    are_plain = all(not word.startswith("-") or _NUMBER.fullmatch(word) for word in more)
    return bool(entry) and words[: len(entry)] == list(entry) and are_plain
