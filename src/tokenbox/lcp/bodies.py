"""The table of the fields of each block type's body (lcp-wire section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from enum import IntEnum


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
    by_number: dict[int, Field] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", dict(enumerate(self.fields, 1)))


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
