"""A value with where it came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from tokenbox.config.keys import KeyName, key_text

# postgresql://user:password@host
_PASSWORD = re.compile(r"(\w://[^\s/:@]*:)[^\s/]*(@)")


class Level(IntEnum):
    """Where a setting may come from. The smaller comes first."""

    FLAG = 0
    ENVIRONMENT = 1
    STATE = 2  # chosen before, and remembered
    PROJECT = 3
    USER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where exactly: the flag, the variable, or the file and its line."""

    level: Level
    name: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.level is Level.FLAG:
            return f"the flag {self.name}" if (self.name or "").startswith("-") else f"{self.name}"
        if self.level is Level.ENVIRONMENT:
            return f"the environment, {self.name}"
        if self.level is Level.DEFAULT:
            return "default"
        return f"{self.name}" if self.line is None else f"{self.name}:{self.line}"

    def to_dict(self) -> dict[str, object]:
        return {"from": self.level.name.lower(), "name": self.name, "line": self.line}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a key is set to. ``value`` None: nothing is set, and nothing is the default."""

    key: KeyName
    value: object
    origin: Origin

    @property
    def name(self) -> str:
        return key_text(self.key)

    @property
    def source(self) -> str:
        """Where it came from, for people."""
        return str(self.origin)

    def to_dict(self) -> dict[str, object]:
        """Decimals as text, so that no reader makes floats of them."""
        return {"key": self.name, "value": plain(self.value), **self.origin.to_dict()}


def plain(value: object) -> object:
    """``value`` as JSON has it. The password of an address is not shown."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return _PASSWORD.sub(r"\1***\2", value)
    return list(value) if isinstance(value, tuple) else value


def shown(value: object) -> str:
    """``value`` for people, as one would write it."""
    value = plain(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)
