"""An input cut into shards: pieces that any worker reads for itself, the same ones on every machine.

Rule 1: where an input is cut depends on its files and the shard size, never on who works or how many.
Rule 2: planning reads no rows, so that it takes no longer for a terabyte: lines belong to the shard in
which they begin. Only CSV is scanned, because its cells may hold newlines.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from tokenbox.batch.errors import InvalidAddress, InvalidPlan
from tokenbox.batch.storage import DRAFT, Storage, storage_of, unreadable
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MEBIBYTE = 1 << 20
# So many shards are made of an input whose shard size nobody chose, within these bounds.
_SHARDS = 256
_LEAST, _MOST = MEBIBYTE, 256 * MEBIBYTE
# A row group is cut into so many shards at most, because each has to skip the rows before its own.
_PARTS_OF_GROUP = 8
# Small files go together.
_FILES = 1_000
_PIECE = 4 * MEBIBYTE
_HEADER = MEBIBYTE


class RowFormat(StrEnum):
    """How rows are written."""

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


@dataclass(frozen=True, slots=True)
class Shard:
    """A piece of the input. ``files`` are addresses: one, or several whole files of texts.

    ``start`` and ``stop``: bytes of the file, of Parquet rows of the row group ``group``; ``stop`` is None
    for a compressed file, which is one shard. ``head``: the names of the columns of a CSV file. ``root``: the
    folder that the paths of texts are relative to.
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
        """How much of the input it is, beside other shards of the input; None where that is unknown."""
        return None if self.stop is None else self.stop - self.start


@dataclass(frozen=True, slots=True)
class Sharded:
    """An input, planned. ``skipped``: files of its folder that are not rows."""

    format: RowFormat
    shard_size: int
    shards: tuple[Shard, ...]
    skipped: tuple[str, ...] = ()


def format_of(name: str) -> RowFormat | None:
    """The format that a file's name says; None if it says none."""
    path = PurePosixPath(name.lower())
    suffix = path.suffix if path.suffix not in COMPRESSED else PurePosixPath(path.stem).suffix
    found = SUFFIXES.get(suffix)
    return found if found is not RowFormat.PARQUET or path.suffix == ".parquet" else None


def shard_input(address: str, form: RowFormat | None = None, shard_size: int | None = None) -> Sharded:
    """The shards of the input at ``address``: a file, a folder, or a pattern with ``*``.

    ``shard_size``: bytes; by default about a 256th of the input, from 1 MiB to 256 MiB. Raises
    :class:`InvalidAddress` and :class:`InvalidPlan`.
    """
    if shard_size is not None and shard_size < 1:
        raise InvalidPlan(f"a shard has 1 byte or more, not {shard_size}.")
    storage = storage_of(address)
    try:
        names, root = _files(storage, address)
        form, chosen, skipped = _chosen(address, names, form)
        sizes = [storage.size(name) for name in chosen]
        size = _shard_size(sum(sizes)) if shard_size is None else shard_size
        pieces = _PLANNERS[form](storage, chosen, sizes, size)
        shards = tuple(
            replace(Shard(number, form, *piece), root=root if form is RowFormat.FILES else "")
            for number, piece in enumerate(pieces)
        )
    except OSError as error:
        raise unreadable(address, error) from None
    return Sharded(form, size, shards, tuple(skipped))


def _files(storage: Storage, address: str) -> tuple[list[str], str]:
    """The files of an input in the order of their names, and the folder that they are in."""
    if storage.is_folder(address):
        names = [name for name in storage.files(address) if _is_data(name, address)]
        return names, address
    if storage.is_file(address):
        return [address], address.rpartition("/")[0]
    if "*" in address:
        found = [name for name in storage.matching(address) if storage.is_file(name)]
        if found:
            return found, address.partition("*")[0].rpartition("/")[0]
        raise InvalidAddress(f"no file matches {address}.", address=address)
    raise InvalidAddress(f"there is no file or folder {address}.", address=address)


def _is_data(name: str, folder: str) -> bool:
    """Whether a file is not hidden, nor beside the data (`_SUCCESS`, a draft that a kill left)."""
    inner = name.removeprefix(folder).strip("/")
    return not any(part.startswith((".", "_", DRAFT)) for part in inner.split("/"))


def _chosen(
    address: str, names: Sequence[str], form: RowFormat | None
) -> tuple[RowFormat, Sequence[str], Sequence[str]]:
    """The format, the files that have it, and those that are left out."""
    known = {name: format_of(name) for name in names}
    if form is None:
        kinds = sorted({kind for kind in known.values() if kind is not None})
        if len(kinds) > 1:
            raise InvalidAddress(
                f"{address} has files of several formats: {', '.join(kinds)}. "
                f"Choose one: --input-format {kinds[0]}.",
                address=address,
            )
        form = kinds[0] if kinds else RowFormat.FILES
    if len(names) == 1 or form is RowFormat.FILES:
        return form, names, ()
    chosen = [name for name in names if known[name] is form]
    if not chosen:
        raise InvalidAddress(f"{address} has no file of the format {form}.", address=address)
    return form, chosen, [name for name in names if known[name] is not form]


