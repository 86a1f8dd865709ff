"""Repeats a function whenever files change, by polling."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 1.0
"""The polling interval."""


def watch(
    run: Callable[[], object],
    state: Callable[[], object],
    wait: Callable[[], None] = lambda: time.sleep(SECONDS),
) -> None:
    """Call ``run`` now and after each change of ``state()``, until Ctrl-C.

    The state is taken before each run, so a change during the run is seen.
    """
    try:
        while True:
            before = state()
            run()
            while state() == before:
                wait()
    except KeyboardInterrupt:
        return
