"""What a test needs and this machine does not have: the test is skipped, or fails where CI requires it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(problem: str, required_by: str) -> NoReturn:
    """Skip the test because of ``problem``; fail it if the environment variable ``required_by`` is set."""
    if os.environ.get(required_by):
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)
