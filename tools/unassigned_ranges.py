"""Print the table of unassigned characters in src/tokenbox/characters.py.

python3.11 tools/unassigned_ranges.py    (the version of Python whose Unicode data is frozen there)
"""

from __future__ import annotations

import sys
import unicodedata
from itertools import groupby
from textwrap import wrap


def main() -> None:
    assigned = (unicodedata.category(chr(code)) != "Cn" for code in range(sys.maxunicode + 1))
    runs = " ".join(f"{len(list(run)):x}" for _, run in groupby(assigned))
    sys.stdout.writelines(f'    "{line} "\n' for line in wrap(runs, 100))


if __name__ == "__main__":
    main()
