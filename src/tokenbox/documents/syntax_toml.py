"""Parse TOML: exact numbers, and the line of each key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING

from tokenbox.documents.source import DocumentCode, DocumentSource, KeyPath, located

if TYPE_CHECKING:
    from tokenbox.errors import DocumentError

MAX_DEPTH = 16

_PLACE = re.compile(
    r"\A(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z", re.DOTALL
)
# tomllib's messages for a duplicate key or table.
_REPEATED = re.compile(
    r"Cannot (?:overwrite a value|declare .* twice|mutate immutable namespace|redefine namespace)"
    r"|Duplicate inline table key"
)


def parse_toml(text: str, name: str | None, first_line: int = 1) -> DocumentSource:
    """Parse ``text``. Floats become Decimal, including nan and inf, which the validators reject."""

    @cache
    def locate() -> Mapping[KeyPath, int]:
        return _lines(text, first_line)

    _check_keys(text, name, first_line)
    try:
        data = tomllib.loads(text, parse_float=_decimal)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, name, first_line) from None
    except RecursionError:
        message = "the TOML is nested too deeply."
        raise located(DocumentCode.SYNTAX, message, name) from None
    except ValueError:  # from int(), which is limited to 4300 digits, and from _decimal()
        message = "a number in the document has too many digits or too large an exponent to be read."
        raise located(DocumentCode.BAD_VALUE, message, name) from None
    return DocumentSource(data, name, locate)


def _check_keys(text: str, name: str | None, first_line: int) -> None:
    """Reject very deep dotted keys, for which tomllib takes quadratic time."""
    dots = 0
    for kind, token, line in _tokens(text, first_line):
        if kind == "newline" or token in ("=", ",", "["):
            dots = 0
        dots += token == "."  # no password
        if dots > MAX_DEPTH:
            message = f"a key here is nested more than {MAX_DEPTH} levels deep."
            raise located(DocumentCode.SYNTAX, message, name, line)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:40]} has an exponent beyond all bounds") from None


def _syntax_error(said: str, text: str, name: str | None, first_line: int) -> DocumentError:
    place = _PLACE.match(said)
    what = place["what"] if place else said
    if place and place["line"]:
        line, column = int(place["line"]), int(place["column"])
    else:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    code = DocumentCode.DUPLICATE_KEY if _REPEATED.match(what) else DocumentCode.SYNTAX
    hint = " A key or table is here a second time. Remove one." if code is DocumentCode.DUPLICATE_KEY else ""
    message = f"this is not valid TOML at column {column}: {what}.{hint}"
    return located(code, message, name, first_line + line - 1, column=column)


# A string that is not closed ends with its line or with the text: if it were no token, each quote in it would
# be tried again. (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read
# that then failed.
_TOKEN = re.compile(
    r"""
    (?P<text>
        \"{3} (?: [^"\\]++ | \\. | "{1,2}(?!") | (?!) )*+ (?: "{3,5} | \\?\Z )
      | '{3} (?: [^']++ | '{1,2}(?!') | (?!) )*+ (?: '{3,5} | \Z )
      | " (?: [^"\\\n]++ | \\. | (?!) )*+ "?
      | ' [^'\n]*+ '?
    )
  | (?P<comment> \# [^\n]*+ )
  | (?P<newline> \n )
  | (?P<mark> [\[\]{}=,.] )
  | (?P<bare> [^\s"'\#\[\]{}=,.]++ )
    """,
    re.DOTALL | re.VERBOSE,
)


def _tokens(text: str, first_line: int) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, text, line) of each token except comments."""
    line, seen = first_line, 0
    for token in _TOKEN.finditer(text + "\n"):
        line += text.count("\n", seen, token.start())
        seen = token.start()
        if token.lastgroup != "comment":
            yield token.lastgroup or "", token[0], line


def _lines(text: str, first_line: int) -> dict[KeyPath, int]:
    """Return the line of each table header, key and list item of valid TOML."""
    scan = _Scan()
    for kind, token, line in _tokens(text, first_line):
        if kind == "newline":
            scan.end_line(line)
        elif scan.reading_key:
            scan.read_key(kind, token, line)
        else:
            scan.read_value(token, line)
    return scan.lines


class _Scan:
    """The position of a scan over TOML: in a key or a value, and the enclosing tables."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.reading_key = True
        self._words: list[str] = []  # of the current key or header
        self._brackets = 0  # of a header: one, or two for an array of tables
        self._table: KeyPath = ()
        self._tables: dict[KeyPath, int] = {}  # the number of tables in each array so far
        self._here: KeyPath = ()
        # The enclosing inline lists and tables: the path, and the current item (-1 in a table).
        self._open: list[tuple[KeyPath, int]] = []

    def end_line(self, line: int) -> None:
        if self._brackets:
            self._table = self._header()
            self._mark((), self._table, line)
        if not self._open:
            self._words, self._brackets, self.reading_key = [], 0, True

    def read_key(self, kind: str, token: str, line: int) -> None:
        if kind != "mark":
            self._words.append(token)
        elif token == "[":  # no password
            self._brackets += 1
        elif token == "=":
            base = self._open[-1][0] if self._open else self._table
            self._here = base + tuple(map(_word, self._words))
            self._mark(base, self._here, line)
            self.reading_key = False
        elif token == "}":
            self._close()

    def read_value(self, token: str, line: int) -> None:
        if token in ("]", "}"):
            self._close()
        elif token == ",":
            path, item = self._open[-1]
            self._open[-1] = (path, item + 1 if item >= 0 else item)
            self._words, self.reading_key = [], item < 0
        else:
            if self._open and self._open[-1][1] >= 0:
                path, item = self._open[-1]
                self._here = (*path, item)
                self.lines.setdefault(self._here, line)
            if token in ("[", "{"):
                self.reading_key = token == "{"
                self._open.append((self._here, -1 if self.reading_key else 0))
                self._words = []

    def _mark(self, base: KeyPath, path: KeyPath, line: int) -> None:
        """Record the line of ``path``, and of new keys between ``base`` and ``path``."""
        for end in range(len(base) + 1, len(path) + 1):
            self.lines.setdefault(path[:end], line)

    def _close(self) -> None:
        if self._open:
            self._open.pop()
            self.reading_key = False

    def _header(self) -> KeyPath:
        """Return the path of the table that a header opens; in an array, of its last table."""
        path: KeyPath = ()
        for position, word in enumerate(map(_word, self._words)):
            path = (*path, word)
            if self._brackets > 1 and position == len(self._words) - 1:
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
        return path


def _word(token: str) -> str:
    """Parse a part of a key: bare, or quoted with escapes."""
    if token[0] not in "\"'":
        return token
    ((word, _),) = tomllib.loads(f"{token}=0").items()
    return word
