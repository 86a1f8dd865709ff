"""Print the runs of src/tokenbox/characters.py, with the Python whose Unicode data it freezes.

python3.11 tools/unassigned_ranges.py
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
