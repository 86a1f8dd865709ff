"""Resources of a gateway process over time: memory, open files, tasks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import linear_regression, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soaking.fleet import GatewayRun

# Memory of a shorter run is not judged: its caches are still filling.
JUDGED_SECONDS = 600.0
# Memory is stable if the regression line through the last half of a run rises by at most RISE_MB over that
# half, and the peak there is at most PEAK_MB above the median of the second quarter.
RISE_MB, PEAK_MB = 5.0, 16.0
# Additional open files at rest: 32 pooled connections to Redis, and some others.
MORE_FILES = 40
# Additional tasks at rest: the one that returns leases of quotas.
MORE_TASKS = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """A run, in MB. ``rise``: of the line through its last half; ``slope``: the same per 100,000 requests.

    ``files``: before the first request, maximum, at rest after the load; ``tasks``: the first and the last.
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
    def of(cls, name: str, run: GatewayRun) -> Memory:
        samples = run.samples
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
            files=(run.idle.files, max(files for *_, files in samples), run.at_rest.files),
            tasks=(run.idle.tasks, run.at_rest.tasks),
            ended_well=run.at_rest.tasks > 0,
        )

    @property
    def is_judged(self) -> bool:
        return self.seconds >= JUDGED_SECONDS and self.ended_well

    @property
    def is_stable(self) -> bool:
        return self.rise <= RISE_MB and self.peak - self.warm <= PEAK_MB

    @property
    def is_at_rest(self) -> bool:
        return self.tasks[1] <= self.tasks[0] + MORE_TASKS and self.files[2] <= self.files[0] + MORE_FILES
