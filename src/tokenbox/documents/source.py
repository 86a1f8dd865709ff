"""What a parser gives: plain data, and the line of each of its keys. And the code of every error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# For example ("sections", 2, "content_file").
KeyPath = tuple[str | int, ...]


class DocumentCode(StrEnum):
    """The narrower codes of a :class:`DocumentError`. Stable: programs may branch on them."""

    # The document itself.
    UNKNOWN_FORMAT = "document_unknown_format"  # a suffix that is none of .toml .yaml .yml .json
    SYNTAX = "document_syntax"  # not TOML, YAML or JSON; empty; nested too deeply; an anchor bomb
    DUPLICATE_KEY = "document_duplicate_key"  # a key twice in one mapping
    # Its keys and values.
    UNKNOWN_KEY = "document_unknown_key"
    MISSING_KEY = "document_missing_key"
    CONFLICT = "document_conflict"  # two keys that exclude each other
    WRONG_TYPE = "document_wrong_type"
    BAD_VALUE = "document_bad_value"  # the right type, but out of range
    BAD_STRATEGY = "document_bad_strategy"  # a pipeline that does not parse
    UNKNOWN_NAME = "document_unknown_name"  # of a group or a section that is not there, or cannot be meant
    DUPLICATE_ID = "document_duplicate_id"  # two sections of one id
    # Its own file, and those it names.
    FILE_MISSING = "document_file_missing"
    FILE_OUTSIDE = "document_file_outside"  # not in the document's folder
    FILE_ENCODING = "document_file_encoding"  # not UTF-8
    FILE_UNREADABLE = "document_file_unreadable"  # no permission; a folder, a pipe, a device
    FILE_TOO_LARGE = "document_file_too_large"


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A parsed document.

    ``locate`` gives the line of each key path; it is asked only when there is an error to report. ``written``
    is, for YAML, how a plain scalar that is not text was spelled.
    """

    data: object
    name: str | None = None
    locate: Callable[[], Mapping[KeyPath, int]] = dict
    written: Mapping[KeyPath, str] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int | None:
        """The line of ``path``, or of the nearest key or section around it. None where it is not known."""
        lines = self.locate()
        for end in range(len(path), 0, -1):
            if path[:end] in lines:
                return lines[path[:end]]
        return None

    def error(self, code: DocumentCode, path: KeyPath, message: str, **details: object) -> DocumentError:
        """The error for what is wrong at ``path``."""
        return DocumentError(
            message,
            file=self.name,
            line=self.line(path),
            path=path_text(path) or None,
            code=code.value,
            **details,
        )


def path_text(path: KeyPath) -> str:
    """``sections[2].content_file``; a key that is not a plain word is quoted."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[\w$-]{1,60}", key):
            text += f".{key}" if text else key
        else:
            text += f".{shorten(key)}" if text else shorten(key)
    return text


def shorten(text: str, most: int = 60) -> str:
    """``text`` in quotes on one line, cut where it is longer than a message should be."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."
