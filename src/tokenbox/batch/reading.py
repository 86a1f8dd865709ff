"""The rows of a shard, a chunk at a time, and the digest of the bytes that they were read from."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tokenbox.batch.errors import RowError, RowTooLarge, RowUnreadable
from tokenbox.batch.shards import RowFormat, delimiter, pyarrow_parquet
from tokenbox.batch.storage import storage_of
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.batch.shards import Shard
    from tokenbox.errors import TokenboxError

Chunk = list["Mapping[str, Any] | TokenboxError"]

# Rows are compiled so many at a time, or as many as have so many bytes.
CHUNK_ROWS = 256
CHUNK_BYTES = 4 << 20
# Rows of Parquet are read so many bytes at a time.
BATCH_BYTES = 64 << 20
# One row larger than this is a mistake: it is set aside without being held in memory.
MAX_ROW = 64 << 20
_PIECE = 1 << 20
_DIGITS = 4_000


class ShardReader:
    """Reads a shard once. ``digest`` is there after the last row; ``types``, of Parquet, after the first."""

    def __init__(self, shard: Shard, *, max_row: int = MAX_ROW) -> None:
        self._shard = shard
        self._max_row = max_row
        self._sum = hashlib.sha256(f"{shard.format}\n".encode())
        self.types: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what was read so far."""
        return self._sum.hexdigest()

    def chunks(self) -> Iterator[Chunk]:
        """The rows, in order. Raises ``OSError``."""
        yield from _READERS[self._shard.format](self)

    def skim(self) -> str:
        """The digest of the shard, without a row being made of it. Raises ``OSError``."""
        if self._shard.format is RowFormat.JSONL:
            for _ in self._lines():
                pass
        elif self._shard.format is RowFormat.PARQUET:
            self._sum_of_group()
        elif self._shard.format is RowFormat.CSV:
            with storage_of(self._file).open(self._file) as file, self._csv_bytes(file) as data:
                while data.read(_PIECE):
                    pass
        else:
            for _ in self._texts():
                pass
        return self.digest

    @property
    def _file(self) -> str:
        return self._shard.files[0]

    # Lines.

    def _json_chunks(self) -> Iterator[Chunk]:
        return _chunked((_json_row(line), len(line)) for line in self._lines() if line.strip(_BLANK))

    def _lines(self) -> Iterator[bytes]:
        """The lines that begin in the shard; of one that is too long only its beginning."""
        shard, most, add = self._shard, self._max_row, self._sum.update
        stop = shard.stop
        with storage_of(self._file).open(self._file) as raw, _unpacked(raw, self._file) as file:
            place = shard.start
            if place:
                # A line that begins in the shard follows a newline; whoever has that one reads up to here.
                file.seek(place - 1)
                place += _skip_line(file) - 1
            while stop is None or place < stop:
                line = file.readline(most + 1)
                if not line:
                    return
                place += len(line)
                add(line)
                if len(line) > most and not line.endswith(b"\n"):
                    place += _skip_line(file, add)
                yield line

    # CSV.

    def _csv_bytes(self, file: BinaryIO) -> io.BufferedReader:
        assert self._shard.stop is not None  # noqa: S101  # CSV is planned by bytes
        self._sum.update("\n".join(self._shard.head).encode())
        return io.BufferedReader(_Range(file, self._shard.start, self._shard.stop, self._sum.update), _PIECE)

    def _csv_chunks(self) -> Iterator[Chunk]:
        csv.field_size_limit(self._max_row)
        with storage_of(self._file).open(self._file) as file, self._csv_bytes(file) as data:
            # Bytes that are not UTF-8 become lone surrogates, which are refused when they are counted.
            text = io.TextIOWrapper(data, "utf-8", "surrogateescape", newline="")
            yield from _chunked(self._csv_rows(csv.reader(text, delimiter=delimiter(self._file))))

    def _csv_rows(self, rows: Iterator[list[str]]) -> Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]:
        head = self._shard.head
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield RowUnreadable(f"the row is not CSV: {error}."), 0
                continue
            if len(cells) > len(head):
                message = f"the row has {len(cells)} cells, and there are {len(head)} columns."
                yield RowUnreadable(message, cells=len(cells), columns=len(head)), 0
            elif cells:
                yield dict(zip(head, cells, strict=False)), sum(map(len, cells))

    # Parquet.

    def _parquet_chunks(self) -> Iterator[Chunk]:
        self._sum_of_group()
        shard, place = self._shard, 0
        with storage_of(self._file).open(self._file) as file:
            parquet = pyarrow_parquet().ParquetFile(file)
            self.types = {field.name: field.type for field in parquet.schema_arrow}
            rows_at_once = batch_rows(parquet.metadata.row_group(shard.group))
            batches = parquet.iter_batches(rows_at_once, [shard.group], use_threads=False)
            for batch in batches:
                first, last = max(shard.start - place, 0), min((shard.stop or 0) - place, batch.num_rows)
                place += batch.num_rows
                if first < last:
                    rows = batch.slice(first, last - first).to_pylist()
                    yield from _chunked((self._measured(row), _weight(row)) for row in rows)
                if shard.stop is not None and place >= shard.stop:
                    return

    def _measured(self, row: dict[str, Any]) -> Mapping[str, Any] | TokenboxError:
        size = _weight(row)
        return _too_large(size, self._max_row) if size > self._max_row else without_nulls(row)

    def _sum_of_group(self) -> None:
        """The bytes of the row group as they are in the file, and which rows of it are meant."""
        shard = self._shard
        with storage_of(self._file).open(self._file) as file:
            parquet = pyarrow_parquet().ParquetFile(file)
            group = parquet.metadata.row_group(shard.group)
            self._sum.update(f"{parquet.schema_arrow}\n{shard.start} {shard.stop}\n".encode())
            for number in range(group.num_columns):
                column = group.column(number)
                start = column.dictionary_page_offset or column.data_page_offset
                with io.BufferedReader(
                    _Range(file, start, start + column.total_compressed_size, self._sum.update), _PIECE
                ) as data:
                    while data.read(_PIECE):
                        pass

    # Texts.

    def _text_chunks(self) -> Iterator[Chunk]:
        return _chunked(self._texts())

    def _texts(self) -> Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]:
        for name in self._shard.files:
            storage = storage_of(name)
            path = name.removeprefix(self._shard.root).lstrip("/")
            self._sum.update(f"{len(path)}:{path}\n".encode("utf-8", "surrogateescape"))
            size = storage.size(name)
            if size > self._max_row:
                self._sum.update(f"{size}\n".encode())
                yield _too_large(size, self._max_row), 0
                continue
            with storage.open(name) as file:
                data = file.read(self._max_row + 1)
            self._sum.update(hashlib.sha256(data).digest())
            try:
                yield {"id": path, "path": path, "text": data.decode()}, len(data)
            except UnicodeDecodeError as error:
                message = f"{path} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02X}."
                yield RowUnreadable(message, file=path, byte=error.start), 0


