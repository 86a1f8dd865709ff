"""A setting: a value with its source."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

from tokenbox.config.keys import KeyName, key_text
from tokenbox.errors import without_password


class Level(IntEnum):
    """The kind of a source. The smaller takes precedence."""

    FLAG = 0
    ENVIRONMENT = 1
    STATE = 2  # a remembered choice
    PROJECT = 3
    USER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """The exact source: the flag, the variable, or the file and line."""

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
    """The setting of a key. ``value`` is None if it is unset and has no default."""

    key: KeyName
    value: Any  # of the type of its key
    origin: Origin

    @property
    def name(self) -> str:
        return key_text(self.key)

    @property
    def source(self) -> str:
        """The source as text."""
        return str(self.origin)

    def to_dict(self) -> dict[str, object]:
        """Return the setting as JSON, with decimals as text to keep them exact."""
        return {"key": self.name, "value": plain(self.value), **self.origin.to_dict()}


def plain(value: object) -> object:
    """Return ``value`` as JSON, without the password of an address."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return without_password(value)
    return list(value) if isinstance(value, tuple) else value


def setting_text(value: object) -> str:
    """Return ``value`` as text."""
    value = plain(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)
