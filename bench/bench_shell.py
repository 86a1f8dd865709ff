"""Time from the start of `tokenbox shell` to its prompt on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

TARGET_MS = 400
PROMPT = b"m 0/4,096>"
SETTINGS = '[models.m]\nendpoint = "http://127.0.0.1:9"\n'
TIMEOUT = 30  # seconds


def run(*, quick: bool) -> dict[str, Any]:
    before = list(os.getloadavg())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = home / "config" / "tokenbox" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        first_prompt(home)  # writes the bytecode and warms up the disk cache
        times = [first_prompt(home) for _ in range(5 if quick else 21)]
        bare = [bare_python() for _ in times]
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "quick": quick,
        "runs": len(times),
        "first_prompt_ms": {"median": median(times), "best": min(times), "worst": max(times)},
        "bare_python_ms": median(bare),
        "load": [before, list(os.getloadavg())],
    }


def first_prompt(home: Path) -> float:
    """Return milliseconds from the start of the program until its prompt is printed."""
    screen, terminal = pty.openpty()
    env = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "HOME": str(home),
        "PROMPT_TOOLKIT_NO_CPR": "1",
        **{f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state")},
    }
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tokenbox", "shell"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=env,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while PROMPT not in seen:
        ready, _, _ = select.select([screen], [], [], TIMEOUT)
        if not ready:
            raise SystemExit(f"no prompt within {TIMEOUT} s: {seen!r}")
        seen += os.read(screen, 65_536)
    took = time.perf_counter() - started
    process.kill()
    process.wait()
    os.close(screen)
    return 1000 * took


def bare_python() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return 1000 * (time.perf_counter() - started)


def table(results: dict[str, Any]) -> str:
    prompt = results["first_prompt_ms"]
    kept = "kept" if prompt["median"] < TARGET_MS else "MISSED"
    load = " to ".join(f"{load[0]:.2f}" for load in results["load"])
    short = ", a short run" if results["quick"] else ""
    return f"""# The shell

Time from starting `tokenbox shell` to its prompt on a pseudo-terminal, warm, {results["runs"]} runs. Python
{results["python"]}, {results["cpus"]} processors, load {load}, {results["when"]}{short}.

| | ms |
|---|---|
| first prompt, median | {prompt["median"]:.0f} |
| best, worst | {prompt["best"]:.0f}, {prompt["worst"]:.0f} |
| of it, Python itself | {results["bare_python_ms"]:.0f} |

Target: under {TARGET_MS} ms, {kept}.
"""
