"""How the work of a function grows with its input, measured in calls: exact on every machine, unlike time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def calls(run: Callable[[], object]) -> int:
    """Return the number of function calls that ``run`` makes, with those of built-in functions."""
    made = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return made


def growth(run_with: Callable[[int], object], size: int) -> float:
    """Return by which factor the calls grow when the input doubles: 2 for linear time, 4 for quadratic."""
    run_with(size)  # what is loaded or cached once does not count
    return calls(lambda: run_with(2 * size)) / calls(lambda: run_with(size))
