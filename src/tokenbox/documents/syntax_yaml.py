"""Parse YAML: exact numbers, no duplicate keys, no implicit types, no bombs, and the line of each key.

Data is built from the parser's events, so that depth and alias expansion are bounded before any allocation.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn

import yaml
from yaml import events, nodes

from tokenbox.documents.source import DocumentCode, DocumentSource, KeyPath, located
from tokenbox.errors import shown
from tokenbox.integers import meant_figure

if TYPE_CHECKING:
    from yaml import SafeLoader
    from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent

    from tokenbox.errors import DocumentError

MAX_DEPTH = 16
# The limit of nodes and characters that aliases repeat in one document.
MAX_REPEATED = 10_000_000

_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
# Python limits the digits of an int. A longer number is out of range for every key.
_MAX_DIGITS = 4000
_NOT_FINITE = {".inf": "Infinity", "+.inf": "Infinity", "-.inf": "-Infinity", ".nan": "NaN"}
# Plain scalars that YAML 1.1 and 1.2 interpret differently, or that no key accepts, and how to write them.
_AMBIGUOUS = {
    "bool": ("is a boolean in YAML 1.1 and text in YAML 1.2", " Write true or false, or put it in quotes."),
    "int": ("is not a plain decimal number", " Write one, or put it in quotes."),
    "float": ("is not a plain decimal number", " Write one, or put it in quotes."),
    "timestamp": ("is a date in YAML", " Put it in quotes."),
}
_SPECIAL = ("has a meaning of its own in YAML", " Put it in quotes.")


def parse_yaml(text: str, name: str | None, first_line: int = 1) -> DocumentSource:
    """Parse ``text``. Floats become Decimal. ``no``, dates, octals and the like are refused."""
    builder = None
    try:
        builder = _Builder(yaml.SafeLoader(text), name, first_line)
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column + 1) if mark else (0, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _syntax_error(what, name, first_line + line, column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        column = error.position - text.rfind("\n", 0, error.position)
        what = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise _syntax_error(what, name, first_line + line, column) from None
    except (ValueError, OverflowError):
        line, column = builder.place if builder else (0, 1)
        what = "an escape or directive has a number that is out of range"
        raise _syntax_error(what, name, first_line + line, column) from None
    return DocumentSource(data, name, lambda: builder.lines)


def _syntax_error(what: str, name: str | None, line: int, column: int) -> DocumentError:
    hint = " Indent with spaces instead of tabs." if r"'\t'" in what else ""
    message = f"this is not valid YAML at column {column}: {what}.{hint}"
    return located(DocumentCode.SYNTAX, message, name, line, column=column)


class _Builder:
    """Builds the data of one document from its events."""

    def __init__(self, loader: SafeLoader, name: str | None, first_line: int) -> None:
        self._loader, self._name, self._first_line = loader, name, first_line
        self._anchors: dict[str, tuple[object, int]] = {}  # the value and its weight
        self._weight = 0  # nodes and characters so far
        self._repeated = 0
        self.lines: dict[KeyPath, int] = {}

    def document(self) -> object:
        """Return the only document of the stream."""
        self._next()
        event = self._next()
        if isinstance(event, events.StreamEndEvent):
            what = "the document is empty. It needs at least `sections`."
            self._refuse(DocumentCode.SYNTAX, event, (), what)
        data = self._value(self._next(), ())
        self._next()
        event = self._next()
        if not isinstance(event, events.StreamEndEvent):
            what = "a second document begins here. One file is one layout document."
            self._refuse(DocumentCode.SYNTAX, event, (), what)
        return data

    @property
    def place(self) -> tuple[int, int]:
        """The current line (from 0) and column (from 1) of the parser."""
        return self._loader.line, self._loader.column + 1

    def _next(self) -> Event:
        return self._loader.get_event()  # type: ignore[no-untyped-call, no-any-return]

    def _value(self, event: Event, path: KeyPath) -> object:
        if isinstance(event, events.AliasEvent):
            return self._alias(event, path)
        before = self._weight
        self._weight += 1
        anchor: str | None = getattr(event, "anchor", None)
        value: object = None
        if anchor is not None:  # a reused anchor refers to this value, which is not complete yet
            self._anchors.pop(anchor, None)
        if isinstance(event, events.ScalarEvent):
            self._weight += len(event.value)
            value = self._scalar(event, path)
        elif isinstance(event, events.CollectionStartEvent):
            value = self._collection(event, path)
        if anchor is not None:
            self._anchors[anchor] = (value, self._weight - before)
        return value

    def _alias(self, event: AliasEvent, path: KeyPath) -> object:
        anchor = event.anchor
        if anchor not in self._anchors:
            what = (
                f"the alias {shown(str(anchor))} has no complete anchor before it. "
                "An alias cannot stand for what it is in."
            )
            self._refuse(DocumentCode.SYNTAX, event, path, what)
        value, weight = self._anchors[anchor]
        self._weight += weight
        self._repeated += weight
        if self._repeated > MAX_REPEATED:
            what = f"aliases repeat more than {MAX_REPEATED:,} nodes and characters. Write out what is meant."
            self._refuse(DocumentCode.SYNTAX, event, path, what)
        return value

    def _collection(self, event: CollectionStartEvent, path: KeyPath) -> object:
        is_map = isinstance(event, events.MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            self._refuse_tag(event, path)
        if len(path) >= MAX_DEPTH:
            what = f"this is nested more than {MAX_DEPTH} levels deep; no key needs more than 4."
            self._refuse(DocumentCode.SYNTAX, event, (), what)
        return self._mapping(path) if is_map else self._sequence(path)

    def _sequence(self, path: KeyPath) -> list[object]:
        items: list[object] = []
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            here = (*path, len(items))
            self.lines[here] = self._line(event)
            items.append(self._value(event, here))
        return items

    def _mapping(self, path: KeyPath) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key = self._key(event, path)
            here = (*path, key)
            if key in mapping:
                first = self.lines[here]
                what = f"the key {shown(key)} is here twice, first at line {first}. Remove one."
                self._refuse(DocumentCode.DUPLICATE_KEY, event, here, what, first_line=first)
            self.lines[here] = self._line(event)
            mapping[key] = self._value(self._next(), here)
        return mapping

    def _key(self, event: Event, path: KeyPath) -> str:
        if isinstance(event, events.ScalarEvent) and event.implicit[0] and event.value == "<<":
            what = "merge keys (<<) are not read. State what several sections share in `defaults`."
            self._refuse(DocumentCode.UNKNOWN_KEY, event, path, what)
        found = "a collection"
        if isinstance(event, events.ScalarEvent | events.AliasEvent):
            value = self._value(event, path)
            if isinstance(value, str):
                return value
            found = f"the unquoted {shown(value)}"
        return self._refuse(DocumentCode.WRONG_TYPE, event, path, f"a key must be text, not {found}.")

    def _scalar(self, event: ScalarEvent, path: KeyPath) -> object:
        text: str = event.value
        tag = event.tag
        if tag is None or tag == "!":
            implicit = event.implicit if tag is None else (False, True)
            tag = self._loader.resolve(nodes.ScalarNode, text, implicit)  # type: ignore[no-untyped-call]
        elif tag != _TAG + "str":
            self._refuse_tag(event, path)
        kind = tag.removeprefix(_TAG)
        if kind == "str":
            return text
        try:
            return _plain(kind, text)
        except (LookupError, InvalidOperation):
            what, fix = _AMBIGUOUS.get(kind, _SPECIAL)
            what = f"`{text[:60]}` {what}.{meant_figure(text) or fix}"
            self._refuse(DocumentCode.BAD_VALUE, event, path, what)

    def _line(self, event: Event) -> int:
        return self._first_line + (event.start_mark.line if event.start_mark else 0)

    def _refuse_tag(self, event: ScalarEvent | CollectionStartEvent, path: KeyPath) -> NoReturn:
        tag = shown(str(event.tag).replace(_TAG, "!!"))
        what = f"the tag {tag} is not read. Leave it out; a layout document is plain data."
        self._refuse(DocumentCode.BAD_VALUE, event, path, what)

    def _refuse(
        self, code: DocumentCode, event: Event, path: KeyPath, message: str, **details: object
    ) -> NoReturn:
        raise located(code, message, self._name, self._line(event), path, **details)


def _plain(kind: str, text: str) -> object:
    """Return the value of a plain scalar that YAML 1.1 and 1.2 interpret alike. Raises for any other."""
    if kind == "null":
        return None
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    if kind == "int" and _WHOLE.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else Decimal(text)
    if kind == "float":
        return Decimal(_NOT_FINITE.get(text.lower(), text))
    raise LookupError(kind)
