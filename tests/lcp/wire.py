"""Encode packs independently of the code under test."""

from __future__ import annotations

HEADER = b"BCP\0\x01\0\0\0"
COMPRESSED_HEADER = b"BCP\0\x01\0\x01\0"
END = b"\xff\x01\0\0"


def varint(value: int, *, padding: int = 0) -> bytes:
    """Return ``value`` as LEB128 with ``padding`` unnecessary bytes."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * padding
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def number(field: int, value: int, wire_type: int = 0) -> bytes:
    return varint(field) + varint(wire_type) + varint(value)


def run(field: int, payload: bytes, wire_type: int = 1) -> bytes:
    return varint(field) + varint(wire_type) + varint(len(payload)) + payload


def nested(field: int, *fields: bytes) -> bytes:
    return run(field, b"".join(fields), 2)


def frame(type_id: int, body: bytes, flags: int = 0) -> bytes:
    return varint(type_id) + bytes([flags]) + varint(len(body)) + body


def pack(*frames: bytes) -> bytes:
    return HEADER + b"".join(frames) + END


CODE = number(1, 1) + run(2, b"a.rs") + run(3, b"fn")
