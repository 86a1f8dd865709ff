"""Numbers on the wire: unsigned LEB128, 64 bits, low seven bits first (lcp-wire 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.lcp.errors import UnexpectedEof, VarintTooLong

if TYPE_CHECKING:
    from typing import TypeAlias

    Bytes: TypeAlias = bytes | bytearray | memoryview

MAX_VARINT = 2**64 - 1
_MAX_LENGTH = 10
_MORE = 0x80


def write_varint(value: int) -> bytes:
    """The shortest form of ``value``, which is 0..2**64-1."""
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """``(value, position after it)`` of the number at ``position``; ``data`` counts up to ``end``.

    Longer forms than needed are read too; what does not fit into 64 bits in a tenth byte is lost, as in the
    reference. Raises :class:`UnexpectedEof` and :class:`VarintTooLong`.
    """
    if position < end and data[position] < _MORE:
        return data[position], position + 1
    value = shift = 0
    for at in range(position, min(end, position + _MAX_LENGTH)):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value & MAX_VARINT, at + 1
        shift += 7
    if end - position > _MAX_LENGTH:
        raise VarintTooLong(position)
    raise UnexpectedEof(end, "a number")
