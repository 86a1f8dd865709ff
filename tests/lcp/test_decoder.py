"""The incremental decoder, and how both decoders treat what is hostile."""

from __future__ import annotations

import sys
import tracemalloc
from array import array

import pytest

from tests.lcp.wire import CODE, COMPRESSED_HEADER, END, HEADER, frame, nested, number, pack, run, varint
from tokenbox.content.block_kinds import Lang
from tokenbox.content.blocks import CodeBlock, FileTreeBlock, LineRange, UnknownBlock
from tokenbox.errors import TokenboxError
from tokenbox.lcp import BlockEvent, Decoder, EndEvent, Event, Frame, Header, HeaderEvent, Limits, decode
from tokenbox.lcp.errors import (
    FrameTooLarge,
    InvalidBlockType,
    InvalidHeader,
    MissingEndSentinel,
    MissingRequiredField,
    TooManyElements,
    TrailingData,
    TreeTooDeep,
    UnexpectedEof,
    VarintTooLong,
)
from tokenbox.lcp.frames import HAS_SUMMARY, MAX_BODY, MAX_TREE_DEPTH

BLOCK = CodeBlock(Lang.RUST, "a.rs", b"fn")
FRAME = frame(1, CODE)


def test_one_byte_at_a_time_each_event_comes_with_its_last_byte() -> None:
    decoder = Decoder()
    came: list[tuple[int, Event]] = []
    for at, byte in enumerate(HEADER + FRAME + END):
        came += [(at + 1, event) for event in decoder.feed(bytes([byte]))]
    decoder.finish()
    after_frame = 8 + len(FRAME)
    assert came == [
        (8, HeaderEvent(Header())),
        (after_frame, BlockEvent(0, BLOCK, Frame(0, 8, len(CODE), len(CODE)))),
        (after_frame + 4, EndEvent(1, after_frame + 4)),
    ]


