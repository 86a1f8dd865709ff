"""How many examples Hypothesis tries: the same on every run and machine, and how many is a profile's.

``everyday`` is what all tests run with, ``quick`` what they run with where the slow ones are left out
(``make quick``), ``deep`` is for nights: new examples each time. ``TOKENBOX_HYPOTHESIS`` names another.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Speed is the business of bench/, so no deadline.
settings.register_profile(
    "everyday",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100,
)
settings.register_profile("quick", settings.get_profile("everyday"), max_examples=20)
settings.register_profile("deep", settings.get_profile("everyday"), derandomize=False, max_examples=2_000)


def load(*, quick: bool) -> None:
    """Before any test is imported: what a test does not say itself, it has from the profile of that time."""
    settings.load_profile(os.environ.get("TOKENBOX_HYPOTHESIS") or ("quick" if quick else "everyday"))


def examples(count: int) -> int:
    """So many in all tests, and as many more or less as the profile says of others."""
    return max(1, count * settings().max_examples // 100)
