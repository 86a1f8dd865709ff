"""zstd compression of packs (lcp-wire 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING

from tokenbox.errors import MissingExtra
from tokenbox.lcp.errors import DecompressFailed, DecompressionBomb

if TYPE_CHECKING:
    import zstandard


MIN_BLOCK = 256  # bytes; smaller bodies are stored as they are
LEVEL = 3

# Constants of a zstd stream (RFC 8878, section 3).
_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # and the fifteen after it
_DICTIONARY_ID_SIZE = (0, 1, 2, 4)
_CONTENT_SIZE_SIZE = (0, 2, 4, 8)
_CHECKSUM_SIZE = 4
_RLE, _RESERVED = 1, 3
_MAX_BLOCK = 128 << 10


@contextmanager
def _bcp_extra() -> Iterator[None]:
    """Convert an ``ImportError`` of zstandard to :class:`MissingExtra`."""
    try:
        yield
    except ImportError:
        raise MissingExtra.of("a pack with compression", "bcp") from None


def compressed(data: bytes) -> bytes | None:
    """Compress ``data`` to one zstd frame without content size and checksum; None if that saves nothing."""
    with _bcp_extra():
        import zstandard  # only for packs with compression

    # Use a stream: compressing at once adapts the parameters to the size, which changes the bytes.
    stream = zstandard.ZstdCompressor(
        level=LEVEL, write_content_size=False, write_checksum=False
    ).compressobj()
    packed = stream.compress(data) + stream.flush()
    return packed if len(packed) < len(data) else None


class Expander:
    """A streaming zstd decompressor with an output limit of ``limit`` bytes.

    The input may arrive in any chunks. Several consecutive frames are one stream.
    """

    def __init__(self, limit: int) -> None:
        with _bcp_extra():
            import zstandard  # only for packs with compression

        self._limit = limit
        self._size = 0
        self._pieces = ZstdPieces()
        self._error = zstandard.ZstdError
        self._zstd = zstandard.ZstdDecompressor()
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Decompress ``data`` and yield parts of at most 128 KiB.

        Raises :class:`DecompressFailed`, and :class:`DecompressionBomb` after ``limit`` bytes of output.
        """
        for piece, ends_frame in self._pieces.feed(data):
            part = self._expand(piece, ends_frame=ends_frame)
            room = self._limit - self._size
            self._size += len(part)
            if part:
                yield part[:room]
            if len(part) > room:
                raise DecompressionBomb(actual=self._size, limit=self._limit)

    def _expand(self, piece: bytes, *, ends_frame: bool) -> bytes:
        if self._frame is None:
            self._frame = self._zstd.decompressobj()
        try:
            part = self._frame.decompress(piece)
        except self._error as error:
            raise DecompressFailed(str(error)) from error
        if ends_frame != self._frame.eof:
            raise DecompressFailed("a frame does not end where it should")
        if ends_frame:
            self._frame = None
        return part

    def finish(self) -> None:
        """Raise :class:`DecompressFailed` if the stream is empty or truncated."""
        if not self._pieces.complete:
            raise DecompressFailed("the stream is empty or truncated")


def expanded(data: bytes | memoryview, limit: int) -> bytes:
    """Decompress ``data``. Raises :class:`DecompressFailed` and :class:`DecompressionBomb`."""
    expander = Expander(limit)
    body = b"".join(expander.feed(data))
    expander.finish()
    return body


class _Next(Enum):
    FRAME = auto()
    BLOCK = auto()
    CHECKSUM = auto()
    SKIPPED = auto()


class ZstdPieces:
    """A splitter of a zstd stream into complete frame headers, blocks and checksums.

    Decompressed one at a time, each block has at most 128 KiB of output, so the limit can be enforced while
    decompressing. The output before damaged data does not depend on the chunks of the input.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._next = _Next.FRAME
        self._has_checksum = False
        self._skip = 0
        self._any = False

    @property
    def complete(self) -> bool:
        """Whether there was at least one frame, and the last one is complete."""
        return self._any and self._next is _Next.FRAME and not self._pending

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[bytes, bool]]:
        """Yield ``(piece, ends_frame)`` for each complete piece. Raises ``DecompressFailed``."""
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
        """Return the size of the piece at ``at``, or None if more bytes are needed to know it."""
        data, available = self._pending, len(self._pending) - at
        match self._next:
            case _Next.SKIPPED:
                return min(available, self._skip) or None
            case _Next.CHECKSUM:
                return _CHECKSUM_SIZE
            case _Next.BLOCK:
                return None if available < 3 else _block_size(int.from_bytes(data[at : at + 3], "little"))
            case _Next.FRAME:
                return self._frame_head(bytes(data[at : at + 8]))

    def _frame_head(self, data: bytes) -> int | None:
        if len(data) < 4:
            return None
        magic = int.from_bytes(data[:4], "little")
        if _SKIPPABLE <= magic < _SKIPPABLE + 16:
            if len(data) < 8:
                return None
            self._any = True
            self._skip = 8 + int.from_bytes(data[4:], "little")
            self._next = _Next.SKIPPED
            return 8
        if magic != _MAGIC:
            raise DecompressFailed("it is not zstd")
        if len(data) < 5:
            return None
        descriptor = data[4]
        single_segment = descriptor >> 5 & 1
        content_size = _CONTENT_SIZE_SIZE[descriptor >> 6] or single_segment
        return 5 + (1 - single_segment) + _DICTIONARY_ID_SIZE[descriptor & 3] + content_size

    def _advance(self, piece: bytes) -> None:
        """Set the kind of the next piece."""
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
