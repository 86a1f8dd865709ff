"""A run as one proof bundle, with a digest of the input and of the results of each shard; and its replay.

A bundle of a run is signed, entered in the log, listed, verified and exported as every other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.plan import plan_of
from tokenbox.batch.reading import ShardReader
from tokenbox.batch.shards import RowFormat, Shard, shard_input
from tokenbox.batch.storage import unreadable
from tokenbox.batch.tally import Tally
from tokenbox.batch.work import ShardRecord
from tokenbox.batch.writing import ShardResults
from tokenbox.proof import merkle
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.evidence import Budget, Evidence, EvidenceKind, Input
from tokenbox.proof.replay import compared
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.shards import Sharded
    from tokenbox.proof.contents import Contents, FieldDifference
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
    """The evidence of a run. The names of files are in it; no row is."""
    root = merkle.Growing()
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
        budget=Budget(),  # each row has its own, which the plan says
        tokenizer=TokenizerIdentity(**identity),  # type: ignore[arg-type]  # what its to_dict gave
        inputs=tuple(
            Input(
                id=_id(record.number),
                kind="shard",
                digest=record.input,
                size=_bytes(shard),
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


def _bytes(shard: Shard) -> int:
    return 0 if shard.format is RowFormat.PARQUET else shard.size or 0


def _place(shard: Shard) -> str:
    name = shard.files[0].rpartition("/")[2]
    return name if len(shard.files) == 1 else f"{name} and {len(shard.files) - 1} more files"


class Replayed(NamedTuple):
    """What a replay of a run found. ``rows`` of ``shards`` were compiled again, of ``of`` shards."""

    differences: tuple[FieldDifference, ...]
    uncompared: tuple[str, ...]
    shards: int
    of: int
    rows: int

    @property
    def same(self) -> bool:
        return not self.differences


def replay_run(
    contents: Contents,
    source: str,
    sample: int | None = None,
    *,
    done: Callable[[], object] = lambda: None,
) -> Replayed:
    """Compile shards of a run again, from the input at ``source``, and compare every field of the bundle.

    ``sample``: as many shards as have that number of rows together, or all. Which ones follows from the id of
    the bundle, so it is the same ones for everybody; the others are taken as recorded, and not compared.
    ``done`` is called after each. Raises :class:`ReplayImpossible`, and what reading the input raises.
    """
    arguments = cast("Mapping[str, Any]", contents.manifest.predicate["arguments"])
    try:
        plan = plan_of({name: value for name, value in arguments["plan"].items() if name != "limits"})
        form, size = RowFormat(arguments["format"]), int(arguments["shard_size"])
        recorded = [
            _recorded(number, one, two)
            for number, (one, two) in enumerate(zip(contents.inputs, contents.decisions, strict=True))
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReplayImpossible(f"the bundle has no plan of a batch: {error!r:.200}.") from None
    from tokenbox.batch.runs import base_of  # noqa: PLC0415  # which imports this module for its evidence

    plan = plan_of({**plan.to_dict(), "limits": None}, base=base_of(source)).with_limits()
    sharded = shard_input(source, form, size)
    compiler = RowCompiler(plan)
    again: dict[int, ShardRecord] = {}
    rows = 0
    for number in _drawn(contents.manifest.id, len(sharded.shards)):
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
    found = compared(contents, evidence, _taken(len(records), again))
    return Replayed(found.differences, found.uncompared, len(again), len(recorded), rows)


def _recorded(number: int, given: Record, made: Record) -> ShardRecord:
    """A shard as the bundle has it."""
    rows, failed, tokens = (cast("int", made[name]) for name in ("rows", "failed", "size"))
    if not all(type(figure) is int for figure in (rows, failed, tokens)):
        raise TypeError("rows")
    tally = Tally(rows=rows, tokens=tokens, errors=Counter({"recorded": failed}))
    return ShardRecord(number, str(given["digest"]), str(made["digest"]), "", 0, tally)


def _taken(shards: int, again: Mapping[int, ShardRecord]) -> frozenset[str]:
    """What is not compared where only some shards are compiled again."""
    others = [_id(number) for number in range(shards) if number not in again]
    taken = {f"inputs[{name}].{part}" for name in others for part in ("digest", "fields")}
    return frozenset(
        taken | {f"decisions[{name}]" for name in others} | ({"figures.exact"} if others else set())
    )


def _drawn(bundle: str, count: int) -> list[int]:
    """The shards in the order in which they are looked at."""
    return sorted(range(count), key=lambda n: hashlib.sha256(f"{bundle}:{n}".encode()).digest())


def _compiled(shard: Shard, plan: BatchPlan, compiler: RowCompiler) -> ShardRecord:
    """A shard, compiled again and written nowhere."""
    reader, results, tally = ShardReader(shard), ShardResults(plan, _Nowhere()), Tally()
    try:
        for chunk in reader.chunks():
            made = compiler.compile(chunk)
            results.add(chunk, made)
            tally.add(made)
    except OSError as error:
        raise unreadable(shard.files[0], error) from None
    return ShardRecord(shard.number, reader.digest, results.digest, "", 0, tally)


class _Nowhere:
    def write(self, records: Sequence[Mapping[str, object]], lines: Sequence[str]) -> None:
        """Only the digest is wanted."""

    def finish(self) -> None:
        """Nothing was written."""
