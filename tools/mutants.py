"""Mutation tests: change the sources in one place at a time and check that a test fails. ``make mutants``.

    python tools/mutants.py            run each mutant of mutants.toml; fail if one survives
    python tools/mutants.py NAME ...   only those whose name contains one of these
    python tools/mutants.py --check    only check that each mutant still applies

A mutant has a text to ``find`` in exactly one place of src, a text to ``put`` there, and the ``tests`` that
must then fail. It is applied to a copy of src. When you change a line that a mutant finds, adapt the mutant
to the new line: its name tells what it breaks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = Path(__file__).with_name("mutants.toml")
FAILED = 1  # the exit status of pytest for failed tests; others mean that it could not run them


class DoesNotApply(Exception):
    """The text to find is not in src, or in more than one place."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    find: str
    put: str
    tests: tuple[str, ...]

    def place(self) -> Path:
        """Return the file to change, relative to src."""
        sources = ROOT / "src"
        counts = ((path, path.read_text(encoding="utf-8").count(self.find)) for path in sources.rglob("*.py"))
        places = [(path, count) for path, count in counts if count]
        if len(places) != 1 or places[0][1] != 1:
            found_in = ", ".join(f"{path.relative_to(ROOT)} ({count})" for path, count in places) or "no file"
            raise DoesNotApply(f"{self.name}: its text must be in one place, but is in {found_in}")
        return places[0][0].relative_to(sources)

    def survives(self) -> bool:
        """Return True if its tests pass on the changed sources."""
        place = self.place()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "src", Path(folder, "src"))  # compiled files too: they stay valid
            changed = Path(folder, "src", place)
            text = changed.read_text(encoding="utf-8")
            changed.write_text(text.replace(self.find, self.put), encoding="utf-8")
            return not tests_fail(self.tests, Path(folder, "src"))


def tests_fail(tests: tuple[str, ...], sources: Path) -> bool:
    """Run the tests on these sources; return True if one fails."""
    run = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-m", "pytest", "--exitfirst", "--quiet", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode not in {0, FAILED}:
        sys.exit(f"pytest could not run {' '.join(tests)}:\n{run.stdout}{run.stderr}")
    return run.returncode == FAILED


def read() -> list[Mutant]:
    data = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))
    return [Mutant(each["name"], each["find"], each["put"], tuple(each["tests"])) for each in data["mutant"]]


def main(arguments: list[str]) -> int:
    mutants = [each for each in read() if not arguments or any(name in each.name for name in arguments)]
    problems: list[str] = []
    if arguments == ["--check"]:
        mutants = read()
        for mutant in mutants:
            try:
                mutant.place()
            except DoesNotApply as error:
                problems.append(str(error))
        print(f"{len(mutants)} mutants, {len(problems)} of them do not apply")
    else:
        # Tests that fail without a mutant would prove nothing.
        if tests_fail(tuple(sorted({test for each in mutants for test in each.tests})), ROOT / "src"):
            sys.exit("the tests fail on the unchanged sources")
        for mutant in mutants:
            survives = mutant.survives()
            print(f"{'SURVIVES' if survives else 'killed':<9} {mutant.name}", flush=True)
            if survives:
                problems.append(f"{mutant.name}: {' '.join(mutant.tests)} pass")
        print(f"{len(mutants)} mutants, {len(problems)} survive")
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
