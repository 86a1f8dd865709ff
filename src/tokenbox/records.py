"""Results as data for JSON, made of their fields; and data that may be JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any


class AsRecord:
    """A dataclass whose record has its fields, in their order."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        return to_record(self, " ".join(field.name for field in fields(self)))  # type: ignore[arg-type]  # one


def to_record(value: object, names: str, **given: object) -> dict[str, object]:
    """Return the record with these names, which blanks separate: ``given``, else fields or properties.

    ``name?`` is left out if it is None or an empty tuple.
    """
    record: dict[str, object] = {}
    for word in names.split():
        name = word.removesuffix("?")
        item = given[name] if name in given else getattr(value, name)
        if name == word or item not in (None, ()):
            record[name] = item if name in given else plain(item)
    return record


def plain(value: object) -> object:
    """Return a value as data: an enum by its value, what has a ``to_dict`` by that, a tuple as a list."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
    return value


def from_json(text: str | bytes, other: object = None) -> Any:  # noqa: ANN401  # JSON
    """Return the value of a JSON text, or ``other`` if it is not JSON that Python can read.

    It may be nested too deeply, or have an integer of too many digits.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return other
