"""A run: split the input into shards, compile them with an engine, and join the output.

Beside the output is the folder of the run: `OUTPUT/_batch` for a folder, `OUTPUT.batch` for a file. It has
`run.json` with the options and the plan, a record for each finished shard, and `summary.json`. A killed run
resumes from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from tokenbox.__about__ import __version__
from tokenbox.batch.columns import check_columns
from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.engines import EngineName, engine_of
from tokenbox.batch.errors import InvalidAddress, InvalidPlan, RunDiffers
from tokenbox.batch.evidence import evidence_of_run
from tokenbox.batch.shards import RowFormat, Sharded, base_of, format_of, pyarrow_parquet, shard_input
from tokenbox.batch.storage import DRAFT, storage_of, unwritable
from tokenbox.batch.summary import BatchSummary
from tokenbox.batch.tally import Tally
from tokenbox.batch.text import json_text
from tokenbox.batch.work import Job, ShardRecord, file_digest, read_record
from tokenbox.batch.writing import SUFFIX, WRITERS
from tokenbox.catalog import price as price_of
from tokenbox.errors import shown
from tokenbox.integers import MAX_INTEGER, whole
from tokenbox.proof.bundle import build
from tokenbox.proof.errors import SinkInvalid

if TYPE_CHECKING:
    from datetime import date
    from typing import BinaryIO

    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.shards import Shard
    from tokenbox.batch.work import Event
    from tokenbox.catalog import Price
    from tokenbox.proof.evidence import Sink


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


SCHEMA = "tokenbox.batch.run/1"
FOLDER = "_batch"
# Suffixes that would name a folder, which nobody means by them.
_NOT_WRITTEN = frozenset(
    """
    .arrow .avro .bz2 .db .feather .gz .html .json .log .md .orc .pickle
    .sqlite .tar .tsv .txt .xlsx .xml .xz .yaml .yml .zip .zst
    """.split()
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to execute a run. Only ``output_format`` changes the bytes of the results.

    ``address``: of a Ray cluster. ``resume``: continue the existing run; ``overwrite``: remove it.
    ``fail_fast``: stop at the first row with an error. ``shard_size``: bytes. ``on``: the day of the price.
    """

    engine: EngineName = EngineName.AUTO
    workers: int | None = None
    address: str | None = None
    resume: bool = False
    overwrite: bool = False
    fail_fast: bool = False
    input_format: RowFormat | None = None
    output_format: RowFormat | None = None
    shard_size: int | None = None
    on: date | None = None

    def __post_init__(self) -> None:
        for name, figure, unit in (
            ("workers", self.workers, "processes"),
            ("the shard size", self.shard_size, "bytes"),
        ):
            if figure is not None and (whole(figure) is None or not 1 <= figure <= MAX_INTEGER):
                raise InvalidPlan(f"{name} is a whole number of {unit}, 1 or more, not {shown(figure)}.")


@dataclass(frozen=True, slots=True)
class _Places:
    """The paths of a run's files."""

    output: str
    is_folder: bool
    format: RowFormat

    @classmethod
    def of(cls, output: str, given: RowFormat | None, input_format: RowFormat) -> _Places:
        named = format_of(output)
        suffix = PurePosixPath(output).suffix.lower()
        if suffix in _NOT_WRITTEN:
            raise InvalidAddress(
                f"{output}: results are not written as {suffix}. Name a .jsonl, .csv or .parquet file.",
                address=output,
            )
        if given is RowFormat.FILES:
            raise InvalidPlan("the output format must be jsonl, csv or parquet, not files.")
        is_folder = named is None or output.endswith("/") or storage_of(output).is_folder(output)
        if not is_folder and given not in (None, named):
            raise InvalidPlan(f"{output} is named as {named}, not {given}. Leave out --format, or rename it.")
        default = RowFormat.JSONL if input_format is RowFormat.FILES else input_format
        form = given or (default if is_folder or named is None else named)
        if form is RowFormat.PARQUET:
            pyarrow_parquet()  # a missing extra must not leave a run behind
        return cls(output.rstrip("/") if is_folder else output, is_folder, form)

    @property
    def folder(self) -> str:
        return f"{self.output}/{FOLDER}" if self.is_folder else f"{self.output}.batch"

    def part(self, number: int) -> str:
        parts = self.output if self.is_folder else f"{self.folder}/parts"
        return f"{parts}/part-{number:05}{SUFFIX[self.format]}"

    def record(self, number: int) -> str:
        return f"{self.folder}/shards/{number:05}.json"

    @property
    def run(self) -> str:
        return f"{self.folder}/run.json"

    @property
    def summary(self) -> str:
        return f"{self.folder}/summary.json"


