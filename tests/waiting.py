"""Wait for a condition, not for a fixed time.

``SECONDS`` is far more than any condition takes, even on a busy machine: a test that waits longer fails.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 120

T = TypeVar("T")


def until(condition: Callable[[], T], what: str = "it", seconds: float = SECONDS) -> T:
    """Wait until ``condition()`` is true and return its value. Fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} seconds"
        time.sleep(0.005)
    return holds
