"""Worker processes, one per library, that answer one question at a time."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
ENVIRONMENTS = {"peers": HERE / ".venv", "prompt-poet": HERE / ".venv-prompt-poet"}


class TooSlow(Exception):
    """The worker did not answer in time and was killed."""


class Failed(Exception):
    """The worker answered with an error, or died."""


class Worker:
    """A library in its own process."""

    def __init__(self, library: dict[str, str]) -> None:
        environment = ENVIRONMENTS[library.get("environment", "peers")]
        self.name = library["name"]
        self._process = subprocess.Popen(
            [environment / "bin" / "python", HERE / "worker.py", json.dumps(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(SOURCE),
                "TIKTOKEN_CACHE_DIR": str(rank_files()),
                "TOKENIZERS_PARALLELISM": "false",
            },
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, seconds: float, **question: object) -> dict[str, Any]:
        """Return the answer. Raise :class:`TooSlow` after ``seconds`` and kill the process."""
        if self._process.poll() is not None:
            raise Failed(f"{self.name}: the process has ended")
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise TooSlow from None
        if not line and self._process.wait() == -signal.SIGALRM:
            raise TooSlow
        if not line:
            raise Failed(f"{self.name}: the process has ended without an answer")
        given: dict[str, Any] = json.loads(line)
        if "error" in given:
            raise Failed(given["error"])
        return given

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")


def rank_files() -> Path:
    """Return the folder of tiktoken's rank files in LiteLLM's wheel: real o200k without a download."""
    found = list(
        ENVIRONMENTS["peers"].glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")
    )
    if not found:
        sys.exit("bench/.venv is missing or does not contain litellm. Run: bench/setup")
    return found[0]


def python_version() -> str:
    """Return the version of the interpreter of bench/.venv."""
    interpreter = ENVIRONMENTS["peers"] / "bin" / "python"
    if not interpreter.exists():
        sys.exit("bench/.venv is missing. Run: bench/setup")
    done = subprocess.run(
        [interpreter, "-c", "import platform; print(platform.python_version())"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
