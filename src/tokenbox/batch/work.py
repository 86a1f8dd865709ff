"""Compile one shard: read it, compile its rows, write the results and a record. Every engine calls this.

Rule 1: a shard's part is written atomically, then its record. A kill between any two steps loses that shard
only.
Rule 2: a record is valid only if the digests of the input and of the part still match.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tokenbox.batch.errors import RowKillsWorkers, RowsFailed, WorkersFailed
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import RowFormat
from tokenbox.batch.storage import reads, storage_of, writes
from tokenbox.batch.tally import RowResult, Tally
from tokenbox.batch.writing import WRITERS, ShardResults, json_text
from tokenbox.errors import without_password
from tokenbox.records import to_record

if TYPE_CHECKING:
    from typing import BinaryIO, Self

    from tokenbox.batch.compiler import RowCompiler
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.reading import Chunk
    from tokenbox.batch.shards import Shard

# The number of killed workers after which the row that they were compiling is skipped.
KILLS = 3


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A finished shard: the digests of its input, of its results, and of the file with the results.

    ``tiers``: those of the price by which its tally was made.
    """

    number: int
    input: str
    output: str
    file: str
    bytes: int
    tally: Tally
    tiers: tuple[int, ...] = ()
    reused: bool = False

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "number input output file bytes tally tiers")

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Parse the record of :meth:`to_dict`. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        return cls(
            number=int(record["number"]),
            input=str(record["input"]),
            output=str(record["output"]),
            file=str(record["file"]),
            bytes=int(record["bytes"]),
            tally=Tally.of(record["tally"]),
            tiers=tuple(map(int, record.get("tiers", ()))),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A progress report of a worker: it is about to compile the rows ``first`` to ``last`` of a shard.

    The range is empty while it reads. ``rows``, ``tokens``, ``cut`` and ``failed``: the shard's figures so
    far.
    """

    shard: int
    first: int
    last: int
    rows: int = 0
    tokens: int = 0
    cut: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A shard to compile. ``part`` and ``record``: the addresses of its results and of its record.

    ``known``: the record of an earlier run, not yet verified; ``assembled``: its part is in the output, which
    is verified. ``kills``: the number of workers killed at each row, or (-1) while reading. ``types``: the
    Arrow types of the columns kept from Parquet.
    """

    shard: Shard
    part: str
    record: str
    format: RowFormat
    tiers: tuple[int, ...] = ()
    fail_fast: bool = False
    known: ShardRecord | None = None
    assembled: bool = False
    kills: Mapping[int, int] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)

    def after_kill(self, mark: Mark) -> Job:
        """Return the job for the next worker, after one was killed at ``mark``.

        Raises :class:`WorkersFailed` if workers are killed while reading, not by a row.
        """
        kills = dict(self.kills)
        for row in range(mark.first, mark.last) or (-1,):
            kills[row] = kills.get(row, 0) + 1
        if kills.get(-1, 0) >= KILLS:
            file = without_password(self.shard.files[0])
            raise WorkersFailed(
                f"{KILLS} workers were killed while reading shard {self.shard.number} at its row "
                f"{mark.first:,} ({file}). Check that there is enough memory, or use fewer workers: "
                "--workers 1.",
                shard=self.shard.number,
                row=mark.first,
            )
        return replace(self, kills=kills)


# The formats whose shards are measured in bytes.
_IN_BYTES = {RowFormat.JSONL, RowFormat.CSV}


def bytes_of(jobs: Sequence[Job], workers: int = 1) -> int | None:
    """Return the average number of bytes that a worker reads; None if unknown."""
    sizes = [job.shard.size for job in jobs if job.shard.format in _IN_BYTES]
    if len(sizes) < len(jobs) or None in sizes:
        return None
    return sum(filter(None, sizes)) // workers


Event = Mark | ShardRecord


def compile_shard(job: Job, plan: BatchPlan, compiler: RowCompiler) -> Iterator[Event]:
    """Compile the shard. Yields a mark before each step, and finally the record.

    Raises :class:`BatchError`.
    """
    with reads(job.shard.files[0]):
        if job.known is not None and _is_valid(job, job.known):
            yield replace(job.known, reused=True)
        else:
            yield from _compiled(job, plan, compiler)


