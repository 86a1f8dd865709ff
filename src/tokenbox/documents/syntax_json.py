"""Parse JSON: exact numbers, no duplicate keys, and the line of each key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cache

from tokenbox.documents.source import DocumentCode, DocumentSource, KeyPath, located
from tokenbox.errors import shown

# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.|(?!))*+"|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
# Python limits the digits of an int. A longer number is out of range for every key.
_MAX_DIGITS = 4000


class _RepeatedKeyError(Exception):
    """An object has a duplicate key. The scan for lines locates it."""


def parse_json(text: str, name: str | None, first_line: int = 1) -> DocumentSource:
    """Parse ``text``. Floats become Decimal, including NaN and Infinity, which the validators reject."""

    @cache
    def locate() -> Mapping[KeyPath, int]:
        return _lines(text, name, first_line)

    try:
        data = json.loads(
            text,
            parse_float=Decimal,
            parse_int=_integer,
            parse_constant=Decimal,
            object_pairs_hook=_without_repeats,
        )
    except json.JSONDecodeError as error:
        message = f"this is not valid JSON at column {error.colno}: {error.msg}."
        line = first_line + error.lineno - 1
        raise located(DocumentCode.SYNTAX, message, name, line, column=error.colno) from None
    except InvalidOperation:
        message = "a number in the document has too large an exponent to be read."
        raise located(DocumentCode.BAD_VALUE, message, name) from None
    except RecursionError:
        message = "the JSON is nested too deeply; no key of a layout document needs more than 4 levels."
        raise located(DocumentCode.SYNTAX, message, name) from None
    except _RepeatedKeyError:
        locate()
        raise
    return DocumentSource(data, name, locate)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MAX_DIGITS else Decimal(text)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _RepeatedKeyError
    return mapping


def _lines(text: str, name: str | None, first_line: int) -> dict[KeyPath, int]:
    """Return the line of each key and list item of valid JSON. Raises for a duplicate key."""
    lines: dict[KeyPath, int] = {}
    open_paths: list[KeyPath] = []
    counts: list[int] = []  # the current item of each open list; -1 for an object
    here: KeyPath = ()
    line, seen, key_next = first_line, 0, False
    for token in _TOKEN.finditer(text):
        line += text.count("\n", seen, token.start())
        seen = token.start()
        mark = token[0]
        if mark in ("}", "]"):
            here = open_paths.pop()
            counts.pop()
            key_next = False
        elif mark == ",":
            key_next = counts[-1] < 0
            counts[-1] += not key_next
        elif key_next:
            key = json.loads(mark)
            here = (*open_paths[-1], key)
            if here in lines:
                first = lines[here]
                message = f"the key {shown(key)} is here twice, first at line {first}. Remove one."
                raise located(DocumentCode.DUPLICATE_KEY, message, name, line, here, first_line=first)
            lines[here] = line
            key_next = False
        elif mark != ":":
            if counts and counts[-1] >= 0:
                here = (*open_paths[-1], counts[-1])
                lines[here] = line
            if mark in ("{", "["):
                open_paths.append(here)
                counts.append(-1 if mark == "{" else 0)
                key_next = mark == "{"
    return lines
