"""zstd in packs (lcp-wire 4.2 and section 11)."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.lcp.strategies import chunked, contents
from tests.lcp.wire import CODE, COMPRESSED_HEADER, END, HEADER, frame, number, pack, run, varint
from tokenbox.content.block_kinds import Lang
from tokenbox.content.blocks import CodeBlock, UnknownBlock
from tokenbox.lcp import BlockEvent, Decoder, EndEvent, Event, Limits, decode
from tokenbox.lcp.compression import ZstdPieces, compressed, expanded
from tokenbox.lcp.errors import DecompressFailed, DecompressionBomb, MissingEndSentinel, TrailingData
from tokenbox.lcp.frames import MAX_EXPANDED_BLOCK, MAX_EXPANDED_PAYLOAD

BLOCK = CodeBlock(Lang.RUST, "a.rs", b"fn")
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\0\0\0hello"


def zstd(data: bytes, *, size: bool = False, checksum: bool = False, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_content_size=size, write_checksum=checksum).compress(
        data
    )


@pytest.mark.parametrize(
    ("size", "checksum", "level"), list(itertools.product([True, False], [True, False], [1, 19]))
)
@pytest.mark.parametrize("data", [b"", b"a", b"ab" * 200_000, bytes(range(256)) * 3], ids=len)
def test_frames_of_any_writer_are_expanded(data: bytes, size: bool, checksum: bool, level: int) -> None:
    assert expanded(zstd(data, size=size, checksum=checksum, level=level), 1 << 20) == data


def test_our_frames_have_no_content_size_and_no_check_sum() -> None:
    packed = compressed(bytes(1000))
    assert packed is not None
    parameters = zstandard.get_frame_parameters(packed)
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert not parameters.has_checksum
    assert parameters.dict_id == 0


def test_only_what_gets_strictly_smaller_is_compressed() -> None:
    assert compressed(b"") is None
    assert compressed(b"abc") is None


def test_concatenated_and_skippable_frames_are_one_stream() -> None:
    data = SKIPPABLE + zstd(b"one ") + zstd(b"") + SKIPPABLE + zstd(b"two") + SKIPPABLE
    assert expanded(data, 100) == b"one two"


@given(st.data())
def test_pieces_are_the_same_in_any_chunks(data: st.DataObject) -> None:
    stream = b"".join(
        zstd(data.draw(contents), size=data.draw(st.booleans()), checksum=data.draw(st.booleans()))
        for _ in range(data.draw(st.integers(0, 3)))
    )
    pieces = ZstdPieces()
    found = [piece for chunk in data.draw(chunked(stream)) for piece, _ in pieces.feed(chunk)]
    assert found == [piece for piece, _ in ZstdPieces().feed(stream)]
    assert b"".join(found) == stream
    assert pieces.complete == bool(stream)


def test_pieces_are_the_same_wherever_the_stream_is_split_in_two() -> None:
    stream = zstd(b"one", checksum=True) + SKIPPABLE + zstd(b"two" * 300, size=True) + SKIPPABLE
    whole = [piece for piece, _ in ZstdPieces().feed(stream)]
    for cut in range(len(stream)):
        pieces = ZstdPieces()
        halves = stream[:cut], stream[cut:]
        assert [piece for half in halves for piece, _ in pieces.feed(half)] == whole, cut
        assert pieces.complete


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_cut_off_stream_fails(cut: int) -> None:
    with pytest.raises(DecompressFailed):
        expanded(zstd(b"hello world", checksum=True)[:-cut], 100)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not zstd",
        zstd(b"a") + b"rest",
        zstd(b"a") + b"\x28",
        SKIPPABLE[:-1],
        b"\x28\xb5\x2f\xfd\x00\x58\x07\0\0",  # a block of the reserved type
        b"\x28\xb5\x2f\xfd\x00\x58\xf9\xff\xff",  # a block of 2 MiB
        zstd(b"hello world", checksum=True)[:-1] + b"\xff",
    ],
)
def test_bad_data_fails(data: bytes) -> None:
    with pytest.raises(DecompressFailed):
        expanded(data, 100)


def test_four_bytes_are_enough_to_see_that_it_is_not_zstd() -> None:
    with pytest.raises(DecompressFailed, match="it is not zstd"):
        expanded(b"rest", 100)


def test_a_compressed_block() -> None:
    packed = zstd(b"\x02hi" + CODE)
    read = decode(pack(frame(1, packed, 3)))
    assert read.blocks == (CodeBlock(Lang.RUST, "a.rs", b"fn", summary="hi"),)
    assert (read.frames[0].stored_size, read.frames[0].body_size) == (len(packed), 3 + len(CODE))


def test_damage_in_a_block_says_which_block() -> None:
    with pytest.raises(DecompressFailed) as caught:
        decode(pack(frame(1, CODE), frame(1, b"not zstd", 2)))
    assert caught.value.block == 1


def whole(*frames: bytes) -> bytes:
    return COMPRESSED_HEADER + zstd(b"".join(frames))


def test_a_compressed_payload_with_a_compressed_block_in_it() -> None:
    assert decode(whole(frame(1, zstd(CODE), 2), END)).blocks == (BLOCK,)


def test_a_compressed_payload_of_several_frames_cut_anywhere() -> None:
    inner = frame(1, CODE) + END
    for cut in range(len(inner)):
        assert decode(COMPRESSED_HEADER + zstd(inner[:cut]) + zstd(inner[cut:])).blocks == (BLOCK,)


def test_in_a_compressed_payload_end_is_required_and_must_be_last() -> None:
    with pytest.raises(MissingEndSentinel):
        decode(whole(frame(1, CODE)))
    with pytest.raises(TrailingData) as caught:
        decode(whole(frame(1, CODE), END, b"more"))
    assert caught.value.extra == 4


@pytest.mark.parametrize("rest", [b"", b"no zstd", zstd(frame(1, CODE) + END)[:-1]])
def test_an_empty_damaged_or_cut_off_compressed_payload_fails(rest: bytes) -> None:
    with pytest.raises(DecompressFailed):
        decode(COMPRESSED_HEADER + rest)


def test_a_damaged_tail_is_noticed_though_end_was_read() -> None:
    decoder = Decoder()
    events = decoder.feed(COMPRESSED_HEADER + zstd(frame(1, CODE) + END) + b"rest")
    assert isinstance(events[-1], EndEvent)
    with pytest.raises(DecompressFailed):
        decoder.finish()


# Limits


def test_exactly_the_limit_of_a_block_is_fine_and_one_more_is_a_bomb() -> None:
    (block,) = decode(pack(frame(0x42, zstd(bytes(MAX_EXPANDED_BLOCK)), 2))).blocks
    assert block == UnknownBlock(0x42, bytes(MAX_EXPANDED_BLOCK))
    with pytest.raises(DecompressionBomb) as caught:
        decode(pack(frame(0x42, zstd(bytes(MAX_EXPANDED_BLOCK + 1)), 2)))
    assert caught.value.limit == MAX_EXPANDED_BLOCK < caught.value.actual


def test_exactly_the_limit_of_a_payload_is_fine_and_one_more_is_a_bomb() -> None:
    inner = frame(0x42, bytes(1000)) + END
    data = COMPRESSED_HEADER + zstd(inner)
    assert decode(data, limits=Limits(expanded_payload=len(inner))).blocks
    with pytest.raises(DecompressionBomb):
        decode(data, limits=Limits(expanded_payload=len(inner) - 1))


def test_the_default_limit_of_a_payload_holds() -> None:
    # 300 MiB of unknown blocks of 1 MiB: 30 kB.
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    part = frame(0x42, bytes(1 << 20))
    data = COMPRESSED_HEADER + b"".join(compressor.compress(part) for _ in range(300)) + compressor.flush()
    decoder = Decoder()
    blocks = 0
    with pytest.raises(DecompressionBomb):  # noqa: PT012  # which of the feeds it is, is not the point
        for at in range(0, len(data), 100):
            blocks += len(decoder.feed(data[at : at + 100]))
    assert blocks == MAX_EXPANDED_PAYLOAD // len(part) + 1  # and the header


def peak_of(data: bytes, limits: Limits) -> int:
    """Bytes allocated at most by the failing attempt to decode ``data``."""
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionBomb):
            decode(data, limits=limits)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_output_is_bounded_while_it_grows() -> None:
    bomb = zstd(varint(0x42) + b"\0" + varint(1 << 28) + bytes(1 << 28))  # 256 MiB in 8 kB
    limits = Limits(frame=None, expanded_block=1 << 20, expanded_payload=1 << 20)
    assert peak_of(COMPRESSED_HEADER + bomb, limits) < 4 << 20
    assert peak_of(pack(frame(0x42, bomb, 2)), limits) < 4 << 20


def test_header_is_not_part_of_the_compressed_payload() -> None:
    with pytest.raises(DecompressFailed):
        decode(COMPRESSED_HEADER[:8] + HEADER)


def test_blocks_have_a_limit_together() -> None:
    body = CODE + b"\x63\x00\x01" * 5_000
    data = pack(*[frame(1, zstd(body), 2)] * 4, frame(1, CODE))
    limits = Limits(expanded_payload=4 * len(body))
    assert len(decode(data, limits=limits).blocks) == 5
    read: list[Event] = []
    with pytest.raises(DecompressionBomb) as caught:
        read.extend(Decoder(limits=Limits(expanded_payload=4 * len(body) - 1)).events(data))
    assert (caught.value.block, len(read)) == (3, 4)  # the header, and the blocks before it


def test_a_small_pack_of_large_blocks_is_refused_in_little_memory() -> None:
    """150 KB that would be 4.7 GB: 300 blocks that each expand to nearly 16 MiB."""
    block = zstd(number(1, 1) + run(2, b"a.rs") + run(3, bytes(MAX_EXPANDED_BLOCK - 100)))
    data = pack(*[frame(1, block, 2)] * 300)
    assert len(data) < 200_000
    kinds: list[type] = []
    tracemalloc.start()
    with pytest.raises(DecompressionBomb):
        kinds.extend(type(event) for event in Decoder().events(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kinds.count(BlockEvent) == MAX_EXPANDED_PAYLOAD // MAX_EXPANDED_BLOCK
    assert peak < 4 * MAX_EXPANDED_BLOCK
