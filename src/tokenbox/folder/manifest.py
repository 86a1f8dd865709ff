"""The JSON or TOML form of a ``.bcp`` pack, which ``tokenbox lcp encode`` reads and ``decode`` writes.

A content is ``content`` (text), ``content_base64`` (bytes) or ``content_file`` (a path). See docs/pack.md.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tokenbox.content import blocks as values
from tokenbox.content.block_kinds import Priority
from tokenbox.errors import TokenboxError
from tokenbox.lcp.encoder import Compression, Entry
from tokenbox.lcp.frames import MAX_TREE_DEPTH

T = TypeVar("T")

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
_TYPES: Mapping[type, str] = {dict: "a table", list: "a list", str: "a string"}
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
    record = {"type": block.type_name, **_record(block)}
    summary = record.pop("summary", None)
    return record if summary is None else {**record, "summary": summary}


def _record(item: Any) -> dict[str, object]:  # noqa: ANN401  # a block, a hunk or an entry of a tree
    record: dict[str, object] = {}
    for field in fields(item):
        name, value = field.name, getattr(item, field.name)
        if isinstance(value, bytes):
            text = values.strict_text(value)
            record |= {f"{name}_base64": base64.b64encode(value).decode()} if text is None else {name: text}
        elif isinstance(value, IntEnum):  # a number stands for a name unknown to this version
            record[name] = value.name.lower() if value.name in type(value).__members__ else int(value)
        elif isinstance(value, tuple) and (value or name != "children"):
            record[name] = [_record(part) if is_dataclass(part) else part for part in value]
        elif not isinstance(value, tuple | None):
            record[name] = value
    return record


def _add_block(entries: list[Entry], data: object, where: str, read: Callable[[str], bytes]) -> None:
    """Append the block, and the annotation of its priority."""
    kind = data.get("type") if isinstance(data, dict) else None
    cls = _CLASSES.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(data, dict):
        raise ManifestProblem(f"{where}.type", f"must be one of {', '.join(_CLASSES)}, not {kind!r}.")
    block = _item(cls, f"a {kind} block", data, where, read, ("type", *_ENTRY_OPTIONS))
    entries.append(Entry(block, _flag(data, "compress", where), _flag(data, "address", where)))
    priority = data.get("priority")
    if priority is not None:
        chosen = _enum(Priority, priority, f"{where}.priority")
        entries.append(Entry(values.AnnotationBlock.of_priority(len(entries) - 1, Priority(chosen))))


@cache
def _fields_of(cls: Any) -> Mapping[str, tuple[Any, bool]]:  # noqa: ANN401  # a class of items
    """Return the type of each field, without None, and whether the field is required."""
    hints = get_type_hints(cls)
    return {
        field.name: (get_args(hint)[0] if isinstance(hint, UnionType) else hint, field.default is MISSING)
        for field in fields(cls)
        for hint in [hints[field.name]]
    }


def _item(
    cls: Callable[..., T],
    what: str,
    data: object,
    where: str,
    read: Callable[[str], bytes],
    options: Iterable[str] = (),
) -> T:
    """Read a block, a hunk or an entry of a tree. ``options``: keys that are no fields."""
    known = _fields_of(cls)
    encodings = {f"{name}_{how}" for name in known if known[name][0] is bytes for how in ("base64", "file")}
    table = _table(data, where, {*options, *known, *encodings})
    given: dict[str, Any] = {"lines": b""} if cls is values.Hunk else {}
    for name, (kind, is_required) in known.items():
        is_bytes, place = kind is bytes, f"{where}.{name}"
        value = _bytes(name, table, where, read) if is_bytes else _value(kind, table.get(name), place, read)
        if value is not None:
            given[name] = value
        elif is_required and name not in given:
            raise ManifestProblem(place, f"is missing: {what} requires it.")
    return cls(**given)


def _value(kind: Any, value: object, place: str, read: Callable[[str], bytes]) -> object:  # noqa: ANN401  # a type
    if value is None:
        return None
    if kind in (str, int):
        return _of_type(str, value, place) if kind is str else _number(value, place)
    if kind is values.LineRange:
        ends = [_number(item, place) for item in _of_type(list, value, place)]
        if len(ends) != 2:  # first and last
            raise ManifestProblem(place, "must be the first and the last line, as in [10, 20].")
        return values.LineRange(*ends)
    if get_origin(kind) is not tuple:
        return _enum(kind, value, place)
    if place.count(".children") >= MAX_TREE_DEPTH:
        raise ManifestProblem(place, f"is more than {MAX_TREE_DEPTH} levels deep.")
    cls = get_args(kind)[0]
    what = "a hunk" if cls is values.Hunk else "an entry"
    return tuple(
        _item(cls, what, item, f"{place}[{number}]", read)
        for number, item in enumerate(_of_type(list, value, place))
    )


def _bytes(name: str, table: Mapping[str, object], where: str, read: Callable[[str], bytes]) -> bytes | None:
    given = [key for key in (name, f"{name}_base64", f"{name}_file") if key in table]
    if not given:
        return None
    if len(given) > 1:
        raise ManifestProblem(where, f"has both {given[0]} and {given[1]}. Give one of them.")
    place = f"{where}.{given[0]}"
    text = _of_type(str, table[given[0]], place)
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
    table = _of_type(dict, value, where)
    unknown = sorted(str(key) for key in table if key not in keys)
    if unknown:
        raise ManifestProblem(where, f"has an unknown key {unknown[0]!r}. Use {', '.join(sorted(keys))}.")
    return table


def _of_type(kind: type[T], value: object, where: str) -> T:
    if not isinstance(value, kind):
        raise ManifestProblem(where, f"must be {_TYPES[kind]}, not {type(value).__name__}.")
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
