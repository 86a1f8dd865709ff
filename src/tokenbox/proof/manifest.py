"""The schemas of a bundle's files, as tables of fields, and reading the files as untrusted input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tokenbox.content.canonical import MAX_DEPTH, NotCanonical, canonical, parse_canonical
from tokenbox.errors import shown
from tokenbox.proof.bundle import (
    DECISIONS,
    EMITTED,
    INPUTS,
    MANIFEST,
    PREDICATE,
    SCHEMA,
    STATEMENT,
    SUMMARIES,
    TEXTS,
    VOLATILE,
)
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import EvidenceKind, EvidenceStatus

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Record

HEX = re.compile("[0-9a-f]{64}")
_HEADROOM = re.compile("[0-9]{1,400}(\\.[0-9]{1,400}|/[1-9][0-9]{0,399})?")
_FAMILY = "tokenbox.proof/"
_MAX_KEY = 80  # characters of an unknown key in a message
_IN_PATHS = frozenset(".[]")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The validated manifest of a bundle. ``record`` is all of it, as JSON."""

    id: str
    record: Mapping[str, Any]

    @property
    def predicate(self) -> Record:
        found: Record = self.record["predicate"]
        return found

    @property
    def kind(self) -> EvidenceKind:
        return EvidenceKind(str(self.predicate["kind"]))

    @property
    def emitted(self) -> str | None:
        """SHA-256 (hex) of the emitted bytes; None for a refusal or failure."""
        (subject,) = self.record["subject"]
        return str(subject["digest"]["sha256"]) if subject["name"] == EMITTED else None

    @property
    def files(self) -> Record:
        """The records of the files and folders by name; None for a folder that does not exist."""
        found: Record = self.predicate["files"]
        return found


def read_manifest(data: bytes, bundle_id: str) -> Manifest:
    """Parse the manifest in ``data``, whose SHA-256 is ``bundle_id``. Raises :class:`BundleInvalid`."""
    record = _parse_fast(data)
    if record is None:  # invalid, or beyond the fast path
        record = _parsed(data, MANIFEST)
        _check_schema(record)
        _check(record, _STATEMENT, MANIFEST)
    manifest = Manifest(bundle_id, cast("Mapping[str, Any]", record))
    _check_budget(manifest.record["predicate"]["budget"])
    (subject,) = manifest.record["subject"]
    inputs = manifest.files[INPUTS]["sha256"]
    if subject["name"] != EMITTED and subject["digest"]["sha256"] != inputs:
        message = "is not the digest of the inputs."
        raise BundleInvalid(message, file=MANIFEST, field="subject[0].digest.sha256", expected=inputs)
    return manifest


def read_records(data: bytes, name: str) -> list[Record]:
    """Parse the lines of ``inputs.jsonl`` or ``decisions.jsonl``. Raises :class:`BundleInvalid`."""
    shape = _INPUT if name == INPUTS else _TABLE
    if data and not data.endswith(b"\n"):
        raise BundleInvalid("does not end with a newline.", file=name)
    records: list[Record] = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        record = _parsed(line, name, f"line {number}")
        _check(record, shape, name, f"line {number}")
        records.append(cast("Record", record))
    return records


def read_summary(data: bytes, name: str) -> Record:
    """Parse a record of ``summaries/``. Raises :class:`BundleInvalid`."""
    record = _parsed(data, name)
    _check(record, _SUMMARY, name)
    return cast("Record", record)


def read_volatile(data: bytes) -> Record:
    """Parse ``volatile.json``. Raises :class:`BundleInvalid`."""
    record = _parsed(data, VOLATILE)
    _check(record, _VOLATILE, VOLATILE)
    return cast("Record", record)


