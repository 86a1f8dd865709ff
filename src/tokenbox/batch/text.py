"""How results are written as JSON: one spelling, whatever the engine, the format and the machine."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(value: object, *, sort_keys: bool = False) -> str:
    """``value`` as JSON on one line, which can be encoded as UTF-8, whatever is in it.

    Bytes are base64, dates are ISO 8601, and numbers that JSON does not have are null.
    """
    try:
        text = _written(value, sort_keys=sort_keys, ascii_only=False)
        if text.isascii():
            return text
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only have escaped
        return _written(value, sort_keys=sort_keys, ascii_only=True)
    except ValueError:
        return json_text(_finite(value), sort_keys=sort_keys)
    return text


_ENCODERS = {
    (sort_keys, ascii_only): json.JSONEncoder(
        ensure_ascii=ascii_only,
        sort_keys=sort_keys,
        separators=(",", ":"),
        allow_nan=False,
        check_circular=False,
        default=lambda value: _plain(value),  # noqa: PLW0108  # it is defined below
    ).encode
    for sort_keys in (False, True)
    for ascii_only in (False, True)
}


def _written(value: object, *, sort_keys: bool, ascii_only: bool) -> str:
    return _ENCODERS[sort_keys, ascii_only](value)


def _plain(value: Any) -> object:  # noqa: ANN401  # anything that a format has and JSON does not
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return str(value)


def _finite(value: object) -> object:
    """``value`` with null for every number that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
