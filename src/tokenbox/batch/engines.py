"""The engines that compile shards. All give the same records; only their order may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tokenbox.batch.compiler import RowCompiler
from tokenbox.batch.errors import InvalidPlan
from tokenbox.batch.process import cores, run_processes
from tokenbox.batch.work import bytes_of, compile_shard
from tokenbox.errors import shown

if TYPE_CHECKING:
    from tokenbox.batch.plan import BatchPlan
    from tokenbox.batch.work import Event, Job


class EngineName(StrEnum):
    """The name of an engine."""

    AUTO = "auto"
    INLINE = "inline"
    PROCESS = "process"
    RAY = "ray"


class Engine(Protocol):
    """It compiles shards in ``workers``, whose number a cluster tells only during the run."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int: ...

    @property
    def run(self) -> Callable[[BatchPlan, Sequence[Job]], Iterator[Event]]:
        """Yield marks and records, and raise ``BatchError``. Closing the iterator stops all work."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """An engine of this machine."""

    name: EngineName
    workers: int
    run: Callable[[BatchPlan, Sequence[Job]], Iterator[Event]]


def run_inline(plan: BatchPlan, jobs: Sequence[Job]) -> Iterator[Event]:
    """Compile in this process, one shard after another."""
    compiler = RowCompiler(plan, bytes_of(jobs))
    for job in jobs:
        yield from compile_shard(job, plan, compiler)


# The minimum input size for worker processes: each takes about a second to start, and loads a vocabulary.
_MIN_PROCESS_BYTES = 8 << 20


def engine_of(
    name: EngineName,
    *,
    workers: int | None = None,
    address: str | None = None,
    size: int = 0,
    shards: int = 1,
) -> Engine:
    """Return the engine; ``auto`` is resolved.

    ``size``: bytes of the input. Raises ``MissingExtra`` if Ray is not installed, and :class:`InvalidPlan`
    for an option that the engine does not have.
    """
    if address is not None and name in (EngineName.INLINE, EngineName.PROCESS):
        raise InvalidPlan(f"the engine {name} has no address {shown(address)}. Use --engine ray.")
    if workers is not None and workers > 1 and name is EngineName.INLINE:
        raise InvalidPlan(f"the engine inline has 1 worker, not {workers}. Use --engine process.")
    if name is EngineName.AUTO:
        is_large = (workers or cores()) > 1 and shards > 1 and size >= _MIN_PROCESS_BYTES
        name = EngineName.PROCESS if is_large else EngineName.INLINE
        if address is not None:
            name = EngineName.RAY
    if name is EngineName.INLINE:
        return LocalEngine(name, 1, run_inline)
    if name is EngineName.PROCESS:
        count = max(1, min(workers or cores(), shards))
        return LocalEngine(name, count, partial(run_processes, count))
    from tokenbox.batch.on_ray import RayEngine  # an extra

    return RayEngine(workers, address)