def _check_schema(record: object) -> None:
    """Raise for a bundle of another schema, before its fields are validated."""
    predicate = record.get("predicate") if isinstance(record, dict) else None
    schema = predicate.get("schema") if isinstance(predicate, dict) else None
    if isinstance(schema, str) and schema.startswith(_FAMILY) and schema != SCHEMA:
        is_older = (len(schema), schema) < (len(SCHEMA), SCHEMA)  # as numbers: 10 is newer than 3
        raise BundleInvalid(
            f"is {shown(schema)}: the bundle has {'an older' if is_older else 'a newer'} schema. "
            f"This release reads {SCHEMA!r}. Use the release that its engine.version names.",
            file=MANIFEST,
            field="predicate.schema",
            expected=SCHEMA,
            found=schema,
        )


def _check_budget(budget: Mapping[str, Record]) -> None:
    """``tokens = floor(context_window * (1 - headroom)) - output_reserve``, and at most ``max_input``."""
    tokens, window = budget["tokens"]["value"], budget["context_window"]["value"]
    reserve, headroom = budget["output_reserve"]["value"], budget["headroom"]["value"]
    limit = budget["max_input"]["value"]
    if window is reserve is headroom is limit is None and type(tokens) in (int, type(None)):
        return  # the caller gave the number of tokens
    for name, value in (("context_window", window), ("output_reserve", reserve), ("max_input", limit)):
        if value is not None and (type(value) is not int or value < 0):
            raise _wrong_budget(name, value, "a number of tokens or null")
    if headroom is not None and not (isinstance(headroom, str) and _HEADROOM.fullmatch(headroom)):
        raise _wrong_budget("headroom", headroom, "a fraction of the window below 1")
    share = Fraction(0 if headroom is None else headroom)
    if share >= 1:
        raise _wrong_budget("headroom", headroom, "a fraction of the window below 1")
    if tokens is not None and type(tokens) is not int:
        raise _wrong_budget("tokens", tokens, "a number of tokens or null")
    bounds = [] if limit is None else [cast("int", limit)]
    if window is not None:
        bounds.append(int(cast("int", window) * (1 - share)) - (cast("int | None", reserve) or 0))
    if bounds and tokens != min(bounds):
        raise _wrong_budget("tokens", tokens, f"{min(bounds)}, by the other figures")


def _wrong_budget(name: str, value: object, wanted: str) -> BundleInvalid:
    field = f"predicate.budget.{name}.value"
    return BundleInvalid(f"must be {wanted}, not {shown(value)}.", file=MANIFEST, field=field, found=value)


def _parsed(data: bytes, file: str, field: str | None = None) -> object:
    try:
        return parse_canonical(data)
    except NotCanonical as error:
        raise BundleInvalid(f"cannot be read: {error.message}", file=file, field=field) from None


def _check(value: object, shape: object, file: str, place: str | None = None) -> None:
    problem = _problem(value, shape)
    if problem is not None:
        path, message = problem
        raise BundleInvalid(message, file=file, field=reduce(_below, path, place or "") or None)


def _parse_fast(data: bytes) -> object | None:
    """Parse a manifest that one regular expression shows to be canonical and valid; None for any other.

    This is equivalent to parsing it, encoding it again and validating each field, in a quarter of the time.
    Only tables with arbitrary fields are encoded again.
    """
    found = None
    if data.isascii() and data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        found = _CANONICAL_STATEMENT.fullmatch(data)
    if found is None:
        return None
    try:
        record, _ = _decode(data.decode("ascii"))
        predicate = record["predicate"]
        tables = [predicate["arguments"], predicate["figures"], predicate["outcome"]["figures"]]
        again = canonical([*tables, predicate["override"]])
    except (ValueError, NotCanonical):
        return None
    return record if again == b"[%b]" % b",".join(found.groups(b"null")) else None


_decode = json.JSONDecoder().raw_decode


