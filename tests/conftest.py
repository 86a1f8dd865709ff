"""What all tests share: the Hypothesis profile, and golden files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.llama.server import llama, start_llama

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["golden", "llama", "pytest_addoption", "start_llama"]

GOLDEN = Path(__file__).parent / "golden"

# The same examples on every run and machine. Speed is the business of bench/, so no deadline.
settings.register_profile(
    "everyday",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# TOKENBOX_HYPOTHESIS=deep: new examples each time, many more of them.
settings.register_profile(
    "deep",
    settings.get_profile("everyday"),
    derandomize=False,
    max_examples=2_000,
)
settings.load_profile(os.environ.get("TOKENBOX_HYPOTHESIS", "everyday"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden from what the code does now, and compare nothing",
    )


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Counts are remembered for these tests only, also by the processes they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENBOX_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(path, text)``: ``text`` is, byte for byte, the file ``tests/golden/<path>``."""
    update: bool = request.config.getoption("--update-golden")

    def compare(path: str, text: str) -> None:
        file = GOLDEN / path
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
            return
        assert file.is_file(), f"tests/golden/{path} is missing. If the result is right, run: make golden"
        assert text == file.read_bytes().decode(), (
            f"differs from tests/golden/{path}; if that is right: make golden"
        )

    return compare
