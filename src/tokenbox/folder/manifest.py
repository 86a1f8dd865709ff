"""The JSON or TOML form of a ``.bcp`` pack, which ``tokenbox lcp encode`` reads and ``decode`` writes.

A content is ``content`` (text), ``content_base64`` (bytes) or ``content_file`` (a path). See docs/pack.md.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.content import blocks as values
from tokenbox.content.block_kinds import (
    AnnotationKind,
    DataFormat,
    EntryKind,
    FormatHint,
    Lang,
    MediaType,
    Priority,
    ToolStatus,
    TurnRole,
)
from tokenbox.errors import TokenboxError
from tokenbox.lcp.encoder import Compression, Entry
from tokenbox.lcp.frames import MAX_TREE_DEPTH

if TYPE_CHECKING:
    from enum import IntEnum

_CLASSES: Mapping[str, type[values.Block]] = {
    "code": values.CodeBlock,
    "conversation": values.ConversationBlock,
    "file_tree": values.FileTreeBlock,
    "tool_result": values.ToolResultBlock,
    "document": values.DocumentBlock,
    "structured_data": values.StructuredDataBlock,
    "diff": values.DiffBlock,
    "annotation": values.AnnotationBlock,
    "embedding_ref": values.EmbeddingRefBlock,
    "image": values.ImageBlock,
    "extension": values.ExtensionBlock,
    "unknown": values.UnknownBlock,
}
# The enumeration of each field with names as values. A number stands for a name unknown to this version.
_ENUMS: Mapping[tuple[str, str], type[IntEnum]] = {
    ("code", "lang"): Lang,
    ("conversation", "role"): TurnRole,
    ("tool_result", "status"): ToolStatus,
    ("document", "format_hint"): FormatHint,
    ("structured_data", "format"): DataFormat,
    ("annotation", "kind"): AnnotationKind,
    ("image", "media_type"): MediaType,
}
_NUMBERS = {"target", "id", "old_start", "new_start", "size"}
_BYTES = {"content", "value", "data", "body", "lines", "vector_id", "source_hash"}
_ENTRY_OPTIONS = ("priority", "compress", "address")


class ManifestProblem(TokenboxError, code="manifest_invalid"):
    """A manifest is invalid. ``details`` has the path of the error in it."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}", path=where)


class PackManifest(NamedTuple):
    """The blocks to encode, and how."""

    entries: list[Entry]
    compression: Compression
    deduplicate: bool


def read_manifest(data: object, read: Callable[[str], bytes]) -> PackManifest:
    """Parse a manifest. ``read`` returns the bytes of a named file. Raises :class:`ManifestProblem`."""
    table = _table(data, "the manifest", {"schema", "blocks", "compression", "deduplicate", "header"})
    given = table.get("blocks")
    if not isinstance(given, list):
        raise ManifestProblem("blocks", "must be a list of blocks.")
    try:
        compression = Compression(str(table.get("compression", "none")))
    except ValueError:
        raise ManifestProblem("compression", "must be none, blocks or whole.") from None
    entries: list[Entry] = []
    for number, item in enumerate(given):
        _add_block(entries, item, f"blocks[{number}]", read)
    return PackManifest(entries, compression, _flag(table, "deduplicate", "the manifest"))


def block_record(block: values.Block) -> dict[str, object]:
    """Return ``block`` in the form that :func:`read_manifest` reads."""
    kind = block.type_name
    record: dict[str, object] = {"type": kind}
    for field in fields(block):
        value = getattr(block, field.name)
        if field.name == "summary" or value is None:
            continue
        if isinstance(value, bytes):
            record.update(_bytes_record(field.name, value))
        elif field.name == "entries":
            record["entries"] = [_entry_record(entry) for entry in value]
        elif field.name == "hunks":
            record["hunks"] = [_hunk_record(hunk) for hunk in value]
        elif (kind, field.name) in _ENUMS:
            record[field.name] = _enum_name(value)
        else:
            record[field.name] = list(value) if isinstance(value, tuple) else value
    if block.summary is not None:
        record["summary"] = block.summary
    return record


def _enum_name(value: IntEnum) -> str | int:
    return value.name.lower() if value.name in type(value).__members__ else int(value)


def _bytes_record(name: str, value: bytes) -> dict[str, object]:
    text = values.strict_text(value)
    return {f"{name}_base64": base64.b64encode(value).decode()} if text is None else {name: text}


def _entry_record(entry: values.TreeEntry) -> dict[str, object]:
    record: dict[str, object] = {"name": entry.name, "kind": entry.kind.display, "size": entry.size}
    return {**record, "children": [_entry_record(e) for e in entry.children]} if entry.children else record


def _hunk_record(hunk: values.Hunk) -> dict[str, object]:
    return {"old_start": hunk.old_start, "new_start": hunk.new_start, **_bytes_record("lines", hunk.lines)}


