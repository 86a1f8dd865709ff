"""zstd compression of packs (lcp-wire 4.2)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tokenbox.errors import needing
from tokenbox.lcp.errors import DecompressFailed, DecompressionBomb

if TYPE_CHECKING:
    from types import ModuleType

    from zstandard import ZstdDecompressionObj

T = TypeVar("T")
_Pieces: TypeAlias = Generator[tuple[bytes, bool] | None, None, T]

MIN_BLOCK = 256  # bytes; smaller bodies are stored as they are
LEVEL = 3

# Constants of a zstd stream (RFC 8878, section 3).
_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # and the fifteen after it
_CHECKSUM_SIZE = 4
_RLE, _RESERVED = 1, 3
_MAX_BLOCK = 128 << 10


def _zstandard() -> ModuleType:
    """Import zstandard, only for packs with compression. Raises :class:`MissingExtra`."""
    with needing("a pack with compression", "bcp"):
        import zstandard
    return zstandard


def compressed(data: bytes) -> bytes | None:
    """Compress ``data`` to one zstd frame without content size and checksum; None if that saves nothing."""
    compressor = _zstandard().ZstdCompressor(level=LEVEL, write_content_size=False, write_checksum=False)
    # Use a stream: compressing at once adapts the parameters to the size, which changes the bytes.
    stream = compressor.compressobj()
    packed: bytes = stream.compress(data) + stream.flush()
    return packed if len(packed) < len(data) else None


class Expander:
    """A streaming zstd decompressor with an output limit of ``limit`` bytes.

    The input may arrive in any chunks. Several consecutive frames are one stream.
    """

    def __init__(self, limit: int) -> None:
        zstandard = _zstandard()
        self._limit = limit
        self._size = 0
        self._pieces = ZstdPieces()
        self._error = zstandard.ZstdError
        self._zstd = zstandard.ZstdDecompressor()
        self._frame: ZstdDecompressionObj | None = None

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


class ZstdPieces:
    """A splitter of a zstd stream into complete frame headers, blocks and checksums.

    Decompressed one at a time, each block has at most 128 KiB of output, so the limit can be enforced while
    decompressing. The output before damaged data does not depend on the chunks of the input.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._any = self._in_frame = False
        self._pieces = self._frames()

    @property
    def complete(self) -> bool:
        """Whether there was at least one frame, and the last one is complete."""
        return self._any and not self._in_frame and not self._pending

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[bytes, bool]]:
        """Yield ``(piece, ends_frame)`` for each complete piece. Raises ``DecompressFailed``."""
        self._pending += data
        for piece in self._pieces:
            if piece is None:
                return
            yield piece

    def _frames(self) -> _Pieces[None]:
        """Yield the pieces of the frames; None where more bytes are needed."""
        while True:
            self._in_frame = False
            magic = int.from_bytes((yield from self._next(4, keep=True)), "little")
            if _SKIPPABLE <= magic < _SKIPPABLE + 16:
                head = yield from self._next(8)
                self._any = self._in_frame = True
                yield from self._skip(int.from_bytes(head[4:], "little"))
                continue
            if magic != _MAGIC:
                raise DecompressFailed("it is not zstd")
            start = yield from self._next(5, keep=True)
            head = yield from self._next(_zstandard().frame_header_size(start))
            self._any = self._in_frame = True
            yield head, False
            has_checksum, is_last = bool(start[4] & 4), False
            while not is_last:
                block_head = int.from_bytes((yield from self._next(3, keep=True)), "little")
                block = yield from self._next(_block_size(block_head))
                is_last = bool(block_head & 1)
                yield block, is_last and not has_checksum
            if has_checksum:
                yield (yield from self._next(_CHECKSUM_SIZE)), True

    def _next(self, size: int, *, keep: bool = False) -> _Pieces[bytes]:
        """Return the next bytes, which stay to be read if ``keep``."""
        while len(self._pending) < size:
            yield None
        taken = bytes(self._pending[:size])
        if not keep:
            del self._pending[:size]
        return taken

    def _skip(self, size: int) -> _Pieces[None]:
        while size:
            if not self._pending:
                yield None
            skipped = min(size, len(self._pending))
            del self._pending[:skipped]
            size -= skipped


def _block_size(head: int) -> int:
    kind, size = head >> 1 & 3, head >> 3
    if kind == _RESERVED or size > _MAX_BLOCK:
        raise DecompressFailed("a block has no valid head")
    return 3 + (1 if kind == _RLE else size)
