"""The bodies of blocks: the table of their fields (lcp-wire section 3), and reading and writing it (1.6).

A field is its number, its wire type and its payload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenbox.content.block_kinds import (
    AnnotationKind,
    BlockType,
    DataFormat,
    EntryKind,
    FormatHint,
    Lang,
    MediaType,
    ToolStatus,
    TurnRole,
)
from tokenbox.content.blocks import (
    AnnotationBlock,
    CodeBlock,
    ConversationBlock,
    DiffBlock,
    DocumentBlock,
    EmbeddingRefBlock,
    ExtensionBlock,
    FileTreeBlock,
    Hunk,
    ImageBlock,
    LineRange,
    StructuredDataBlock,
    ToolResultBlock,
    TreeEntry,
)
from tokenbox.lcp.errors import (
    InvalidEnumValue,
    MissingRequiredField,
    TreeTooDeep,
    UnencodableValue,
    UnexpectedEof,
    UnknownFieldWireType,
)
from tokenbox.lcp.frames import MAX_TREE_DEPTH, MAX_VARINT, read_varint, write_varint

if TYPE_CHECKING:
    from enum import IntEnum

    from tokenbox.content.blocks import Block


class FieldKind(Enum):
    """The type of a field's payload."""

    U32 = auto()  # reduced modulo 2**32 when read
    U64 = auto()
    ENUM = auto()  # reduced modulo 256 when read
    WIDE_ENUM = auto()  # not reduced
    TEXT = auto()  # lossy when read
    BYTES = auto()
    NESTED = auto()  # once per element


