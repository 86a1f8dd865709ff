"""Batch: every row of a data set compiled, on one core, on all of them or on a Ray cluster; the same bytes.

    summary = tokenbox.batch.run("rows.jsonl", "out.jsonl", task="layout", budget=4_000, model="gpt-4o")

In a pipeline of your own, :class:`Compile` is what ``map_batches`` or ``map`` calls (docs/batch.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.batch.plan import BatchPlan, Decisions, Task

if TYPE_CHECKING:
    import os

    from tokenbox.batch.summary import BatchSummary
    from tokenbox.batch.udf import Compile as Compile
    from tokenbox.proof.evidence import Sink

__all__ = ["BatchPlan", "Compile", "Decisions", "Task", "run"]

_OF_RUN = frozenset(
    (
        *("engine", "workers", "address", "resume", "overwrite", "fail_fast"),
        *("input_format", "output_format", "shard_size", "on"),
    )
)


def run(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    proof: Sink | None = None,
    **options: object,
) -> BatchSummary:
    """Compile every row of ``source`` into ``output``, and return what came of it.

    ``options`` are those of :class:`BatchPlan` (``task``, ``budget``, ``model``, ``content`` ...) and of
    :class:`tokenbox.batch.runs.RunOptions` (``engine``, ``workers``, ``resume`` ...). ``proof`` is called
    with the evidence of the whole run. Errors are those of :func:`tokenbox.batch.runs.run`.
    """
    from tokenbox.batch.engines import EngineName  # noqa: PLC0415  # a plan alone needs no engines
    from tokenbox.batch.plan import one_of  # noqa: PLC0415
    from tokenbox.batch.runs import RunOptions  # noqa: PLC0415
    from tokenbox.batch.runs import run as run_plan  # noqa: PLC0415
    from tokenbox.batch.shards import RowFormat  # noqa: PLC0415

    how = {name: value for name, value in options.items() if name in _OF_RUN and value is not None}
    for name, kind in (("engine", EngineName), ("input_format", RowFormat), ("output_format", RowFormat)):
        if name in how:
            how[name] = one_of(kind, how[name], name)
    plan = BatchPlan.of(**{name: value for name, value in options.items() if name not in _OF_RUN})
    return run_plan(source, output, plan, RunOptions(**how), proof=proof)  # type: ignore[arg-type]  # checked where it is used


def __getattr__(name: str) -> object:
    """``Compile`` is imported on use: a run does not need it."""
    if name != "Compile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tokenbox.batch.udf import Compile  # noqa: PLC0415

    return Compile
