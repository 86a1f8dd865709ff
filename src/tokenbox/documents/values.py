"""Readers of single values, for the shape of a document: tables, lists, texts and its own options.

The values of a section are checked by :class:`~tokenbox.content.section.Section`, and those of a group by
:class:`~tokenbox.content.group.Group`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, NoReturn

from tokenbox.content.section import meant_field
from tokenbox.documents.source import DocumentCode, PlacedValue
from tokenbox.engine.result import Policy
from tokenbox.errors import DocumentError, InvalidBudget, one_of, shown
from tokenbox.integers import MAX_INTEGER, token_budget

# Keys that a document does not have, because the call has them.
_GIVEN_BESIDE = {"model": "Name the model with --model, in Python with model=."}
_MAX_SHOWN = 40


def table(given: PlacedValue, keys: Iterable[str] | None = None) -> Mapping[str, PlacedValue]:
    """Return the values of a mapping with no keys other than ``keys``. None: it may have any."""
    found = given.value
    if not isinstance(found, Mapping):
        is_chat = isinstance(found, list) and any(isinstance(one, dict) and "role" in one for one in found)
        hint = " These are chat messages: use tokenbox fit." if is_chat and not given.path else ""
        _wrong_type(given, "a mapping from keys to values", hint)
    for key in found:
        if not isinstance(key, str):
            raise given.error(DocumentCode.WRONG_TYPE, f"a key must be text, not {_described(key)}.")
        if keys is not None and key not in keys:
            near = meant_field(key, tuple(keys))
            hint = f"The keys here are: {', '.join(keys)}." if near is None else f"Did you mean {near!r}?"
            hint = hint if given.path else _GIVEN_BESIDE.get(key, hint)
            message = f"there is no key {shown(key)}. {hint}"
            raise given.at(key).error(DocumentCode.UNKNOWN_KEY, message, key=key)
    source, path = given.source, given.path
    return {key: PlacedValue(source, (*path, key), value) for key, value in found.items()}


def array(given: PlacedValue) -> list[PlacedValue]:
    """Return the items of a list."""
    if not isinstance(given.value, list | tuple):
        is_table = str(given.source.name).endswith(".toml") and isinstance(given.value, Mapping)
        hint = f" In TOML: [[{given.path[-1]}]]." if is_table and given.path else ""
        _wrong_type(given, "a list", hint)
    return [given.at(place, value) for place, value in enumerate(given.value)]


def text(given: PlacedValue) -> str:
    """Return a text, which may be empty."""
    value = given.value
    if not isinstance(value, str):
        is_scalar = isinstance(value, bool | int | float | Decimal)
        _wrong_type(given, "text", f' Put it in quotes: "{_plain(value)}".' if is_scalar else "")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            message = (
                f"character {error.start} is the lone surrogate U+{ord(value[error.start]):04X}, "
                "which is invalid Unicode. Write the complete character, or remove it."
            )
            raise given.error(DocumentCode.BAD_VALUE, message, character=error.start) from None
    return value


def name(given: PlacedValue) -> str:
    """Return a non-empty text."""
    checked = text(given)
    if not checked:
        raise given.error(DocumentCode.BAD_VALUE, "must not be empty.")
    return checked


def boolean(given: PlacedValue) -> bool:
    if not isinstance(given.value, bool):
        _wrong_type(given, "true or false")
    return given.value


def budget(given: PlacedValue) -> int:
    try:
        return token_budget(as_whole(given.value))
    except InvalidBudget as error:
        raise given.error(DocumentCode.BAD_VALUE, error.message) from None


def policy(given: PlacedValue) -> Policy:
    try:
        return one_of(Policy, "policy", given.value, DocumentError)
    except DocumentError as error:
        raise given.error(DocumentCode.BAD_VALUE, error.message) from None


def as_whole(value: object) -> object:
    """Return 8000 for 8000.0, which is an integer in JSON Schema, too; any other value as it is."""
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(number, Decimal) and number.is_finite() and abs(number) <= MAX_INTEGER:
        return int(number) if number == number.to_integral_value() else value
    return value


def _described(value: object) -> str:
    """Return a short description of ``value``."""
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words(value)
    return f"a value of type {type(value).__name__}"


def _plain(value: object) -> str:
    """Return a scalar as text, a long number shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    written = shown(value)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}..."


def _wrong_type(given: PlacedValue, expected: str, hint: str = "") -> NoReturn:
    subject = "" if given.path else "the document "
    message = f"{subject}must be {expected}, not {_described(given.value)}.{hint}"
    raise given.error(DocumentCode.WRONG_TYPE, message, expected=expected)


_WORDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (type(None), lambda _: "null"),
    (bool, lambda value: f"the boolean {_plain(value)}"),
    ((int, float, Decimal), lambda value: f"the number {_plain(value)}"),
    (str, lambda value: f"the text {shown(value)}"),
    (Mapping, lambda _: "a mapping"),
    ((list, tuple), lambda _: "a list"),
    ((date, time), lambda value: f"the date or time {value.isoformat()}"),
)