def run(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    plan: BatchPlan,
    options: RunOptions | None = None,
    *,
    watch: Callable[[Event], object] | None = None,
    proof: Sink | None = None,
    planned: Callable[[Sharded, str | None], object] | None = None,
) -> BatchSummary:
    """Compile every row of ``source`` into ``output``, and return a summary.

    ``source``: a file, a folder or a pattern; ``output``: a file, or a folder with a file per shard.
    ``watch`` receives every mark and record, ``planned`` the shards and a warning or None, ``proof`` the
    evidence of the run. An existing ``output`` is not changed without ``resume`` or ``overwrite``.

    Raises :class:`~tokenbox.batch.errors.BatchError`, ``MissingExtra``, and the errors of the model or the
    tokenizer. A failing row raises nothing: its result has the error.
    """
    options = RunOptions() if options is None else options
    SinkInvalid.check(proof)
    source, output = _path(source, "source"), _path(output, "output")
    began = time.monotonic()
    _check_names(source, output)
    plan = replace(plan.with_limits(), base=base_of(source))
    identity = RowCompiler(plan).identity
    before = _existing_run(output) if options.resume else None
    size = options.shard_size if before is None else int(before["shard_size"])
    sharded = shard_input(source, options.input_format, size)
    places = _Places.of(output, options.output_format, sharded.format)
    _check_apart(source, sharded, places)
    warning = check_columns(plan, sharded)
    if planned is not None:
        planned(sharded, warning)
    # An option that the engine does not have must not cost an existing output.
    engine, name, workers = engine_of(
        _engine_for(options.engine, source, output),
        workers=options.workers,
        address=options.address,
        size=sum(shard.size or 0 for shard in sharded.shards),
        shards=len(sharded.shards),
    )
    record = _run_record(plan, sharded, places, identity)
    _prepare(places, record, before, options)
    price = None if plan.model is None or options.on is None else price_of(plan.model, options.on)
    jobs = _jobs(sharded, plan, places, options, price, before)
    done: dict[int, ShardRecord] = {}

    def compile_all(wanted: Sequence[Job]) -> None:
        for event in engine.run(plan, wanted):
            if isinstance(event, ShardRecord):
                done[event.number] = event
            if watch is not None:
                watch(event)

    compile_all(jobs)
    if not places.is_folder:
        if any(not shard.reused for shard in done.values()):
            # The output must be joined again, and the parts of the reused shards have been removed.
            missing = [job for job in jobs if done[job.shard.number].reused and job.assembled]
            compile_all([replace(job, known=None, assembled=False) for job in missing])
        _assemble(places, plan, record, [done[number] for number in sorted(done)])
    records = [done[number] for number in sorted(done)]
    _remove_stale(places, len(records))
    tally = Tally()
    for shard in records:
        tally.merge(shard.tally)
    bundle = None
    if proof is not None:
        evidence = evidence_of_run(plan, sharded, records, tally, identity)
        proof(evidence)
        bundle = build(evidence).id
    summary = BatchSummary(
        task=plan.task.value,
        input=source,
        output=places.output,
        engine=name.value,
        workers=workers,
        digest=digest_of(records),
        shards=len(records),
        reused=sum(shard.reused for shard in records),
        skipped=sharded.skipped,
        tally=tally,
        seconds=time.monotonic() - began,
        model=plan.model,
        tokenizer=identity,
        price=price,
        bundle=bundle,
    )
    _write(places.summary, summary.to_dict())
    return summary


