"""The proof bundle of a run, with digests of the input and results of each shard; and its replay.

A bundle of a run is signed, logged, listed, verified and exported like any other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import InvalidPlan
from tokenbox.batch.plan import BatchPlan
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import RowFormat, Shard, base_of, shard_input
from tokenbox.batch.storage import reads
from tokenbox.batch.tally import Tally
from tokenbox.batch.work import ShardRecord
from tokenbox.batch.writing import ShardResults
from tokenbox.errors import plural
from tokenbox.proof import merkle
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.evidence import Budget, Evidence, EvidenceKind, Input
from tokenbox.proof.replay import Replay, compared
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from tokenbox.batch.shards import Sharded
    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Record

FUNCTION = "batch.run"
ALGORITHM = "batch/1"


def evidence_of_run(
    plan: BatchPlan,
    sharded: Sharded,
    records: Sequence[ShardRecord],
    tally: Tally,
    identity: Mapping[str, object],
) -> Evidence:
    """Return the evidence of a run. It contains the names of files, but no rows."""
    root = merkle.GrowingRoot()
    for record in records:
        root.add(record.output.encode())
    return Evidence(
        kind=EvidenceKind.BATCH,
        function=FUNCTION,
        algorithm=ALGORITHM,
        arguments={
            "plan": plan.to_dict(),
            "format": sharded.format.value,
            "shard_size": sharded.shard_size,
        },
        budget=Budget(),  # the plan has the budget of each row
        tokenizer=TokenizerIdentity(**identity),  # type: ignore[arg-type]  # from its to_dict
        inputs=tuple(
            Input(
                id=_id(record.number),
                kind="shard",
                digest=record.input,
                size=0 if shard.format is RowFormat.PARQUET else shard.size or 0,
                tokens=None,
                source=_place(shard),
                fields={"rows": record.tally.rows},
            )
            for shard, record in zip(sharded.shards, records, strict=True)
        ),
        decisions=tuple(
            {
                "id": _id(record.number),
                "decision": "compiled",
                "digest": record.output,
                "rows": record.tally.rows,
                "failed": record.tally.failed,
                "size": record.tally.tokens,
            }
            for record in records
        ),
        emitted="".join(f"{record.output}\n" for record in records),
        digest=root.root.hex(),
        figures={"total": tally.tokens, "rows": tally.rows, "failed": tally.failed, "exact": tally.exact},
        model=plan.model,
    )


def _id(number: int) -> str:
    return f"shard {number:05}"


def _place(shard: Shard) -> str:
    name = shard.files[0].rpartition("/")[2]
    return name if len(shard.files) == 1 else f"{name} and {plural(len(shard.files) - 1, 'more file')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Replay):
    """The replay of a run. ``rows`` in ``shards`` of the run's ``of`` shards were compiled again."""

    shards: int
    of: int
    rows: int


def replay_run(
    contents: Contents,
    source: str,
    sample: int | None = None,
    *,
    done: Callable[[], object] = lambda: None,
) -> Replayed:
    """Compile shards of a run again, from the input at ``source``, and compare every field of the bundle.

    ``sample``: a minimum number of rows; by default all shards are compiled. The id of the bundle determines
    which shards are sampled, so that everyone samples the same ones; the others are not compared. ``done`` is
    called after each shard. Raises :class:`ReplayImpossible`, and the errors of reading the input.
    """
    arguments = cast("Mapping[str, Any]", contents.manifest.predicate["arguments"])
    try:
        plan = BatchPlan.of(**{name: value for name, value in arguments["plan"].items() if name != "limits"})
        form, size = RowFormat(arguments["format"]), int(arguments["shard_size"])
        if size < 1:
            raise ValueError(size)  # noqa: TRY301  # converted below
        recorded = [
            _recorded(number, given, decision)
            for number, (given, decision) in enumerate(zip(contents.inputs, contents.decisions, strict=True))
        ]
    except (KeyError, TypeError, ValueError, AttributeError, InvalidPlan) as error:
        raise ReplayImpossible(
            f"the bundle has no plan of a batch that this release can run: {error!r:.200}. "
            f"It was made by {contents.manifest.predicate['engine']['version']:.100}."
        ) from None
    plan = replace(plan, base=base_of(source)).with_limits()
    sharded = shard_input(source, form, size)
    compiler = RowCompiler(plan)
    again: dict[int, ShardRecord] = {}
    rows = 0
    for number in _sampling_order(contents.manifest.id, len(sharded.shards)):
        if sample is not None and rows >= sample and number < len(recorded):
            continue
        again[number] = _compiled(sharded.shards[number], plan, compiler)
        rows += again[number].tally.rows
        done()
    records = [again.get(number) or recorded[number] for number in range(len(sharded.shards))]
    tally = Tally()
    for record in records:
        tally.merge(record.tally)
    evidence = evidence_of_run(plan, sharded, records, tally, compiler.identity)
    found = compared(contents, evidence, _uncompared(len(records), again))
    return Replayed(
        found.differences, found.uncompared, found.reason, shards=len(again), of=len(recorded), rows=rows
    )


def _recorded(number: int, given: Record, decision: Record) -> ShardRecord:
    """Return the record of a shard in the bundle."""
    rows, failed, tokens = (cast("int", decision[name]) for name in ("rows", "failed", "size"))
    if not all(type(figure) is int for figure in (rows, failed, tokens)):
        raise TypeError("rows")
    tally = Tally(rows=rows, tokens=tokens, errors=Counter({"recorded": failed}))
    return ShardRecord(number, str(given["digest"]), str(decision["digest"]), "", 0, tally)


def _uncompared(shards: int, again: Mapping[int, ShardRecord]) -> frozenset[str]:
    """Return the fields that cannot be compared if only some shards are compiled again."""
    others = [_id(number) for number in range(shards) if number not in again]
    fields = {f"inputs[{name}].{part}" for name in others for part in ("digest", "fields")}
    return frozenset(
        fields | {f"decisions[{name}]" for name in others} | ({"figures.exact"} if others else set())
    )


def _sampling_order(bundle: str, count: int) -> list[int]:
    return sorted(range(count), key=lambda n: hashlib.sha256(f"{bundle}:{n}".encode()).digest())


def _compiled(shard: Shard, plan: BatchPlan, compiler: RowCompiler) -> ShardRecord:
    """Compile a shard without writing its results."""
    reader, results, tally = ShardReader(shard), ShardResults(plan), Tally()
    with reads(shard.files[0]):
        for chunk in reader.chunks():
            made = compiler.compile(chunk)
            results.add(chunk, made)
            tally.add(made)
    return ShardRecord(shard.number, reader.digest, results.digest, "", 0, tally)
