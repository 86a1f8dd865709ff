"""Readers for each type of value, from TOML or from the text of a variable or flag.

A reader returns the converted value, or None for an invalid one. Numbers are exact, never floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from tokenbox.config.keys import MAX_TOKENS, SettingKey, ValueKind

# Limits against mistakes and attacks. ``MAX_DIGITS`` also limits exponents.
MAX_DIGITS = 60
MAX_TEXT = 10_000

_NUMBER = re.compile(r"[+-]?(\d[\d_]*)?(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_ENDPOINT = re.compile(r"https?://[^\s/@?#]+(/[^\s?#]*)?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
# The keys of known services, and other texts that look like secrets.
_SECRET = re.compile(
    r"(sk|pk|rk|xai|gsk|ghp|gho|hf|glpat|r8|pplx|nvapi|AIza|AKIA|csk)[-_A-Za-z0-9][A-Za-z0-9_-]{14,}"
    r"|github_pat_\w{20,}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]*|Bearer\s+\S{8,}",
)
_ADDRESS_WITH_KEY = re.compile(
    r"https?://[^/\s]*@"
    r"|[a-z][a-z0-9+.-]*://([^/\s:@]*:[^/\s@]+@|\S*[?&](api[_-]?)?(key|token|secret|password)=)",
    re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Return whether a text is probably a secret key, or an address that contains one."""
    text = text.strip()
    return _SECRET.fullmatch(text) is not None or _ADDRESS_WITH_KEY.match(text) is not None


def from_text(key: SettingKey, text: str) -> object:
    """Return the value of ``key`` from a variable or flag; None if it is invalid."""
    value: object = text.strip() if key.kind is not ValueKind.TEXT else text
    if key.kind is ValueKind.BOOLEAN:
        value = _WORDS.get(text.strip().lower())
    elif key.kind in (ValueKind.TOKENS, ValueKind.WINDOW, ValueKind.COUNT, ValueKind.PORT):
        value = int(text) if re.fullmatch(r"\s*[0-9](_?[0-9]){0,30}\s*", text) else None
    elif key.kind in (ValueKind.TEXTS, ValueKind.CHOICES):
        value = [part.strip() for part in text.split(",") if part.strip()]
    return from_toml(key, value)


def from_toml(key: SettingKey, value: object) -> object:
    """Return the value of ``key`` from a file; None if it is invalid."""
    found = READERS[key.kind](value)
    if not key.choices:
        return found
    chosen = found if isinstance(found, tuple) else (found,)
    return found if all(map(key.takes, chosen)) else None


_WORDS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


Reader = Callable[[object], object]


def _only(fits: Callable[[Any], object]) -> Reader:
    """Return a reader of the values that fit, which stay as they are."""
    return lambda value: value if fits(value) else None


def _is_text(value: object) -> bool:
    fits = isinstance(value, str) and 0 < len(value) <= MAX_TEXT and "\0" not in value
    return fits and not any("\ud800" <= c <= "\udfff" for c in str(value))


def _whole(least: int, most: int = MAX_TOKENS) -> Reader:
    return _only(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    )


def _matching(pattern: re.Pattern[str]) -> Reader:
    return _only(lambda value: isinstance(value, str) and len(value) <= MAX_TEXT and pattern.fullmatch(value))


def _number(accept: Callable[[Decimal], bool]) -> Reader:
    """Return a reader of numbers and decimal texts. It is exact: 0.1 is one tenth."""

    def read(value: object) -> object:
        number = exact(value)
        return number if number is not None and accept(number) else None

    return read


def _share(value: object) -> object:
    return value if value == "auto" else _number(lambda number: 0 < number <= 1)(value)


def _dollars(value: object) -> object:
    from tokenbox.ledger.cost import has_digits  # most commands have no price

    return _number(lambda number: number >= 0 and has_digits(number))(value)


def exact(value: object) -> Decimal | None:
    """Return the number as Decimal; a float, which only code can pass, by its shortest decimal form."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * 4:
        return None
    text = str(value).strip()
    if not isinstance(value, Decimal) and (not text or len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text)):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or (number and abs(number.adjusted()) > MAX_DIGITS):
        return None
    return number if len(number.as_tuple().digits) <= MAX_DIGITS else None


def _texts(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) > MAX_TEXT:
        return None
    return tuple(value) if all(map(_is_text, value)) else None


def _day(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()[:10]
    try:
        return date.fromisoformat(value).isoformat() if isinstance(value, str) else None
    except ValueError:
        return None


_text = _only(_is_text)
READERS: dict[ValueKind, Reader] = {
    ValueKind.TEXT: _text,
    ValueKind.TOKENS: _whole(0),
    ValueKind.WINDOW: _whole(1),
    ValueKind.COUNT: _whole(1),
    ValueKind.PORT: _whole(1, 65_535),
    ValueKind.BOOLEAN: _only(lambda value: isinstance(value, bool)),
    ValueKind.HEADROOM: _number(lambda number: 0 <= number < 1),
    ValueKind.SHARE: _share,
    ValueKind.SECONDS: _number(lambda number: 0 < number <= 86_400),  # a day
    ValueKind.DOLLARS: _dollars,
    ValueKind.CHOICE: _text,
    ValueKind.TEXTS: _texts,
    ValueKind.CHOICES: _texts,
    ValueKind.DAY: _day,
    ValueKind.ENDPOINT: _matching(_ENDPOINT),
    ValueKind.VARIABLE: _matching(_VARIABLE),
    ValueKind.TOKENIZER: _text,
    ValueKind.PATH: _text,
    ValueKind.DATABASE: _text,
}
