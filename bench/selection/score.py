"""Recall of the gold hunks in an output, and its confidence interval."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank, stripped."""
    return [line for line in (line.strip() for line in text.splitlines()) if line]


def hunks(files: Mapping[str, bytes], gold: Sequence[Sequence[object]]) -> list[list[str]]:
    """Return the lines of each gold hunk, without blank lines and empty hunks."""
    found = []
    for path, first, last in gold:
        lines = files[str(path)].decode("utf-8", "replace").split("\n")
        found.append(lines_of("\n".join(lines[int(str(first)) - 1 : int(str(last))])))
    return [hunk for hunk in found if hunk]


def recall(output: str, wanted: Sequence[Sequence[str]]) -> float:
    """Return the share of hunks whose lines occur in the output, consecutive and in order."""
    if not wanted:
        return 1.0
    text = "\n" + "\n".join(lines_of(output)) + "\n"
    return sum("\n" + "\n".join(hunk) + "\n" in text for hunk in wanted) / len(wanted)


def interval(values: Sequence[float], times: int = 1000) -> tuple[float, float]:
    """Return a bootstrap interval of 95 % for the mean."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(times))
    return means[times // 40], means[-times // 40]
