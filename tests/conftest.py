"""Shared by all tests: the number of Hypothesis examples, golden files, and servers."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.llama.server import llama, start_llama
from tests.services import postgres, redis_url

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "golden",
    "llama",
    "postgres",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_xdist_auto_num_workers",
    "redis_url",
    "start_llama",
]

GOLDEN = Path(__file__).parent / "golden"
# Where tokenbox looks for the user's cache, settings, sessions and history.
USER_FOLDERS = "TOKENBOX_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"


def pytest_configure(config: pytest.Config) -> None:
    # New folders, also for processes that tests start. Some test files copy the environment on import.
    folder = tempfile.mkdtemp(prefix="tokenbox-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    for name in USER_FOLDERS:
        os.environ[name] = os.path.join(folder, name.lower())
    # In a background job SIGINT is ignored, and processes that tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # below nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    effort.load(quick=config.option.markexpr == "not slow")
    gc.disable()  # until all tests are imported: they stay, and looking for garbage takes a third of the time


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are CPUs: tests spend a third of their time waiting for servers."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before the tests that ``-m`` leaves out are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what starts a gateway of its own, which takes a second; shared ones are for every day."""
    for item in items:
        if "start_gateway" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exempt imported modules from garbage collection, which saves nearly a tenth of the time.

    And look for garbage less often than after each 700 objects, which takes a twentieth.
    """
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden from the current output instead of comparing",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return ``golden(path, text)``, which compares ``text`` with ``tests/golden/<path>``, byte for byte."""
    update: bool = request.config.getoption("--update-golden")

    def compare(path: str, text: str) -> None:
        file = GOLDEN / path
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
            return
        assert file.is_file(), f"tests/golden/{path} is missing. To create it, run: make golden"
        assert text == file.read_bytes().decode(), (
            f"differs from tests/golden/{path}. If the new output is right, run: make golden"
        )

    return compare
