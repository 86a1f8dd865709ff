"""Read the rows of a shard in chunks, and digest the bytes that they were read from."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tokenbox.batch.errors import RowError, RowTooLarge, RowUnreadable
from tokenbox.batch.shards import RowFormat, delimiter, pyarrow_parquet
from tokenbox.batch.storage import storage_of
from tokenbox.lcp.compression import Expander
from tokenbox.lcp.errors import DecompressFailed

if TYPE_CHECKING:
    from tokenbox.batch.shards import Shard
    from tokenbox.errors import TokenboxError

Chunk = list["Mapping[str, Any] | TokenboxError"]

# The limits of a chunk, the rows that are compiled together.
CHUNK_ROWS = 256
CHUNK_BYTES = 4 << 20
# The size of a batch read from a Parquet file.
BATCH_BYTES = 64 << 20
# The limit of a row. Larger ones are rejected without being held in memory.
MAX_ROW = 64 << 20
_PIECE = 1 << 20


class ShardReader:
    """Reads a shard once."""

    def __init__(self, shard: Shard, *, max_row: int = MAX_ROW) -> None:
        self._shard = shard
        self._max_row = max_row
        self._hash = hashlib.sha256(f"{shard.format}\n".encode())

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the input read so far."""
        return self._hash.hexdigest()

    def chunks(self) -> Iterator[Chunk]:
        """Return the rows, in order. Raises ``OSError``."""
        match self._shard.format:
            case RowFormat.JSONL:
                return self._json_chunks()
            case RowFormat.CSV:
                return self._csv_chunks()
            case RowFormat.PARQUET:
                return self._parquet_chunks()
            case RowFormat.FILES:
                return _chunked(self._texts())

    def digest_input(self) -> str:
        """Return the digest of the shard without parsing its rows. Raises ``OSError``."""
        match self._shard.format:
            case RowFormat.JSONL:
                deque(self._lines(), maxlen=0)
            case RowFormat.CSV:
                with storage_of(self._file).open(self._file) as file:
                    deque(self._csv_pieces(file), maxlen=0)
            case RowFormat.PARQUET:
                self._hash_row_group()
            case RowFormat.FILES:
                deque(self._texts(), maxlen=0)
        return self.digest

    @property
    def _file(self) -> str:
        return self._shard.files[0]

    # Lines.

    def _json_chunks(self) -> Iterator[Chunk]:
        lines = (line for line in self._lines() if line.strip(_BLANK))
        return _chunked((_json_row(line, self._max_row), len(line)) for line in lines)

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that begin in the shard; of a line that is too long, only its beginning."""
        shard, limit, update = self._shard, self._max_row, self._hash.update
        stop = shard.stop
        with storage_of(self._file).open(self._file) as raw, _unpacked(raw, self._file) as file:
            place = shard.start
            if place:
                # Skip the rest of a line that begins before the shard, which may be longer than the shard.
                file.seek(place - 1)
                place += _skip_line(file, most=None if stop is None else stop - place + 1) - 1
            while stop is None or place < stop:
                line = file.readline(limit + 1)
                if not line:
                    return
                update(line)
                yield line if place else line.removeprefix(codecs.BOM_UTF8)
                place += len(line)
                if len(line) > limit and not line.endswith(b"\n"):
                    place += _skip_line(file, update)

    # CSV.

    def _csv_pieces(self, file: BinaryIO) -> Iterator[bytes]:
        assert self._shard.stop is not None  # noqa: S101  # only a compressed file has none
        self._hash.update("\n".join(self._shard.head).encode())
        return _section(file, self._shard.start, self._shard.stop, self._hash.update)

    def _csv_chunks(self) -> Iterator[Chunk]:
        csv.field_size_limit(self._max_row)
        with storage_of(self._file).open(self._file) as file:
            lines = _Lines(_file_of(self._csv_pieces(file)), self._max_row)
            yield from _chunked(self._csv_rows(csv.reader(lines, delimiter=delimiter(self._file)), lines))

    def _csv_rows(
        self, rows: Iterator[list[str]], lines: _Lines
    ) -> Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]:
        head = self._shard.head
        while True:
            lines.size, cells = 0, []
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                if lines.size <= self._max_row:
                    yield RowUnreadable(f"the row is not CSV: {error}."), 0
                    continue
            if lines.size > self._max_row:
                yield _too_large(lines.size, self._max_row), 0
            elif lines.ended:
                yield RowUnreadable(f"a quote is never closed: the row has the last {lines.size:,} bytes."), 0
            elif len(cells) > len(head):
                message = f"the row has {len(cells)} cells, but the header has {len(head)} columns."
                yield RowUnreadable(message, cells=len(cells), columns=len(head)), 0
            elif cells:
                yield dict(zip(head, cells, strict=False)), sum(map(len, cells))

    # Parquet.

    def _parquet_chunks(self) -> Iterator[Chunk]:
        self._hash_row_group()
        shard, place = self._shard, 0
        with storage_of(self._file).open(self._file) as file:
            parquet = pyarrow_parquet().ParquetFile(file)
            size = batch_rows(parquet.metadata.row_group(shard.group))
            for batch in _intact(parquet.iter_batches(size, [shard.group], use_threads=False)):
                first, last = max(shard.start - place, 0), min((shard.stop or 0) - place, batch.num_rows)
                place += batch.num_rows
                if first < last:
                    rows = _rows_of(batch.slice(first, last - first))
                    yield from _chunked(map(self._with_size, rows))
                if shard.stop is not None and place >= shard.stop:
                    return

    def _with_size(
        self, row: dict[str, Any] | RowUnreadable
    ) -> tuple[Mapping[str, Any] | TokenboxError, int]:
        if isinstance(row, RowUnreadable):
            return row, 0
        size = _approximate_size(row)
        return (_too_large(size, self._max_row) if size > self._max_row else without_nulls(row)), size

    def _hash_row_group(self) -> None:
        """Hash the bytes of the row group in the file, and the range of rows in it."""
        shard = self._shard
        with storage_of(self._file).open(self._file) as file:
            parquet = pyarrow_parquet().ParquetFile(file)
            group = parquet.metadata.row_group(shard.group)
            self._hash.update(f"{parquet.schema_arrow}\n{shard.start} {shard.stop}\n".encode())
            for number in range(group.num_columns):
                column = group.column(number)
                start = column.dictionary_page_offset or column.data_page_offset
                stop = start + column.total_compressed_size
                deque(_section(file, start, stop, self._hash.update), maxlen=0)

    # Texts.

    def _texts(self) -> Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]:
        for name in self._shard.files:
            storage = storage_of(name)
            path = name.removeprefix(self._shard.root).lstrip("/")
            self._hash.update(f"{len(path)}:{path}\n".encode("utf-8", "surrogateescape"))
            size = storage.size(name)
            if size > self._max_row:
                self._hash.update(f"{size}\n".encode())
                yield _too_large(size, self._max_row), 0
                continue
            try:
                with storage.open(name) as file:
                    data = file.read(self._max_row + 1)
            except PermissionError:
                self._hash.update(b"refused\n")
                yield RowUnreadable(f"{path} cannot be read: permission denied.", file=path), 0
                continue
            self._hash.update(hashlib.sha256(data).digest())
            try:
                yield {"id": path, "path": path, "text": data.decode()}, len(data)
            except UnicodeDecodeError as error:
                message = f"{path} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02X}."
                yield RowUnreadable(message, file=path, byte=error.start), 0


_BLANK = b" \t\r\n"
_DECODE = json.JSONDecoder().raw_decode


def batch_rows(group: Any) -> int:  # noqa: ANN401  # the metadata of a row group
    """Return the number of rows to read together: a text column of an Arrow batch is limited to 2 GiB."""
    row_size: int = max(1, group.total_byte_size // max(1, group.num_rows))
    return max(1, min(CHUNK_ROWS, BATCH_BYTES // row_size))


def _intact(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches of Arrow. Raises ``OSError`` for damaged data, which Arrow does not always do."""
    try:
        yield from batches
    except ValueError as error:
        raise OSError(f"its data is damaged: {error}") from None