def _add_block(entries: list[Entry], data: object, where: str, read: Callable[[str], bytes]) -> None:
    """Append the block, and the annotation of its priority."""
    kind = data.get("type") if isinstance(data, dict) else None
    cls = _CLASSES.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(kind, str):
        raise ManifestProblem(f"{where}.type", f"must be one of {', '.join(_CLASSES)}, not {kind!r}.")
    known = {field.name: field for field in fields(cls)}
    encodings = {f"{name}_{how}" for name in known if name in _BYTES for how in ("base64", "file")}
    table = _table(data, where, {"type", *known, *encodings, *_ENTRY_OPTIONS})
    given: dict[str, Any] = {}
    for name, field in known.items():
        value = _field(kind, name, table, where, read)
        if value is not None:
            given[name] = value
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ManifestProblem(f"{where}.{name}", f"is missing: a {kind} block requires it.")
    entry = Entry(cls(**given), _flag(table, "compress", where), _flag(table, "address", where))
    entries.append(entry)
    priority = table.get("priority")
    if priority is not None:
        chosen = _enum(Priority, priority, f"{where}.priority")
        entries.append(Entry(values.AnnotationBlock.of_priority(len(entries) - 1, Priority(chosen))))


def _field(  # noqa: PLR0911  # one per type of field
    kind: str, name: str, table: Mapping[str, object], where: str, read: Callable[[str], bytes]
) -> object:
    place = f"{where}.{name}"
    if (kind, name) != ("code", "lines") and name in _BYTES:
        return _bytes(name, table, where, read)
    value = table.get(name)
    if value is None:
        return None
    if name == "entries":
        return _entries(value, place, 1)
    if name == "hunks":
        return tuple(_hunk(item, f"{place}[{n}]", read) for n, item in enumerate(_list(value, place)))
    if (kind, name) in _ENUMS:
        return _enum(_ENUMS[kind, name], value, place)
    if name == "lines":
        ends = [_number(item, place) for item in _list(value, place)]
        if len(ends) != 2:  # first and last
            raise ManifestProblem(place, "must be the first and the last line, as in [10, 20].")
        return values.LineRange(*ends)
    if name in _NUMBERS:
        return _number(value, place)
    return _text(value, place)


def _bytes(name: str, table: Mapping[str, object], where: str, read: Callable[[str], bytes]) -> bytes | None:
    given = [key for key in (name, f"{name}_base64", f"{name}_file") if key in table]
    if not given:
        return None
    if len(given) > 1:
        raise ManifestProblem(where, f"has both {given[0]} and {given[1]}. Give one of them.")
    place = f"{where}.{given[0]}"
    text = _text(table[given[0]], place)
    if given[0].endswith("_file"):
        return read(text)
    if given[0] == name:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise ManifestProblem(place, "has a lone surrogate, which UTF-8 cannot encode.") from None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ManifestProblem(place, "is not base64.") from None


def _entries(value: object, where: str, depth: int) -> tuple[values.TreeEntry, ...]:
    if depth > MAX_TREE_DEPTH:
        raise ManifestProblem(where, f"is more than {MAX_TREE_DEPTH} levels deep.")
    found = []
    for number, item in enumerate(_list(value, where)):
        place = f"{where}[{number}]"
        table = _table(item, place, {"name", "kind", "size", "children"})
        entry = values.TreeEntry(
            _text(table.get("name"), f"{place}.name"), size=_number(table.get("size", 0), f"{place}.size")
        )
        kind = EntryKind(_enum(EntryKind, table.get("kind", "file"), f"{place}.kind"))
        children = _entries(table.get("children", []), f"{place}.children", depth + 1)
        found.append(replace(entry, kind=kind, children=children))
    return tuple(found)


def _hunk(value: object, where: str, read: Callable[[str], bytes]) -> values.Hunk:
    table = _table(value, where, {"old_start", "new_start", "lines", "lines_base64", "lines_file"})
    old, new = (_number(table.get(name), f"{where}.{name}") for name in ("old_start", "new_start"))
    return values.Hunk(old, new, _bytes("lines", table, where, read) or b"")


def _enum(kind: type[IntEnum], value: object, where: str) -> IntEnum:
    names = {member.name.lower(): member for member in kind}
    if isinstance(value, str) and value.lower() in names:
        return names[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return kind(value)
        except ValueError:
            pass
    raise ManifestProblem(where, f"must be one of {', '.join(names)}, not {value!r}.")


def _table(value: object, where: str, keys: set[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ManifestProblem(where, f"must be a table, not {type(value).__name__}.")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise ManifestProblem(where, f"has an unknown key {unknown[0]!r}. Use {', '.join(sorted(keys))}.")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise ManifestProblem(where, f"must be a list, not {type(value).__name__}.")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ManifestProblem(where, f"must be a string, not {type(value).__name__}.")
    return value


def _number(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ManifestProblem(where, f"must be an integer of at least 0, not {value!r}.")
    return value


def _flag(table: Mapping[str, object], name: str, where: str) -> bool:
    value = table.get(name, False)
    if not isinstance(value, bool):
        raise ManifestProblem(f"{where}.{name}", "must be true or false.")
    return value
