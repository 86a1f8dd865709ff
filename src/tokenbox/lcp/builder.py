"""Building a pack step by step (lcp-wire section 5)."""

from __future__ import annotations

from dataclasses import replace
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
)
from tokenbox.lcp.encoder import Compression, Entry, encode_entries
from tokenbox.lcp.errors import NoBlockTarget, UnencodableValue
from tokenbox.lcp.fields import text_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from tokenbox.content.block_kinds import (
        AnnotationKind,
        DataFormat,
        FormatHint,
        Lang,
        MediaType,
        Priority,
        Role,
        Status,
    )
    from tokenbox.content.blocks import Hunk, TreeEntry
    from tokenbox.lcp.addressing import ContentStore


class PackBuilder:
    """Collects blocks and requests, then writes the pack.

    Every method but ``encode`` returns the builder. Those called ``with_...`` are about the block added last,
    and raise ``NoBlockTarget`` before the first. ``store`` takes the bodies of content addressing.

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
        if not isinstance(block, Block):
            raise UnencodableValue(f"item {len(self._entries)}", f"is a block, not {type(block).__name__}")
        self._entries.append(Entry(block))
        return self

    def add_code(
        self, lang: Lang, path: str, content: str | bytes, *, lines: tuple[int, int] | None = None
    ) -> Self:
        """Append a file of source code, or ``lines`` of it (first and last, from 1)."""
        return self.add(CodeBlock(lang, path, _bytes(content), None if lines is None else LineRange(*lines)))

    def add_conversation(self, role: Role, content: str | bytes, *, tool_call_id: str | None = None) -> Self:
        return self.add(ConversationBlock(role, _bytes(content), tool_call_id))

    def add_file_tree(self, root_path: str, entries: Iterable[TreeEntry]) -> Self:
        return self.add(FileTreeBlock(root_path, tuple(entries)))

    def add_tool_result(
        self, tool_name: str, status: Status, content: str | bytes, *, schema_hint: str | None = None
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
        """Append an annotation of block ``target`` (index from 0, annotations counted)."""
        return self.add(AnnotationBlock(target, kind, _bytes(value)))

    def add_embedding_ref(self, vector_id: bytes, source_hash: bytes, model: str) -> Self:
        return self.add(EmbeddingRefBlock(vector_id, source_hash, model))

    def add_image(self, media_type: MediaType, alt_text: str, data: str | bytes) -> Self:
        """Append an image: its bytes, or a URI as text."""
        return self.add(ImageBlock(media_type, alt_text, _bytes(data)))

    def add_extension(self, namespace: str, kind: str, content: str | bytes) -> Self:
        return self.add(ExtensionBlock(namespace, kind, _bytes(content)))

    def with_summary(self, summary: str) -> Self:
        """Give the last block a summary. After :meth:`with_priority` the last block is the annotation."""
        entry = self._last("with_summary")
        entry.block = replace(entry.block, summary=summary)
        return self

    def with_priority(self, priority: Priority) -> Self:
        """Append the annotation that gives the last block a priority."""
        self._last("with_priority")
        return self.add(AnnotationBlock.of_priority(len(self._entries) - 1, priority))

    def with_compression(self) -> Self:
        """Compress the last block if that makes it smaller and it has at least 256 bytes."""
        self._last("with_compression").compress = True
        return self

    def with_content_addressing(self) -> Self:
        """Store the last block's body in the content store, and only its digest in the pack."""
        self._last("with_content_addressing").address = True
        return self

    def compress_blocks(self) -> Self:
        """Compress every block, those added before and after, as :meth:`with_compression` does one."""
        return self._compress(Compression.BLOCKS)

    def compress_payload(self) -> Self:
        """Compress the pack as a whole if that makes it smaller. No block is then compressed by itself."""
        return self._compress(Compression.WHOLE)

    def deduplicate(self) -> Self:
        """Write a body that the content store has already as its digest, and put every other one there.

        A store that several packs share can so turn a first occurrence into a reference.
        """
        self._deduplicate = True
        return self

    def encode(self) -> bytes:
        """The pack. Raises an ``EncodeError``, ``MissingContentStore`` or ``TreeTooDeep``."""
        return encode_entries(
            self._entries, self._store, compression=self._compression, deduplicate=self._deduplicate
        )

    def _compress(self, compression: Compression) -> Self:
        if self._compression is not Compression.WHOLE:  # which turns the other off, whatever came first
            self._compression = compression
        return self

    def _last(self, method: str) -> Entry:
        if not self._entries:
            raise NoBlockTarget(method)
        return self._entries[-1]


def _bytes(content: str | bytes) -> bytes:
    return text_bytes("content", content) if isinstance(content, str) else content
