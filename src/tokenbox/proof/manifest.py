"""What the files of a bundle must look like: the fields, a table; and reading them, trusting nothing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
from tokenbox.proof.canonical import MAX_DEPTH, NotCanonical, canonical, parse_canonical
from tokenbox.proof.errors import BundleInvalid
from tokenbox.proof.evidence import EvidenceKind, EvidenceStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tokenbox.proof.evidence import Record

HEADROOM = re.compile("[0-9]{1,400}(\\.[0-9]{1,400}|/[1-9][0-9]{0,399})?")
_FAMILY = "tokenbox.proof/"
HEX = re.compile("[0-9a-f]{64}")
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the manifest says of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """What the manifest says of a folder of files that are named by their digests."""

    files: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a bundle, read and checked. ``record`` is all of it, as plain data."""

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

    def file(self, name: str) -> FileRecord:
        """What it says of ``inputs.jsonl`` or ``decisions.jsonl``."""
        record = self.record["predicate"]["files"][name]
        return FileRecord(record["bytes"], record["sha256"])

    def tree(self, name: str) -> TreeRecord | None:
        """What it says of ``summaries/`` or ``texts/``; None if there is no such folder."""
        record = self.record["predicate"]["files"][name]
        return None if record is None else TreeRecord(record["files"], record["bytes"], record["sha256"])


def read_manifest(data: bytes, bundle_id: str) -> Manifest:
    """The manifest in ``data``, whose SHA-256 is ``bundle_id``. Raises :class:`BundleInvalid`."""
    record = _as_written(data)
    if record is None:  # something is wrong with it, or it has to be looked at more closely
        record = _parsed(data, MANIFEST)
        _check_schema(record)
        _check(record, _STATEMENT, MANIFEST)
    manifest = Manifest(bundle_id, cast("Mapping[str, Any]", record))
    _check_budget(manifest.record["predicate"]["budget"])
    (subject,) = manifest.record["subject"]
    inputs = manifest.file(INPUTS).sha256
    if subject["name"] != EMITTED and subject["digest"]["sha256"] != inputs:
        message = "is not the digest of the inputs."
        raise BundleInvalid(message, file=MANIFEST, field="subject[0].digest.sha256", expected=inputs)
    return manifest


def read_records(data: bytes, name: str) -> list[Record]:
    """The lines of ``inputs.jsonl`` or ``decisions.jsonl``. Raises :class:`BundleInvalid`."""
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
    """A record of ``summaries/``. Raises :class:`BundleInvalid`."""
    record = _parsed(data, name)
    _check(record, _SUMMARY, name)
    return cast("Record", record)


def read_volatile(data: bytes) -> Record:
    """What ``volatile.json`` says. Raises :class:`BundleInvalid`."""
    record = _parsed(data, VOLATILE)
    _check(record, _VOLATILE, VOLATILE)
    return cast("Record", record)