def _problem(  # noqa: PLR0911  # one per type of shape
    value: object, shape: object
) -> tuple[list[str], str] | None:
    """Return the path of the first field that does not have the shape, and a message; None if all have it."""
    if isinstance(shape, _OfClass):
        known = value.__class__ in shape.classes
        return None if known else ([], f"must be {shape.description}, not {shown(value)}.")
    if isinstance(shape, _Checked):
        message = shape.check(value)
        return None if message is None else ([], f"{message}, not {shown(value)}.")
    if not isinstance(value, dict):
        return [], f"must be a table, not {shown(value)}."
    fields = cast("dict[str, object]", shape)
    if value.keys() != fields.keys():
        for key in fields:
            if key not in value:
                return [key], "is missing."
        return [next(key for key in value if key not in fields)[:_MAX_KEY]], "is an unknown key."
    for key, inner in fields.items():
        item = value[key]
        # Inlined for speed: for most fields only the class is checked.
        if inner.__class__ is _OfClass and item.__class__ in inner.classes:
            continue
        problem = _problem(item, inner)
        if problem is not None:
            return [key, *problem[0]], problem[1]
    return None


class _OfClass:
    """The shape of a value of one of these classes."""

    __slots__ = ("classes", "description")

    def __init__(self, classes: tuple[type, ...], description: str) -> None:
        self.classes, self.description = frozenset(classes), description


class _Checked(NamedTuple):
    """The shape of a value: a function that returns an error message, and a pattern of the canonical JSON."""

    check: Callable[[object], str | None]
    pattern: str


