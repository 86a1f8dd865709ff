"""The size of an image in pixels, read from the first bytes of its base64 data."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final, NamedTuple

# A JPEG has its size after its segments of metadata. No camera writes so many; 65,533 bytes each are 64 MB.
_MAX_SEGMENTS: Final = 1_000
# The frames of JPEG: C4, C8 and CC are tables.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH: Final = frozenset((0x01, *range(0xD0, 0xD9)))
_SCAN: Final = 0xDA
_URL_SAFE: Final = str.maketrans("-_", "+/")


class Size(NamedTuple):
    width: int
    height: int


def image_size(payload: str) -> Size | None:
    """Return the size of a PNG, JPEG, GIF or WebP; None for an address, and for any other data.

    Only the bytes that are needed are decoded, wherever they are in the data.
    """
    start = payload.find(",", 0, 128) + 1 if payload[:5].lower() == "data:" else 0
    if any(character.isspace() for character in payload[start : start + 100]):  # lines, as in mail
        payload, start = "".join(payload[start:].split()), 0

    def read(place: int, length: int) -> bytes:
        first, last = place // 3 * 4, (place + length + 2) // 3 * 4
        return _decoded(payload[start + first : start + last])[place % 3 :][:length]

    head = read(0, 30)
    size = _jpeg(read) if head[:2] == b"\xff\xd8" else _in_head(head)
    return size if size is not None and min(size) > 0 else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.translate(_URL_SAFE) + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _in_head(head: bytes) -> Size | None:
    """Return the size of an image whose format states it at a fixed place."""
    if len(head) == 30 and head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if len(head) >= 24 and head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR":
        return Size(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
    if len(head) >= 10 and head[:6] in (b"GIF87a", b"GIF89a"):
        return Size(_little(head[6:8]), _little(head[8:10]))
    return None


def _webp(head: bytes) -> Size | None:
    if head[12:16] == b"VP8X":
        return Size(_little(head[24:27]) + 1, _little(head[27:30]) + 1)
    if head[12:16] == b"VP8L" and head[20] == 0x2F:
        bits = _little(head[21:25])
        return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if head[12:16] == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        return Size(_little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF)
    return None


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg(read: Callable[[int, int], bytes]) -> Size | None:
    """Return the size in the first frame, after any segments. ``read`` returns bytes at a place."""
    place = 2
    for _ in range(_MAX_SEGMENTS):
        segment = read(place, 9)
        if len(segment) < 9 or segment[0] != 0xFF or segment[1] == _SCAN:
            return None
        if segment[1] in _FRAMES:
            return Size(int.from_bytes(segment[7:9], "big"), int.from_bytes(segment[5:7], "big"))
        if segment[1] == 0xFF:  # a fill byte
            place += 1
        elif segment[1] in _WITHOUT_LENGTH:
            place += 2
        else:
            place += 2 + int.from_bytes(segment[2:4], "big")
    return None
