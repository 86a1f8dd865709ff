"""How much of the gold is in an output: hunks that stand there in full, line after line."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def lines_of(text: str) -> list[str]:
    """The lines that are not blank, stripped."""
    return [line for line in (line.strip() for line in text.splitlines()) if line]


def hunks(files: Mapping[str, bytes], gold: Sequence[Sequence[object]]) -> list[list[str]]:
    """The lines of each hunk of the gold, those that are not blank."""
    found = []
    for path, first, last in gold:
        lines = files[str(path)].decode("utf-8", "replace").split("\n")
        found.append(lines_of("\n".join(lines[int(str(first)) - 1 : int(str(last))])))
    return [hunk for hunk in found if hunk]


def recall(output: str, wanted: Sequence[Sequence[str]]) -> float:
    """The share of hunks whose lines stand in the output in a row."""
    if not wanted:
        return 1.0
    text = "\n" + "\n".join(lines_of(output)) + "\n"
    return sum("\n" + "\n".join(hunk) + "\n" in text for hunk in wanted) / len(wanted)


def interval(values: Sequence[float], times: int = 1000) -> tuple[float, float]:
    """A bootstrap interval of 95 % for the mean."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(times))
    return means[times // 40], means[-times // 40]
