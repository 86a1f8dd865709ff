"""The command line: ``tokenbox``. One file per command; each imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Before anything else is loaded; `outcome.Exit` has all.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: that of this process) and return its exit status."""
    try:
        from tokenbox.cli.app import run  # importing the package does not build a command line
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(sys.argv[1:] if arguments is None else list(arguments))