# What Arrow raises for a value that Python does not have, such as the year 5000000 or text that is not UTF-8.
_NOT_IN_PYTHON = (ValueError, OverflowError, NotImplementedError)


def _rows_of(batch: Any) -> list[dict[str, Any] | RowUnreadable]:  # noqa: ANN401  # of Arrow
    """Return the rows of a batch, with an error for each row that has a value Python cannot hold."""
    try:
        rows: list[dict[str, Any] | RowUnreadable] = batch.to_pylist()
    except _NOT_IN_PYTHON:
        return [_row_of(batch, place) for place in range(batch.num_rows)]
    return rows


def _row_of(batch: Any, place: int) -> dict[str, Any] | RowUnreadable:  # noqa: ANN401  # of Arrow
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[place].as_py()
        except _NOT_IN_PYTHON as error:
            message = f"the column {name} ({column.type}) has a value that cannot be read: {error}."
            return RowUnreadable(message, column=name)
    return row


def _chunked(rows: Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]) -> Iterator[Chunk]:
    chunk: Chunk = []
    size = 0
    for row, row_size in rows:
        chunk.append(row)
        size += row_size
        if len(chunk) == CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _json_row(line: bytes, limit: int) -> Mapping[str, Any] | TokenboxError:
    """Return the row on a line of JSON, or the error in it."""
    if len(line) > limit:
        return _too_large(len(line), limit)
    try:
        text = line.decode()
        row, end = _DECODE(text) if text[0] == "{" else (None, 0)
        if row is None or text[end:].strip(_BLANK.decode()):
            row = json.loads(text)  # which accepts leading blanks, and explains errors
    except UnicodeDecodeError as error:
        return RowUnreadable(
            f"the row is not UTF-8: byte {error.start:,} is 0x{line[error.start]:02X}.", byte=error.start
        )
    except RecursionError:
        return RowUnreadable("the row is not JSON: it is nested too deeply.")
    except ValueError as error:
        return RowUnreadable(f"the row is not JSON: {str(error)[:200]}.")
    if not isinstance(row, dict):
        return RowError(f"a row must be an object with named columns, not {type(row).__name__}.")
    return row


