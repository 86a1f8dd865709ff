"""How long `import tokenbox` takes beside `import tiktoken`: processor time beyond that of a bare Python.

Exit status 1 if it takes more than 100/60 of tiktoken's: 100 ms on a machine where tiktoken takes 60. The
median of runs that take turns, so that a busy moment hits all alike. Not a test: a measurement.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

LIMIT = 100 / 60
RUNS = 15
CODES = ("pass", "import tiktoken", "import tokenbox")


def milliseconds(code: str) -> float:
    """Processor time of one run, of its own process."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own interpreter
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> int:
    for code in CODES:
        milliseconds(code)  # the first run writes the bytecode
    rounds = [[milliseconds(code) for code in CODES] for _ in range(RUNS)]
    bare, tiktoken, ours = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = (ours - bare) / max(tiktoken - bare, 1)
    print(
        f"import tokenbox: {ours - bare:.0f} ms over bare Python ({bare:.0f} ms); "
        f"tiktoken {tiktoken - bare:.0f} ms; {ratio:.2f} times that, at most {LIMIT:.2f} (median of {RUNS})"
    )
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