class Need(Enum):
    """The meaning of a missing field."""

    REQUIRED = auto()  # the body is not valid
    OPTIONAL = auto()  # None
    DEFAULT = auto()  # the default of the value's class; always written


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``name``: in the wire format; ``attribute``: of the value, if that name differs."""

    name: str
    kind: FieldKind
    need: Need = Need.REQUIRED
    enum: type[IntEnum] | None = None
    attribute: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.attribute or self.name)


@dataclass(frozen=True, slots=True)
class BodyFields:
    """The fields of a body or of a nested part, numbered from 1. ``make``: the class of the value.

    ``nested``: the fields of the elements in the NESTED field, if there is one; None if it is recursive.
    """

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    nested: BodyFields | None = None


def _code(
    *,
    line_start: int | None = None,
    line_end: int | None = None,
    **values: Any,  # values of any field
) -> CodeBlock:
    """Build a code block. It has a line range only if both ends were given."""
    lines = None if line_start is None or line_end is None else LineRange(line_start, line_end)
    return CodeBlock(lines=lines, **values)


_OPTIONAL, _DEFAULT = Need.OPTIONAL, Need.DEFAULT
U32, U64, ENUM, WIDE_ENUM, TEXT, BYTES, NESTED = FieldKind


def _body(make: Callable[..., Any], *fields: Field, nested: BodyFields | None = None) -> BodyFields:
    return BodyFields(make, fields, nested)


FILE_ENTRY = _body(
    TreeEntry,
    Field("name", TEXT),
    Field("kind", WIDE_ENUM, enum=EntryKind),
    Field("size", U64, _DEFAULT),
    Field("children", NESTED, _DEFAULT),
)

HUNK = _body(Hunk, Field("old_start", U32), Field("new_start", U32), Field("lines", BYTES))

BODIES: dict[int, BodyFields] = {
    BlockType.CODE: _body(
        _code,
        Field("lang", ENUM, enum=Lang),
        Field("path", TEXT),
        Field("content", BYTES),
        Field("line_start", U32, _OPTIONAL),
        Field("line_end", U32, _OPTIONAL),
    ),
    BlockType.CONVERSATION: _body(
        ConversationBlock,
        Field("role", ENUM, enum=TurnRole),
        Field("content", BYTES),
        Field("tool_call_id", TEXT, _OPTIONAL),
    ),
    BlockType.FILE_TREE: _body(
        FileTreeBlock, Field("root_path", TEXT), Field("entries", NESTED, _DEFAULT), nested=FILE_ENTRY
    ),
    BlockType.TOOL_RESULT: _body(
        ToolResultBlock,
        Field("tool_name", TEXT),
        Field("status", ENUM, enum=ToolStatus),
        Field("content", BYTES),
        Field("schema_hint", TEXT, _OPTIONAL),
    ),
    BlockType.DOCUMENT: _body(
        DocumentBlock,
        Field("title", TEXT),
        Field("content", BYTES),
        Field("format_hint", ENUM, enum=FormatHint),
    ),
    BlockType.STRUCTURED_DATA: _body(
        StructuredDataBlock,
        Field("format", ENUM, enum=DataFormat),
        Field("schema", TEXT, _OPTIONAL),
        Field("content", BYTES),
    ),
    BlockType.DIFF: _body(DiffBlock, Field("path", TEXT), Field("hunks", NESTED, _DEFAULT), nested=HUNK),
    BlockType.ANNOTATION: _body(
        AnnotationBlock,
        Field("target_block_id", U32, attribute="target"),
        Field("kind", ENUM, enum=AnnotationKind),
        Field("value", BYTES),
    ),
    BlockType.EMBEDDING_REF: _body(
        EmbeddingRefBlock, Field("vector_id", BYTES), Field("source_hash", BYTES), Field("model", TEXT)
    ),
    BlockType.IMAGE: _body(
        ImageBlock, Field("media_type", ENUM, enum=MediaType), Field("alt_text", TEXT), Field("data", BYTES)
    ),
    BlockType.EXTENSION: _body(
        ExtensionBlock,
        Field("namespace", TEXT),
        Field("type_name", TEXT, attribute="kind"),
        Field("content", BYTES),
    ),
}

# The wire types.
_VARINT, _BYTES, _NESTED = 0, 1, 2

# The kinds that are numbers, and their largest values.
_LARGEST = {U32: 2**32 - 1, U64: MAX_VARINT, ENUM: 0xFF, WIDE_ENUM: 0xFF}
_KIND_OF_UNKNOWN = {_VARINT: U64, _BYTES: BYTES, _NESTED: BYTES}


class _Open(NamedTuple):
    """A partially read message: its end, and the values found so far."""

    message: BodyFields
    end: int
    values: dict[str, Any]
    into: str  # the attribute of the enclosing message that this becomes an element of


class BodyReader:
    """A reader of bodies, within the limits of one pack.

    ``depth``: the maximum nesting depth. ``count_element`` is called for each nested part.
    """

    def __init__(self, depth: int, count_element: Callable[[], None]) -> None:
        self._depth = depth
        self._count_element = count_element
        # An explicit stack: the pack controls the nesting depth, so recursion would be unsafe.
        self._open: list[_Open] = []

    def read(self, data: memoryview, position: int, message: BodyFields, summary: str | None) -> Block:
        """Read the fields from ``position`` to the end of ``data``, and return the block with ``summary``.

        Raises a ``WireError``, ``FieldError`` or :class:`TreeTooDeep`; offsets are positions in ``data``.
        """
        self._open = [_Open(message, len(data), {"summary": summary}, "")]
        while True:
            message, end, values, into = self._open[-1]
            if position < end:
                position = self._read_field(data, position)
                continue
            made = _make(message, values, end)
            self._open.pop()
            if not self._open:
                block: Block = made
                return block
            self._open[-1].values.setdefault(into, []).append(made)

    def _read_field(self, data: memoryview, position: int) -> int:
        """Read one field. Return the next position: after the field, or inside it if it is nested."""
        message, end, values, _ = self._open[-1]
        number, position = read_varint(data, position, end)
        wire_type, position = read_varint(data, position, end)
        if wire_type not in _KIND_OF_UNKNOWN:
            raise UnknownFieldWireType(value=wire_type, offset=position)
        field = message.fields[number - 1] if 0 < number <= len(message.fields) else None
        # The field determines how its payload is read, not the wire type in the pack.
        kind = _KIND_OF_UNKNOWN[wire_type] if field is None else field.kind
        payload, start = read_varint(data, position, end)
        if kind in _LARGEST:
            if field is not None:
                values[field.attribute] = _number(field, payload, position)
            return start
        if payload > end - start:
            raise UnexpectedEof(end, f"a field that announces {payload:,} bytes")
        after = start + payload
        if field is None:
            return after
        if kind is FieldKind.NESTED:
            return self._enter(field, start, after)
        value = data[start:after]
        values[field.attribute] = str(value, "utf-8", "replace") if kind is FieldKind.TEXT else bytes(value)
        return after

    def _enter(self, field: Field, start: int, end: int) -> int:
        if len(self._open) > self._depth:
            raise TreeTooDeep(limit=self._depth, offset=start)
        self._count_element()
        message = self._open[-1].message
        self._open.append(_Open(message.nested or message, end, {}, field.attribute))
        return start


def _number(field: Field, value: int, position: int) -> int:
    if field.kind is FieldKind.U32:
        return value & 0xFFFFFFFF
    if field.kind is FieldKind.ENUM:
        value &= 0xFF
    if field.enum is None:
        return value
    try:
        return field.enum(value)
    except ValueError:
        raise InvalidEnumValue(enum=field.enum.__name__, value=value, offset=position) from None


def _make(message: BodyFields, values: dict[str, Any], end: int) -> Any:  # noqa: ANN401  # the result of message.make
    for field in message.fields:
        value = values.get(field.attribute)
        if value is None and field.need is Need.REQUIRED:
            raise MissingRequiredField(name=field.name, offset=end)
        if field.kind is FieldKind.NESTED and value is not None:
            values[field.attribute] = tuple(value)
    return message.make(**values)


def write_message(value: object, message: BodyFields, depth: int = 0) -> bytes:
    """Encode the fields of ``value``. Raises :class:`UnencodableValue` and :class:`TreeTooDeep`."""
    parts: list[bytes] = []
    for number, field in enumerate(message.fields, 1):
        item = getattr(value, field.attribute)
        if item is None and field.need is Need.OPTIONAL:
            continue
        if field.kind is NESTED:
            if item and depth == MAX_TREE_DEPTH:
                raise TreeTooDeep(limit=MAX_TREE_DEPTH)
            for element in item:
                payload = write_message(element, message.nested or message, depth + 1)
                parts += (bytes([number, _NESTED]), write_varint(len(payload)), payload)
        elif field.kind in _LARGEST:
            parts += (bytes([number, _VARINT]), write_varint(_checked_number(field, item)))
        else:
            payload = (text_bytes if field.kind is TEXT else checked_bytes)(field.name, item)
            parts += (bytes([number, _BYTES]), write_varint(len(payload)), payload)
    return b"".join(parts)


def _checked_number(field: Field, value: object) -> int:
    largest = _LARGEST[field.kind]
    if not isinstance(value, int) or not 0 <= value <= largest:
        raise UnencodableValue(field.name, f"is a whole number from 0 to {largest:,}, not {value!r}")
    if field.enum is not None:
        try:
            field.enum(value)
        except ValueError:
            raise UnencodableValue(
                field.name, f"is a {field.enum.__name__}, which has no value {value:,}"
            ) from None
    return value


def checked_bytes(name: str, value: object) -> bytes:
    """Return ``value``. Raises :class:`UnencodableValue` if it is not bytes."""
    if not isinstance(value, bytes):
        raise UnencodableValue(name, f"is bytes, not {type(value).__name__}")
    return value


def text_bytes(name: str, text: object) -> bytes:
    """Encode ``text`` as UTF-8. Raises :class:`UnencodableValue` if it is not text or not valid Unicode."""
    if not isinstance(text, str):
        raise UnencodableValue(name, f"is text, not {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnencodableValue(
            name, f"has the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}"
        ) from None
