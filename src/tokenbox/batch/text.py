"""Results as JSON, with the same bytes for every engine, format and machine."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(value: object, *, sort_keys: bool = False) -> str:
    """Return ``value`` as JSON on one line, which can always be encoded as UTF-8.

    Bytes are base64, dates are ISO 8601, and infinite numbers and NaN are null.
    """
    try:
        text = _ENCODERS[sort_keys, False](value)
        if text.isascii():
            return text
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return _ENCODERS[sort_keys, True](value)
    except ValueError:
        return json_text(_finite(value), sort_keys=sort_keys)
    return text


def _plain(value: Any) -> object:  # noqa: ANN401  # any value that JSON does not have
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
    """Return ``value`` with None for infinite numbers and NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# By whether keys are sorted and whether the text is ASCII.
_ENCODERS = {
    (sort_keys, ascii_only): json.JSONEncoder(
        ensure_ascii=ascii_only,
        sort_keys=sort_keys,
        separators=(",", ":"),
        allow_nan=False,
        check_circular=False,
        default=_plain,
    ).encode
    for sort_keys in (False, True)
    for ascii_only in (False, True)
}
