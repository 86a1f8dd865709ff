"""The environments that ``make clients`` installs, and scripts that run in them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import SECONDS

HERE = Path(__file__).parent


def is_installed(name: str) -> bool:
    """Return True if the environment ``with-NAME`` exists and agrees with its lock."""
    stamp, lock = HERE / f".venv-with-{name}/installed", HERE / f"locks/with-{name}.txt"
    return stamp.exists() and stamp.read_bytes() == lock.read_bytes()


def reported(name: str, *arguments: str) -> dict[str, Any]:
    """Run ``python/with_NAME.py`` in its environment; parse the last line of its output as JSON."""
    done = subprocess.run(
        [f".venv-with-{name}/bin/python", f"python/with_{name.replace('-', '_')}.py", *arguments],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts
