"""The command line, ``tokenbox``: one file per command. A command imports its dependencies when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130  # as in `outcome.Exit`, which is not loaded yet


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of this process) and return its exit status."""
    try:
        from tokenbox.cli.app import run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(sys.argv[1:] if arguments is None else list(arguments))
