"""Validators of single values: each returns the converted value, or raises :class:`DocumentError`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from tokenbox.content.section import meant_field
from tokenbox.content.weight import exact_weight
from tokenbox.documents.source import DocumentCode, DocumentSource, KeyPath, shorten
from tokenbox.documents.syntax_yaml import Odd
from tokenbox.integers import MAX_INTEGER, meant_figure

Word = TypeVar("Word", bound=StrEnum)
# Keys that a document does not have, because the call has them.
_GIVEN_BESIDE = {"model": "Name the model with --model, in Python with model=."}
# The levels of lists and mappings in a content. Python ends a recursion at a few hundred.
MAX_NESTED = 100
# The limits of numbers, because converting longer ones is slow.
_MAX_DIGITS = 1000
_MAX_BITS = 3320
_MAX_SHOWN = 40
# The same patterns as in layout.schema.json.
_DECIMAL = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PERCENT = re.compile(r"(?:100|[0-9]{1,2}(?:\.[0-9]{1,20})?) ?%")


def table(
    source: DocumentSource, path: KeyPath, value: object, keys: tuple[str, ...]
) -> Mapping[str, object]:
    """Return a mapping with no keys other than ``keys``."""
    if not isinstance(value, Mapping):
        is_chat = (
            not path and isinstance(value, list) and any(isinstance(i, dict) and "role" in i for i in value)
        )
        hint = " These are chat messages: use tokenbox fit." if is_chat else ""
        _wrong_type(source, path, value, "a mapping from keys to values", hint)
    for key in value:
        if not isinstance(key, str):
            message = f"a key must be text, not {described(key)}."
            raise source.error(DocumentCode.WRONG_TYPE, path, message)
        if key not in keys:
            near = meant_field(key, keys)
            hint = f"The keys here are: {', '.join(keys)}." if near is None else f"Did you mean {near!r}?"
            hint = _GIVEN_BESIDE.get(key, hint) if not path else hint
            message = f"there is no key {shorten(key)}. {hint}"
            raise source.error(DocumentCode.UNKNOWN_KEY, (*path, key), message, key=key)
    return value


def array(source: DocumentSource, path: KeyPath, value: object) -> list[object] | tuple[object, ...]:
    """Return a list."""
    if not isinstance(value, list | tuple):
        is_toml = str(source.name).endswith(".toml")
        hint = f" In TOML: [[{path[-1]}]]." if is_toml and path and isinstance(value, Mapping) else ""
        _wrong_type(source, path, value, "a list", hint)
    return value


def text(source: DocumentSource, path: KeyPath, value: object) -> str:
    """Return a text, which may be empty."""
    if not isinstance(value, str):
        quoted = ""
        if isinstance(value, bool | int | float | Decimal | Odd):
            quoted = f' Put it in quotes: "{plain(source.written.get(path, value))}".'
        _wrong_type(source, path, value, "text", quoted)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            message = (
                f"character {error.start} is the lone surrogate U+{ord(value[error.start]):04X}, "
                "which is invalid Unicode. Write the complete character, or remove it."
            )
            raise source.error(DocumentCode.BAD_VALUE, path, message, character=error.start) from None
    return value


def name(source: DocumentSource, path: KeyPath, value: object) -> str:
    """Return a non-empty text."""
    checked = text(source, path, value)
    if not checked:
        raise source.error(DocumentCode.BAD_VALUE, path, "must not be empty.")
    return checked


def boolean(source: DocumentSource, path: KeyPath, value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        _wrong_type(source, path, value, "true or false")
    return value


def tokens(source: DocumentSource, path: KeyPath, value: object) -> int:
    """Return a number of tokens: an integer of at least 0."""
    return _whole_number(source, path, value, 0)


def priority(source: DocumentSource, path: KeyPath, value: object) -> int:
    """Return an integer, which may be negative."""
    return _whole_number(source, path, value, -MAX_INTEGER)


def weight(source: DocumentSource, path: KeyPath, value: object) -> int | Fraction:
    """Return an exact weight from a non-negative number or decimal string."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        _wrong_type(source, path, value, "a number, or a decimal number in quotes")
    written = _DECIMAL.fullmatch(value) if isinstance(value, str) else True
    long = value.bit_length() > _MAX_BITS if isinstance(value, int) else len(str(value)) > _MAX_DIGITS
    if written and not long:
        try:
            return exact_weight(value)
        except ValueError:
            pass
    message = (
        "must be a finite decimal number such as 0.5, 0 or more, with an exponent and digits up to "
        f"{_MAX_DIGITS}, not {described(value)}."
    )
    raise source.error(DocumentCode.BAD_VALUE, path, message)


