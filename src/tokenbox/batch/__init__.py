"""Compile every row of a data set, on one core, on all cores or on a Ray cluster, with identical results.

    summary = tokenbox.batch.run("rows.jsonl", "out.jsonl", task="layout", budget=4_000, model="gpt-4o")

In a pipeline of your own, pass :class:`Compile` to ``map_batches`` or ``map`` (docs/batch.md).
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from tokenbox.batch.plan import BatchPlan, Decisions, Task
from tokenbox.exports import on_first_use

if TYPE_CHECKING:
    import os

    from tokenbox.batch.summary import BatchSummary
    from tokenbox.batch.udf import Compile as Compile
    from tokenbox.proof.evidence import Sink

__all__ = ["BatchPlan", "Compile", "Decisions", "Task", "run"]


def run(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    proof: Sink | None = None,
    **options: object,
) -> BatchSummary:
    """Compile every row of ``source`` into ``output``, and return a summary.

    ``options`` are those of :class:`BatchPlan` (``task``, ``budget``, ``model``, ``content`` ...) and of
    :class:`tokenbox.batch.runs.RunOptions` (``engine``, ``workers``, ``resume`` ...). ``proof`` receives the
    evidence of the run. Raises the errors of :func:`tokenbox.batch.runs.run`.
    """
    from tokenbox.batch.runs import RunOptions  # a plan alone needs no engines
    from tokenbox.batch.runs import run as run_plan

    names = {field.name for field in fields(RunOptions)}
    given = {name: value for name, value in options.items() if name in names and value is not None}
    plan = BatchPlan.of(**{name: value for name, value in options.items() if name not in names})
    return run_plan(source, output, plan, RunOptions(**given), proof=proof)  # type: ignore[arg-type]  # which it checks


# Neither a run nor the help of the command needs it.
if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name
    __getattr__ = on_first_use(__name__, {"udf": "Compile"})