def _too_large(size: int, limit: int) -> RowTooLarge:
    return RowTooLarge(
        f"the row has more than {limit:,} bytes. Split it, or use a part of it.", bytes=size, limit=limit
    )


def _skip_line(
    file: BinaryIO, seen: Callable[[bytes], object] = lambda _: None, most: int | None = None
) -> int:
    """Read to the next newline, at most ``most`` bytes, and return the number of bytes."""
    skipped = 0
    while piece := file.readline(_PIECE if most is None else min(_PIECE, most - skipped)):
        skipped += len(piece)
        seen(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


@contextmanager
def _unpacked(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Yield the file, decompressed if its name says so. Raises ``OSError`` if it is damaged or ends early."""
    try:
        if name.lower().endswith(".gz"):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file))
        elif name.lower().endswith(".zst"):
            yield _file_of(_expanded(file))
        else:
            yield file
    except DecompressFailed as error:
        raise OSError(error.message.removesuffix(".")) from None
    except (EOFError, zlib.error) as error:
        raise OSError(f"its compressed data is damaged: {error}") from None


def _expanded(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames of a zstd file, whose own reader ignores that it ends early."""
    expander, place = Expander(sys.maxsize), 0
    while packed := file.read(_PIECE):
        place += len(packed)
        yield from expander.feed(packed)
    if place:
        expander.finish()


def _section(file: BinaryIO, start: int, stop: int, seen: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the bytes of a file from ``start`` to ``stop``. ``seen`` is called with each piece."""
    file.seek(start)
    while start < stop and (piece := file.read(min(_PIECE, stop - start))):
        start += len(piece)
        seen(piece)
        yield piece


class _Pieces(io.RawIOBase):
    """A file with the content of these pieces. None of them is empty."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # a writable buffer
        self._rest = self._rest or memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _file_of(pieces: Iterator[bytes]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Pieces(pieces), _PIECE))


class _Lines:
    """The lines of a file as text; of a line with more than ``limit`` bytes, only the beginning.

    ``size``: the bytes of the lines read since it was set to 0. ``ended``: whether a line was asked for after
    the last one. Bytes that are not UTF-8 become lone surrogates, which counting rejects.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit, self.size, self.ended = file, limit, 0, False

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._limit + 1):
            self.size += len(line)
            if len(line) > self._limit and not line.endswith(b"\n"):
                self.size += _skip_line(self._file)
            yield line.decode("utf-8", "surrogateescape")
        self.ended = True


def _approximate_size(value: object) -> int:
    """Return the approximate size of a row of Parquet in bytes."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_approximate_size, value.values()))
    if isinstance(value, list):
        return sum(map(_approximate_size, value))
    return 8


def without_nulls(value: Any) -> Any:  # noqa: ANN401  # any value of Arrow
    """Return ``value`` without null keys: Arrow gives every record of a list the keys of all records."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
