"""The command line, ``tokenbox``: one file per command.

Help and completion load the modules of commands, so these load little. They write ``tokenbox.config.load``
where they can, because Python imports ``tokenbox.config`` when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130  # as in `outcome.Exit`, which is not loaded yet


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of this process) and return its exit status."""
    try:
        from tokenbox.cli.app import run  # a key press may interrupt the import, too
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(sys.argv[1:] if arguments is None else list(arguments))
