"""``python -m tokenbox``: the command line."""

from __future__ import annotations

from tokenbox.cli import command

if __name__ == "__main__":
    command()
