"""Parse a JSON object so that no other parser, and no server, can read it differently.

Refused are NaN and infinities, duplicate keys, invalid UTF-8, a byte order mark, too many levels and too many
values. The gateway could count one request while the server runs another.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import orjson

from tokenbox.gateway.refusals import Refusal, invalid_request

if TYPE_CHECKING:
    from tokenbox.gateway.settings import RequestLimits

_LONGEST_SHOWN = 40
# Levels that the fast parser handles; a tool's schema has about ten. Deeper objects take the slow parser.
_FAST_LEVELS = 32
# The most characters of a number that is not whole. Its value keeps 17 digits of them, which are counted, but
# a server may show it as it was written. Every such number is a run of zeros after ``_AS_ZEROS``.
_LONGEST_FLOAT = 100
_LONGEST_INTEGER = 4_300  # Python reads no longer ones
_AS_ZEROS = bytes(48 if byte in b"0123456789.eE+-" else 32 for byte in range(256))
# Integers of more than 64 bits come from orjson as floats; every one of them is larger than this.
_EXACT_FLOATS = 2.0**53
_KEY_END = re.compile(rb'"[ \t\n\r]*:')
_IN_STRING = re.compile(rb'\\"[ \t\n\r]*:')
_UNCLEAR = re.compile(rb'\\\\"[ \t\n\r]*:')
# Every value but the first follows one of these. They also occur in strings, so this is an upper bound.
_BEFORE_VALUES = (b",", b"{", b"[")
# Bytes of a body whose values are not counted: it takes two bytes for a value.
_SMALL = 16_384


def read_object(data: bytes, limits: RequestLimits) -> dict[str, Any]:
    """Return the JSON object in ``data``. Raises :class:`Refusal` (400)."""
    if len(data) > limits.values and values_in(data) > limits.values:
        raise invalid_request(f"the body has more than {limits.values:,} values. Send less at once.")
    value = _read_fast(data, min(_FAST_LEVELS, limits.depth))
    return _read_slowly(data, limits) if value is None else value


def values_in(data: bytes) -> int:
    """Return an upper bound of the number of values in a body of JSON, less one."""
    return sum(map(data.count, _BEFORE_VALUES))


def most_values(data: bytes, limit: int) -> int:
    """Return an upper bound of the number of values of ``data``, which is not parsed over ``limit``."""
    return len(data) // 2 + 1 if len(data) <= _SMALL else min(values_in(data), limit)


def json_text(value: object) -> str:
    """Return a value as JSON for an error message, shortened."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _read_fast(data: bytes, depth: int) -> dict[str, Any] | None:
    """Return the object if a cheap check proves that it has only one reading, else None.

    orjson keeps the last of two equal keys, turns large integers into floats, and has its own depth limit. So
    the keys in the result are compared with the ends of keys in ``data``. There are at least as many ends as
    keys; if the numbers agree, no key was there twice.
    """
    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    if value.__class__ is not dict:
        return None
    keys = 0
    floats: list[float] = []
    level: list[Any] = [value]
    for _ in range(depth):
        below: list[Any] = []
        for inner in level:
            items = inner
            if inner.__class__ is dict:
                keys += len(inner)
                items = inner.values()
            for item in items:
                kind = item.__class__
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    floats.append(item)
        if not below:
            return value if keys == _key_ends(data, keys) and _are_as_written(floats, data) else None
        level = below
    return None


def _are_as_written(floats: list[float], data: bytes) -> bool:
    """Whether none of these numbers in ``data`` is an integer that was too large, or has too many digits."""
    if not floats:
        return True
    has_long = b"0" * (_LONGEST_FLOAT + 1) in data.translate(_AS_ZEROS)
    return max(map(abs, floats)) < _EXACT_FLOATS and not has_long


def _key_ends(data: bytes, keys: int) -> int | None:
    """Return an upper bound of the keys in ``data``, which has at least ``keys``; None if it is unclear."""
    ends = sum(map(bool, _KEY_END.finditer(data)))  # a match is true
    if ends == keys:
        return ends
    if _UNCLEAR.search(data) is not None:  # a key that itself ends with a backslash
        return None
    # Inside a string the quote has a backslash before it.
    return ends - sum(map(bool, _IN_STRING.finditer(data)))


def _read_slowly(data: bytes, limits: RequestLimits) -> dict[str, Any]:
    """Return the object. Raises :class:`Refusal` naming what is wrong and where."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise invalid_request(f"the body is not UTF-8: byte {error.start:,} is 0x{byte:02X}.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if text[:1] == "\ufeff":
            raise invalid_request(
                "the body begins with a byte order mark, which JSON does not have."
            ) from None
        raise invalid_request(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep(limits.depth) from None
    except ValueError as error:
        raise invalid_request(f"the body is not JSON that can be used: {error}.") from None
    if not isinstance(value, dict):
        raise invalid_request(f"the body is a JSON object, not {_KINDS.get(type(value), 'a number')}.")
    if text.count("[") + text.count("{") > limits.depth and _is_deeper(value, limits.depth):
        raise _too_deep(limits.depth)
    return value


_KINDS: dict[type, str] = {list: "a list", str: "text", type(None): "null", bool: "true or false"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} is there twice")
    return value


def _int(text: str) -> int:
    return int(_bounded(text, _LONGEST_INTEGER))


def _bounded(text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(
            f"the number {text[:20]}... has {len(text):,} characters; at most {most:,} are taken"
        )
    return text


def _float(text: str) -> float:
    value = float(_bounded(text, _LONGEST_FLOAT))
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


# json.loads would build a decoder for each call.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)


def _is_deeper(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep(limit: int) -> Refusal:
    return invalid_request(f"the body is nested more than {limit} levels deep.")
