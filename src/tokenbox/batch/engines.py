"""Who compiles the shards. Each engine gives the same records, in whatever order they come."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.work import bytes_of, compile_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job


class EngineName(StrEnum):
    """The engines by name."""

    AUTO = "auto"
    INLINE = "inline"
    PROCESS = "process"
    RAY = "ray"


class BatchEngine(Protocol):
    """Compiles shards."""

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        """Marks and records as they come. Raises ``BatchError``. Closing it ends all work."""
        ...


class InlineEngine:
    """Compiles in this process, shard after shard."""

    def run(self, plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
        compiler = RowCompiler(plan, bytes_of(jobs))
        for job in jobs:
            yield from compile_shard(job, plan, compiler)


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Workers take about a second to start, and each holds a vocabulary of its own.
WORTH_BYTES = 8 << 20


def engine_of(
    name: EngineName,
    *,
    workers: int | None = None,
    address: str | None = None,
    size: int = 0,
    shards: int = 1,
) -> tuple[BatchEngine, EngineName, int]:
    """The engine of that name, what it is called, and its workers. ``size``: bytes of the input.

    Raises ``MissingExtra`` where Ray is not installed.
    """
    if name is EngineName.AUTO:
        pays = (workers or cores()) > 1 and shards > 1 and size >= WORTH_BYTES
        name = EngineName.RAY if address is not None else EngineName.PROCESS if pays else EngineName.INLINE
    if name is EngineName.INLINE:
        return InlineEngine(), name, 1
    if name is EngineName.PROCESS:
        from tokenbox.batch.process import ProcessEngine  # noqa: PLC0415  # inline needs no processes

        count = max(1, min(workers or cores(), shards))
        return ProcessEngine(count), name, count
    from tokenbox.batch.on_ray import RayEngine  # noqa: PLC0415  # an extra

    engine = RayEngine(workers, address)
    return engine, name, engine.workers
