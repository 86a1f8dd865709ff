"""The command line, ``tokenbox``: one file per command.

Help and completion load the modules of commands, so these load little. They write ``tokenbox.config.load``
where they can, because Python imports ``tokenbox.config`` when it is first used.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130  # as in `outcome.Exit`, which is not loaded yet


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of this process) and return its exit status."""
    try:
        from tokenbox.cli.app import run  # a key press may interrupt the import, too
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(sys.argv[1:] if arguments is None else list(arguments))


def command() -> NoReturn:
    """Run the command line of this process and end the process with its status.

    A pack ends without freeing its objects one by one, which takes a twentieth of its time.
    """
    status = main()
    if sys.argv[1:2] == ["pack"]:
        # The steps of the interpreter before it frees objects: wait for threads, run what was registered.
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # no public function waits so
        atexit._run_exitfuncs()  # noqa: SLF001  # nor runs these
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(status)
    sys.exit(status)
