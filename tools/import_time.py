"""Compare `import tokenbox` with `import tiktoken`: processor time beyond that of a bare Python.

The exit status is 1 above 100/60 of tiktoken's time: 100 ms on a machine where tiktoken takes 60. The figures
are medians of interleaved runs, so that a busy moment affects all alike. A measurement, not a test.
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
    """Return the processor time of one run in its own process."""
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
        f"tiktoken {tiktoken - bare:.0f} ms; ratio {ratio:.2f}, limit {LIMIT:.2f} (median of {RUNS})"
    )
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