def shown(value: object) -> str:
    """A value for a message: short, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _check_schema(record: object) -> None:
    """A bundle of another schema is refused as such, and never half read."""
    predicate = record.get("predicate") if isinstance(record, dict) else None
    schema = predicate.get("schema") if isinstance(predicate, dict) else None
    if isinstance(schema, str) and schema.startswith(_FAMILY) and schema != SCHEMA:
        raise BundleInvalid(
            f"is {shown(schema)}: the bundle is of {'an older' if schema < SCHEMA else 'a newer'} schema. "
            f"This release reads {SCHEMA!r}. Read it with the release that its engine.version names.",
            file=MANIFEST,
            field="predicate.schema",
            expected=SCHEMA,
            found=schema,
        )


def _check_budget(budget: Mapping[str, Record]) -> None:
    """``tokens = floor(context_window * (1 - headroom)) - output_reserve``, and at most ``max_input``."""
    tokens, window = budget["tokens"]["value"], budget["context_window"]["value"]
    reserve, headroom = budget["output_reserve"]["value"], budget["headroom"]["value"]
    most = budget["max_input"]["value"]
    if window is reserve is headroom is most is None and type(tokens) in (int, type(None)):
        return  # it was given as it is
    for name, value in (("context_window", window), ("output_reserve", reserve), ("max_input", most)):
        if value is not None and (type(value) is not int or value < 0):
            raise _wrong_budget(name, value, "a number of tokens or null")
    if headroom is not None and not (isinstance(headroom, str) and HEADROOM.fullmatch(headroom)):
        raise _wrong_budget("headroom", headroom, "a fraction of the window below 1")
    share = Fraction(0 if headroom is None else headroom)
    if share >= 1:
        raise _wrong_budget("headroom", headroom, "a fraction of the window below 1")
    if tokens is not None and type(tokens) is not int:
        raise _wrong_budget("tokens", tokens, "a number of tokens or null")
    room = (
        None
        if window is None
        else int(cast("int", window) * (1 - share)) - (cast("int | None", reserve) or 0)
    )
    bounds = [bound for bound in (room, cast("int | None", most)) if bound is not None]
    if bounds and tokens != min(bounds):
        raise _wrong_budget("tokens", tokens, f"{min(bounds)}, which is what the other figures leave")


def _wrong_budget(name: str, value: object, wanted: str) -> BundleInvalid:
    field = f"predicate.budget.{name}.value"
    return BundleInvalid(f"is {wanted}, not {shown(value)}.", file=MANIFEST, field=field, found=value)


def _parsed(data: bytes, file: str, field: str | None = None) -> object:
    try:
        return parse_canonical(data)
    except NotCanonical as error:
        raise BundleInvalid(f"cannot be read: {error.message}", file=file, field=field) from None


def _check(value: object, shape: object, file: str, place: str | None = None) -> None:
    wrong = _wrong(value, shape)
    if wrong is not None:
        path, what = wrong
        raise BundleInvalid(what, file=file, field=".".join([place, *path] if place else path) or None)


def _as_written(data: bytes) -> object | None:
    """The record of a manifest whose every byte a pattern shows to be canonical and of its shape, else None.

    That is as much as to parse it, to write it again and to look at each field, in a quarter of the time. The
    tables that may have any fields are written again.
    """
    found = None
    if data.isascii() and data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        found = _WRITTEN.fullmatch(data)
    if found is None:
        return None
    try:
        record, _ = _decode(data.decode("ascii"))
        said = record["predicate"]
        tables = canonical([said["arguments"], said["figures"], said["outcome"]["figures"], said["override"]])
    except (ValueError, NotCanonical):
        return None
    return record if tables == b"[%b]" % b",".join(found.groups(b"null")) else None


_decode = json.JSONDecoder().raw_decode


def _wrong(  # noqa: PLR0911  # one for each kind of shape
    value: object, shape: object
) -> tuple[list[str], str] | None:
    """Where ``value`` is not of that shape, and what is wrong there; None if nothing is."""
    if isinstance(shape, _Is):
        return None if value.__class__ in shape.classes else ([], f"is {shape.words}, not {shown(value)}.")
    if isinstance(shape, _Told):
        what = shape.problem(value)
        return None if what is None else ([], f"{what}, not {shown(value)}.")
    if not isinstance(value, dict):
        return [], f"is a table, not {shown(value)}."
    fields = cast("dict[str, object]", shape)
    if value.keys() != fields.keys():
        for key in fields:
            if key not in value:
                return [key], "is missing."
        return [next(key for key in value if key not in fields)[:_MOST_SHOWN]], "is a key too many."
    for key, inner in fields.items():
        item = value[key]
        # Most fields are asked for their class only, and a call for each would take as long as all the rest.
        if inner.__class__ is _Is and item.__class__ in inner.classes:
            continue
        wrong = _wrong(item, inner)
        if wrong is not None:
            return [key, *wrong[0]], wrong[1]
    return None


class _Is:
    """A value of one of these classes."""

    __slots__ = ("classes", "words")

    def __init__(self, classes: tuple[type, ...], words: str) -> None:
        self.classes, self.words = frozenset(classes), words


class _Told(NamedTuple):
    """A value of which a function says what is wrong, and how it is written where nothing is."""

    problem: Callable[[object], str | None]
    written: str


# RFC 8785 writes each character in one way.
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\bfnrt]|u00(?:0[0-7be-f]|1[0-9a-f]))[^"\\\x00-\x1f]*)*"'
_WHOLE = "(?:0|[1-9][0-9]{0,14})"
_SUM = '"[0-9a-f]{64}"'
_CLASSES = {
    str: _STRING,
    int: f"(?:{_WHOLE}|-[1-9][0-9]{{0,14}})",
    bool: "true|false",
    type(None): "null",
    dict: r"(\{.*?\})",
}


def _written(shape: object) -> str:
    """The pattern of a value of that shape in canonical JSON; what a table has is a group."""
    if isinstance(shape, _Told):
        return shape.written
    if isinstance(shape, _Is):
        return f"(?:{'|'.join(_CLASSES[one] for one in _CLASSES if one in shape.classes)})"
    fields = cast("Mapping[str, object]", shape)
    rows = [f'"{re.escape(key)}":{_written(fields[key])}' for key in sorted(fields)]
    return rf"\{{{','.join(rows)}\}}"


def _one_of(*values: str) -> _Told:
    wanted = frozenset(map(str, values))
    words = f"is {values[0]!r}" if len(values) == 1 else f"is one of {', '.join(values)}"
    written = "|".join(re.escape(f'"{one}"') for one in sorted(wanted))
    return _Told(
        lambda value: None if isinstance(value, str) and value in wanted else words, f"(?:{written})"
    )


def _or_none(shape: object) -> _Told:
    def check(value: object) -> str | None:
        wrong = None if value is None else _wrong(value, shape)
        if wrong is None:
            return None
        return f"has a wrong {'.'.join(wrong[0])}" if wrong[0] else "is of this shape or null"

    return _Told(check, f"(?:null|{_written(shape)})")


def _no_digest(value: object) -> str | None:
    return None if isinstance(value, str) and HEX.fullmatch(value) else "is a SHA-256 in hexadecimal"


def _no_size(value: object) -> str | None:
    return (
        None
        if isinstance(value, int) and value.__class__ is int and value >= 0
        else "is a whole number, 0 or more"
    )


def _no_subject(value: object) -> str | None:
    if not isinstance(value, list) or len(value) != 1:
        return "is a list of one"
    wrong = _wrong(value[0], _RESOURCE)
    return None if wrong is None else f"has a wrong {'.'.join(wrong[0]) or 'item'}"


# What a value must be: a table of exactly these keys, or a function that says what is wrong.
_TEXT = _Is((str,), "text")
_TABLE = _Is((dict,), "a table")
_LIST = _Is((list,), "a list")
_FLAG = _Is((bool,), "true or false")
_DIGEST, _SIZE = _Told(_no_digest, _SUM), _Told(_no_size, _WHOLE)
_MAYBE_TEXT = _Is((str, type(None)), "text or null")
_MAYBE_SIZE = _or_none(_SIZE)
_SOURCED = {"value": _Is((int, str, type(None)), "a whole number, text or null"), "source": _MAYBE_TEXT}
_FILE = {"bytes": _SIZE, "sha256": _DIGEST}
_TREE = _or_none({"files": _SIZE, "bytes": _SIZE, "sha256": _DIGEST})
_RESOURCE = {"name": _one_of(EMITTED, INPUTS), "digest": {"sha256": _DIGEST}}
_SUBJECT = _Told(_no_subject, rf"\[{_written(_RESOURCE)}\]")
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
        "override": _Is((dict, type(None)), "a table or null"),
        "parent": _MAYBE_TEXT,
        "digest": _or_none(_DIGEST),
        "figures": _TABLE,
        "files": {INPUTS: _FILE, DECISIONS: _FILE, SUMMARIES: _TREE, TEXTS: _TREE},
    },
}
_WRITTEN = re.compile(_written(_STATEMENT).encode())
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
    """Every field of a record with its path, such as ``predicate.budget.tokens.value``."""
    pairs: list[tuple[str, object]] = []
    if isinstance(value, dict):
        pairs = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    if not pairs:
        yield path, value
    for name, item in pairs:
        yield from leaves(item, name)
