"""Check that the source distribution is complete: pytest can collect its tests after unpacking."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own command
        (archive,) = Path(folder).glob("*.tar.gz")
        # Not with tarfile, whose filters are not in Python 3.11.2.
        subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)  # noqa: S603, S607
        unpacked = Path(folder, archive.name.removesuffix(".tar.gz"))
        collected = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider"],
            cwd=unpacked,
            env={**os.environ, "PYTHONPATH": str(unpacked / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    last = collected.stdout.strip().rpartition("\n")[2]
    if collected.returncode == 0:
        print(f"source distribution: {last}")
        return 0
    print(f"the tests of the source distribution cannot be collected:\n{collected.stdout}", file=sys.stderr)
    print("It contains the files that git tracks: see tool.hatch.build in pyproject.toml.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
