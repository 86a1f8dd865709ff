"""Validators of single values: each returns the converted value, or raises :class:`DocumentError`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from tokenbox.content.section import meant_field
from tokenbox.content.weight import exact_weight
from tokenbox.documents.source import DocumentCode, PlacedValue
from tokenbox.documents.syntax_yaml import AmbiguousScalar
from tokenbox.errors import shown
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


def table(given: PlacedValue, keys: tuple[str, ...] | None = None) -> Mapping[str, PlacedValue]:
    """Return the values of a mapping with no keys other than ``keys``. None: it may have any."""
    found = given.value
    if not isinstance(found, Mapping):
        is_chat = isinstance(found, list) and any(isinstance(one, dict) and "role" in one for one in found)
        hint = " These are chat messages: use tokenbox fit." if is_chat and not given.path else ""
        _wrong_type(given, "a mapping from keys to values", hint)
    for key in found:
        if not isinstance(key, str):
            raise given.error(DocumentCode.WRONG_TYPE, f"a key must be text, not {described(key)}.")
        if keys is not None and key not in keys:
            near = meant_field(key, keys)
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
        quoted = ""
        if isinstance(value, bool | int | float | Decimal | AmbiguousScalar):
            quoted = f' Put it in quotes: "{plain(given.source.written.get(given.path, value))}".'
        _wrong_type(given, "text", quoted)
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


def tokens(given: PlacedValue) -> int:
    """Return a number of tokens: an integer of at least 0."""
    return _whole_number(given, 0)


def priority(given: PlacedValue) -> int:
    """Return an integer, which may be negative."""
    return _whole_number(given, -MAX_INTEGER)


def weight(given: PlacedValue) -> int | Fraction:
    """Return an exact weight from a non-negative number or decimal string."""
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        _wrong_type(given, "a number, or a decimal number in quotes")
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
    raise given.error(DocumentCode.BAD_VALUE, message)


def one_of(words: type[Word]) -> Callable[[PlacedValue], Word]:
    """Return a validator for the values of an enumeration."""
    by_value = {word.value: word for word in words}

    def checked(given: PlacedValue) -> Word:
        value = text(given)
        word = by_value.get(value)
        if word is None:
            near = difflib.get_close_matches(value[:100], by_value, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            message = f"must be one of {', '.join(by_value)}, not {shown(value)}.{hint}"
            raise given.error(DocumentCode.BAD_VALUE, message)
        return word

    return checked


def maximum(given: PlacedValue) -> int | Fraction | None:
    """Return a maximum: tokens, a share of the budget such as "30%", or None."""
    value = given.value
    if value is None:
        return None
    if not isinstance(value, str):
        return tokens(given)
    if not _PERCENT.fullmatch(value):
        message = f'must be a number of tokens or a percentage such as "30%", not {shown(value)}.'
        raise given.error(DocumentCode.BAD_VALUE, message)
    return Fraction(value.rstrip("% ")) / 100


def content(given: PlacedValue) -> object:
    """Return a text, or a list or mapping of any plain data."""
    return item(given) if isinstance(given.value, Mapping | list | tuple) else text(given)


def item(given: PlacedValue) -> object:
    """Return plain data, as in JSON."""
    value = given.value
    if len(given.path) > MAX_NESTED:
        message = f"a content here is nested more than {MAX_NESTED} levels deep. Give it as text."
        raise given._replace(path=given.path[:3]).error(DocumentCode.BAD_VALUE, message)
    if isinstance(value, Mapping):
        keys = [text(given.at(str(key), str(key))) for key in value]
        return {key: item(given.at(key, inner)) for key, inner in zip(keys, value.values(), strict=True)}
    if isinstance(value, list | tuple):
        return [item(one) for one in array(given)]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float | Decimal):
        if not Decimal(value).is_finite() or math.isinf(float(value)):
            message = f"must be a finite number, not {described(value)}."
            raise given.error(DocumentCode.BAD_VALUE, message)
        return value
    return text(given)


def optional(
    check: Callable[[PlacedValue], str],
) -> Callable[[PlacedValue], str | None]:
    """Return a validator like ``check`` that also accepts null."""

    def checked(given: PlacedValue) -> str | None:
        return None if given.value is None else check(given)

    return checked


def described(value: object) -> str:
    """Return a short description of ``value``."""
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words(value)
    return f"a value of type {type(value).__name__}"


def plain(value: object) -> str:
    """Return a scalar as text; long numbers by their size."""
    if isinstance(value, AmbiguousScalar):
        return value.written
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"of {value.bit_length()} bits"
    written = str(value)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}..."


def _whole_number(given: PlacedValue, least: int) -> int:
    """Return an integer of at least ``least``. 8000.0 is an integer too, as in JSON Schema."""
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        written = value.written if isinstance(value, AmbiguousScalar) else value
        _wrong_type(given, "a whole number", meant_figure(written))
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and exact.is_finite() and exact != exact.to_integral_value():
        _wrong_type(given, "a whole number")
    if (isinstance(exact, Decimal) and exact.is_nan()) or not least <= exact <= MAX_INTEGER:
        message = f"must be a whole number from {least} to {MAX_INTEGER}, not {described(value)}."
        raise given.error(DocumentCode.BAD_VALUE, message)
    return int(exact)


def _wrong_type(given: PlacedValue, expected: str, hint: str = "") -> NoReturn:
    subject = "" if given.path else "the document "
    message = f"{subject}must be {expected}, not {described(given.value)}.{hint}"
    raise given.error(DocumentCode.WRONG_TYPE, message, expected=expected)


_WORDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (type(None), lambda _: "null"),
    (AmbiguousScalar, lambda value: value.says),
    (bool, lambda value: f"the boolean {plain(value)}"),
    ((int, float, Decimal), lambda value: f"the number {plain(value)}"),
    (str, lambda value: f"the text {shown(value)}"),
    (Mapping, lambda _: "a mapping"),
    ((list, tuple), lambda _: "a list"),
    ((date, time), lambda value: f"the date or time {value.isoformat()}"),
)
