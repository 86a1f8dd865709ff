"""Typed blocks of context, each with an optional summary (LCP/BCP).

Contents are bytes, as in a file; ``text`` decodes UTF-8. Names (paths, titles, roles) are text. A block
does not know how it is stored or rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import UnionType
from typing import ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from tokenbox.content.block_kinds import (
    AnnotationKind,
    BlockType,
    DataFormat,
    EntryKind,
    FormatHint,
    Lang,
    MediaType,
    Priority,
    ToolStatus,
    TurnRole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The base class of blocks. ``summary``: a shorter text that may replace the block; it may be empty."""

    summary: str | None = None

    type: ClassVar[BlockType | None] = None

    @property
    def type_id(self) -> int:
        """The number of the block's type, 0..255."""
        assert self.type is not None  # noqa: S101  # UnknownBlock overrides this property
        return self.type.value

    @property
    def type_name(self) -> str:
        """The type's name in lower case, such as ``tool_result``, or ``unknown``."""
        return "unknown" if self.type is None else self.type.display


def wrong_field(block: Block) -> str | None:
    """Return what is wrong with the first field whose value has another type; None if all are right."""
    hints = get_type_hints(type(block))
    for field in fields(block):
        hint, value = hints[field.name], getattr(block, field.name)
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if not isinstance(value, tuple(get_origin(kind) or kind for kind in kinds)):
            names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
            return f"{field.name} is {type(value).__name__}, not {names}"
    return None


class PayloadBlock(Block):
    """A block whose content is one byte string, which may be text, in the field ``payload_field``."""

    __slots__ = ()

    payload_field: ClassVar[str] = "content"

    @property
    def payload(self) -> bytes:
        """The bytes of the content, whatever the name of their field."""
        payload: bytes = getattr(self, self.payload_field)
        return payload

    @property
    def text(self) -> str | None:
        """The content as text, or None if it is not UTF-8."""
        return strict_text(self.payload)

    @property
    def lossy_text(self) -> str:
        """The content as text, each invalid sequence replaced by U+FFFD."""
        return lossy_text(self.payload)


def strict_text(data: bytes) -> str | None:
    """Decode ``data`` as UTF-8; None if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def lossy_text(data: bytes) -> str:
    """Decode ``data`` as UTF-8, each invalid sequence replaced by U+FFFD."""
    return data.decode("utf-8", "replace")


class LineRange(NamedTuple):
    """Lines of a file, from 1, both inclusive."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CodeBlock(PayloadBlock):
    """A file of source code, or a range of its lines."""

    lang: Lang
    path: str
    content: bytes
    lines: LineRange | None = None

    type: ClassVar[BlockType] = BlockType.CODE

    @property
    def line_start(self) -> int | None:
        return None if self.lines is None else self.lines.first

    @property
    def line_end(self) -> int | None:
        return None if self.lines is None else self.lines.last


@dataclass(frozen=True, slots=True)
class ConversationBlock(PayloadBlock):
    """One turn of a conversation."""

    role: TurnRole
    content: bytes
    tool_call_id: str | None = None

    type: ClassVar[BlockType] = BlockType.CONVERSATION


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file or folder of a file tree; ``size`` in bytes."""

    name: str
    kind: EntryKind = EntryKind.FILE
    size: int = 0
    children: tuple[TreeEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTreeBlock(Block):
    """The files and folders under ``root_path``, in stored order."""

    root_path: str
    entries: tuple[TreeEntry, ...] = ()

    type: ClassVar[BlockType] = BlockType.FILE_TREE


@dataclass(frozen=True, slots=True)
class ToolResultBlock(PayloadBlock):
    """The result of a tool call."""

    tool_name: str
    status: ToolStatus
    content: bytes
    schema_hint: str | None = None

    type: ClassVar[BlockType] = BlockType.TOOL_RESULT


@dataclass(frozen=True, slots=True)
class DocumentBlock(PayloadBlock):
    """Prose."""

    title: str
    content: bytes
    format_hint: FormatHint

    type: ClassVar[BlockType] = BlockType.DOCUMENT


@dataclass(frozen=True, slots=True)
class StructuredDataBlock(PayloadBlock):
    """Data in a machine-readable format."""

    format: DataFormat
    content: bytes
    schema: str | None = None

    type: ClassVar[BlockType] = BlockType.STRUCTURED_DATA


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk of a diff. ``lines`` are unified-diff lines, each with its prefix and line end."""

    old_start: int
    new_start: int
    lines: bytes

    @property
    def lossy_text(self) -> str:
        """The lines as text, each invalid sequence replaced by U+FFFD."""
        return lossy_text(self.lines)


@dataclass(frozen=True, slots=True)
class DiffBlock(Block):
    """Changes to one file."""

    path: str
    hunks: tuple[Hunk, ...] = ()

    type: ClassVar[BlockType] = BlockType.DIFF


@dataclass(frozen=True, slots=True)
class AnnotationBlock(PayloadBlock):
    """An annotation of another block. ``target``: the block's index from 0, counting annotations too."""

    target: int
    kind: AnnotationKind
    value: bytes

    type: ClassVar[BlockType] = BlockType.ANNOTATION
    payload_field: ClassVar[str] = "value"

    @classmethod
    def of_priority(cls, target: int, priority: Priority) -> AnnotationBlock:
        """Return the annotation that sets the priority of block ``target``."""
        return cls(target, AnnotationKind.PRIORITY, bytes([priority]))


@dataclass(frozen=True, slots=True)
class EmbeddingRefBlock(Block):
    """A vector stored elsewhere. By convention ``source_hash`` is the BLAKE3 digest of the embedded text."""

    vector_id: bytes
    source_hash: bytes
    model: str

    type: ClassVar[BlockType] = BlockType.EMBEDDING_REF


@dataclass(frozen=True, slots=True)
class ImageBlock(PayloadBlock):
    """An image. ``data``: its bytes, or a URI as text."""

    media_type: MediaType
    alt_text: str
    data: bytes

    type: ClassVar[BlockType] = BlockType.IMAGE
    payload_field: ClassVar[str] = "data"


@dataclass(frozen=True, slots=True)
class ExtensionBlock(PayloadBlock):
    """A block of an application's own type, named by ``namespace`` and ``kind``."""

    namespace: str
    kind: str
    content: bytes

    type: ClassVar[BlockType] = BlockType.EXTENSION


@dataclass(frozen=True, slots=True)
class UnknownBlock(PayloadBlock):
    """A block of a type that this version does not know, kept unchanged."""

    id: int
    body: bytes

    payload_field: ClassVar[str] = "body"

    @property
    def type_id(self) -> int:
        return self.id


def resolve_priorities(blocks: Sequence[Block]) -> list[Priority]:
    """Return the priority of each block, including annotations (lcp-wire 4.4).

    If several annotations set the priority of one target, the last in the stream wins. An annotation with a
    missing target or an invalid value is ignored. The default is normal.
    """
    priorities = [Priority.NORMAL] * len(blocks)
    for block in blocks:
        if not isinstance(block, AnnotationBlock) or block.kind is not AnnotationKind.PRIORITY:
            continue
        if 0 <= block.target < len(blocks) and block.value[:1] in _PRIORITY_BYTES:
            priorities[block.target] = _PRIORITY_BYTES[block.value[:1]]
    return priorities


_PRIORITY_BYTES = {bytes([priority]): priority for priority in Priority}
