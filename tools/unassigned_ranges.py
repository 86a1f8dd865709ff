"""Print the module src/tokenbox/tokenizers/unassigned.py, with the Python whose Unicode data it freezes.

python3.11 tools/unassigned_ranges.py > src/tokenbox/tokenizers/unassigned.py
"""

from __future__ import annotations

import sys
import unicodedata
from itertools import groupby
from textwrap import wrap

HEAD = '''"""The characters that Unicode {version} does not assign. Made by tools/unassigned_ranges.py.

A later version gives some of them a meaning, and Python has one version or another. What must be the same on
every Python treats them as this version does: as characters that nothing combines with.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from itertools import accumulate

# Lengths in hexadecimal, in turn of assigned and of unassigned characters, from U+0000 on.
_RUNS = (
{lines}
)


def unassigned(text: str) -> str:
    """The different characters of the text that were not assigned, in order."""
    starts = _starts()
    return "".join(sorted(c for c in set(text) if bisect_right(starts, ord(c)) % 2 == 0))


@cache
def _starts() -> list[int]:
    """Where each run of assigned and of unassigned characters starts."""
    return [0, *accumulate(int(run, 16) for run in _RUNS.split())]
'''


def main() -> None:
    assigned = (unicodedata.category(chr(code)) != "Cn" for code in range(sys.maxunicode + 1))
    runs = " ".join(f"{len(list(run)):x}" for _, run in groupby(assigned))
    lines = "\n".join(f'    "{line} "' for line in wrap(runs, 100))
    sys.stdout.write(HEAD.format(version=unicodedata.unidata_version, lines=lines))


if __name__ == "__main__":
    main()
