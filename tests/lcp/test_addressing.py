"""Reading references (lcp-wire 4.3), with the digest checked again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lcp.wire import CODE, frame, pack
from tokenbox.content.block_kinds import Lang
from tokenbox.content.blocks import CodeBlock
from tokenbox.lcp import Limits, MemoryStore, body_digest, decode, encode
from tokenbox.lcp.compression import compressed
from tokenbox.lcp.errors import (
    DecompressionBomb,
    DigestMismatch,
    MissingContentStore,
    MissingRequiredField,
    UnexpectedEof,
    UnresolvedReference,
)

BLOCK = CodeBlock(Lang.RUST, "a.rs", b"fn")
DIGEST = body_digest(CODE)


def store_of(**bodies: bytes) -> MemoryStore:
    store = MemoryStore()
    for body in bodies.values():
        store.put(body_digest(body), body)
    return store


def test_the_digest_is_unkeyed_blake3() -> None:
    # The BLAKE3 test vector for empty input.
    assert body_digest(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_a_reference_is_resolved() -> None:
    assert decode(pack(frame(1, DIGEST, 4)), store_of(code=CODE)).blocks == (BLOCK,)


def test_what_is_hashed_includes_the_summary_and_the_flag_stays() -> None:
    body = b"\x02hi" + CODE
    read = decode(pack(frame(1, body_digest(body), 5)), store_of(body=body))
    assert read.blocks[0].summary == "hi"
    assert (read.frames[0].flags, read.frames[0].body_size) == (5, len(body))


def test_references_of_unknown_blocks_are_resolved() -> None:
    assert decode(pack(frame(0x42, DIGEST, 4)), store_of(code=CODE)).blocks[0].type_id == 0x42


def test_no_store_is_reported_before_a_wrong_length() -> None:
    with pytest.raises(MissingContentStore):
        decode(pack(frame(1, b"short", 4)))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_reference_that_is_not_32_bytes(size: int) -> None:
    with pytest.raises(UnexpectedEof) as caught:
        decode(pack(frame(1, bytes(size), 4)), MemoryStore())
    assert caught.value.offset == 8 + 3 + size


def test_a_digest_that_the_store_does_not_have() -> None:
    with pytest.raises(UnresolvedReference) as caught:
        decode(pack(frame(1, DIGEST, 4)), MemoryStore())
    assert caught.value.digest == DIGEST


def test_a_store_that_returns_something_else_is_noticed() -> None:
    store = MemoryStore()
    store.put(DIGEST, CODE + b"!")
    with pytest.raises(DigestMismatch) as caught:
        decode(pack(frame(1, DIGEST, 4)), store)
    assert caught.value.found == body_digest(CODE + b"!")


def test_a_store_that_returns_too_much_is_refused() -> None:
    with pytest.raises(DecompressionBomb):
        decode(pack(frame(1, DIGEST, 4)), store_of(code=CODE), limits=Limits(expanded_block=len(CODE) - 1))


def test_an_error_in_a_referenced_body_counts_from_its_start() -> None:
    with pytest.raises(MissingRequiredField) as caught:
        decode(pack(frame(1, body_digest(b""), 4)), store_of(empty=b""))
    assert (caught.value.block, caught.value.offset, caught.value.expanded_body) == (0, 0, True)


@pytest.mark.parametrize("of_plain", [True, False])
def test_a_reference_that_is_also_compressed_is_resolved_first(of_plain: bool) -> None:
    plain = CODE + b"\x63\x00\x01" * 200  # unknown fields, so that it compresses
    packed = compressed(plain)
    assert packed is not None
    store, digest = MemoryStore(), body_digest(plain if of_plain else packed)
    store.put(digest, packed)
    assert decode(pack(frame(1, digest, 6)), store).blocks == (BLOCK,)


def test_a_compressed_reference_with_another_digest_is_refused() -> None:
    plain = CODE + b"\x63\x00\x01" * 200
    packed = compressed(plain)
    assert packed is not None
    store = MemoryStore()
    store.put(DIGEST, packed)
    with pytest.raises(DigestMismatch) as caught:
        decode(pack(frame(1, DIGEST, 6)), store)
    assert (caught.value.digest, caught.value.found) == (DIGEST, body_digest(plain))


@pytest.mark.parametrize("place", range(32))
def test_every_byte_of_a_digest_counts(place: int) -> None:
    wrong = bytearray(DIGEST)
    wrong[place] ^= 1
    store = MemoryStore()
    store.put(bytes(wrong), CODE)
    with pytest.raises(DigestMismatch):
        decode(pack(frame(1, bytes(wrong), 4)), store)


def test_a_body_of_exactly_the_limit_is_resolved() -> None:
    limits = Limits(expanded_block=len(CODE))
    assert decode(pack(frame(1, DIGEST, 4)), store_of(code=CODE), limits=limits).blocks == (BLOCK,)


def test_the_digest_that_is_written_is_that_of_summary_and_fields() -> None:
    block, store = replace(BLOCK, summary="hi"), MemoryStore()
    data = encode([block, block], store=store, deduplicate=True)
    assert store.get(body_digest(b"\x02hi" + CODE)) == b"\x02hi" + CODE
    assert len(store) == 1
    assert decode(data, store).blocks == (block, block)


def test_putting_a_body_twice_changes_nothing() -> None:
    store = store_of(code=CODE)
    store.put(DIGEST, CODE)
    assert len(store) == 1


def test_a_compressed_reference_with_the_digest_of_something_else_is_refused() -> None:
    packed = compressed(CODE + b"\x63\x00\x01" * 200)
    assert packed is not None
    for digest in (DIGEST, bytes(32)):
        store = MemoryStore()
        store.put(digest, packed)
        with pytest.raises(DigestMismatch) as caught:
            decode(pack(frame(1, digest, 6)), store)
        assert (caught.value.digest, caught.value.block) == (digest, 0)


def test_references_have_a_limit_together() -> None:
    data = pack(*[frame(1, DIGEST, 4)] * 3)
    beside = pack(*[frame(1, CODE)] * 5, *[frame(1, DIGEST, 4)] * 3)  # what is stored in place takes no room
    for given, blocks in ((data, 3), (beside, 8)):
        read = decode(given, store_of(code=CODE), limits=Limits(expanded_payload=3 * len(CODE)))
        assert len(read.blocks) == blocks
    with pytest.raises(DecompressionBomb) as caught:
        decode(data, store_of(code=CODE), limits=Limits(expanded_payload=3 * len(CODE) - 1))
    assert caught.value.block == 2
