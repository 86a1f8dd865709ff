"""Repeats a function whenever files change, by polling."""

from __future__ import annotations

import time
from collections.abc import Callable

from tokenbox.errors import TokenboxError

SECONDS = 1.0
"""The polling interval."""


def watch(
    run: Callable[[], object],
    state: Callable[[], object],
    report: Callable[[TokenboxError], object],
    wait: Callable[[], None] = lambda: time.sleep(SECONDS),
) -> None:
    """Call ``run`` now and after each change of ``state()``, until Ctrl-C.

    The state is taken before each run, so a change during the run is seen. The first run raises its error;
    later ones report theirs, because the next change may mend it.
    """
    try:
        before = state()
        run()
        while True:
            while state() == before:
                wait()
            before = state()
            try:
                run()
            except TokenboxError as error:
                report(error)
    except KeyboardInterrupt:
        return
