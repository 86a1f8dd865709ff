"""``tokenbox schema``: prints the published JSON Schemas."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import tokenbox
from tokenbox.cli import terminal
from tokenbox.cli.options import argument, flag
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.streams import write_json

PREFIX = "tokenbox."
TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "any": {},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "integer": {"type": "integer"},
    "object": {"type": "object"},
}
_NOTES: Final = "notes"
_PRINTED_BY: Final = "printed_by"
_LAYOUT: Final = "layout/1"  # the record of `tokenbox layout`, whose schema is a file


def schema(
    name: str = argument("NAME", "layout (documents), result, batch, or a name of --list.", "layout"),
    every: bool = flag("--list", "List all names instead."),
) -> None:
    """Print the JSON Schema of layout documents, or of the output of a command with --json.

    Example: tokenbox schema tokenbox.count/1
    """
    if every:
        rows = [("layout", "a layout document")]
        rows += [(PREFIX + name, _read()[name][_PRINTED_BY]) for name in records()]
        rows += [(PREFIX + _LAYOUT, "tokenbox layout")]
        terminal.show_table(("name", "what prints it"), rows)
    elif name == "layout":
        write_json(tokenbox.documents.layout_schema())
    elif name.removeprefix(PREFIX) in ("result", _LAYOUT):
        write_json(tokenbox.documents.result_schema())
    else:
        write_json(schema_of(_known(name)))


def _known(name: str) -> str:
    """Return the name of a record, as in :func:`records`; the prefix and the version may be missing."""
    short = "batch.summary" if name == "batch" else name.removeprefix(PREFIX)
    known = next((one for one in records() if short in (one, one[:-2])), None)
    if known is None:
        hint = f"Did you mean {PREFIX}{_LAYOUT}? " if name == PREFIX + _LAYOUT[:-2] else ""
        raise UsageProblem(f"there is no schema '{name}'. {hint}`tokenbox schema --list` names them all.")
    return known


@cache
def _read() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "records.toml").read_text(encoding="utf-8"))


def records() -> list[str]:
    """Return the names of all records in ``records.toml``."""
    return [name for name in _read() if name != _NOTES]


def schema_of(name: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a record, such as ``count/1``. ``strict`` allows no other fields.

    Raises KeyError.
    """
    fields = dict(_read()[name])
    about = fields.pop(_PRINTED_BY)
    schema = _expanded({"schema": "text", **fields}, strict=strict)
    schema["properties"]["schema"] = {"const": f"tokenbox.{name}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tokenbox:schema:{name.replace('/', ':')}",
        "title": f"tokenbox.{name}",
        "description": about,
        **schema,
    }


def _expanded(note: Any, *, strict: bool) -> dict[str, Any]:  # noqa: ANN401  # a note
    if isinstance(note, list):
        return {"type": "array", "items": _expanded(note[0], strict=strict)}
    if isinstance(note, str):
        kind = note.removesuffix("?")
        if kind.startswith("@"):
            schema = _expanded(_read()[_NOTES][kind[1:]], strict=strict)
            return schema if kind == note else {"oneOf": [schema, {"type": "null"}]}
        schema = dict(TYPES[kind])
        if kind != note:
            schema["type"] = [schema["type"], "null"]
        return schema
    fields = dict(_fields(note))
    is_open = fields.pop("*", None) is not None or not strict
    schema = {
        "type": "object",
        "required": [name for name in fields if not name.endswith("?")],
        "properties": {
            name.removesuffix("?"): _expanded(inner, strict=strict) for name, inner in fields.items()
        },
    }
    return schema if is_open else {**schema, "additionalProperties": False}


def _fields(note: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each field of a table with its note."""
    for names, inner in note.items():
        if names == "+":
            yield from _fields(_read()[_NOTES][inner])
        else:
            yield from ((name, inner) for name in names.split())
