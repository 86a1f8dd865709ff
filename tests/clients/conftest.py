"""Fixtures: a gateway, in front of an upstream whose answers are known or of the real llama.cpp server."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.gateway.running import free_port, start_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["start_gateway", "upstream"]


@pytest.fixture(scope="session")
def upstream() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("upstream.py"), str(port)])
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        try:
            with urllib.request.urlopen(f"{url}/told", timeout=5):
                break
        except urllib.error.URLError:
            time.sleep(0.02)
    yield url
    process.kill()
    process.wait()