def _compiled(job: Job, plan: BatchPlan, compiler: RowCompiler) -> Iterator[Event]:
    reader, tally, number = ShardReader(job.shard), Tally(), job.shard.number
    yield Mark(number, 0, 0)
    chunks = reader.chunks()
    chunk = _next(chunks, job)  # an input that cannot be read leaves no draft
    storage = storage_of(job.part)
    with writes(job.part):
        with storage.create(job.part) as raw:
            file = _HashedFile(raw)
            writer = WRITERS[job.format](file, plan.columns, job.types)  # type: ignore[arg-type]
            results = ShardResults(plan, writer)
            try:
                while chunk is not None:
                    done: list[RowResult] = []
                    for first, last in _steps(job, tally.rows, len(chunk)):
                        yield _mark(number, tally, first, last)
                        done += _results(job, compiler, chunk, first, last, tally.rows)
                    tally.add(done, job.tiers)
                    results.add(chunk, done)
                    if job.fail_fast:
                        _check(job, done, tally.rows - len(done))
                    yield _mark(number, tally, tally.rows, tally.rows)
                    chunk = _next(chunks, job)
                writer.finish()
            except BaseException:
                writer.abandon()
                raise
        record = ShardRecord(number, reader.digest, results.digest, file.digest, file.size, tally, job.tiers)
        with storage.create(job.record) as raw:
            raw.write(f"{json_text(record.to_dict())}\n".encode())
    yield record


def _next(chunks: Iterator[Chunk], job: Job) -> Chunk | None:
    """Return the next chunk. Raises an error that names the input, not the output."""
    with reads(job.shard.files[0]):
        return next(chunks, None)


def _mark(number: int, tally: Tally, first: int, last: int) -> Mark:
    cut = tally.rows - tally.outcomes["whole"]
    return Mark(number, first, last, tally.rows, tally.tokens, cut, tally.failed)


def _steps(job: Job, first: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows to compile together: single rows if a worker was killed in the chunk."""
    rows = range(first, first + size)
    if any(row in job.kills for row in rows):
        yield from ((row, row + 1) for row in rows)
    else:
        yield first, first + size


def _results(
    job: Job, compiler: RowCompiler, chunk: Chunk, first: int, last: int, start: int
) -> Sequence[RowResult]:
    if job.kills.get(first, 0) >= KILLS:
        error = RowKillsWorkers(
            f"{KILLS} workers were killed while compiling this row, so it was skipped. "
            "Compile it alone to see why: tokenbox batch --engine inline.",
            workers=KILLS,
        )
        return [RowResult.failed(error)]
    return compiler.compile(chunk[first - start : last - start])


def _check(job: Job, done: Sequence[RowResult], first: int) -> None:
    for row, result in enumerate(done, first):
        error = result.columns.get("error")
        if isinstance(error, dict):
            name = job.shard.files[0].rpartition("/")[2]
            raise RowsFailed(
                f"row {row:,} of shard {job.shard.number} ({name}) failed: {error['message']}",
                shard=job.shard.number,
                row=row,
                error=error,
            )


def _is_valid(job: Job, known: ShardRecord) -> bool:
    """Return whether the record matches the input, and its results still exist."""
    if known.number != job.shard.number or (known.tally.failed and job.fail_fast):
        return False
    if known.tiers != job.tiers:  # its tokens are not known by the tiers of today's price
        return False
    if not job.assembled and file_digest(job.part) != known.file:
        return False
    return ShardReader(job.shard).digest_input() == known.input


def file_digest(address: str) -> str | None:
    """Return the SHA-256 (hex) of a file; None if it cannot be read."""
    try:
        with storage_of(address).open(address) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
    except OSError:
        return None


def read_record(address: str) -> ShardRecord | None:
    """Return the record at the address; None if no readable record exists."""
    try:
        with storage_of(address).open(address) as file:
            return ShardRecord.of(json.loads(file.read()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


class _HashedFile(io.RawIOBase):
    """A file to write, with the digest and size of its content. The storage closes it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: Any) -> int:  # noqa: ANN401  # any buffer
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self.size += len(view)
        self._file.write(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True