def _path(given: object, name: str) -> str:
    """Return the path or address as text. Raises ``InvalidPlan``."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    try:
        if isinstance(path, str) and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        pass
    raise InvalidPlan(f"{name} is a path or an address, not {shown(given)}.")


def _check_names(source: str, output: str) -> None:
    """Raise for names that other programs take as standard input or output."""
    if source in ("", "-"):
        given = "is empty" if not source else "cannot be standard input, which --resume could not read again"
        raise InvalidAddress(f"INPUT {given}. Name a file or folder: rows.jsonl", address=source)
    if output in ("", "-"):
        given = "is empty" if not output else "cannot be standard output, where no run could be resumed"
        raise InvalidAddress(f"OUTPUT {given}. Name a file or folder: -o out.jsonl", address=output)


def _engine_for(name: EngineName, *addresses: str) -> EngineName:
    """Return the engine that can reach the addresses: only this process has ``memory://``."""
    if not any(address.startswith("memory://") for address in addresses):
        return name
    if name in (EngineName.PROCESS, EngineName.RAY):
        raise InvalidPlan(
            f"memory:// is in the memory of this process, where no worker of the engine {name} can reach it. "
            "Use --engine inline, or name a file."
        )
    return EngineName.INLINE


def digest_of(records: Sequence[ShardRecord]) -> str:
    """Return the SHA-256 (hex) over the digests of all shards' results, in order."""
    return hashlib.sha256("".join(f"{shard.output}\n" for shard in records).encode()).hexdigest()


def _run_record(
    plan: BatchPlan, sharded: Sharded, places: _Places, identity: Mapping[str, object]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "plan": plan.to_dict(),
        "tokenizer": dict(identity),
        "input_format": sharded.format.value,
        "output_format": places.format.value,
        "shard_size": sharded.shard_size,
        "output": None,
    }


def _existing_run(output: str) -> dict[str, Any] | None:
    """Return the content of `run.json` of the output; None if it does not exist."""
    for folder in (f"{output.rstrip('/')}/{FOLDER}", f"{output}.batch"):
        try:
            with storage_of(folder).open(f"{folder}/run.json") as file:
                found = json.loads(file.read())
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and found.get("schema") == SCHEMA:
            return found
    return None


def _check_apart(source: str, sharded: Sharded, places: _Places) -> None:
    """Raise if the output would replace the input, or would be a part of it in the next run."""
    output, address = _real_name(places.output), _real_name(source)
    inputs = {_real_name(name) for shard in sharded.shards for name in shard.files}
    if output in inputs or (places.is_folder and any(name.startswith(f"{output}/") for name in inputs)):
        raise InvalidAddress(
            f"{places.output} is the input or contains it. Name another output.", address=places.output
        )
    if output.startswith(f"{address}/"):
        raise InvalidAddress(
            f"{places.output} is in the folder of the input, so that the next run would read it. "
            "Name an output outside it.",
            address=places.output,
        )


def _real_name(address: str) -> str:
    return address.rstrip("/") if "://" in address else os.path.realpath(address)


def _prepare(
    places: _Places, record: dict[str, Any], before: Mapping[str, Any] | None, options: RunOptions
) -> None:
    """Check that an existing output belongs to this run, or remove it. Raises :class:`RunDiffers`."""
    storage = storage_of(places.output)
    try:
        if before is not None:
            _check_same(record, before, places.output)
            record["output"] = before.get("output")
            _remove_drafts(places)
            return
        exists = storage.is_file(places.run) or (
            bool(storage.files(places.output)) if places.is_folder else storage.is_file(places.output)
        )
        if exists and not options.overwrite:
            raise RunDiffers(
                f"{places.output} exists already. To continue an interrupted run: --resume. "
                "To replace it: --overwrite.",
                output=places.output,
            )
        if exists:
            storage.remove(places.folder)
            if not places.is_folder:
                storage.remove(places.output)
            else:
                for name in storage.files(places.output):
                    if name.rpartition("/")[2].startswith("part-"):
                        storage.remove(name)
        _write(places.run, record, begun=False)
    except OSError as error:
        raise unwritable(places.output, error, begun=before is not None) from None