def test_an_array_of_larger_items_is_its_bytes() -> None:
    data = pack(FRAME)
    data += bytes(-len(data) % 4)  # whole items; the bytes after a pack are not of it
    packed = memoryview(array("I", data))
    assert packed.itemsize > 1
    assert Decoder().feed(packed) == Decoder().feed(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_fed_and_may_change_afterwards(kind: type[bytes]) -> None:
    data = bytearray(pack(FRAME))
    decoder, events = Decoder(), list[Event]()
    for part in (data[:20], data[20:]):
        chunk = kind(part)
        events += decoder.feed(chunk)
        part[:] = bytes(len(part))
    decoder.finish()
    assert [event.block for event in events if isinstance(event, BlockEvent)] == [BLOCK]


def test_events_before_a_fault_are_returned_and_the_fault_comes_with_the_next_call() -> None:
    decoder = Decoder()
    events = decoder.feed(HEADER + FRAME + frame(1, b""))
    assert [type(event) for event in events] == [HeaderEvent, BlockEvent]
    for _ in range(2):
        with pytest.raises(MissingRequiredField):
            decoder.feed(END)
    with pytest.raises(MissingRequiredField):
        decoder.finish()


def test_a_fault_without_events_before_it_is_raised_at_once() -> None:
    decoder = Decoder()
    with pytest.raises(InvalidHeader):
        decoder.feed(b"no pack at all")


def test_nothing_is_fed_to_a_finished_decoder() -> None:
    decoder = Decoder()
    decoder.feed(pack(FRAME))
    decoder.finish()
    with pytest.raises(ValueError, match="finished"):
        decoder.feed(b"")


def test_finish_says_what_is_missing() -> None:
    def fault(data: bytes) -> TokenboxError:
        decoder = Decoder()
        decoder.feed(data)
        with pytest.raises(TokenboxError) as caught:
            decoder.finish()
        return caught.value

    assert isinstance(fault(b""), InvalidHeader)
    assert isinstance(fault(HEADER[:7]), InvalidHeader)
    assert isinstance(fault(HEADER), MissingEndSentinel)
    assert isinstance(fault(HEADER + FRAME), MissingEndSentinel)
    cut = fault(HEADER + FRAME[:-1])
    assert isinstance(cut, UnexpectedEof)
    assert (cut.block, cut.offset) == (0, 8 + len(FRAME) - 1)


def test_trailing_data_is_counted_over_several_feeds_and_not_read() -> None:
    decoder = Decoder()
    decoder.feed(pack(FRAME) + b"\xff")
    assert decoder.feed(pack(FRAME)) == []
    with pytest.raises(TrailingData) as caught:
        decoder.finish()
    assert caught.value.extra == 1 + len(pack(FRAME)) == decoder.trailing
    assert caught.value.offset == len(pack(FRAME))


def test_a_store_that_fails_is_reported_like_any_fault() -> None:
    class Broken(TokenboxError):
        pass

    class Store:
        def get(self, digest: bytes) -> bytes | None:
            raise Broken("the disk is gone")

        def put(self, digest: bytes, body: bytes) -> None:
            raise NotImplementedError

    decoder = Decoder(Store())
    assert len(decoder.feed(pack(FRAME, frame(1, bytes(32), 4)))) == 2
    with pytest.raises(Broken):
        decoder.finish()


# Hostile


def test_ten_continuation_bytes_in_a_frame() -> None:
    decoder = Decoder()
    decoder.feed(HEADER)
    assert decoder.feed(b"\x80" * 10) == []
    with pytest.raises(VarintTooLong):
        decoder.feed(b"\x80")


def test_a_type_above_255_is_refused_before_its_body_comes() -> None:
    decoder = Decoder()
    decoder.feed(HEADER)
    with pytest.raises(InvalidBlockType):
        decoder.feed(varint(256) + b"\0" + varint(1 << 20))


def test_an_announced_size_over_the_limit_is_refused_before_the_body_comes() -> None:
    decoder = Decoder()
    decoder.feed(HEADER)
    with pytest.raises(FrameTooLarge) as caught:
        decoder.feed(varint(0x42) + b"\0" + varint(MAX_BODY + 1))
    assert (caught.value.size, caught.value.limit, caught.value.offset) == (MAX_BODY + 1, MAX_BODY, 8)


def test_a_block_of_exactly_the_limit_is_read() -> None:
    decoder = Decoder(limits=Limits(frame=len(CODE)))
    assert [type(event) for event in decoder.feed(HEADER + FRAME)] == [HeaderEvent, BlockEvent]
    smaller = Decoder(limits=Limits(frame=len(CODE) - 1))
    smaller.feed(HEADER)
    with pytest.raises(FrameTooLarge):
        smaller.feed(FRAME)


def test_the_buffered_decoder_has_no_such_limit_but_its_input() -> None:
    large = frame(0x42, bytes(MAX_BODY + 1))
    assert decode(pack(large)).blocks == (UnknownBlock(0x42, bytes(MAX_BODY + 1)),)
    with pytest.raises(FrameTooLarge):
        decode(pack(large), limits=Limits())


@pytest.mark.parametrize("size", [MAX_BODY, 1 << 40, 2**64 - 1])
def test_announced_sizes_allocate_nothing(size: int) -> None:
    in_frame = HEADER + varint(0x42) + b"\0" + varint(size)
    in_field = pack(frame(1, varint(3) + varint(1) + varint(size)))
    in_summary = pack(frame(1, varint(size), 1))
    tracemalloc.start()
    try:
        for data in (in_frame, in_field, in_summary):
            with pytest.raises(UnexpectedEof):
                decode(data)
            decoder = Decoder()
            decoder.feed(data)
            del decoder
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_memory_stays_flat_over_many_blocks() -> None:
    part = frame(0x42, bytes(100_000))
    decoder = Decoder()
    decoder.feed(HEADER)
    tracemalloc.start()
    try:
        for at in range(0, 200 * len(part), 4096):  # 20 MB
            start = at % len(part)
            decoder.feed((part + part)[start : start + 4096])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def tree_of(depth: int) -> bytes:
    """A FILE_TREE of nested folders, written by hand from the inside out."""
    parts: list[bytes] = []
    size = 0
    for _ in range(depth):
        fields = number(2, 1) + run(1, b"")
        head = varint(4) + varint(2) + varint(size + len(fields))
        parts.append(head + fields)
        size += len(fields) + len(head)
    outermost = varint(2) + parts[-1][1:]
    return pack(frame(3, run(1, b"r") + outermost + b"".join(reversed(parts[:-1]))))


def test_a_tree_of_the_deepest_accepted_nesting() -> None:
    (block,) = decode(tree_of(MAX_TREE_DEPTH)).blocks
    assert isinstance(block, FileTreeBlock)
    depth, entries = 0, block.entries
    while entries:
        depth, entries = depth + 1, entries[0].children
    assert depth == MAX_TREE_DEPTH


@pytest.mark.parametrize("depth", [MAX_TREE_DEPTH + 1, 20_000])
def test_a_deeper_tree_is_refused(depth: int) -> None:
    with pytest.raises(TreeTooDeep) as caught:
        decode(tree_of(depth))
    assert caught.value.block == 0


def test_nesting_never_uses_the_stack_of_python() -> None:
    data = tree_of(MAX_TREE_DEPTH)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len_of_stack() + 40)
    try:
        decoder = Decoder()
        decoder.feed(data)
    finally:
        sys.setrecursionlimit(limit)