def _shard_size(total: int) -> int:
    """A power of two, so that an input that grows a little is cut where it was cut before."""
    wanted = max(1, total // _SHARDS)
    return min(_MOST, max(_LEAST, 1 << (wanted.bit_length() - 1)))


Piece = tuple[Any, ...]


def _line_shards(_: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    for name, total in zip(names, sizes, strict=True):
        if name.lower().endswith(COMPRESSED):
            yield (name,), 0, None
            continue
        for start in range(0, total, size):
            yield (name,), start, min(start + size, total)


def _csv_shards(storage: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    for name, total in zip(names, sizes, strict=True):
        if name.lower().endswith(COMPRESSED):
            raise InvalidAddress(f"{name}: a compressed CSV file is not read. Unpack it.", address=name)
        with storage.open(name) as file:
            head, start = _head(file, name)
            for cut in [*_cuts(file, start, size), total]:
                if cut > start:
                    yield (name,), start, cut, 0, head
                start = cut


def delimiter(name: str) -> str:
    return "\t" if name.lower().endswith(".tsv") else ","


def _head(file: BinaryIO, name: str) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and where the first row begins."""
    data = file.read(_HEADER)
    end, quotes = -1, 0
    while True:
        found = data.find(b"\n", end + 1)
        if found < 0:
            end = len(data) - 1
            break
        quotes += data.count(b'"', end + 1, found)
        end = found
        if quotes % 2 == 0:
            break
    try:
        text = data[: end + 1].decode("utf-8-sig")
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter(name)), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidAddress(f"{name} has no line of column names: {error}.", address=name) from None
    if not cells or len(set(cells)) < len(cells) or len(data) == _HEADER == end + 1:
        raise InvalidAddress(
            f"{name} begins with no line of column names, each one once; found {', '.join(cells)[:200]!r}.",
            address=name,
        )
    return tuple(cells), end + 1


def _cuts(file: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Where shards after the first begin: the first row after each ``size`` bytes.

    A newline ends a row if it is not in quotes: if the quotes before it are even in number.
    """
    file.seek(start)
    place, quotes, wanted = start, 0, start + size
    while data := file.read(_PIECE):
        at = max(0, wanted - 1 - place)
        counted = 0
        while at < len(data):
            found = data.find(b"\n", at)
            if found < 0:
                break
            quotes += data.count(b'"', counted, found)
            counted = found
            if quotes % 2 == 0:
                cut = place + found + 1
                yield cut
                wanted = cut + size
            at = max(found + 1, wanted - 1 - place)
        quotes += data.count(b'"', counted)
        place += len(data)


def _parquet_shards(storage: Storage, names: Sequence[str], _: Sequence[int], size: int) -> Iterator[Piece]:
    parquet = pyarrow_parquet()
    for name in names:
        with storage.open(name) as file:
            try:
                metadata = parquet.ParquetFile(file).metadata
            except (OSError, ValueError) as error:  # what Arrow raises
                raise InvalidAddress(f"{name} is not a Parquet file: {error}.", address=name) from None
            for group in range(metadata.num_row_groups):
                rows, weight = metadata.row_group(group).num_rows, metadata.row_group(group).total_byte_size
                parts = max(1, min(_PARTS_OF_GROUP, weight // size, rows))
                cuts = [rows * part // parts for part in range(parts + 1)]
                for start, stop in pairwise(cuts):
                    yield (name,), start, stop, group


def _file_shards(_: Storage, names: Sequence[str], sizes: Sequence[int], size: int) -> Iterator[Piece]:
    together: list[str] = []
    weight = 0
    for name, one in zip(names, sizes, strict=True):
        if together and (weight + one > size or len(together) == _FILES):
            yield tuple(together), 0, weight
            together, weight = [], 0
        together.append(name)
        weight += one
    if together:
        yield tuple(together), 0, weight


_PLANNERS = {
    RowFormat.JSONL: _line_shards,
    RowFormat.CSV: _csv_shards,
    RowFormat.PARQUET: _parquet_shards,
    RowFormat.FILES: _file_shards,
}


def pyarrow_parquet() -> Any:  # noqa: ANN401  # a module without types
    """``pyarrow.parquet``. Raises ``MissingExtra``."""
    try:
        import pyarrow.parquet  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra.of("Parquet", "batch") from None
    return pyarrow.parquet
