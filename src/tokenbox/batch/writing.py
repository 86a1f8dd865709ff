"""Results as JSON, the same bytes for every engine and machine, and written as JSON lines, CSV or Parquet.

The digest of a shard is always that of its JSON lines.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from tokenbox.batch.shards import RowFormat, pyarrow_parquet
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.tally import RowResult

SUFFIX = {RowFormat.JSONL: ".jsonl", RowFormat.CSV: ".csv", RowFormat.PARQUET: ".parquet"}
# The size of a Parquet row group, far below the limit of Arrow's text columns.
_GROUP_BYTES = 64 << 20


def json_text(value: object, *, sort_keys: bool = False) -> str:
    """Return ``value`` as JSON on one line, which can always be encoded as UTF-8.

    Bytes are base64, dates are ISO 8601, and infinite numbers and NaN are null.
    """
    try:
        text = _encoder(sort_keys=sort_keys)(value)
    except ValueError:  # an infinite number or NaN
        value = json.loads(
            _encoder(sort_keys=sort_keys, allow_nan=True)(value), parse_constant=lambda _: None
        )
        text = _encoder(sort_keys=sort_keys)(value)
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        return _encoder(sort_keys=sort_keys, ascii_only=True)(value)
    return text


@cache
def _encoder(
    *, sort_keys: bool, ascii_only: bool = False, allow_nan: bool = False
) -> Callable[[object], str]:
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        sort_keys=sort_keys,
        separators=(",", ":"),
        allow_nan=allow_nan,
        check_circular=False,
        default=_plain,
    ).encode


def _plain(value: Any) -> object:  # noqa: ANN401  # any value that JSON does not have
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return str(value)


class PartWriter:
    """Writes the results of a shard to an open file."""

    def write(self, records: Sequence[Mapping[str, object]], lines: Sequence[str]) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Write what is pending, and the end of the format."""

    def abandon(self) -> None:
        """Release the file of a shard that failed."""


class ShardResults:
    """The results of a shard: their digest, and the ``writer`` that they go to."""

    def __init__(self, plan: BatchPlan, writer: PartWriter | None = None) -> None:
        self._columns = plan.columns
        self._keep = plan.keep
        self._writer = writer
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the results as JSON lines."""
        return self._hash.hexdigest()

    def add(self, rows: Sequence[Mapping[str, Any] | TokenboxError], results: Sequence[RowResult]) -> None:
        empty = dict.fromkeys(self._columns)
        records = [
            {**empty, **_kept(row, self._keep), **result.columns}
            for row, result in zip(rows, results, strict=True)
        ]
        lines = [json_text(record) for record in records]
        self._hash.update("".join([f"{line}\n" for line in lines]).encode())
        if self._writer is not None:
            self._writer.write(records, lines)


def _kept(row: Mapping[str, Any] | TokenboxError, names: Sequence[str]) -> dict[str, Any]:
    return {} if isinstance(row, TokenboxError) else {name: row.get(name) for name in names}


class _Lines(PartWriter):
    def __init__(self, file: BinaryIO, columns: Sequence[str], kept: Mapping[str, Any]) -> None:
        self._file = file

    def write(self, records: Sequence[Mapping[str, object]], lines: Sequence[str]) -> None:
        self._file.write("".join([f"{line}\n" for line in lines]).encode())


class _Cells(PartWriter):
    """CSV with a header line. Values other than text are JSON, and null is an empty cell."""

    def __init__(self, file: BinaryIO, columns: Sequence[str], kept: Mapping[str, Any]) -> None:
        self._file, self._columns = file, columns
        self._put([columns])

    def write(self, records: Sequence[Mapping[str, object]], lines: Sequence[str]) -> None:
        self._put([_cell(record[name]) for name in self._columns] for record in records)

    def _put(self, rows: Iterable[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode("utf-8", "backslashreplace"))


class _Columns(PartWriter):
    """Parquet. A column has the same type in every shard, so that shards can be read together."""

    def __init__(self, file: BinaryIO, columns: Sequence[str], kept: Mapping[str, Any]) -> None:
        import pyarrow as pa  # an extra

        parquet = pyarrow_parquet()
        # Large strings have 64-bit offsets, so that a column may exceed 2 GiB.
        types = {name: pa.large_string() for name in columns}
        types |= {"total": pa.int64(), "exact": pa.bool_(), "ok": pa.bool_()}
        types |= kept
        self._schema = pa.schema([(name, types[name]) for name in columns])
        self._plain = {name for name, kind in types.items() if not pa.types.is_large_string(kind)}
        self._arrow = pa
        self._out = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._pending: list[Mapping[str, object]] = []
        self._size = 0

    def write(self, records: Sequence[Mapping[str, object]], lines: Sequence[str]) -> None:
        self._pending += records
        self._size += sum(map(len, lines))
        if self._size >= _GROUP_BYTES:
            self._put()

    def finish(self) -> None:
        self._put()
        self._out.close()

    def abandon(self) -> None:
        # Otherwise Arrow would close it when it is collected, and print a traceback.
        with suppress(OSError, ValueError):
            self._out.close()

    def _put(self) -> None:
        if not self._pending:
            return
        columns = {
            name: [row[name] if name in self._plain else _text_cell(row[name]) for row in self._pending]
            for name in self._schema.names
        }
        self._out.write_table(self._arrow.table(columns, self._schema))
        self._pending, self._size = [], 0


WRITERS: Mapping[RowFormat, Callable[[BinaryIO, Sequence[str], Mapping[str, Any]], PartWriter]] = {
    RowFormat.JSONL: _Lines,
    RowFormat.CSV: _Cells,
    RowFormat.PARQUET: _Columns,
}


def _cell(value: object) -> str:
    return _text_cell(value) or ""


def _text_cell(value: object) -> str | None:
    if not isinstance(value, str):
        text = json_text(value)
        if not text.startswith('"'):
            return None if text == "null" else text
        value = str(json.loads(text))  # a date, a decimal or bytes: text, not a JSON string
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
