"""Where a zstd stream can be cut: its frame headers, blocks and check sums (RFC 8878, section 3).

Given to zstd one at a time, each block expands to at most 128 KiB, so that the output can be bounded while it
grows; and what comes out before a damaged place does not depend on how the input arrived.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from tokenbox.lcp.errors import DecompressFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # and the fifteen after it
_DICTIONARY_ID_SIZE = (0, 1, 2, 4)
_CONTENT_SIZE_SIZE = (0, 2, 4, 8)
_CHECKSUM_SIZE = 4
_RLE, _RESERVED = 1, 3
_MAX_BLOCK = 128 << 10


class _Next(Enum):
    FRAME = auto()
    BLOCK = auto()
    CHECKSUM = auto()
    SKIPPED = auto()


class ZstdPieces:
    """Takes a zstd stream in any chunks; gives its pieces whole."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._next = _Next.FRAME
        self._has_checksum = False
        self._skip = 0
        self._any = False

    @property
    def complete(self) -> bool:
        """There was at least one frame, and the last one is whole."""
        return self._any and self._next is _Next.FRAME and not self._pending

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[bytes, bool]]:
        """``(piece, it ends a frame)`` for each piece that is whole now. Raises ``DecompressFailed``."""
        self._pending += data
        position = 0
        try:
            while (size := self._size(position)) is not None and position + size <= len(self._pending):
                piece = bytes(self._pending[position : position + size])
                position += size
                if self._next is _Next.SKIPPED:
                    self._skip -= size
                    if not self._skip:
                        self._next = _Next.FRAME
                    continue
                self._advance(piece)
                yield piece, self._next is _Next.FRAME
        finally:
            del self._pending[:position]

    def _size(self, at: int) -> int | None:
        """The size of the piece at ``at``, or None as long as that cannot be known."""
        data, there = self._pending, len(self._pending) - at
        match self._next:
            case _Next.SKIPPED:
                return min(there, self._skip) or None
            case _Next.CHECKSUM:
                return _CHECKSUM_SIZE
            case _Next.BLOCK:
                return None if there < 3 else _block_size(int.from_bytes(data[at : at + 3], "little"))  # noqa: PLR2004
            case _Next.FRAME:
                return self._frame_head(bytes(data[at : at + 8]))

    def _frame_head(self, data: bytes) -> int | None:
        if len(data) < 4:  # noqa: PLR2004
            return None
        magic = int.from_bytes(data[:4], "little")
        if _SKIPPABLE <= magic < _SKIPPABLE + 16:
            if len(data) < 8:  # noqa: PLR2004
                return None
            self._any = True
            self._skip = 8 + int.from_bytes(data[4:], "little")
            self._next = _Next.SKIPPED
            return 8
        if magic != _MAGIC:
            raise DecompressFailed("it is not zstd")
        if len(data) < 5:  # noqa: PLR2004
            return None
        descriptor = data[4]
        single_segment = descriptor >> 5 & 1
        content_size = _CONTENT_SIZE_SIZE[descriptor >> 6] or single_segment
        return 5 + (1 - single_segment) + _DICTIONARY_ID_SIZE[descriptor & 3] + content_size

    def _advance(self, piece: bytes) -> None:
        """What comes after ``piece``."""
        match self._next:
            case _Next.FRAME:
                self._any = True
                self._has_checksum = bool(piece[4] & 4)
                self._next = _Next.BLOCK
            case _Next.BLOCK if piece[0] & 1:
                self._next = _Next.CHECKSUM if self._has_checksum else _Next.FRAME
            case _Next.CHECKSUM:
                self._next = _Next.FRAME


def _block_size(head: int) -> int:
    kind, size = head >> 1 & 3, head >> 3
    if kind == _RESERVED or size > _MAX_BLOCK:
        raise DecompressFailed("a block has no valid head")
    return 3 + (1 if kind == _RLE else size)
