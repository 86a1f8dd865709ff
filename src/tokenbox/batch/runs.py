"""A run: split the input into shards, compile them with an engine, and join the output."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenbox.__about__ import __version__
from tokenbox.batch.cells import check_columns
from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.engines import EngineName, engine_of
from tokenbox.batch.errors import InvalidAddress, InvalidPlan, RunDiffers
from tokenbox.batch.evidence import evidence_of_run
from tokenbox.batch.output import (
    SCHEMA,
    OutputPlaces,
    assemble,
    existing_run,
    held,
    prepare,
    remove_stale,
    write_json,
)
from tokenbox.batch.plan import BatchPlan, check_flags
from tokenbox.batch.shards import RowFormat, Sharded, base_of, shard_input
from tokenbox.batch.storage import storage_of
from tokenbox.batch.summary import BatchSummary
from tokenbox.batch.tally import Tally
from tokenbox.batch.work import Job, ShardRecord, file_digest, read_record
from tokenbox.catalog import price as price_of
from tokenbox.errors import one_of, shown, without_password
from tokenbox.integers import MAX_INTEGER, whole
from tokenbox.proof.bundle import build
from tokenbox.proof.errors import SinkInvalid

if TYPE_CHECKING:
    from datetime import date

    from tokenbox.batch.shards import Shard
    from tokenbox.batch.work import Event
    from tokenbox.catalog import Price
    from tokenbox.proof.evidence import Sink


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
        for name, kind in (("engine", EngineName), ("input_format", RowFormat), ("output_format", RowFormat)):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, one_of(kind, name, given, InvalidPlan))
        for name, figure, unit in (
            ("workers", self.workers, "processes"),
            ("the shard size", self.shard_size, "bytes"),
        ):
            if figure is not None and (whole(figure) is None or not 1 <= figure <= MAX_INTEGER):
                raise InvalidPlan(f"{name} is a whole number of {unit}, 1 or more, not {shown(figure)}.")
        check_flags(self, "resume", "overwrite", "fail_fast")


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
    before = existing_run(output) if options.resume else None
    size = options.shard_size if before is None else before["shard_size"]
    sharded = shard_input(source, options.input_format, size)
    places = OutputPlaces.of(output, options.output_format, sharded.format)
    _check_apart(source, sharded, places)
    warning = check_columns(plan, sharded)
    if planned is not None:
        planned(sharded, warning)
    # An option that the engine does not have must not cost an existing output.
    engine = engine_of(
        _engine_for(options.engine, source, output),
        workers=options.workers,
        address=options.address,
        size=sum(shard.size or 0 for shard in sharded.shards),
        shards=len(sharded.shards),
    )
    price = None if plan.model is None or options.on is None else price_of(plan.model, options.on)
    record = _run_record(plan, sharded, places, identity)
    with held(places):
        if options.resume and existing_run(output) != before:
            message = f"another process has written {places.output} meanwhile. Run this again."
            raise RunDiffers(message, output=places.output)
        prepare(places, record, before, resume=options.resume, overwrite=options.overwrite)
        jobs = _jobs(sharded, plan, places, options, price, before)
        records = _compiled(partial(engine.run, plan), jobs, places, watch)
        if not places.is_folder:
            assemble(places, plan, record, records)
        remove_stale(places, len(records))
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
            input=without_password(source),
            output=without_password(places.output),
            engine=str(engine.name),
            workers=engine.workers,
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
        write_json(places.summary, summary.to_dict())
    return summary


def _compiled(
    engine: Callable[[Sequence[Job]], Iterator[Event]],
    jobs: Sequence[Job],
    places: OutputPlaces,
    watch: Callable[[Event], object] | None,
) -> list[ShardRecord]:
    """Compile the jobs, and return their records in order."""
    done: dict[int, ShardRecord] = {}

    def compile_all(wanted: Sequence[Job]) -> None:
        for event in engine(wanted):
            if isinstance(event, ShardRecord):
                done[event.number] = event
            if watch is not None:
                watch(event)

    compile_all(jobs)
    if not places.is_folder and any(not shard.reused for shard in done.values()):
        # The output must be joined again, and the parts of the reused shards have been removed.
        missing = [job for job in jobs if done[job.shard.number].reused and job.assembled]
        compile_all([replace(job, known=None, assembled=False) for job in missing])
    return [done[number] for number in sorted(done)]


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
    plan: BatchPlan, sharded: Sharded, places: OutputPlaces, identity: Mapping[str, object]
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


def _check_apart(source: str, sharded: Sharded, places: OutputPlaces) -> None:
    """Raise if the output would replace the input, or would be a part of it in the next run."""
    output, address = _real_name(places.output), _real_name(source)
    folder = output if places.is_folder else _real_name(places.folder)
    inputs = {_real_name(name) for shard in sharded.shards for name in shard.files}
    if output in inputs or any(name.startswith(f"{folder}/") for name in inputs):
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


def _jobs(
    sharded: Sharded,
    plan: BatchPlan,
    places: OutputPlaces,
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