_READERS: Mapping[RowFormat, Callable[[ShardReader], Iterator[Chunk]]] = {
    RowFormat.JSONL: ShardReader._json_chunks,  # noqa: SLF001  # a table of its own methods
    RowFormat.CSV: ShardReader._csv_chunks,  # noqa: SLF001
    RowFormat.PARQUET: ShardReader._parquet_chunks,  # noqa: SLF001
    RowFormat.FILES: ShardReader._text_chunks,  # noqa: SLF001
}
_BLANK = b" \t\r\n"
_SPACES = " \t\r\n"
_DECODE = json.JSONDecoder().raw_decode


def batch_rows(group: Any) -> int:  # noqa: ANN401  # the metadata of a row group
    """How many rows of a row group are read together: Arrow's text may have 2 GiB in a column of a batch."""
    each: int = max(1, group.total_byte_size // max(1, group.num_rows))
    return max(1, min(CHUNK_ROWS, BATCH_BYTES // each))


def _chunked(rows: Iterator[tuple[Mapping[str, Any] | TokenboxError, int]]) -> Iterator[Chunk]:
    chunk: Chunk = []
    size = 0
    for row, weight in rows:
        chunk.append(row)
        size += weight
        if len(chunk) == CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _json_row(line: bytes, most: int = MAX_ROW) -> Mapping[str, Any] | TokenboxError:
    """The row on a line of JSON, or what is wrong with it."""
    if len(line) > most:
        return _too_large(len(line), most)
    try:
        text = line.decode()
        row, end = _DECODE(text) if text[0] == "{" else (None, 0)
        if row is None or text[end:].strip(_SPACES):
            row = json.loads(text)  # which takes what stands before a value, and says what is wrong
    except UnicodeDecodeError as error:
        return RowUnreadable(
            f"the row is not UTF-8: byte {error.start:,} is 0x{line[error.start]:02X}.", byte=error.start
        )
    except RecursionError:
        return RowUnreadable("the row is not JSON: it is nested too deeply.")
    except ValueError as error:
        return RowUnreadable(f"the row is not JSON: {str(error)[:200]}.")
    if not isinstance(row, dict):
        return RowError(f"a row is an object with named columns, not {type(row).__name__}.")
    return row


def _too_large(size: int, most: int) -> RowTooLarge:
    return RowTooLarge(
        f"the row has more than {most:,} bytes. Split it, or give a part of it.", bytes=size, limit=most
    )


def _skip_line(file: BinaryIO, seen: Callable[[bytes], object] | None = None) -> int:
    """Read to the next newline; how many bytes that was."""
    skipped = 0
    while piece := file.readline(_PIECE):
        skipped += len(piece)
        if seen is not None:
            seen(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _unpacked(file: BinaryIO, name: str) -> Any:  # noqa: ANN401  # a readable file of either package
    if name.lower().endswith(".gz"):
        return gzip.open(file, "rb")
    if name.lower().endswith(".zst"):
        try:
            import zstandard  # noqa: PLC0415  # an extra, and few inputs are
        except ImportError:
            raise MissingExtra.of("a file that ends in .zst", "batch") from None

        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file), _PIECE)
    return file


class _Range(io.RawIOBase):
    """The bytes of a file from ``start`` to ``stop``, each piece shown to ``seen``."""

    def __init__(self, file: BinaryIO, start: int, stop: int, seen: Callable[[bytes], object]) -> None:
        super().__init__()
        file.seek(start)
        self._file, self._left, self._seen = file, stop - start, seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # a writable buffer
        data = self._file.read(min(len(buffer), self._left))
        self._left -= len(data)
        self._seen(data)
        buffer[: len(data)] = data
        return len(data)


def _weight(value: object) -> int:
    """About how many bytes a row of Parquet has."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_weight, value.values()))
    if isinstance(value, list):
        return sum(map(_weight, value))
    return 8


def without_nulls(value: Any) -> Any:  # noqa: ANN401  # any value of Arrow
    """``value`` without the keys that Arrow put in: of a list of records each has the keys of all."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
