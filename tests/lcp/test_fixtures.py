"""The open conformance fixtures, byte for byte (lcp-wire section 12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokenbox.content.block_kinds import Lang, ToolStatus, TurnRole
from tokenbox.content.blocks import Block, CodeBlock, ConversationBlock, ToolResultBlock, UnknownBlock
from tokenbox.lcp import BlockEvent, Decoder, EndEvent, HeaderEvent, PackBuilder, decode, encode, encode_again
from tokenbox.lcp.errors import TrailingData

FIXTURES = Path(__file__).parents[1] / "conformance" / "lcp"

EXPECTED: dict[str, list[Block]] = {
    "simple_code": [CodeBlock(Lang.RUST, "src/main.rs", b'fn main() {\n    println!("Hello, BCP!");\n}')],
    "conversation": [
        ConversationBlock(TurnRole.USER, b"Fix the connection timeout bug."),
        ConversationBlock(
            TurnRole.ASSISTANT, b"I'll examine the pool configuration and trace the timeout path."
        ),
    ],
    "with_summaries": [
        CodeBlock(
            Lang.PYTHON,
            "server.py",
            b"import asyncio\n\nasync def serve():\n    pass",
            summary="Async HTTP server entry point.",
        ),
        ToolResultBlock(
            "ripgrep",
            ToolStatus.OK,
            b"src/main.rs:42: ConnectionPool::new()",
            summary="1 match for ConnectionPool across 1 file.",
        ),
    ],
    "compressed_blocks": [CodeBlock(Lang.RUST, "src/big.rs", b"fn placeholder() {}\n" * 20)],
    "edge_cases/empty_content": [CodeBlock(Lang.RUST, "empty.rs", b"")],
    "edge_cases/large_varint": [CodeBlock(Lang.RUST, "large.rs", b"x" * 16_384)],
    "edge_cases/unknown_block_type": [UnknownBlock(0x42, b"hello")],
}


def payload(name: str) -> bytes:
    return (FIXTURES / name / "payload.bcp").read_bytes()


def test_every_fixture_is_tested() -> None:
    found = {path.parent.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("payload.bcp")}
    assert found == {*EXPECTED, "edge_cases/trailing_data"}


@pytest.mark.parametrize("name", EXPECTED)
def test_decodes_to_the_blocks_of_its_description(name: str) -> None:
    assert list(decode(payload(name)).blocks) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_encoding_its_blocks_gives_its_bytes(name: str) -> None:
    builder = PackBuilder()
    for block in EXPECTED[name]:
        builder.add(block)
    if name == "compressed_blocks":
        builder.with_compression()
    assert builder.encode() == payload(name)


@pytest.mark.parametrize("name", EXPECTED)
def test_encoding_the_decoded_pack_gives_the_same_bytes(name: str) -> None:
    assert encode_again(decode(payload(name))) == payload(name)


def test_trailing_data_fails_the_buffered_decoder() -> None:
    with pytest.raises(TrailingData) as caught:
        decode(payload("edge_cases/trailing_data"))
    assert caught.value.extra == 4


def test_trailing_data_after_the_blocks_of_the_incremental_decoder() -> None:
    data = payload("edge_cases/trailing_data")
    decoder = Decoder()
    events = decoder.feed(data)
    assert [type(event) for event in events] == [HeaderEvent, BlockEvent, EndEvent]
    assert events[-1] == EndEvent(1, len(data) - 4)
    assert decoder.trailing == 4
    with pytest.raises(TrailingData):
        decoder.finish()


def test_without_the_trailing_data_it_is_a_sound_pack() -> None:
    data = payload("edge_cases/trailing_data")[:-4]
    assert encode(decode(data).blocks) == data
