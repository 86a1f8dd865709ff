"""Make proof bundles of every kind with each Python found, and verify and replay them with each.

    python tools/pythons.py

Each Python gets an environment of its own, with packages from the index that pip is configured with, so this
is not a test. The commands are those of a user: `tokenbox proof verify` and `tokenbox proof replay`.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from tools.installs import pythons, run  # noqa: E402  # found in the path above

EXTRAS = "batch,bcp,gateway,shell,sign"
TESTS = ("aiohttp", "hypothesis", "pytest")  # what the makers of the bundles import
BATCH = "batch.tar"
# The bundle of a batch is replayed from its input.
WRITE_ROWS = (
    "import sys, pathlib; sys.path[:0] = ['.']; from tests.batch.rows import mixed, write_jsonl; "
    "write_jsonl(pathlib.Path(sys.argv[1]), mixed(12))"
)


def environment(python: str, folder: Path) -> Path:
    """Install tokenbox into a new environment, and return its folder of programs."""
    run(python, "-m", "venv", str(folder))
    own = folder / "bin"
    requirement = f"tokenbox-llm[{EXTRAS}] @ {ROOT.as_uri()}"
    run(str(own / "python"), "-m", "pip", "install", "--quiet", requirement, *TESTS)
    return own


def write(programs: Path, folder: Path) -> None:
    """Write an archive of each kind of bundle, and the input of the batch."""
    folder.mkdir()
    own = str(programs / "python")
    run(own, "tools/proof_archives.py", str(folder), cwd=str(ROOT))
    run(own, "-c", WRITE_ROWS, str(folder / "rows.jsonl"), cwd=str(ROOT))


def check(programs: Path, folder: Path) -> list[str]:
    """Verify and replay the archives of a folder, and return those that differ."""
    tokenbox, wrong = str(programs / "tokenbox"), []
    for path in sorted(folder.glob("*.tar")):
        given = ["--from", "rows.jsonl"] if path.name == BATCH else []
        try:
            run(tokenbox, "proof", "verify", path.name, cwd=str(folder))
            run(tokenbox, "proof", "replay", path.name, *given, cwd=str(folder))
        except OSError as error:  # an exit status that is not 0
            wrong.append(f"{path.stem}: {error}")
    return wrong


def main() -> int:
    found = pythons()
    problems = 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        folders = [Path(scratch) / f"python{number}" for number in range(len(found))]
        programs = list(pool.map(environment, found, folders))
        versions = [run(str(own / "python"), "-V").split()[1] for own in programs]
        bundles = [Path(scratch) / f"bundles{number}" for number in range(len(found))]
        list(pool.map(write, programs, bundles))
        for version, folder in zip(versions, bundles, strict=True):
            same = all(
                path.read_bytes() == (bundles[0] / path.name).read_bytes() for path in folder.glob("*.tar")
            )
            problems += not same
            print(
                f"made with {version}: {len(list(folder.glob('*.tar')))} bundles, "
                f"{'the same bytes as' if same else 'OTHER BYTES than'} with {versions[0]}"
            )
            for reader, wrong in zip(versions, pool.map(check, programs, [folder] * len(found)), strict=True):
                problems += len(wrong)
                print(f"  verified and replayed with {reader}: {'; '.join(wrong) or 'all'}", flush=True)
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())
