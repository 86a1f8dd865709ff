"""Lay out a code review of real files in 8,000 and in 2,000 tokens; explain and compare the results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = Path("build/code_review")

COMMANDS = (
    "count rules.md change.diff outlines.txt json-decoder.py json-encoder.py trace.log",
    "layout review.toml --explain",
    "layout review.toml --budget 2000 --explain",
    "layout review.toml --whatif 400,1000,2000,4000,8000,16000",
    "diff review.toml --budgets 8000,2000",
    "layout review.toml --budget 2000 -o prompt.txt",
    "count prompt.txt",
)


def main() -> int:
    subprocess.run([sys.executable, HERE / "build.py", FOLDER], check=True)
    print(f"Inputs written to {FOLDER}: files of this Python's standard library.", flush=True)
    for command in COMMANDS:
        print(f"\n$ tokenbox {command}", flush=True)
        subprocess.run([sys.executable, "-m", "tokenbox", *command.split()], cwd=FOLDER, check=True)
    print(
        f"\nThe prompt of 2,000 tokens is {FOLDER / 'prompt.txt'}. Edit {FOLDER / 'review.toml'}, try again."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
