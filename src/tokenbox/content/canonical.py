"""Canonical JSON (RFC 8785) of integers and text: encode it, and parse it strictly."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn, cast

from tokenbox.errors import TokenboxError
from tokenbox.integers import MAX_INTEGER

MAX_DEPTH = 64
_MAX_DIGITS = 17

# For text, integers and ASCII keys this is RFC 8785, five times as fast as the reference implementation; the
# tests compare the two.
_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False, allow_nan=False
).encode


class NotCanonical(TokenboxError, code="not_canonical"):
    """A value has no canonical JSON, or bytes are not canonical JSON."""


def canonical(value: object) -> bytes:
    """Return ``value`` as RFC 8785 JSON.

    Takes text, integers within 2**53, booleans, None, and lists and dicts of those; write a fraction as a
    decimal string. Raises :class:`NotCanonical` for anything else.
    """
    plain_keys = _check(value, 0)
    if not plain_keys:
        return _with_any_keys(value)
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        raise _surrogate() from None


def record_digest(record: object) -> str:
    """Return the SHA-256 (hex) of a record as RFC 8785 JSON. Raises :class:`NotCanonical`."""
    return hashlib.sha256(canonical(record)).hexdigest()


def parse_canonical(data: bytes) -> object:
    """Parse canonical JSON. Raises :class:`NotCanonical` for any other JSON.

    Canonical JSON has no duplicate keys or extra spaces, and one order and spelling.
    """
    try:
        value = _decode(data.decode())
    except RecursionError:
        raise NotCanonical("the JSON is nested too deeply.") from None
    except ValueError:
        raise NotCanonical("this is not JSON in UTF-8.") from None
    try:
        # A cheap test for ASCII keys and limited nesting.
        plain = data.isascii() and data.count(b"{") + data.count(b"[") <= MAX_DEPTH
        again = _encode(value).encode() if plain else canonical(value)
    except RecursionError:
        raise NotCanonical("the JSON is nested too deeply.") from None
    except UnicodeEncodeError:
        raise _surrogate() from None
    if again != data:
        raise NotCanonical("this is JSON, but not canonical (RFC 8785).")
    return value


def _check(value: object, depth: int) -> bool:
    """Validate the value, and return whether all keys are ASCII, whose order does not depend on UTF-16."""
    kind = value.__class__
    if kind is str or value is None or kind is bool:
        return True
    if isinstance(value, int):
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return True
        raise NotCanonical(f"the number {value:,} is beyond 2**53, where JSON is not exact.")
    if isinstance(value, str):
        return True
    if depth > MAX_DEPTH:
        raise NotCanonical(f"the value is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, dict):
        plain = True
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotCanonical(f"a key must be text, not {type(key).__name__}.")
            # Inlined for speed: most values are texts.
            known = item.__class__ is str or item is None
            plain = (known or _check(item, depth + 1)) & key.isascii() & plain
        return plain
    if isinstance(value, list | tuple):
        return min((_check(item, depth + 1) for item in value), default=True)
    raise NotCanonical(
        f"{kind.__name__} cannot be in a record. Use text, an integer, a list or a dict; write a fraction "
        "as a decimal string."
    )


def _with_any_keys(value: object) -> bytes:
    """Encode a value with keys beyond ASCII, which RFC 8785 sorts by UTF-16."""
    import rfc8785  # few records have such keys

    try:
        return rfc8785.dumps(cast("Any", value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        raise _surrogate() from None


def _surrogate() -> NotCanonical:
    return NotCanonical("a text has a lone surrogate, which is invalid Unicode. Remove it.")


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _MAX_DIGITS else MAX_INTEGER + 1
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise ValueError(text[:_MAX_DIGITS])
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


_decode = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse, parse_int=_integer).decode