# RFC 8785 has one form for each character.
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\bfnrt]|u00(?:0[0-7be-f]|1[0-9a-f]))[^"\\\x00-\x1f]*)*"'
_NATURAL = "(?:0|[1-9][0-9]{0,14})"
_CLASSES = {
    str: _STRING,
    int: f"(?:{_NATURAL}|-[1-9][0-9]{{0,14}})",
    bool: "true|false",
    type(None): "null",
    dict: r"(\{.*?\})",
}


def _pattern(shape: object) -> str:
    """Return the pattern of the canonical JSON of a shape, with a group for each table of any fields."""
    if isinstance(shape, _Checked):
        return shape.pattern
    if isinstance(shape, _OfClass):
        return f"(?:{'|'.join(pattern for cls, pattern in _CLASSES.items() if cls in shape.classes)})"
    fields = cast("Mapping[str, object]", shape)
    rows = [f'"{re.escape(key)}":{_pattern(fields[key])}' for key in sorted(fields)]
    return rf"\{{{','.join(rows)}\}}"


def _one_of(*values: str) -> _Checked:
    wanted = frozenset(map(str, values))
    message = f"must be {values[0]!r}" if len(values) == 1 else f"must be one of {', '.join(values)}"
    pattern = "|".join(re.escape(f'"{value}"') for value in sorted(wanted))
    return _Checked(
        lambda value: None if isinstance(value, str) and value in wanted else message, f"(?:{pattern})"
    )


def _or_none(shape: object) -> _Checked:
    def check(value: object) -> str | None:
        problem = None if value is None else _problem(value, shape)
        if problem is None:
            return None
        return f"has an invalid {'.'.join(problem[0])}" if problem[0] else "must have this shape or be null"

    return _Checked(check, f"(?:null|{_pattern(shape)})")


def _check_digest(value: object) -> str | None:
    return None if isinstance(value, str) and HEX.fullmatch(value) else "must be a SHA-256 in hexadecimal"


def _check_size(value: object) -> str | None:
    is_size = isinstance(value, int) and value.__class__ is int and value >= 0
    return None if is_size else "must be an integer of at least 0"


def _check_subject(value: object) -> str | None:
    if not isinstance(value, list) or len(value) != 1:
        return "must be a list with one item"
    problem = _problem(value[0], _RESOURCE)
    return None if problem is None else f"has an invalid {'.'.join(problem[0]) or 'item'}"


# The shapes of values. A mapping is the shape of a table with exactly these keys.
_TEXT = _OfClass((str,), "text")
_TABLE = _OfClass((dict,), "a table")
_LIST = _OfClass((list,), "a list")
_FLAG = _OfClass((bool,), "true or false")
_DIGEST, _SIZE = _Checked(_check_digest, '"[0-9a-f]{64}"'), _Checked(_check_size, _NATURAL)
_MAYBE_TEXT = _OfClass((str, type(None)), "text or null")
_MAYBE_SIZE = _or_none(_SIZE)
_SOURCED = {"value": _OfClass((int, str, type(None)), "an integer, text or null"), "source": _MAYBE_TEXT}
_FILE = {"bytes": _SIZE, "sha256": _DIGEST}
_TREE = _or_none({"files": _SIZE, "bytes": _SIZE, "sha256": _DIGEST})
_RESOURCE = {"name": _one_of(EMITTED, INPUTS), "digest": {"sha256": _DIGEST}}
_SUBJECT = _Checked(_check_subject, rf"\[{_pattern(_RESOURCE)}\]")
_STATEMENT: Mapping[str, object] = {
    "_type": _one_of(STATEMENT),
    "subject": _SUBJECT,
    "predicateType": _one_of(PREDICATE),
    "predicate": {
        "schema": _one_of(SCHEMA),
        "engine": {"name": _TEXT, "version": _TEXT},
        "kind": _one_of(*EvidenceKind),
        "outcome": {"status": _one_of(*EvidenceStatus), "code": _MAYBE_TEXT, "figures": _TABLE},
        "function": _TEXT,
        "algorithm": _TEXT,
        "arguments": _TABLE,
        "budget": {
            "tokens": _SOURCED,
            "context_window": _SOURCED,
            "output_reserve": _SOURCED,
            "headroom": _SOURCED,
            "max_input": _SOURCED,
        },
        "tokenizer": {"name": _TEXT, "version": _TEXT, "fingerprint": _TEXT, "exact": _FLAG},
        "template": _MAYBE_TEXT,
        "model": _MAYBE_TEXT,
        "override": _OfClass((dict, type(None)), "a table or null"),
        "parent": _MAYBE_TEXT,
        "digest": _or_none(_DIGEST),
        "figures": _TABLE,
        "files": {INPUTS: _FILE, DECISIONS: _FILE, SUMMARIES: _TREE, TEXTS: _TREE},
    },
}
_CANONICAL_STATEMENT = re.compile(_pattern(_STATEMENT).encode())
_INPUT: Mapping[str, object] = {
    "id": _TEXT,
    "kind": _TEXT,
    "digest": _DIGEST,
    "bytes": _SIZE,
    "tokens": _MAYBE_SIZE,
    "from": _MAYBE_TEXT,
    "fields": _TABLE,
}
_SUMMARY: Mapping[str, object] = {
    "of": _LIST,
    "digest": _DIGEST,
    "bytes": _SIZE,
    "tokens": _MAYBE_SIZE,
    "from": _MAYBE_TEXT,
}
_VOLATILE: Mapping[str, object] = {
    "bundle": _DIGEST,
    "digest": _DIGEST,
    "environment": _TABLE,
    "host": _TEXT,
    "lines": {INPUTS: _TEXT, DECISIONS: _TEXT},
    "manifest": _TABLE,
    "time": _TEXT,
}


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield each field of a record with its path, such as ``predicate.budget.tokens.value``.

    Two fields never have the same path: a key that has a dot or a bracket is quoted, as in ``groups["a.b"]``.
    """
    pairs: list[tuple[str, object]] = []
    if isinstance(value, dict):
        pairs = [(_below(path, str(key)), item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    if not pairs:
        yield path, value
    for name, item in pairs:
        yield from leaves(item, name)


def bracketed(name: str) -> str:
    """Return a name as it stands between brackets in a path, so that the closing one can be told.

    Names with brackets in pairs, such as ``messages[0]``, stay as they are; any others are escaped.
    """
    name, depth = name.replace("\\", "\\\\"), 0
    for bracket in re.findall(r"[][]", name):
        depth += 1 if bracket == "[" else -1
        if depth < 0:
            break
    return name if depth == 0 else name.replace("[", "\\u005b").replace("]", "\\u005d")


def _below(path: str, key: str) -> str:
    if _IN_PATHS.isdisjoint(key):
        return f"{path}.{key}" if path else key
    return f'{path}["{bracketed(key)}"]'
