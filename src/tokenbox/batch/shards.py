"""Split an input into shards, which workers read by themselves. Every machine makes the same shards.

Rule 1: the shards depend on the files and the shard size only, never on the engine or number of workers.
Rule 2: planning reads no rows, so that its time does not depend on the size: a line belongs to the shard in
which it begins. Only CSV is scanned, because its cells may contain newlines.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from tokenbox.batch.errors import InvalidAddress
from tokenbox.batch.storage import DRAFT, Storage, reads, storage_of
from tokenbox.errors import needing, without_password

MEBIBYTE = 1 << 20
# The default number of shards, and the bounds of the default shard size.
_SHARDS = 256
_MIN_SIZE, _MAX_SIZE = MEBIBYTE, 256 * MEBIBYTE
# The maximum number of shards per row group, because each one has to skip the rows before its own.
_MAX_SHARDS_PER_GROUP = 8
# The maximum number of small files per shard.
_MAX_FILES = 1_000
_PIECE = 4 * MEBIBYTE
_MAX_HEADER = MEBIBYTE


class RowFormat(StrEnum):
    """The format of rows."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    FILES = "files"
    """A row for each file of a folder: its `path` and its `text`."""


SUFFIXES = {
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
    ".csv": RowFormat.CSV,
    ".tsv": RowFormat.CSV,
    ".parquet": RowFormat.PARQUET,
}
COMPRESSED = (".gz", ".zst")
# The columns of a row that is a text file.
TEXT_COLUMNS = ("id", "path", "text")


@dataclass(frozen=True, slots=True)
class Shard:
    """A piece of the input. ``files`` are addresses: of one file, or of several texts.

    ``start`` and ``stop``: a range of bytes, or (Parquet) of rows in the row group ``group``; ``stop`` is
    None for a compressed file, which is one shard. ``head``: the column names of CSV and Parquet. ``root``:
    the folder that the paths of texts are relative to.
    """

    number: int
    format: RowFormat
    files: tuple[str, ...]
    start: int = 0
    stop: int | None = None
    group: int = 0
    head: tuple[str, ...] = ()
    root: str = ""

    @property
    def size(self) -> int | None:
        """The size relative to other shards of the input; None if unknown."""
        return None if self.stop is None else self.stop - self.start


@dataclass(frozen=True, slots=True)
class Sharded:
    """The shards of an input. ``skipped``: files of its folder in other formats.

    ``types``: the Arrow types of the columns of Parquet; text for a column that has several.
    """

    format: RowFormat
    shard_size: int
    shards: tuple[Shard, ...]
    skipped: tuple[str, ...] = ()
    types: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str] | None:
        """The names of the columns of all files; None if only the rows have them."""
        if self.format is RowFormat.FILES:
            return frozenset(TEXT_COLUMNS)
        heads = {shard.head for shard in self.shards}
        return frozenset(name for head in heads for name in head) if any(heads) else None


def format_of(name: str) -> RowFormat | None:
    """Return the format of a file by its suffix; None if unknown."""
    path = PurePosixPath(name.lower())
    suffix = path.suffix if path.suffix not in COMPRESSED else PurePosixPath(path.stem).suffix
    found = SUFFIXES.get(suffix)
    return found if found is not RowFormat.PARQUET or path.suffix == ".parquet" else None


def shard_input(address: str, form: RowFormat | None = None, shard_size: int | None = None) -> Sharded:
    """Return the shards of the input at ``address``: a file, a folder, or a pattern with ``*``.

    ``shard_size``: bytes; by default about 1/256 of the input, from 1 MiB to 256 MiB. Raises
    :class:`InvalidAddress` and :class:`InvalidPlan`.
    """
    storage = storage_of(address)
    with reads(address):
        names, root = _files(storage, address)
        form, chosen, skipped = _select_files(address, names, form)
        sizes = [storage.size(name) for name in chosen]
        size = _shard_size(sum(sizes)) if shard_size is None else shard_size
        types: dict[str, Any] = {}
        pieces = (
            _parquet_shards(storage, chosen, size, types)
            if form is RowFormat.PARQUET
            else _PLANNERS[form](storage, chosen, sizes, size)
        )
        shards = tuple(
            replace(Shard(number, form, *piece), root=root if form is RowFormat.FILES else "")
            for number, piece in enumerate(pieces)
        )
    return Sharded(form, size, shards, tuple(skipped), types)


def base_of(source: str) -> str:
    """Return the folder of the input, which the file names in rows are relative to."""
    if "://" in source:
        return "."
    place = Path(source if "*" not in source else source.partition("*")[0] + "x")
    return str((place if place.is_dir() else place.parent).absolute())


