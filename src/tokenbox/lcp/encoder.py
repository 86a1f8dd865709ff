"""The encoder of packs, and a builder (lcp-wire section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.content.blocks import (
    AnnotationBlock,
    Block,
    CodeBlock,
    ConversationBlock,
    DiffBlock,
    DocumentBlock,
    EmbeddingRefBlock,
    ExtensionBlock,
    FileTreeBlock,
    ImageBlock,
    LineRange,
    StructuredDataBlock,
    ToolResultBlock,
    UnknownBlock,
)
from tokenbox.errors import several, shown
from tokenbox.lcp.addressing import body_digest
from tokenbox.lcp.bodies import BODIES, checked_bytes, text_bytes, write_message
from tokenbox.lcp.compression import MIN_BLOCK, compressed
from tokenbox.lcp.errors import (
    BlockTooLarge,
    EmptyPayload,
    LcpError,
    MissingContentStore,
    NoBlockTarget,
    UnencodableValue,
)
from tokenbox.lcp.frames import (
    COMPRESSED,
    END,
    END_TYPE,
    HAS_SUMMARY,
    IS_REFERENCE,
    MAX_BODY,
    write_frame_head,
    write_header,
    write_varint,
)

if TYPE_CHECKING:
    from typing import Self

    from tokenbox.content.block_kinds import (
        AnnotationKind,
        DataFormat,
        FormatHint,
        Lang,
        MediaType,
        Priority,
        ToolStatus,
        TurnRole,
    )
    from tokenbox.content.blocks import Hunk, TreeEntry
    from tokenbox.lcp.addressing import ContentStore
    from tokenbox.lcp.decoder import Pack


class Compression(StrEnum):
    """The unit of compression: nothing, each block that becomes smaller, or the pack as a whole."""

    NONE = "none"
    BLOCKS = "blocks"
    WHOLE = "whole"


@dataclass(slots=True)
class Entry:
    """A block with its own options."""

    block: Block
    compress: bool = False
    address: bool = False


def encode(
    blocks: Iterable[Block],
    *,
    store: ContentStore | None = None,
    compression: Compression = Compression.NONE,
    deduplicate: bool = False,
) -> bytes:
    """Encode ``blocks``. Raises the errors of :func:`encode_entries`."""
    given = several(blocks)
    if given is None:
        raise UnencodableValue("blocks", f"is a list of blocks, not {type(blocks).__name__}")
    if compression not in list(Compression):
        raise UnencodableValue("compression", f"is one of {', '.join(Compression)}, not {shown(compression)}")
    entries = [_entry(place, block) for place, block in enumerate(given)]
    return encode_entries(entries, store, compression=Compression(compression), deduplicate=deduplicate)


def _entry(place: int, block: object) -> Entry:
    if not isinstance(block, Block):
        raise UnencodableValue(f"item {place}", f"is a block, not {type(block).__name__}")
    return Entry(block)


def encode_again(pack: Pack, store: ContentStore | None = None) -> bytes:
    """Encode a decoded pack with the same compressed blocks and the same references.

    The bytes are the same for a pack that this module or the reference wrote, with the same zstd version.
    Details that decoders only tolerate are lost: padded numbers, unusual field order, unknown and repeated
    fields, half a line range, bytes in names that are not UTF-8, reserved flags, the minor version, the older
    magic, an unusual END, and compression that saves nothing, has another level, applies both to blocks and
    to the whole, or to a reference. A pack without blocks is an error.
    """
    entries = [
        Entry(block, frame.compressed, frame.reference)
        for block, frame in zip(pack.blocks, pack.frames, strict=True)
    ]
    whole = Compression.WHOLE if pack.header.compressed else Compression.NONE
    return encode_entries(entries, store, compression=whole, deduplicate=False)


def encode_entries(
    entries: list[Entry], store: ContentStore | None, *, compression: Compression, deduplicate: bool
) -> bytes:
    """Encode ``entries``. Raises an ``EncodeError``, ``MissingContentStore`` or ``TreeTooDeep``."""
    if not entries:
        raise EmptyPayload
    if store is None and (deduplicate or any(entry.address for entry in entries)):
        raise MissingContentStore("writing references or removing duplicates")
    parts: list[bytes] = []
    for index, entry in enumerate(entries):
        entry_compress = compression is not Compression.WHOLE and (
            entry.compress or compression is Compression.BLOCKS
        )
        try:
            body = _body(entry.block)
        except LcpError as error:
            error.located(index, 0)
            raise
        flags = 0 if entry.block.summary is None else HAS_SUMMARY
        if store is not None and _becomes_reference(entry, body, store, deduplicate=deduplicate):
            flags, body = flags | IS_REFERENCE, body_digest(body)
        elif entry_compress and len(body) >= MIN_BLOCK and (smaller := compressed(body)) is not None:
            flags, body = flags | COMPRESSED, smaller
        parts += (write_frame_head(entry.block.type_id, flags, len(body)), body)
    parts.append(END)
    payload = b"".join(parts)
    del parts
    smaller = compressed(payload) if compression is Compression.WHOLE else None
    return write_header(compressed=smaller is not None) + (payload if smaller is None else smaller)


def _body(block: Block) -> bytes:
    """Return the summary and fields of ``block``, uncompressed."""
    if isinstance(block, UnknownBlock):
        fields = _unknown_body(block)
    else:
        fields = write_message(block, BODIES[block.type_id])
    if block.summary is not None:
        summary = text_bytes("summary", block.summary)
        fields = write_varint(len(summary)) + summary + fields
    if len(fields) > MAX_BODY:
        raise BlockTooLarge(size=len(fields), limit=MAX_BODY)
    return fields


def _unknown_body(block: UnknownBlock) -> bytes:
    if not 0 <= block.id < END_TYPE or block.id in BODIES:
        raise UnencodableValue("id", f"is an unknown block type from 0 to 254, not {block.id!r}")
    return checked_bytes("body", block.body)


def _becomes_reference(entry: Entry, body: bytes, store: ContentStore, *, deduplicate: bool) -> bool:
    """Put ``body`` into the store if needed. Return whether to write its digest in its place."""
    if not entry.address and not deduplicate:
        return False
    digest = body_digest(body)
    known = deduplicate and store.get(digest) == body  # a damaged copy is written again
    if not known:
        store.put(digest, body)
    return entry.address or known


class PackBuilder:
    """A builder of a pack from blocks and options.

    Every method except ``encode`` returns the builder. The ``with_...`` methods apply to the block added
    last, and raise ``NoBlockTarget`` if no block was added yet. ``store``: the content store for content
    addressing.

    >>> from tokenbox.content.block_kinds import Lang
    >>> PackBuilder().add_code(Lang.RUST, "empty.rs", "").encode().hex(" ")
    '42 43 50 00 01 00 00 00 01 00 11 01 00 01 02 01 08 65 6d 70 74 79 2e 72 73 03 01 00 ff 01 00 00'
    """

    def __init__(self, store: ContentStore | None = None) -> None:
        self._store = store
        self._entries: list[Entry] = []
        self._compression = Compression.NONE
        self._deduplicate = False

    def add(self, block: Block) -> Self:
        """Append a block."""
        self._entries.append(_entry(len(self._entries), block))
        return self

    def add_code(
        self, lang: Lang, path: str, content: str | bytes, *, lines: tuple[int, int] | None = None
    ) -> Self:
        """Append a file of source code, or a range of its lines (first and last, from 1)."""
        return self.add(CodeBlock(lang, path, _bytes(content), None if lines is None else LineRange(*lines)))

    def add_conversation(
        self, role: TurnRole, content: str | bytes, *, tool_call_id: str | None = None
    ) -> Self:
        return self.add(ConversationBlock(role, _bytes(content), tool_call_id))

    def add_file_tree(self, root_path: str, entries: Iterable[TreeEntry]) -> Self:
        return self.add(FileTreeBlock(root_path, tuple(entries)))

    def add_tool_result(
        self, tool_name: str, status: ToolStatus, content: str | bytes, *, schema_hint: str | None = None
    ) -> Self:
        return self.add(ToolResultBlock(tool_name, status, _bytes(content), schema_hint))

    def add_document(self, title: str, content: str | bytes, format_hint: FormatHint) -> Self:
        return self.add(DocumentBlock(title, _bytes(content), format_hint))

    def add_structured_data(
        self, data_format: DataFormat, content: str | bytes, *, schema: str | None = None
    ) -> Self:
        return self.add(StructuredDataBlock(data_format, _bytes(content), schema))

    def add_diff(self, path: str, hunks: Iterable[Hunk]) -> Self:
        return self.add(DiffBlock(path, tuple(hunks)))

    def add_annotation(self, target: int, kind: AnnotationKind, value: str | bytes) -> Self:
        """Append an annotation of block ``target`` (index from 0, counting annotations)."""
        return self.add(AnnotationBlock(target, kind, _bytes(value)))

    def add_embedding_ref(self, vector_id: bytes, source_hash: bytes, model: str) -> Self:
        return self.add(EmbeddingRefBlock(vector_id, source_hash, model))

    def add_image(self, media_type: MediaType, alt_text: str, data: str | bytes) -> Self:
        """Append an image: its bytes, or a URI as text."""
        return self.add(ImageBlock(media_type, alt_text, _bytes(data)))

    def add_extension(self, namespace: str, kind: str, content: str | bytes) -> Self:
        return self.add(ExtensionBlock(namespace, kind, _bytes(content)))

    def with_summary(self, summary: str) -> Self:
        """Set the summary of the last block. After :meth:`with_priority` that is the annotation."""
        entry = self._last("with_summary")
        entry.block = replace(entry.block, summary=summary)
        return self

    def with_priority(self, priority: Priority) -> Self:
        """Append an annotation that sets the priority of the last block."""
        self._last("with_priority")
        return self.add(AnnotationBlock.of_priority(len(self._entries) - 1, priority))

    def with_compression(self) -> Self:
        """Compress the last block if it has at least 256 bytes and becomes smaller."""
        self._last("with_compression").compress = True
        return self

    def with_content_addressing(self) -> Self:
        """Store the last block's body in the content store, and only its digest in the pack."""
        self._last("with_content_addressing").address = True
        return self

    def compress_blocks(self) -> Self:
        """Compress every block, including blocks added later, as :meth:`with_compression` does."""
        return self._compress(Compression.BLOCKS)

    def compress_payload(self) -> Self:
        """Compress the pack as a whole if that makes it smaller, and no block by itself."""
        return self._compress(Compression.WHOLE)

    def deduplicate(self) -> Self:
        """Write a body that the content store already has as a digest, and store every other body.

        With a store that several packs share, even the first occurrence in a pack may become a reference.
        """
        self._deduplicate = True
        return self

    def encode(self) -> bytes:
        """Encode the pack. Raises an ``EncodeError``, ``MissingContentStore`` or ``TreeTooDeep``."""
        return encode_entries(
            self._entries, self._store, compression=self._compression, deduplicate=self._deduplicate
        )

    def _compress(self, compression: Compression) -> Self:
        if self._compression is not Compression.WHOLE:  # WHOLE overrides BLOCKS, in any order
            self._compression = compression
        return self

    def _last(self, method: str) -> Entry:
        if not self._entries:
            raise NoBlockTarget(method=method)
        return self._entries[-1]


def _bytes(content: str | bytes) -> bytes:
    return text_bytes("content", content) if isinstance(content, str) else content
