"""The fields of each block's body, as data (lcp-wire section 3)."""

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
    Role,
    Status,
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


class Kind(Enum):
    """What the payload of a field is."""

    U32 = auto()  # reduced modulo 2**32 when read
    U64 = auto()
    ENUM = auto()  # reduced modulo 256 when read
    WIDE_ENUM = auto()  # not reduced
    TEXT = auto()  # lossy when read
    BYTES = auto()
    NESTED = auto()  # once per element


class Need(Enum):
    """What the absence of a field means."""

    REQUIRED = auto()  # the body is not valid
    OPTIONAL = auto()  # None
    DEFAULT = auto()  # the default of the value's class; always written


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``name``: on the wire; ``attribute``: of the value, where it is called something else."""

    number: int
    name: str
    kind: Kind
    need: Need = Need.REQUIRED
    enum: type[IntEnum] | None = None
    attribute: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.attribute or self.name)


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a body, or of a nested part, in writing order; ``make`` is the value's class.

    ``nested`` is what the one field of kind NESTED, if any, consists of; None for the message itself.
    """

    make: Callable[..., Any]
    fields: tuple[Field, ...]
    nested: Message | None = None
    by_number: dict[int, Field] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {item.number: item for item in self.fields})


def _code(
    *,
    line_start: int | None = None,
    line_end: int | None = None,
    **values: Any,  # noqa: ANN401  # whatever was read
) -> CodeBlock:
    """A range exists only if both its ends do."""
    lines = None if line_start is None or line_end is None else LineRange(line_start, line_end)
    return CodeBlock(lines=lines, **values)


_OPTIONAL, _DEFAULT = Need.OPTIONAL, Need.DEFAULT

FILE_ENTRY = Message(
    TreeEntry,
    (
        Field(1, "name", Kind.TEXT),
        Field(2, "kind", Kind.WIDE_ENUM, enum=EntryKind),
        Field(3, "size", Kind.U64, _DEFAULT),
        Field(4, "children", Kind.NESTED, _DEFAULT),
    ),
)

HUNK = Message(
    Hunk,
    (
        Field(1, "old_start", Kind.U32),
        Field(2, "new_start", Kind.U32),
        Field(3, "lines", Kind.BYTES),
    ),
)

BODIES: dict[int, Message] = {
    BlockType.CODE: Message(
        _code,
        (
            Field(1, "lang", Kind.ENUM, enum=Lang),
            Field(2, "path", Kind.TEXT),
            Field(3, "content", Kind.BYTES),
            Field(4, "line_start", Kind.U32, _OPTIONAL),
            Field(5, "line_end", Kind.U32, _OPTIONAL),
        ),
    ),
    BlockType.CONVERSATION: Message(
        ConversationBlock,
        (
            Field(1, "role", Kind.ENUM, enum=Role),
            Field(2, "content", Kind.BYTES),
            Field(3, "tool_call_id", Kind.TEXT, _OPTIONAL),
        ),
    ),
    BlockType.FILE_TREE: Message(
        FileTreeBlock,
        (
            Field(1, "root_path", Kind.TEXT),
            Field(2, "entries", Kind.NESTED, _DEFAULT),
        ),
        nested=FILE_ENTRY,
    ),
    BlockType.TOOL_RESULT: Message(
        ToolResultBlock,
        (
            Field(1, "tool_name", Kind.TEXT),
            Field(2, "status", Kind.ENUM, enum=Status),
            Field(3, "content", Kind.BYTES),
            Field(4, "schema_hint", Kind.TEXT, _OPTIONAL),
        ),
    ),
    BlockType.DOCUMENT: Message(
        DocumentBlock,
        (
            Field(1, "title", Kind.TEXT),
            Field(2, "content", Kind.BYTES),
            Field(3, "format_hint", Kind.ENUM, enum=FormatHint),
        ),
    ),
    BlockType.STRUCTURED_DATA: Message(
        StructuredDataBlock,
        (
            Field(1, "format", Kind.ENUM, enum=DataFormat),
            Field(2, "schema", Kind.TEXT, _OPTIONAL),
            Field(3, "content", Kind.BYTES),
        ),
    ),
    BlockType.DIFF: Message(
        DiffBlock,
        (
            Field(1, "path", Kind.TEXT),
            Field(2, "hunks", Kind.NESTED, _DEFAULT),
        ),
        nested=HUNK,
    ),
    BlockType.ANNOTATION: Message(
        AnnotationBlock,
        (
            Field(1, "target_block_id", Kind.U32, attribute="target"),
            Field(2, "kind", Kind.ENUM, enum=AnnotationKind),
            Field(3, "value", Kind.BYTES),
        ),
    ),
    BlockType.EMBEDDING_REF: Message(
        EmbeddingRefBlock,
        (
            Field(1, "vector_id", Kind.BYTES),
            Field(2, "source_hash", Kind.BYTES),
            Field(3, "model", Kind.TEXT),
        ),
    ),
    BlockType.IMAGE: Message(
        ImageBlock,
        (
            Field(1, "media_type", Kind.ENUM, enum=MediaType),
            Field(2, "alt_text", Kind.TEXT),
            Field(3, "data", Kind.BYTES),
        ),
    ),
    BlockType.EXTENSION: Message(
        ExtensionBlock,
        (
            Field(1, "namespace", Kind.TEXT),
            Field(2, "type_name", Kind.TEXT, attribute="kind"),
            Field(3, "content", Kind.BYTES),
        ),
    ),
}
