"""How long `import tokenbox` takes beyond a bare Python, in milliseconds. Exit status 1 if over the limit.

The median of runs that take turns, so that a busy moment hits both sides alike. Not a test: a measurement.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT_MS = 100
RUNS = 15


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own interpreter
    return time.perf_counter() - start


def main() -> int:
    for code in ("pass", "import tokenbox"):
        seconds(code)  # the first run writes the bytecode
    pairs = [(seconds("pass"), seconds("import tokenbox")) for _ in range(RUNS)]
    bare, with_tokenbox = (1000 * statistics.median(side) for side in zip(*pairs, strict=True))
    over = with_tokenbox - bare
    print(
        f"import tokenbox: {over:.0f} ms over bare Python ({with_tokenbox:.0f} against {bare:.0f} ms,"
        f" median of {RUNS}); at most {LIMIT_MS} ms"
    )
    return int(over > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
