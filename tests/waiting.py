"""Wait for a condition, never for a time.

``SECONDS`` is far more than any of it takes on a machine that does twenty other things: a test that waits so
long has failed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 120

T = TypeVar("T")


def until(condition: Callable[[], T], what: str = "it", seconds: float = SECONDS) -> T:
    """Wait until ``condition()`` is true, and return what it returned. Fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} seconds"
        time.sleep(0.005)
    return holds
