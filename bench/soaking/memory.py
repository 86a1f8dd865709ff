"""What a gateway holds over its life: memory, open files, tasks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import linear_regression, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soaking.fleet import Life

# A shorter life says nothing about memory: caches fill, and the allocator has not seen the worst yet.
JUDGED_SECONDS = 600.0
# Memory is flat if a straight line through the last half of a life rises by no more than this over that half,
# and its peak there is no more than this above the median of the second quarter.
RISE_MB, PEAK_MB = 5.0, 16.0
# Open files at rest, beside those before the first request: 32 connections to Redis are kept and some others.
MORE_FILES = 40
# Tasks at rest, beside those before the first request: the one that returns leases of quotas.
MORE_TASKS = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """A life in MB. ``rise``: of the line through its last half; ``slope``: the same for 100,000 requests.

    ``files``: before the first request, most, at rest after the load; ``tasks``: the first and the last.
    """

    name: str
    seconds: float
    requests: int
    start: float
    warm: float
    last: float
    peak: float
    rise: float
    slope: float | None
    files: tuple[int, int, int]
    tasks: tuple[int, int]
    ended_well: bool

    @classmethod
    def of(cls, name: str, life: Life) -> Memory:
        samples = life.samples
        began, quarter = samples[0][0], (samples[-1][0] - samples[0][0]) / 4
        quarters: list[list[tuple[float, int, float, int]]] = [[], [], [], []]
        for sample in samples:
            quarters[min(3, int((sample[0] - began) / quarter))].append(sample)
        half = quarters[2] + quarters[3]
        line = linear_regression([at for at, *_ in half], [mb for *_, mb, _ in half])
        rise = line.slope * (half[-1][0] - half[0][0])
        requests = half[-1][1] - half[0][1]
        return cls(
            name=name,
            seconds=samples[-1][0] - began,
            requests=samples[-1][1],
            start=samples[0][2],
            warm=median(mb for *_, mb, _ in quarters[1]),
            last=median(mb for *_, mb, _ in quarters[3]),
            peak=max(mb for *_, mb, _ in half),
            rise=rise,
            slope=100_000 * rise / requests if requests else None,
            files=(life.idle.files, max(files for *_, files in samples), life.rested.files),
            tasks=(life.idle.tasks, life.rested.tasks),
            ended_well=life.rested.tasks > 0,
        )

    @property
    def is_judged(self) -> bool:
        return self.seconds >= JUDGED_SECONDS and self.ended_well

    @property
    def is_flat(self) -> bool:
        return self.rise <= RISE_MB and self.peak - self.warm <= PEAK_MB

    @property
    def is_at_rest(self) -> bool:
        return self.tasks[1] <= self.tasks[0] + MORE_TASKS and self.files[2] <= self.files[0] + MORE_FILES