def _files(storage: Storage, address: str) -> tuple[list[str], str]:
    """Return the files of an input in the order of their names, and their folder."""
    if storage.is_folder(address):
        names = [name for name in storage.files(address) if _is_data(name, address)]
        return names, address
    if storage.is_file(address):
        return [address], address.rpartition("/")[0]
    if "*" in address:
        found = [name for name in storage.matching(address) if storage.is_file(name)]
        if found:
            return found, address.partition("*")[0].rpartition("/")[0]
        address = without_password(address)
        raise InvalidAddress(f"no file matches {address}.", address=address)
    if "://" not in address and Path(address).exists():
        raise InvalidAddress(
            f"{address} is a pipe or a device, which cannot be read twice. Save its rows to a file: "
            f"cat {address} > rows.jsonl",
            address=address,
        )
    address = without_password(address)
    raise InvalidAddress(f"there is no file or folder {address}. Check the path.", address=address)


def _is_data(name: str, folder: str) -> bool:
    """Return whether a file is neither hidden nor a marker such as `_SUCCESS` or a draft."""
    inner = name.removeprefix(folder).strip("/")
    return not any(part.startswith((".", "_", DRAFT)) for part in inner.split("/"))


def _select_files(
    address: str, names: Sequence[str], form: RowFormat | None
) -> tuple[RowFormat, Sequence[str], Sequence[str]]:
    """Return the format, the files that have it, and the other files."""
    known = {name: format_of(name) for name in names}
    if form is None:
        kinds = sorted({kind for kind in known.values() if kind is not None})
        if len(kinds) > 1:
            raise InvalidAddress(
                f"{address} has files in several formats: {', '.join(kinds)}. "
                f"Choose one: --input-format {kinds[0]}.",
                address=address,
            )
        if not kinds and len(names) == 1 and names[0].lower().endswith(".json"):
            raise InvalidAddress(
                f"{address}: JSON is read as lines, one object per line. If the file has lines: "
                "--input-format jsonl. If it has one array, convert it: "
                f"jq -c '.[]' {address} > rows.jsonl",
                address=address,
            )
        form = kinds[0] if kinds else RowFormat.FILES
    if len(names) == 1 or form is RowFormat.FILES:
        return form, names, ()
    chosen = [name for name in names if known[name] is form]
    if not chosen:
        raise InvalidAddress(f"{address} has no {form} file.", address=address)
    return form, chosen, [name for name in names if known[name] is not form]


