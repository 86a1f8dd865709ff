"""Varints, the header of a pack, and the frames of its blocks (lcp-wire 1.1 to 1.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.lcp.errors import (
    InvalidBlockType,
    InvalidHeader,
    InvalidMagic,
    ReservedNonZero,
    UnexpectedEof,
    UnsupportedVersion,
    VarintTooLong,
    WireError,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    Bytes: TypeAlias = bytes | bytearray | memoryview

MAX_VARINT = 2**64 - 1
_MAX_VARINT_LENGTH = 10
_MORE = 0x80
MAGIC = b"BCP\0"
OLDER_MAGIC = b"LCP\0"
MAJOR = 1
HEADER_SIZE = 8
END_TYPE = 0xFF
MAX_BLOCK_TYPE = 0xFF

MIB = 1 << 20

# The limits of the reference for writing and expanding (lcp-wire 4.2 and 5).
MAX_BODY = 16 * MIB
MAX_EXPANDED_BLOCK = 16 * MIB
MAX_EXPANDED_PAYLOAD = 256 * MIB

# Deeper than any real project, but safe for comparing and printing the values recursively.
MAX_TREE_DEPTH = 128

# Header flags.
PAYLOAD_COMPRESSED = 0x01

# Block flags.
HAS_SUMMARY = 0x01
COMPRESSED = 0x02
IS_REFERENCE = 0x04


@dataclass(frozen=True, slots=True)
class Header:
    """The first eight bytes of a pack. ``flags`` include reserved bits."""

    minor: int = 0
    flags: int = 0
    magic: bytes = MAGIC

    @property
    def compressed(self) -> bool:
        """Whether everything after the header is one zstd stream."""
        return bool(self.flags & PAYLOAD_COMPRESSED)


@dataclass(frozen=True, slots=True)
class Frame:
    """The storage of a block. ``flags`` include reserved bits.

    ``offset``: the start of the frame in the pack. ``stored_size``: the bytes of the body in the pack.
    ``body_size``: the bytes of the body after resolving a reference and decompressing.
    """

    flags: int
    offset: int
    stored_size: int
    body_size: int

    @property
    def compressed(self) -> bool:
        return bool(self.flags & COMPRESSED)

    @property
    def reference(self) -> bool:
        return bool(self.flags & IS_REFERENCE)


def write_varint(value: int) -> bytes:
    """Encode ``value`` (0..2**64-1) in the shortest form."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return ``(value, position after it)`` of the number at ``position``; ``data`` is read up to ``end``.

    Padded forms are accepted. Bits of a tenth byte beyond 64 bits are ignored, as in the reference. Raises
    :class:`UnexpectedEof` and :class:`VarintTooLong`.
    """
    if position < end and data[position] < _MORE:
        return data[position], position + 1
    value = shift = 0
    for at in range(position, min(end, position + _MAX_VARINT_LENGTH)):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value & MAX_VARINT, at + 1
        shift += 7
    if end - position > _MAX_VARINT_LENGTH:
        raise VarintTooLong(offset=position)
    raise UnexpectedEof(end, "a number")


def write_header(*, compressed: bool) -> bytes:
    return MAGIC + bytes([MAJOR, 0, PAYLOAD_COMPRESSED if compressed else 0, 0])


def read_header(data: Bytes) -> Header:
    """Read the header at the start of ``data``. Raises :class:`InvalidHeader` with the wire error."""
    try:
        return _checked_header(bytes(data[:HEADER_SIZE]))
    except WireError as error:
        raise InvalidHeader(error) from error


def _checked_header(data: bytes) -> Header:
    if len(data) < HEADER_SIZE:
        raise UnexpectedEof(len(data), f"the header, which has {HEADER_SIZE} bytes")
    magic = data[:4]
    major, minor, flags, reserved = data[4:]
    if magic not in (MAGIC, OLDER_MAGIC):
        raise InvalidMagic(magic)
    if major != MAJOR:
        raise UnsupportedVersion(major=major, minor=minor, offset=4)
    if reserved:
        raise ReservedNonZero(value=reserved, offset=HEADER_SIZE - 1)
    return Header(minor, flags, magic)


def write_frame_head(type_id: int, flags: int, size: int) -> bytes:
    """Encode the head of a frame with a body of ``size`` bytes."""
    return write_varint(type_id) + bytes([flags]) + write_varint(size)


END = write_frame_head(END_TYPE, 0, 0)


def read_frame_head(data: Bytes, position: int, end: int) -> tuple[int, int, int, int]:
    """Return ``(type, flags, size of the body, position of the body)``.

    Raises :class:`UnexpectedEof` (more bytes may follow), ``VarintTooLong`` and :class:`InvalidBlockType`.
    Offsets are positions in ``data``.
    """
    type_id, at = read_varint(data, position, end)
    if type_id > MAX_BLOCK_TYPE:
        raise InvalidBlockType(raw=type_id, offset=position)
    if at == end:
        raise UnexpectedEof(end, "the head of a block")
    flags = data[at]
    size, at = read_varint(data, at + 1, end)
    return type_id, flags, size, at
