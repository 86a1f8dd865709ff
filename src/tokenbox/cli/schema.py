"""``tokenbox schema``: prints the published JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tokenbox
from tokenbox.cli import terminal
from tokenbox.cli.options import argument, flag
from tokenbox.cli.outcome import UsageProblem
from tokenbox.cli.records import RECORDS, TYPES
from tokenbox.cli.streams import json_bytes, write_bytes

PREFIX = "tokenbox."


def schema(
    name: str = argument("NAME", "layout (documents), result, batch, or a name of --list.", "layout"),
    every: bool = flag("--list", "List all names instead."),
) -> None:
    """Print the JSON Schema of layout documents, or of the output of a command with --json.

    Example: tokenbox schema tokenbox.count/1
    """
    from tokenbox.batch.summary import summary_schema

    of_files = {
        "layout": tokenbox.documents.layout_schema,
        "result": tokenbox.documents.result_schema,
        "batch": summary_schema,
    }
    also = {f"{PREFIX}layout/1": tokenbox.documents.result_schema, f"{PREFIX}batch.summary/1": summary_schema}
    if every:
        rows = [("layout", "a layout document"), *((PREFIX + name, RECORDS[name][0]) for name in RECORDS)]
        rows += [(f"{PREFIX}layout/1", "tokenbox layout"), (f"{PREFIX}batch.summary/1", "tokenbox batch")]
        terminal.show(terminal.table(("name", "what prints it"), rows))
        return
    made = of_files.get(name) or also.get(name)
    found = made() if made is not None else schema_of(_known(name, also))
    write_bytes(json_bytes(found))


def _known(name: str, also: Iterable[str]) -> str:
    """Return the name of a record, as in ``RECORDS``; the prefix and the version may be missing."""
    short = name.removeprefix(PREFIX)
    known = short if short in RECORDS else next((one for one in RECORDS if one[:-2] == short), None)
    if known is None:
        full = next((one for one in also if one[:-2] == name), None)
        hint = f"Did you mean {full}? " if full else ""
        raise UsageProblem(f"there is no schema '{name}'. {hint}`tokenbox schema --list` names them all.")
    return known


def schema_of(name: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a record, such as ``count/1``. ``strict`` allows no other fields.

    Raises KeyError.
    """
    about, fields = RECORDS[name]
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
    if isinstance(note, tuple):
        return {"oneOf": [_expanded(note[1], strict=strict), {"type": "null"}]}
    if isinstance(note, list):
        return {"type": "array", "items": _expanded(note[0], strict=strict)}
    if isinstance(note, str):
        schema = dict(TYPES[note.removesuffix("?")])
        if note.endswith("?"):
            schema["type"] = [schema["type"], "null"]
        return schema
    fields = {name: inner for names, inner in note.items() for name in names.split() if name != "*"}
    schema = {
        "type": "object",
        "required": [name for name in fields if not name.endswith("?")],
        "properties": {
            name.removesuffix("?"): _expanded(inner, strict=strict) for name, inner in fields.items()
        },
    }
    return {**schema, "additionalProperties": False} if strict and "*" not in note else schema