def _shard_size(total: int) -> int:
    """Return a power of two, so that an input that grows a little keeps its shards."""
    wanted = max(1, total // _SHARDS)
    return min(_MAX_SIZE, max(_MIN_SIZE, 1 << (wanted.bit_length() - 1)))


Piece = tuple[Any, ...]


def _line_shards(_: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    for name, total in zip(names, sizes, strict=True):
        if name.lower().endswith(".zst"):
            with needing("a file that ends in .zst", "batch"):
                import zstandard  # noqa: F401  # a missing extra must not cost an existing output
        if name.lower().endswith(COMPRESSED):
            yield (name,), 0, None
            continue
        for start in range(0, total, size):
            yield (name,), start, min(start + size, total)


def _csv_shards(storage: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    for name, total in zip(names, sizes, strict=True):
        if name.lower().endswith(COMPRESSED):
            raise InvalidAddress(f"{name}: compressed CSV is not supported. Unpack it.", address=name)
        if not total:
            continue
        with storage.open(name) as file:
            head, start = _head(file, name)
            for cut in [*_cuts(file, start, size, name), total]:
                if cut > start:
                    yield (name,), start, cut, 0, head
                start = cut


def delimiter(name: str) -> str:
    return "\t" if name.lower().endswith(".tsv") else ","


def _head(file: BinaryIO, name: str) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and the position of the first row."""
    data = file.read(_MAX_HEADER)
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    end = next(_cuts(io.BytesIO(data), mark, 1, name), len(data))
    try:
        text = data[:end].decode("utf-8-sig")
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter(name)), [])
    except UnicodeDecodeError as error:
        encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin1"
        raise InvalidAddress(
            f"{name} is not UTF-8: byte {error.start:,} of its header is 0x{data[error.start]:02X}. "
            f"Convert it: iconv -f {encoding} -t utf-8 {name}",
            address=name,
        ) from None
    except csv.Error as error:
        raise InvalidAddress(f"{name} has no header line: {error}.", address=name) from None
    if not cells or len(data) == _MAX_HEADER == end:
        begin = data[:60].decode("utf-8", "replace")
        raise InvalidAddress(f"{name} must begin with a line of column names, not {begin!r}.", address=name)
    if b"\r" in data[:end].rstrip(b"\r\n") and not any("\r" in cell for cell in cells):
        message = f"{name} ends its lines with CR alone. Convert them: tr '\\r' '\\n' < {name}"
        raise InvalidAddress(message, address=name)
    _check_unique(cells, name)
    return tuple(cells), end


def _check_unique(columns: Sequence[str], name: str) -> None:
    twice = next((one for place, one in enumerate(columns) if one in columns[:place]), None)
    if twice is not None:
        raise InvalidAddress(f"{name} has two columns {twice!r:.60}. Rename one of them.", address=name)


def _cuts(file: BinaryIO, start: int, size: int, name: str) -> Iterator[int]:
    """Yield the positions of shards after the first one: the first row after each ``size`` bytes.

    A newline ends a row unless it is in a quoted cell. As for Python's csv, a quote opens a cell only at the
    beginning of the cell: in ``5" disk`` it is a character.
    """
    between, cell = delimiter(name).encode(), rb'"[^"]*+(?:""[^"]*+|(?!))*+'
    # Quoted cells of a row, one after another; the group is empty if the last one does not end in the piece.
    quoted = re.compile(rb'(?<![^\n%b])%b(?:"%b%b|(?!))*+("?)' % (between, cell, between, cell))
    # Whole cells and rows, up to a quoted cell that does not end before a given place.
    passed = re.compile(rb'(?:[^"]++|(?<![^\n%b])%b"|(?<=[^\n%b])"|(?!))*+' % (between, cell, between))
    file.seek(start)
    place, wanted = start, start + size
    before = b"\n"  # stands for the bytes before a piece: the last one, or the beginning of a quoted cell
    while piece := file.read(_PIECE):
        data = before + piece
        shift, first = place - len(before), len(before)
        before = data[-1:].replace(b'"', b"x")  # a quote that begins no cell
        place += len(piece)
        begin, is_far = 0, True
        while begin < len(data):
            if is_far:  # pass by the rows before the wanted place in one step; no cell ends with a newline
                near = data.rfind(b"\n", begin, max(0, wanted - 1 - shift)) + 1
                begin = passed.match(data, begin, max(begin, near)).end()  # type: ignore[union-attr]
                is_far = False
            cells = quoted.search(data, begin)
            end = len(data) if cells is None else cells.start()
            at = max(begin, first, wanted - 1 - shift)
            while at < end and (found := data.find(b"\n", at, end)) >= 0:
                cut = shift + found + 1
                yield cut
                wanted, is_far = cut + size, True
                at = max(found + 1, wanted - 1 - shift)
            begin = len(data) if cells is None else cells.end()
            if cells is not None and begin == len(data):  # the next piece may continue the cell
                before = b'\n""' if cells[1] else b'\n"'


def _parquet_shards(
    storage: Storage, names: Sequence[str], size: int, types: dict[str, Any]
) -> Iterator[Piece]:
    """Yield the pieces of the files, and add the types of their columns to ``types``."""
    parquet = pyarrow_parquet()
    for name in names:
        with storage.open(name) as file:
            try:
                opened = parquet.ParquetFile(file)
            except (OSError, ValueError) as error:  # what Arrow raises
                reason = str(error).rstrip(".")
                raise InvalidAddress(f"{name} is not a Parquet file: {reason}.", address=name) from None
            metadata, schema = opened.metadata, opened.schema_arrow
            head = tuple(schema.names)
            _check_unique(head, name)
            for one in schema:
                types[one.name] = _common_type(types.get(one.name, one.type), one.type)
            for group in range(metadata.num_row_groups):
                rows, weight = metadata.row_group(group).num_rows, metadata.row_group(group).total_byte_size
                parts = max(1, min(_MAX_SHARDS_PER_GROUP, weight // size, rows))
                cuts = [rows * part // parts for part in range(parts + 1)]
                for start, stop in pairwise(cuts):
                    yield (name,), start, stop, group, head


def _common_type(one: Any, other: Any) -> Any:  # noqa: ANN401  # types of Arrow
    """Return an Arrow type that holds the values of both, or else text."""
    import pyarrow as pa  # an extra

    if one.equals(other):
        return one
    schemas = [pa.schema([("column", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("column").type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.large_string()


def _file_shards(_: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    group: list[str] = []
    total = 0
    for name, file_size in zip(names, sizes, strict=True):
        if group and (total + file_size > size or len(group) == _MAX_FILES):
            yield tuple(group), 0, total
            group, total = [], 0
        group.append(name)
        total += file_size
    if group:
        yield tuple(group), 0, total


_PLANNERS = {
    RowFormat.JSONL: _line_shards,
    RowFormat.CSV: _csv_shards,
    RowFormat.FILES: _file_shards,
}


def pyarrow_parquet() -> Any:  # noqa: ANN401  # a module without types
    """Return the module ``pyarrow.parquet``. Raises ``MissingExtra``."""
    with needing("Parquet", "batch"):
        import pyarrow.parquet
    return pyarrow.parquet
