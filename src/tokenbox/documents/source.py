"""The result of a parser: plain data with the line of each key. And the codes of errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tokenbox.errors import DocumentError, shown

# The path of a value, such as ("sections", 2, "content_file").
KeyPath = tuple[str | int, ...]


class DocumentCode(StrEnum):
    """The narrower codes of a :class:`DocumentError`. Stable: programs may branch on them."""

    # The document itself.
    UNKNOWN_FORMAT = "document_unknown_format"  # a suffix other than .toml .yaml .yml .json
    SYNTAX = "document_syntax"  # not TOML, YAML or JSON; empty; nested too deeply; an anchor bomb
    DUPLICATE_KEY = "document_duplicate_key"
    # Its keys and values.
    UNKNOWN_KEY = "document_unknown_key"
    MISSING_KEY = "document_missing_key"
    CONFLICT = "document_conflict"  # mutually exclusive keys
    WRONG_TYPE = "document_wrong_type"
    BAD_VALUE = "document_bad_value"  # the right type, but out of range
    BAD_STRATEGY = "document_bad_strategy"  # a pipeline that does not parse
    UNKNOWN_NAME = "document_unknown_name"  # a reference to a missing or unsuitable group or section
    DUPLICATE_ID = "document_duplicate_id"  # two sections with the same id
    # Its own file, and those it names.
    FILE_MISSING = "document_file_missing"
    FILE_OUTSIDE = "document_file_outside"  # not in the document's folder
    FILE_ENCODING = "document_file_encoding"  # not UTF-8
    FILE_UNREADABLE = "document_file_unreadable"  # no permission; a folder, a pipe, a device
    FILE_TOO_LARGE = "document_file_too_large"


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A parsed document.

    ``locate`` returns the line of each key path; it is called only to report an error.
    """

    data: object
    name: str | None = None
    locate: Callable[[], Mapping[KeyPath, int]] = dict

    def line(self, path: KeyPath) -> int | None:
        """Return the line of ``path``, or of the nearest enclosing key or section; None if unknown."""
        lines = self.locate()
        for end in range(len(path), 0, -1):
            if path[:end] in lines:
                return lines[path[:end]]
        return None


def located(
    code: DocumentCode,
    message: str,
    file: str | None,
    line: int | None = None,
    path: KeyPath = (),
    **details: object,
) -> DocumentError:
    """Return the error of a document, at its line and key if they are known."""
    key = path_text(path) or None
    return DocumentError(message, file=file, line=line, path=key, code=code.value, **details)


class PlacedValue(NamedTuple):
    """A value of a document, at its place."""

    source: DocumentSource
    path: KeyPath
    value: object

    def at(self, key: str | int, value: object = None) -> PlacedValue:
        """Return the value of a key, or an item, of this value."""
        return PlacedValue(self.source, (*self.path, key), value)

    def error(self, code: DocumentCode, message: str, **details: object) -> DocumentError:
        """Return the error for this value."""
        line = self.source.line(self.path)
        return located(code, message, self.source.name, line, self.path, **details)


def path_text(path: KeyPath) -> str:
    """Return the path as text: ``sections[2].content_file``, with quotes around unusual keys."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[\w$-]{1,60}", key):
            text += f".{key}" if text else key
        else:
            text += f".{shown(key)}" if text else shown(key)
    return text