def len_of_stack() -> int:
    frame_, depth = sys._getframe(), 0  # noqa: SLF001
    while frame_.f_back is not None:
        frame_, depth = frame_.f_back, depth + 1
    return depth


def test_the_depth_limit_can_be_lowered_and_not_raised() -> None:
    with pytest.raises(TreeTooDeep):
        decode(tree_of(3), limits=Limits(tree_depth=2))
    assert decode(tree_of(2), limits=Limits(tree_depth=2)).blocks
    with pytest.raises(ValueError, match="128"):
        Limits(tree_depth=129)


@pytest.mark.parametrize(
    "frames",
    [
        [frame(0x42, b"")] * 4,
        [frame(3, run(1, b"r") + nested(2, run(1, b"a"), number(2, 0)) * 3)],
        [frame(7, run(1, b"p") + nested(2, number(1, 1), number(2, 1), run(3, b"")) * 3)],
    ],
)
def test_blocks_entries_and_hunks_are_limited_together(frames: list[bytes]) -> None:
    assert decode(pack(*frames), limits=Limits(elements=4)).blocks
    with pytest.raises(TooManyElements):
        decode(pack(*frames), limits=Limits(elements=3))


def test_a_small_pack_cannot_hold_millions_of_blocks() -> None:
    import zstandard

    data = COMPRESSED_HEADER + zstandard.compress(bytes(1 << 20))  # 350,000 empty blocks in 60 bytes
    decoder = Decoder(limits=Limits(elements=1_000))
    assert len(decoder.feed(data)) == 1_001
    with pytest.raises(TooManyElements):
        decoder.finish()


def test_a_summary_may_be_all_that_an_unknown_block_has() -> None:
    summary = b"all of it"
    body = varint(len(summary)) + summary
    (block,) = decode(pack(frame(0x7E, body, HAS_SUMMARY))).blocks
    assert block == UnknownBlock(0x7E, b"", summary="all of it")


def test_a_line_number_has_32_bits() -> None:
    last = 2**32 - 1
    (block,) = decode(pack(frame(1, CODE + number(4, last) + number(5, last)))).blocks
    assert isinstance(block, CodeBlock)
    assert block.lines == LineRange(last, last)