def _check_same(record: Mapping[str, Any], before: Mapping[str, Any], output: str) -> None:
    now, then = dict(_flat(record)), dict(_flat(before))
    for name, value in now.items():
        if then.get(name) != value:
            raise RunDiffers(
                f"{output} has a run with {name} {then.get(name)!r:.80}, and this one has {value!r:.80}. "
                "Use the same options, name another output, or replace it: --overwrite.",
                output=output,
                option=name,
            )


def _flat(record: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        (inner, item)
        for name, value in record.items()
        if name != "output"
        for inner, item in (value.items() if isinstance(value, dict) else [(name, value)])
    ]


def _remove_drafts(places: _Places) -> None:
    """Remove the temporary files of killed workers."""
    storage = storage_of(places.output)
    for folder in (places.output if places.is_folder else f"{places.folder}/parts", places.folder):
        for name in storage.files(folder) if storage.is_folder(folder) else ():
            if name.rpartition("/")[2].startswith(DRAFT):
                storage.remove(name)


def _jobs(
    sharded: Sharded,
    plan: BatchPlan,
    places: _Places,
    options: RunOptions,
    price: Price | None,
    before: Mapping[str, Any] | None,
) -> list[Job]:
    """Return a job per shard, with paths that a worker in another folder can open."""
    tiers = () if price is None else tuple(sorted(tier.above for tier in price.tiers))
    # A finished run has its parts in the output only, unless the output was changed since.
    digest = None if before is None or places.is_folder else before.get("output")
    assembled = digest is not None and file_digest(places.output) == digest
    storage = storage_of(places.output)
    return [
        Job(
            shard=_with_full_names(shard),
            part=storage.full_name(places.part(shard.number)),
            record=storage.full_name(places.record(shard.number)),
            format=places.format,
            tiers=tiers,
            fail_fast=options.fail_fast,
            known=None if before is None else read_record(places.record(shard.number)),
            assembled=assembled,
            types={name: sharded.types[name] for name in plan.keep if name in sharded.types},
        )
        for shard in sharded.shards
    ]


def _with_full_names(shard: Shard) -> Shard:
    storage = storage_of(shard.files[0])
    return replace(
        shard,
        files=tuple(map(storage.full_name, shard.files)),
        root=storage.full_name(shard.root) if shard.root else "",
    )


def _assemble(
    places: _Places, plan: BatchPlan, record: dict[str, Any], records: Sequence[ShardRecord]
) -> None:
    """Join the parts into the output, atomically, unless it is complete already."""
    if records and all(shard.reused for shard in records) and record["output"] == file_digest(places.output):
        return
    try:
        parts = [places.part(shard.number) for shard in records]
        digest = join_parts(parts, places.output, places.format, plan.columns)
        _write(places.run, {**record, "output": digest})
        storage_of(places.output).remove(f"{places.folder}/parts")
    except OSError as error:
        raise unwritable(places.output, error) from None


def _remove_stale(places: _Places, count: int) -> None:
    """Remove the parts and records of an earlier, longer input."""
    storage = storage_of(places.output)
    for path_of in (places.part, places.record):
        number = count
        while storage.is_file(path_of(number)):
            storage.remove(path_of(number))
            number += 1


def _write(address: str, value: object, *, begun: bool = True) -> None:
    try:
        with storage_of(address).create(address) as file:
            file.write(f"{json_text(value)}\n".encode())
    except OSError as error:
        raise unwritable(address, error, begun=begun) from None
