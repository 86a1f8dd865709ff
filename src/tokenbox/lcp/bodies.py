"""The table of the fields of each block type's body (lcp-wire section 3)."""

from __future__ import annotations

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
    from collections.abc import Callable
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

    number: int
    name: str
    kind: FieldKind
    need: Need = Need.REQUIRED
    enum: type[IntEnum] | None = None
    attribute: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.attribute or self.name)


@dataclass(frozen=True, slots=True)
class BodyFields:
    """The fields of a body or of a nested part, in writing order. ``make``: the class of the value.

    ``nested``: the fields of the elements in the NESTED field, if there is one; None if it is recursive.
    """

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    nested: BodyFields | None = None
    by_number: dict[int, Field] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {item.number: item for item in self.fields})


def _code(
    *,
    line_start: int | None = None,
    line_end: int | None = None,
    **values: Any,  # noqa: ANN401  # values of any field
) -> CodeBlock:
    """Build a code block. It has a line range only if both ends were given."""
    lines = None if line_start is None or line_end is None else LineRange(line_start, line_end)
    return CodeBlock(lines=lines, **values)


_OPTIONAL, _DEFAULT = Need.OPTIONAL, Need.DEFAULT

FILE_ENTRY = BodyFields(
    TreeEntry,
    (
        Field(1, "name", FieldKind.TEXT),
        Field(2, "kind", FieldKind.WIDE_ENUM, enum=EntryKind),
        Field(3, "size", FieldKind.U64, _DEFAULT),
        Field(4, "children", FieldKind.NESTED, _DEFAULT),
    ),
)

HUNK = BodyFields(
    Hunk,
    (
        Field(1, "old_start", FieldKind.U32),
        Field(2, "new_start", FieldKind.U32),
        Field(3, "lines", FieldKind.BYTES),
    ),
)

BODIES: dict[int, BodyFields] = {
    BlockType.CODE: BodyFields(
        _code,
        (
            Field(1, "lang", FieldKind.ENUM, enum=Lang),
            Field(2, "path", FieldKind.TEXT),
            Field(3, "content", FieldKind.BYTES),
            Field(4, "line_start", FieldKind.U32, _OPTIONAL),
            Field(5, "line_end", FieldKind.U32, _OPTIONAL),
        ),
    ),
    BlockType.CONVERSATION: BodyFields(
        ConversationBlock,
        (
            Field(1, "role", FieldKind.ENUM, enum=TurnRole),
            Field(2, "content", FieldKind.BYTES),
            Field(3, "tool_call_id", FieldKind.TEXT, _OPTIONAL),
        ),
    ),
    BlockType.FILE_TREE: BodyFields(
        FileTreeBlock,
        (
            Field(1, "root_path", FieldKind.TEXT),
            Field(2, "entries", FieldKind.NESTED, _DEFAULT),
        ),
        nested=FILE_ENTRY,
    ),
    BlockType.TOOL_RESULT: BodyFields(
        ToolResultBlock,
        (
            Field(1, "tool_name", FieldKind.TEXT),
            Field(2, "status", FieldKind.ENUM, enum=ToolStatus),
            Field(3, "content", FieldKind.BYTES),
            Field(4, "schema_hint", FieldKind.TEXT, _OPTIONAL),
        ),
    ),
    BlockType.DOCUMENT: BodyFields(
        DocumentBlock,
        (
            Field(1, "title", FieldKind.TEXT),
            Field(2, "content", FieldKind.BYTES),
            Field(3, "format_hint", FieldKind.ENUM, enum=FormatHint),
        ),
    ),
    BlockType.STRUCTURED_DATA: BodyFields(
        StructuredDataBlock,
        (
            Field(1, "format", FieldKind.ENUM, enum=DataFormat),
            Field(2, "schema", FieldKind.TEXT, _OPTIONAL),
            Field(3, "content", FieldKind.BYTES),
        ),
    ),
    BlockType.DIFF: BodyFields(
        DiffBlock,
        (
            Field(1, "path", FieldKind.TEXT),
            Field(2, "hunks", FieldKind.NESTED, _DEFAULT),
        ),
        nested=HUNK,
    ),
    BlockType.ANNOTATION: BodyFields(
        AnnotationBlock,
        (
            Field(1, "target_block_id", FieldKind.U32, attribute="target"),
            Field(2, "kind", FieldKind.ENUM, enum=AnnotationKind),
            Field(3, "value", FieldKind.BYTES),
        ),
    ),
    BlockType.EMBEDDING_REF: BodyFields(
        EmbeddingRefBlock,
        (
            Field(1, "vector_id", FieldKind.BYTES),
            Field(2, "source_hash", FieldKind.BYTES),
            Field(3, "model", FieldKind.TEXT),
        ),
    ),
    BlockType.IMAGE: BodyFields(
        ImageBlock,
        (
            Field(1, "media_type", FieldKind.ENUM, enum=MediaType),
            Field(2, "alt_text", FieldKind.TEXT),
            Field(3, "data", FieldKind.BYTES),
        ),
    ),
    BlockType.EXTENSION: BodyFields(
        ExtensionBlock,
        (
            Field(1, "namespace", FieldKind.TEXT),
            Field(2, "type_name", FieldKind.TEXT, attribute="kind"),
            Field(3, "content", FieldKind.BYTES),
        ),
    ),
}
