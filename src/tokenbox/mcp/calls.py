"""A call of a tool: its arguments, from one table with the JSON schema for the model, and its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tokenbox.compose.counting import DEFAULT_CACHE
from tokenbox.errors import TokenboxError
from tokenbox.folder.names import shown
from tokenbox.integers import MAX_INTEGER, whole
from tokenbox.tokenizers.cache import CountCache

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer


class InvalidArguments(TokenboxError, code="invalid_arguments"):
    """The arguments of a call are invalid."""


def _whole(value: object) -> int | None:
    """Return an integer of JSON Schema, such as 200 or 200.0; None for another value."""
    return int(value) if isinstance(value, float) and value.is_integer() else whole(value)


def _is_whole(value: object) -> bool:
    number = _whole(value)
    return number is not None and 0 < number <= MAX_INTEGER


def _is_list(value: object, of: type = object) -> bool:
    return isinstance(value, list) and all(isinstance(item, of) for item in value)


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """The type of an argument: its schema, its name in messages, and its check."""

    schema: Mapping[str, object]
    name: str
    fits: Callable[[object], bool]


TEXT: Final = ArgumentKind({"type": "string"}, "a string", lambda value: isinstance(value, str))
WHOLE: Final = ArgumentKind({"type": "integer", "minimum": 1}, "a whole number, 1 or more", _is_whole)
TEXTS: Final = ArgumentKind(
    {"type": "array", "items": {"type": "string"}}, "a list of strings", partial(_is_list, of=str)
)
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
            found[one.name] = _whole(value)
    return found


# Texts that are counted between two checks for cancellation.
_BATCH: Final = 64


class CallCancelled(Exception):  # not an error: the client cancelled the call
    """The call was cancelled."""


class CallProgress:
    """The progress of a call. One thread updates it, another reads it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.done = 0
        self.total = 0

    def begin(self, total: int) -> None:
        self.total = total

    def advance(self, number: int = 1) -> None:
        """Add completed steps. Raises :class:`CallCancelled`."""
        if self._stop.is_set():
            raise CallCancelled
        self.done = min(self.done + number, self.total)

    def stop(self) -> None:
        self._stop.set()

    def finish(self) -> None:
        self.done = self.total


class CallCounts(CountCache):
    """The shared cache of counts, used by one call. Counting stops if the call is cancelled."""

    def __init__(self, progress: CallProgress) -> None:
        super().__init__(1)
        self._progress = progress

    def count_batch(
        self, tokenizer: Tokenizer, texts: Sequence[str], digests: Sequence[bytes] | None = None
    ) -> list[int]:
        found: list[int] = []
        for start in range(0, len(texts), _BATCH):
            batch = slice(start, start + _BATCH)
            self._progress.advance(len(texts[batch]))
            known = None if digests is None else digests[batch]
            found += DEFAULT_CACHE.count_batch(tokenizer, texts[batch], known)
        return found
