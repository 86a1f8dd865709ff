"""Write an archive of each kind of proof bundle to tests/golden/proof. Run it when the bundle schema changes.

python tools/proof_archives.py [FOLDER]

Every version of Python writes the same bytes: compare the folders of two versions with `diff -r`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.proof.examples import files_of  # noqa: E402  # found in the path above
from tests.proof.kinds import KINDS, slug  # noqa: E402
from tokenbox.proof.archive import archived  # noqa: E402


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "tests" / "golden" / "proof"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, make in KINDS.items():
        bundle_id, files = files_of(make(), texts=True)
        (folder / f"{slug(kind)}.tar").write_bytes(b"".join(archived(bundle_id, sorted(files.items()))))


if __name__ == "__main__":
    main()
