"""Fixtures: a gateway in front of an upstream with known answers, or of a real llama.cpp server."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.gateway.running import start_gateway
from tests.services import free_port
from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["start_gateway", "upstream"]


@pytest.fixture(scope="session")
def upstream() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("upstream.py"), str(port)])
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{url}/told", timeout=SECONDS):
            return True
        return False

    until(answers, "a start of the upstream")
    yield url
    process.kill()
    process.wait()
