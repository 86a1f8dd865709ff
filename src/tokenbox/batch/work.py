"""One shard compiled: read, compiled, written, recorded. What every engine does, wherever it does it.

Rule 1: a shard's part appears whole, then its record. A kill between any two steps costs that shard only.
Rule 2: a record holds only if the input still has the digest that it names, and the part has its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tokenbox.batch.compiler import RowResult, columns_of
from tokenbox.batch.errors import BatchError, RowKillsWorkers, RowsFailed, WorkersFailed
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import RowFormat
from tokenbox.batch.storage import storage_of, unreadable, unwritable
from tokenbox.batch.tally import Tally
from tokenbox.batch.text import json_text
from tokenbox.batch.writing import WRITERS, ShardResults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO, Self

    from tokenbox.batch.compiler import RowCompiler
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.reading import Chunk
    from tokenbox.batch.shards import Shard

# A row that was being compiled when so many workers were killed is set aside.
KILLS = 3
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard that is done: digests of its input, of its results, and of the file that has them."""

    number: int
    input: str
    output: str
    file: str
    bytes: int
    tally: Tally
    reused: bool = False

    def to_dict(self) -> dict[str, object]:
        return {
            "number": self.number,
            "input": self.input,
            "output": self.output,
            "file": self.file,
            "bytes": self.bytes,
            "tally": self.tally.to_dict(),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The record that :meth:`to_dict` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        return cls(
            number=int(record["number"]),
            input=str(record["input"]),
            output=str(record["output"]),
            file=str(record["file"]),
            bytes=int(record["bytes"]),
            tally=Tally.of(record["tally"]),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What a worker is about to do: the rows ``first`` to ``last`` of a shard; none, if it is reading.

    ``rows``, ``tokens``, ``cut`` and ``failed`` are what it has done of the shard so far.
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

    ``known``: the record of an earlier run, which may still hold; ``assembled``: its part is in the whole
    output, which was checked. ``strikes``: how many workers were killed at a row; -1 stands for reading.
    """

    shard: Shard
    part: str
    record: str
    format: RowFormat
    tiers: tuple[int, ...] = ()
    fail_fast: bool = False
    known: ShardRecord | None = None
    assembled: bool = False
    strikes: Mapping[int, int] = field(default_factory=dict)

    def after_kill(self, mark: Mark | None) -> Job:
        """The job for the next worker, once the last one was killed at ``mark``.

        Raises :class:`WorkersFailed` where it is not a row that kills them.
        """
        rows = range(mark.first, mark.last) if mark is not None else range(0)
        strikes = dict(self.strikes)
        for row in rows or (-1,):
            strikes[row] = strikes.get(row, 0) + 1
        if strikes.get(-1, 0) >= KILLS:
            at = 0 if mark is None else mark.first
            raise WorkersFailed(
                f"{KILLS} workers were killed while they read shard {self.shard.number} at row {at:,} of it "
                f"({self.shard.files[0]}). Is there enough memory? Try fewer workers: --workers 1.",
                shard=self.shard.number,
                row=at,
            )
        return replace(self, strikes=strikes)


# A shard of these has its size in bytes.
_IN_BYTES = {RowFormat.JSONL, RowFormat.CSV}


def bytes_of(jobs: Sequence[Job], workers: int = 1) -> int | None:
    """How many bytes each of the workers has to read; None where that is unknown."""
    sizes = [job.shard.size for job in jobs if job.shard.format in _IN_BYTES]
    if len(sizes) < len(jobs) or None in sizes:
        return None
    return sum(filter(None, sizes)) // workers


Event = Mark | ShardRecord


def compile_shard(job: Job, plan: BatchPlan, compiler: RowCompiler) -> Iterator[Event]:
    """Compile the shard; a mark before each step, the record last. Raises :class:`BatchError`."""
    try:
        if job.known is not None and _holds(job, job.known):
            yield replace(job.known, reused=True)
            return
        yield from _compiled(job, plan, compiler)
    except OSError as error:
        raise unreadable(job.shard.files[0], error) from None


def _compiled(job: Job, plan: BatchPlan, compiler: RowCompiler) -> Iterator[Event]:
    reader, tally, number = ShardReader(job.shard), Tally(), job.shard.number
    yield Mark(number, 0, 0)
    chunks = reader.chunks()
    chunk = _next(chunks, job)  # of Parquet, the types are known after the first
    storage = storage_of(job.part)
    try:
        with storage.create(job.part) as raw:
            file = _Summed(raw)
            kept = {name: reader.types[name] for name in plan.keep if name in reader.types}
            writer = WRITERS[job.format](file, columns_of(plan), kept)  # type: ignore[arg-type]
            results = ShardResults(plan, writer)
            while chunk is not None:
                done: list[RowResult] = []
                for first, last in job_steps(job, tally.rows, len(chunk)):
                    yield _mark(number, tally, first, last)
                    done += _results(job, compiler, chunk, first, last, tally.rows)
                tally.add(done, job.tiers)
                results.add(chunk, done)
                if job.fail_fast:
                    _check(job, done, tally.rows - len(done))
                yield _mark(number, tally, tally.rows, tally.rows)
                chunk = _next(chunks, job)
            writer.finish()
        record = ShardRecord(number, reader.digest, results.digest, file.digest, file.size, tally)
        with storage.create(job.record) as raw:
            raw.write(f"{json_text(record.to_dict())}\n".encode())
    except BatchError:
        raise
    except OSError as error:
        raise unwritable(job.part, error) from None
    yield record


def _next(chunks: Iterator[Chunk], job: Job) -> Chunk | None:
    """The next chunk. What fails is the reading, and not what is written meanwhile."""
    try:
        return next(chunks, None)
    except OSError as error:
        raise unreadable(job.shard.files[0], error) from None


def _mark(number: int, tally: Tally, first: int, last: int) -> Mark:
    over = tally.rows - tally.outcomes["whole"]
    return Mark(number, first, last, tally.rows, tally.tokens, over, tally.failed)


def job_steps(job: Job, first: int, size: int) -> Iterator[tuple[int, int]]:
    """The rows of a chunk that are compiled together: one by one where a worker was killed at one of them."""
    rows = range(first, first + size)
    if any(row in job.strikes for row in rows):
        yield from ((row, row + 1) for row in rows)
    else:
        yield first, first + size


def _results(
    job: Job, compiler: RowCompiler, chunk: Chunk, first: int, last: int, start: int
) -> Sequence[RowResult]:
    if job.strikes.get(first, 0) >= KILLS:
        return [RowResult.failed(_set_aside())]
    return compiler.compile(chunk[first - start : last - start])


def _set_aside() -> RowKillsWorkers:
    return RowKillsWorkers(
        f"{KILLS} workers were killed while they compiled this row, so it was set aside. "
        "Compile it alone to see why: tokenbox batch --engine inline.",
        workers=KILLS,
    )


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


def _holds(job: Job, known: ShardRecord) -> bool:
    """Whether the record is of these bytes, and its results are there."""
    if known.number != job.shard.number or (known.tally.failed and job.fail_fast):
        return False
    if not job.assembled and file_digest(job.part) != known.file:
        return False
    return ShardReader(job.shard).skim() == known.input


def file_digest(address: str) -> str | None:
    """SHA-256 (hex) of a file; None where it cannot be read."""
    try:
        with storage_of(address).open(address) as file:
            found = hashlib.sha256()
            while data := file.read(_PIECE):
                found.update(data)
            return found.hexdigest()
    except OSError:
        return None


def read_record(address: str) -> ShardRecord | None:
    """The record that was written there; None if no readable record exists."""
    try:
        with storage_of(address).open(address) as file:
            return ShardRecord.of(json.loads(file.read()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class _Summed:
    """A file that is written, its digest and size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self.size = 0
        self.closed = False

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()

    def write(self, data: Any) -> int:  # noqa: ANN401  # any buffer
        view = memoryview(data).cast("B")
        self._sum.update(view)
        self.size += len(view)
        self._file.write(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Arrow asks for it; the storage does it once."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """The storage closes the file."""
