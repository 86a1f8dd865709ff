"""Writing packs (lcp-wire section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lcp.wire import END, HEADER, frame, number, run, varint
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
    Hunk,
    ImageBlock,
    LineRange,
    StructuredDataBlock,
    ToolResultBlock,
    TreeEntry,
    UnknownBlock,
)
from tokenbox.errors import TokenboxError
from tokenbox.lcp import Compression, LcpError, MemoryStore, PackBuilder, decode, encode
from tokenbox.lcp.errors import (
    BlockTooLarge,
    EmptyPayload,
    MissingContentStore,
    NoBlockTarget,
    TreeTooDeep,
    UnencodableValue,
)
from tokenbox.lcp.frames import MAX_BODY, MAX_TREE_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = CodeBlock(Lang.GO, "a.go", b"package a")
LONG = CodeBlock(Lang.GO, "long.go", b"package a\n" * 100)


def test_fields_are_written_in_ascending_order_and_absent_options_not_at_all() -> None:
    body = number(1, 5) + run(2, b"a.go") + run(3, b"package a")
    assert encode([CODE]) == HEADER + frame(1, body) + END


def test_the_size_of_a_file_entry_is_always_written() -> None:
    folder = FileTreeBlock("r", (TreeEntry("d", EntryKind.DIRECTORY),))
    entry = run(1, b"d") + number(2, 1) + number(3, 0)
    assert encode([folder]) == HEADER + frame(3, run(1, b"r") + run(2, entry, 2)) + END


def test_an_extension_has_a_type_of_two_bytes() -> None:
    body = run(1, b"n") + run(2, b"t") + run(3, b"c")
    assert encode([ExtensionBlock("n", "t", b"c")]) == HEADER + b"\xfe\x01\0" + varint(len(body)) + body + END


def test_each_add_method_adds_its_block() -> None:
    tree, hunk = TreeEntry("f", EntryKind.FILE, 3), Hunk(1, 1, b"+x\n")
    builder = (
        PackBuilder()
        .add_code(Lang.GO, "a.go", "é", lines=(1, 2))
        .add_conversation(TurnRole.TOOL, b"\xff", tool_call_id="c")
        .add_file_tree("r", [tree])
        .add_tool_result("t", ToolStatus.TIMEOUT, "x", schema_hint="s")
        .add_document("d", "x", FormatHint.HTML)
        .add_structured_data(DataFormat.CSV, "x", schema="s")
        .add_diff("p", [hunk])
        .add_annotation(3, AnnotationKind.TAG, "x")
        .add_embedding_ref(b"v", b"h", "m")
        .add_image(MediaType.SVG, "alt", "https://example.org/a.svg")
        .add_extension("n", "k", "x")
        .add(UnknownBlock(0x42, b"x"))
    )
    expected: tuple[Block, ...] = (
        CodeBlock(Lang.GO, "a.go", "é".encode(), LineRange(1, 2)),
        ConversationBlock(TurnRole.TOOL, b"\xff", "c"),
        FileTreeBlock("r", (tree,)),
        ToolResultBlock("t", ToolStatus.TIMEOUT, b"x", "s"),
        DocumentBlock("d", b"x", FormatHint.HTML),
        StructuredDataBlock(DataFormat.CSV, b"x", "s"),
        DiffBlock("p", (hunk,)),
        AnnotationBlock(3, AnnotationKind.TAG, b"x"),
        EmbeddingRefBlock(b"v", b"h", "m"),
        ImageBlock(MediaType.SVG, "alt", b"https://example.org/a.svg"),
        ExtensionBlock("n", "k", b"x"),
        UnknownBlock(0x42, b"x"),
    )
    assert decode(builder.encode()).blocks == expected


@pytest.mark.parametrize("type_id", [0, 253])
def test_an_unknown_block_has_any_free_type(type_id: int) -> None:
    block = UnknownBlock(type_id, b"x")
    assert decode(encode([block])).blocks == (block,)


def test_a_pack_without_blocks_is_refused_before_a_missing_store() -> None:
    with pytest.raises(EmptyPayload):
        PackBuilder().deduplicate().encode()


@pytest.mark.parametrize("ask", [PackBuilder.with_content_addressing, PackBuilder.deduplicate])
def test_references_need_a_store(ask: Callable[[PackBuilder], PackBuilder]) -> None:
    with pytest.raises(MissingContentStore):
        ask(PackBuilder().add(CODE)).encode()


REQUESTS: dict[str, Callable[[PackBuilder], PackBuilder]] = {
    "with_summary": lambda builder: builder.with_summary("s"),
    "with_priority": lambda builder: builder.with_priority(Priority.LOW),
    "with_compression": PackBuilder.with_compression,
    "with_content_addressing": PackBuilder.with_content_addressing,
}


@pytest.mark.parametrize("method", REQUESTS)
def test_a_request_before_the_first_block_has_no_target(method: str) -> None:
    with pytest.raises(NoBlockTarget) as caught:
        REQUESTS[method](PackBuilder())
    assert caught.value.method == method


def test_a_priority_is_an_annotation_of_the_block_added_last() -> None:
    data = PackBuilder().add(LONG).add(CODE).with_priority(Priority.CRITICAL).encode()
    assert decode(data).blocks[2] == AnnotationBlock(1, AnnotationKind.PRIORITY, b"\x01")


def test_a_summary_after_a_priority_is_that_of_the_annotation() -> None:
    code, annotation = decode(
        PackBuilder().add(CODE).with_priority(Priority.LOW).with_summary("s").encode()
    ).blocks
    assert (code.summary, annotation.summary) == (None, "s")


def body_of(size: int) -> UnknownBlock:
    return UnknownBlock(0x42, bytes(size))


def test_a_body_of_exactly_16_mib_passes_and_one_byte_more_does_not() -> None:
    assert len(encode([body_of(MAX_BODY)])) > MAX_BODY
    with pytest.raises(BlockTooLarge) as caught:
        encode([CODE, body_of(MAX_BODY + 1)])
    assert (caught.value.size, caught.value.limit, caught.value.block) == (MAX_BODY + 1, MAX_BODY, 1)


def test_the_summary_counts_for_the_size_of_the_body() -> None:
    with pytest.raises(BlockTooLarge):
        PackBuilder().add(body_of(MAX_BODY)).with_summary("").encode()


# Compression


def flags(data: bytes) -> list[int]:
    return [item.flags for item in decode(data, MemoryStore()).frames]


def test_per_block_compression_starts_at_256_bytes_of_body() -> None:
    assert flags(encode([body_of(255), body_of(256)], compression=Compression.BLOCKS)) == [0, 2]


def test_what_does_not_get_smaller_is_stored_plain() -> None:
    noise = bytes((i * i * 31 + i * 7 + (i * i * i) % 251) % 256 for i in range(300))
    assert flags(encode([UnknownBlock(0x42, noise)], compression=Compression.BLOCKS)) == [0]
    whole = encode([UnknownBlock(0x42, b"\x01\x02\x03")], compression=Compression.WHOLE)
    assert not decode(whole).header.compressed


def test_with_compression_is_about_one_block() -> None:
    assert flags(PackBuilder().add(LONG).add(LONG).with_compression().add(LONG).encode()) == [0, 2, 0]


def test_compress_blocks_is_about_blocks_before_and_after_it() -> None:
    assert flags(PackBuilder().add(LONG).compress_blocks().add(LONG).encode()) == [2, 2]


@pytest.mark.parametrize(
    "builder",
    [
        PackBuilder().compress_blocks().compress_payload(),
        PackBuilder().compress_payload().compress_blocks(),
    ],
)
def test_whole_payload_compression_turns_that_of_blocks_off(builder: PackBuilder) -> None:
    data = builder.add(LONG).with_compression().encode()
    assert decode(data).header.compressed
    assert flags(data) == [0]


def test_it_does_so_even_where_the_whole_gets_no_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenbox.lcp.encoder.compressed", lambda _: None)
    data = PackBuilder().add(LONG).with_compression().compress_payload().encode()
    assert not decode(data).header.compressed
    assert flags(data) == [0]


def test_the_summary_is_compressed_with_the_body() -> None:
    data = PackBuilder().add(LONG).with_summary("in short").with_compression().encode()
    assert b"in short" in decode(data).blocks[0].summary.encode()  # type: ignore[union-attr]
    assert flags(data) == [3]


# Addressing


def test_a_reference_is_32_bytes_and_never_compressed() -> None:
    store = MemoryStore()
    data = PackBuilder(store).add(LONG).with_content_addressing().with_compression().encode()
    pack = decode(data, store)
    assert (pack.frames[0].flags, pack.frames[0].stored_size) == (4, 32)
    assert pack.blocks == (LONG,)


def test_deduplication_stores_the_first_inline_and_the_second_as_reference() -> None:
    store = MemoryStore()
    data = encode([LONG, LONG], store=store, deduplicate=True)
    pack = decode(data, store)
    assert [item.reference for item in pack.frames] == [False, True]
    assert pack.blocks == (LONG, LONG)


def test_deduplication_includes_annotations() -> None:
    annotation = AnnotationBlock.of_priority(0, Priority.LOW)
    store = MemoryStore()
    data = encode([annotation, annotation], store=store, deduplicate=True)
    assert [item.reference for item in decode(data, store).frames] == [False, True]


def test_a_shared_store_turns_a_first_occurrence_into_a_reference() -> None:
    store = MemoryStore()
    encode([LONG], store=store, deduplicate=True)
    assert decode(encode([LONG], store=store, deduplicate=True), store).frames[0].reference


def test_equal_content_under_two_paths_is_not_shared() -> None:
    store = MemoryStore()
    blocks = [CodeBlock(Lang.GO, path, b"same") for path in ("a", "b")]
    pack = decode(encode(blocks, store=store, deduplicate=True), store)
    assert not any(item.reference for item in pack.frames)
    assert len(store) == 2


# Values without a form on the wire


@pytest.mark.parametrize(
    ("block", "field"),
    [
        (CodeBlock(Lang.GO, "\udc80", b""), "path"),
        (CodeBlock(Lang.GO, "a", b"", summary="\ud800"), "summary"),
        (CodeBlock(Lang.GO, "a", b"", LineRange(-1, 2)), "line_start"),
        (CodeBlock(Lang.GO, "a", b"", LineRange(1, 2**32)), "line_end"),
        (CodeBlock(Lang.GO, "a", "text"), "content"),  # type: ignore[arg-type]
        (CodeBlock(256, "a", b""), "lang"),  # type: ignore[arg-type]
        (CodeBlock(Lang.GO, None, b""), "path"),  # type: ignore[arg-type]
        (ConversationBlock(9, b""), "role"),  # type: ignore[arg-type]
        (FileTreeBlock("r", (TreeEntry("a", EntryKind.FILE, 2**64),)), "size"),
        (FileTreeBlock("r", (TreeEntry("a", 2),)), "kind"),  # type: ignore[arg-type]
        (AnnotationBlock(2**32, AnnotationKind.TAG, b""), "target_block_id"),
        (UnknownBlock(0x01, b""), "id"),
        (UnknownBlock(0xFF, b""), "id"),
        (UnknownBlock(256, b""), "id"),
        (UnknownBlock(0x42, "text"), "body"),  # type: ignore[arg-type]
    ],
)
def test_a_value_without_a_form_is_refused_by_field_and_block(block: Block, field: str) -> None:
    with pytest.raises(UnencodableValue) as caught:
        encode([CODE, block])
    assert (caught.value.field, caught.value.block) == (field, 1)
    assert isinstance(caught.value, TokenboxError)


def test_only_blocks_can_be_added() -> None:
    with pytest.raises(UnencodableValue):
        PackBuilder().add("text")  # type: ignore[arg-type]


def nest(depth: int) -> FileTreeBlock:
    entry = TreeEntry("leaf")
    for _ in range(depth - 1):
        entry = TreeEntry("d", EntryKind.DIRECTORY, 0, (entry,))
    return FileTreeBlock("r", (entry,))


def test_a_tree_that_readers_accept_can_be_written_and_no_deeper_one() -> None:
    deepest = nest(MAX_TREE_DEPTH)
    assert decode(encode([deepest])).blocks == (deepest,)
    with pytest.raises(TreeTooDeep):
        encode([nest(MAX_TREE_DEPTH + 1)])
    with pytest.raises(LcpError):
        encode([nest(5_000)])
