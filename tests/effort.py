"""Hypothesis profiles, which determine the number of examples.

``everyday`` is the default, ``quick`` is used without the slow tests (``make quick``): both draw from the
same seed on every run and machine. Hypothesis also draws constants of the modules that are loaded, which
depend on the tests that ran before in the same worker. ``deep``, for nightly runs, uses a new seed each time.
``TOKENBOX_HYPOTHESIS`` selects a profile.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: bench/ measures speed. How large the drawn values are depends on the constants that are loaded.
LOAD_DEPENDENT = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "everyday",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=LOAD_DEPENDENT,
    max_examples=100,
)
settings.register_profile("quick", settings.get_profile("everyday"), max_examples=20)
settings.register_profile("deep", settings.get_profile("everyday"), derandomize=False, max_examples=2_000)


def load(*, quick: bool) -> None:
    """Load the profile. Call it before tests are imported: their settings inherit from it."""
    settings.load_profile(os.environ.get("TOKENBOX_HYPOTHESIS") or ("quick" if quick else "everyday"))


def examples(count: int) -> int:
    """Scale ``count``, the number of examples or seeds of the default profile, to the current profile."""
    return max(1, count * settings().max_examples // 100)
