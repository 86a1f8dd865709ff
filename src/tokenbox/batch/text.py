"""Results as JSON, with the same bytes for every engine, format and machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


def json_text(value: object, *, sort_keys: bool = False) -> str:
    """Return ``value`` as JSON on one line, which can always be encoded as UTF-8.

    Bytes are base64, dates are ISO 8601, and infinite numbers and NaN are null.
    """
    try:
        text = _encoder(sort_keys=sort_keys)(value)
    except ValueError:  # an infinite number or NaN
        value = json.loads(
            _encoder(sort_keys=sort_keys, allow_nan=True)(value), parse_constant=lambda _: None
        )
        text = _encoder(sort_keys=sort_keys)(value)
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return _encoder(sort_keys=sort_keys, ascii_only=True)(value)
    return text


@cache
def _encoder(
    *, sort_keys: bool, ascii_only: bool = False, allow_nan: bool = False
) -> Callable[[object], str]:
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        sort_keys=sort_keys,
        separators=(",", ":"),
        allow_nan=allow_nan,
        check_circular=False,
        default=_plain,
    ).encode


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
