"""Run command lines in forks of one process that has loaded what ``tokenbox serve`` needs.

A new process takes a second for that before it answers, and a fork takes nearly nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.cli import main

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STDOUT, STDERR = 1, 2
ROOT = Path(__file__).parents[2]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.gateway.prepared"])


class Forked:
    """A command line of tokenbox in its own process, which writes to the file ``log``. Like ``Popen``."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._process = _FORKS.Process(target=_run, args=(arguments, folder, environment, log), daemon=True)
        log.touch()
        with chdir(ROOT):  # where the first of them finds the modules to load
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self.poll()
        assert status is not None, f"process {self.pid} did not end in {timeout} seconds"
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


def _run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run it as ``python -m tokenbox`` in that folder and environment would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[:0] = [str(folder), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, STDOUT)
    os.dup2(written, STDERR)
    os.close(written)
    sys.exit(main(arguments))
