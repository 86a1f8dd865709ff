"""Join the parts of a run into one file, in order and in bounded memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tokenbox.batch.shards import RowFormat, pyarrow_parquet
from tokenbox.batch.storage import storage_of
from tokenbox.batch.work import file_digest
from tokenbox.batch.writing import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

_PIECE = 1 << 20


def join_parts(parts: Sequence[str], output: str, form: RowFormat, columns: Sequence[str]) -> str:
    """Write the parts to ``output``, atomically, and return the SHA-256 (hex) of the file.

    Without parts it has the ``columns`` and no row. Raises ``OSError``.
    """
    with storage_of(output).create(output, sync=True) as file:
        if not parts:
            WRITERS[form](file, columns, {}).finish()
        elif form is RowFormat.PARQUET:
            _join_columns(parts, file)
        else:
            for piece in _pieces(parts, has_head=form is RowFormat.CSV):
                file.write(piece)
    return file_digest(output) or hashlib.sha256().hexdigest()


def _pieces(parts: Sequence[str], *, has_head: bool) -> Iterator[bytes]:
    """Yield the bytes of the parts, with the header line of the first one only."""
    for number, part in enumerate(parts):
        with storage_of(part).open(part) as file:
            if has_head and number:
                file.readline()
            while data := file.read(_PIECE):
                yield data


def _join_columns(parts: Sequence[str], file: BinaryIO) -> None:
    parquet = pyarrow_parquet()
    writer = None
    try:
        for part in parts:
            with storage_of(part).open(part) as one:
                source = parquet.ParquetFile(one)
                if writer is None:
                    writer = parquet.ParquetWriter(file, source.schema_arrow, compression="zstd")
                for group in range(source.num_row_groups):
                    writer.write_table(source.read_row_group(group, use_threads=False))
    finally:
        if writer is not None:
            writer.close()