def one_of(words: type[Word]) -> Callable[[DocumentSource, KeyPath, object], Word]:
    """Return a validator for the values of an enumeration."""

    def checked(source: DocumentSource, path: KeyPath, value: object) -> Word:
        word = text(source, path, value)
        choices = [choice.value for choice in words]
        if word not in choices:
            near = difflib.get_close_matches(word[:100], choices, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            message = f"must be one of {', '.join(choices)}, not {shorten(word)}.{hint}"
            raise source.error(DocumentCode.BAD_VALUE, path, message)
        return words(word)

    return checked


def maximum(source: DocumentSource, path: KeyPath, value: object) -> int | Fraction | None:
    """Return a maximum: tokens, a share of the budget such as "30%", or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        return tokens(source, path, value)
    if not _PERCENT.fullmatch(value):
        message = f'must be a number of tokens or a percentage such as "30%", not {shorten(value)}.'
        raise source.error(DocumentCode.BAD_VALUE, path, message)
    return Fraction(value.rstrip("% ")) / 100


def content(source: DocumentSource, path: KeyPath, value: object) -> object:
    """Return a text, or a list or mapping of any plain data."""
    return (item if isinstance(value, Mapping | list | tuple) else text)(source, path, value)


def item(source: DocumentSource, path: KeyPath, value: object) -> object:
    """Return plain data, as in JSON."""
    if len(path) > MAX_NESTED:
        message = f"a content here is nested more than {MAX_NESTED} levels deep. Give it as text."
        raise source.error(DocumentCode.BAD_VALUE, path[:3], message)
    if isinstance(value, Mapping):
        return {str(key): item(source, (*path, key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [item(source, (*path, place), inner) for place, inner in enumerate(value)]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | Decimal):
        if not Decimal(value).is_finite():
            raise source.error(
                DocumentCode.BAD_VALUE, path, f"must be a finite number, not {described(value)}."
            )
        return float(value)
    return text(source, path, value)


def optional(
    check: Callable[[DocumentSource, KeyPath, object], str],
) -> Callable[[DocumentSource, KeyPath, object], str | None]:
    """Return a validator like ``check`` that also accepts null."""

    def checked(source: DocumentSource, path: KeyPath, value: object) -> str | None:
        return None if value is None else check(source, path, value)

    return checked


def described(value: object) -> str:
    """Return a short description of ``value``."""
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words(value)
    return f"a value of type {type(value).__name__}"


def plain(value: object) -> str:
    """Return a scalar as text; long numbers by their size."""
    if isinstance(value, Odd):
        return value.written
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"of {value.bit_length()} bits"
    written = str(value)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}..."


def _whole_number(source: DocumentSource, path: KeyPath, value: object, least: int) -> int:
    """Return an integer of at least ``least``. 8000.0 is an integer too, as in JSON Schema."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        written = value.written if isinstance(value, Odd) else value
        _wrong_type(source, path, value, "a whole number", meant_figure(written))
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and exact.is_finite() and exact != exact.to_integral_value():
        _wrong_type(source, path, value, "a whole number")
    if (isinstance(exact, Decimal) and exact.is_nan()) or not least <= exact <= MAX_INTEGER:
        message = f"must be a whole number from {least} to {MAX_INTEGER}, not {described(value)}."
        raise source.error(DocumentCode.BAD_VALUE, path, message)
    return int(exact)


def _wrong_type(
    source: DocumentSource, path: KeyPath, value: object, expected: str, hint: str = ""
) -> NoReturn:
    subject = "" if path else "the document "
    message = f"{subject}must be {expected}, not {described(value)}.{hint}"
    raise source.error(DocumentCode.WRONG_TYPE, path, message, expected=expected)


_WORDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (type(None), lambda _: "null"),
    (Odd, lambda value: value.says),
    (bool, lambda value: f"the boolean {plain(value)}"),
    ((int, float, Decimal), lambda value: f"the number {plain(value)}"),
    (str, lambda value: f"the text {shorten(value)}"),
    (Mapping, lambda _: "a mapping"),
    ((list, tuple), lambda _: "a list"),
    ((date, time), lambda value: f"the date or time {value.isoformat()}"),
)
