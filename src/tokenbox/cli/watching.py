"""Doing something again whenever files change, by looking at them now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 1.0
"""How long to wait before looking again."""


def watch(
    run: Callable[[], None],
    state: Callable[[], object],
    wait: Callable[[], None] = lambda: time.sleep(SECONDS),
) -> None:
    """Call ``run``, and again after each change of ``state()``, until it is interrupted.

    The state is taken before the run, so that a change during it is seen.
    """
    try:
        while True:
            before = state()
            run()
            while state() == before:
                wait()
    except KeyboardInterrupt:
        return
