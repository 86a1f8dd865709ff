"""zstd, as packs use it (lcp-wire 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.lcp.errors import DecompressFailed, DecompressionBomb
from tokenbox.lcp.zstd_pieces import ZstdPieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    import zstandard

MIN_BLOCK = 256  # bytes; smaller bodies are stored as they are
LEVEL = 3


def compressed(data: bytes) -> bytes | None:
    """``data`` as one zstd frame without content size and check sum, or None if that saves nothing."""
    import zstandard  # noqa: PLC0415  # only packs with compression pay for it

    # A stream, because compressing at once adapts the parameters to the size, which gives other bytes.
    stream = zstandard.ZstdCompressor(
        level=LEVEL, write_content_size=False, write_checksum=False
    ).compressobj()
    packed = stream.compress(data) + stream.flush()
    return packed if len(packed) < len(data) else None


class Expander:
    """Expands a zstd stream that comes in any chunks, to ``limit`` bytes at most.

    Several frames one after the other are one stream.
    """

    def __init__(self, limit: int) -> None:
        import zstandard  # noqa: PLC0415  # only packs with compression pay for it

        self._limit = limit
        self._size = 0
        self._pieces = ZstdPieces()
        self._error = zstandard.ZstdError
        self._zstd = zstandard.ZstdDecompressor()
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """What ``data`` adds to the output, in parts of at most 128 KiB.

        Raises :class:`DecompressFailed`, and :class:`DecompressionBomb` once ``limit`` bytes were given out.
        """
        for piece, ends_frame in self._pieces.feed(data):
            part = self._expand(piece, ends_frame=ends_frame)
            room = self._limit - self._size
            self._size += len(part)
            if part:
                yield part[:room]
            if len(part) > room:
                raise DecompressionBomb(self._size, self._limit)

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
        """Raise :class:`DecompressFailed` if the stream is empty or cut off."""
        if not self._pieces.complete:
            raise DecompressFailed("the stream is empty or cut off")


def expanded(data: bytes | memoryview, limit: int) -> bytes:
    """``data`` expanded. Raises :class:`DecompressFailed` and :class:`DecompressionBomb`."""
    expander = Expander(limit)
    body = b"".join(expander.feed(data))
    expander.finish()
    return body
