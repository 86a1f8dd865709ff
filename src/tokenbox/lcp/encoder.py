"""Writing packs (lcp-wire section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tokenbox.content.blocks import UnknownBlock
from tokenbox.lcp.addressing import body_digest
from tokenbox.lcp.bodies import BODIES
from tokenbox.lcp.compression import MIN_BLOCK, compressed
from tokenbox.lcp.errors import (
    BlockTooLarge,
    EmptyPayload,
    LcpError,
    MissingContentStore,
    UnencodableValue,
)
from tokenbox.lcp.fields import text_bytes, write_message
from tokenbox.lcp.frames import (
    COMPRESSED,
    END,
    END_TYPE,
    HAS_SUMMARY,
    IS_REFERENCE,
    write_frame_head,
    write_header,
)
from tokenbox.lcp.limits import MAX_BODY
from tokenbox.lcp.varint import write_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenbox.content.blocks import Block
    from tokenbox.lcp.addressing import ContentStore
    from tokenbox.lcp.pack import Pack


class Compression(StrEnum):
    """What is compressed: nothing, each block that gets smaller by it, or the pack as a whole."""

    NONE = "none"
    BLOCKS = "blocks"
    WHOLE = "whole"


@dataclass(slots=True)
class Entry:
    """A block and what was asked for it alone."""

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
    """A pack of ``blocks``. Raises as :func:`encode_entries`."""
    entries = [Entry(block) for block in blocks]
    return encode_entries(entries, store, compression=Compression(compression), deduplicate=deduplicate)


def encode_again(pack: Pack, store: ContentStore | None = None) -> bytes:
    """``pack`` written as it was read: the same blocks compressed, the same ones references.

    For a pack that this module or the reference wrote, with the same zstd version, the same bytes. What
    readers only tolerate is not kept: padded numbers, unusual field order, unknown and repeated fields, half
    a line range, bytes in names that are no UTF-8, reserved flags, the minor version, the older magic, an odd
    END, and compression that saves nothing, has another level, or is both of blocks and of the whole, or of
    a reference. A pack without blocks is not written.
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
    """The pack of ``entries``. Raises an ``EncodeError``, ``MissingContentStore`` or ``TreeTooDeep``."""
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
    """Summary and fields of ``block``, neither compressed nor addressed."""
    fields = _unknown_body(block) if isinstance(block, UnknownBlock) else _fields(block)
    if block.summary is not None:
        summary = text_bytes("summary", block.summary)
        fields = write_varint(len(summary)) + summary + fields
    if len(fields) > MAX_BODY:
        raise BlockTooLarge(len(fields), MAX_BODY)
    return fields


def _fields(block: Block) -> bytes:
    return write_message(block, BODIES[block.type_id])


def _unknown_body(block: UnknownBlock) -> bytes:
    if not 0 <= block.id < END_TYPE or block.id in BODIES:
        raise UnencodableValue("id", f"is a block type without a meaning here, 0 to 254, not {block.id!r}")
    if not isinstance(block.body, bytes):
        raise UnencodableValue("body", f"is bytes, not {type(block.body).__name__}")
    return block.body


def _becomes_reference(entry: Entry, body: bytes, store: ContentStore, *, deduplicate: bool) -> bool:
    """Whether the digest is written in place of ``body``, which is in the store afterwards."""
    if not entry.address and not deduplicate:
        return False
    digest = body_digest(body)
    known = deduplicate and store.get(digest) is not None
    if not known:
        store.put(digest, body)
    return entry.address or known
