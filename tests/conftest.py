"""What all tests share: how many examples are tried, golden files, and servers."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.llama.server import llama, start_llama
from tests.services import postgres, redis_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "golden",
    "llama",
    "postgres",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "redis_url",
    "start_llama",
]

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure(config: pytest.Config) -> None:
    # In the background of a script interrupts are ignored, and processes that tests start inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    effort.load(quick=config.option.markexpr == "not slow")


def pytest_collection_finish() -> None:
    """What was imported stays, so no collection of garbage need look at it: nearly a tenth of the time."""
    gc.collect()
    gc.freeze()


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
