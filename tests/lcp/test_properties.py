"""What holds for every pack, every chunking and any bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.lcp.strategies import block_lists, chunked
from tests.lcp.wire import HEADER
from tokenbox.content.block_kinds import AnnotationKind, Priority
from tokenbox.content.blocks import AnnotationBlock, Block
from tokenbox.lcp import (
    BlockEvent,
    Compression,
    Decoder,
    Event,
    LcpError,
    Limits,
    MemoryStore,
    PackBuilder,
    decode,
    encode,
    encode_again,
)
from tools.fuzz_lcp import check

pytestmark = pytest.mark.slow

FIXTURES = sorted((Path(__file__).parents[1] / "conformance" / "lcp").rglob("*.bcp"))


@given(block_lists, st.sampled_from(Compression), st.booleans())
def test_decoding_gives_what_was_encoded(
    blocks: list[Block], compression: Compression, deduplicate: bool
) -> None:
    store = MemoryStore()
    data = encode(blocks, store=store, compression=compression, deduplicate=deduplicate)
    assert list(decode(data, store).blocks) == blocks


@st.composite
def built_packs(draw: st.DrawFn) -> tuple[bytes, list[Block], MemoryStore]:
    """A pack of the builder, with any requests in any order."""
    store = MemoryStore()
    builder, expected = PackBuilder(store), list[Block]()
    for block in draw(block_lists):
        builder.add(block)
        expected.append(block)
        for request in draw(
            st.lists(st.sampled_from(["summary", "compress", "address", "priority"]), max_size=3)
        ):
            match request:
                case "summary":
                    builder.with_summary("in short")
                    expected[-1] = replace(expected[-1], summary="in short")
                case "compress":
                    builder.with_compression()
                case "address":
                    builder.with_content_addressing()
                case "priority":
                    target = len(expected) - 1
                    builder.with_priority(Priority.LOW)
                    expected.append(AnnotationBlock(target, AnnotationKind.PRIORITY, b"\x04"))
    for request in draw(st.lists(st.sampled_from(["blocks", "payload", "deduplicate"]), max_size=2)):
        match request:
            case "blocks":
                builder.compress_blocks()
            case "payload":
                builder.compress_payload()
            case "deduplicate":
                builder.deduplicate()
    return builder.encode(), expected, store


@given(built_packs())
def test_whatever_was_asked_for_the_blocks_come_back(built: tuple[bytes, list[Block], MemoryStore]) -> None:
    data, expected, store = built
    assert list(decode(data, store).blocks) == expected


@given(built_packs())
def test_encoding_a_decoded_pack_gives_the_same_bytes(built: tuple[bytes, list[Block], MemoryStore]) -> None:
    data, _, store = built
    assert encode_again(decode(data, store), MemoryStore()) == data


def outcome(chunks: list[bytes], store: MemoryStore | None = None) -> tuple[list[Event], object]:
    """The events of ``chunks``, and the error that ended them as data."""
    decoder, events = Decoder(store, limits=Limits(frame=None)), list[Event]()
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        decoder.finish()
    except LcpError as error:
        return events, error.to_dict()
    return events, None


@given(built_packs(), st.data())
def test_any_chunking_gives_the_same_events(
    built: tuple[bytes, list[Block], MemoryStore], data: st.DataObject
) -> None:
    packed, expected, store = built
    events, error = outcome(data.draw(chunked(packed)), store)
    assert error is None
    assert events == outcome([packed], store)[0]
    assert [event.block for event in events if isinstance(event, BlockEvent)] == expected


@given(built_packs(), st.data())
def test_a_changed_pack_gives_the_same_outcome_in_any_chunks(
    built: tuple[bytes, list[Block], MemoryStore], data: st.DataObject
) -> None:
    packed, _, store = built
    damaged = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        match data.draw(st.sampled_from(["set", "insert", "cut"])):
            case "set" if at < len(damaged):
                damaged[at] = data.draw(st.integers(0, 255))
            case "insert":
                damaged[at:at] = data.draw(st.binary(max_size=4))
            case _:
                del damaged[at : at + data.draw(st.integers(0, 9))]
    mutated = bytes(damaged)
    whole = outcome([mutated], store)
    assert outcome(data.draw(chunked(mutated)), store) == whole
    events, error = whole
    if error is None:
        read = [event.block for event in events if isinstance(event, BlockEvent)]
        assert list(decode(mutated, store).blocks) == read
        return
    with pytest.raises(LcpError) as caught:
        decode(mutated, store)
    assert caught.value.to_dict() == error


@given(st.binary(max_size=60) | st.binary(max_size=60).map(HEADER.__add__))
@example(b"BCP\0\x01\0\x01\0")
def test_any_bytes_give_a_pack_or_an_lcp_error(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.parent.name)
def test_every_prefix_of_a_pack_is_refused(fixture: Path) -> None:
    data = fixture.read_bytes()[:600]  # the one that is longer is one block
    for length in range(len(data) - 5):
        with pytest.raises(LcpError):
            decode(data[:length])


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.parent.name)
def test_every_changed_byte_of_a_pack_is_read_or_refused(fixture: Path) -> None:
    data = fixture.read_bytes()[:210]
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x10):
            check(data[:at] + bytes([value]) + data[at + 1 :])
