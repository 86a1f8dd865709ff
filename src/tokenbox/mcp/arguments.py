"""The arguments of a tool: one table gives the JSON schema for the model and the validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown
from tokenbox.integers import MAX_INTEGER, whole


class InvalidArguments(TokenboxError, code="invalid_arguments"):
    """The arguments of a call are invalid."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    number = whole(value)
    return number is not None and 0 < number <= MAX_INTEGER


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """The type of an argument: its schema, its name in messages, and its check."""

    schema: Mapping[str, object]
    name: str
    fits: Callable[[object], bool]


TEXT: Final = ArgumentKind({"type": "string"}, "a string", _is_text)
WHOLE: Final = ArgumentKind({"type": "integer", "minimum": 1}, "a whole number, 1 or more", _is_whole)
TEXTS: Final = ArgumentKind({"type": "array", "items": {"type": "string"}}, "a list of strings", _are_texts)
MESSAGES: Final = ArgumentKind({"type": "array", "items": {"type": "object"}}, "a list of messages", _is_list)
CHUNKS: Final = ArgumentKind(
    {"type": "array", "items": {"type": ["string", "object"]}}, "a list of chunks", _is_list
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument. ``about``: its description for the model."""

    name: str
    kind: ArgumentKind
    about: str = ""
    required: bool = False


def schema(arguments: tuple[Argument, ...]) -> dict[str, Any]:
    properties = {
        one.name: {**one.kind.schema, **({"description": one.about} if one.about else {})}
        for one in arguments
    }
    found: dict[str, Any] = {"type": "object", "properties": properties}
    required = [one.name for one in arguments if one.required]
    if required:
        found["required"] = required
    return {**found, "additionalProperties": False}


def checked(arguments: tuple[Argument, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the arguments, and return them without nulls. Raises :class:`InvalidArguments`."""
    names = [one.name for one in arguments]
    for name in given:
        if name not in names:
            raise InvalidArguments(
                f"there is no argument {shown(name[:60])!r}. The arguments are: {', '.join(names)}."
            )
    found = {name: value for name, value in given.items() if value is not None}
    for one in arguments:
        if one.name not in found:
            if one.required:
                raise InvalidArguments(f"{one.name} is missing: {one.kind.name}.", argument=one.name)
            continue
        value = found[one.name]
        if not one.kind.fits(value):
            given_as = type(value).__name__ if isinstance(value, list | Mapping) else shown(repr(value)[:60])
            raise InvalidArguments(f"{one.name} is {one.kind.name}, not {given_as}.", argument=one.name)
        if one.kind is WHOLE:
            found[one.name] = whole(value)
    return found
