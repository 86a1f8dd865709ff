"""Extract tasks from the history of git clones: the query is a commit's message, the gold its changed lines.

    python bench/selection/mine.py FOLDER --per 20 > tasks.jsonl

``FOLDER`` contains clones, bare or not, at a depth of up to three. A commit is used if it is no merge,
modifies one to four source files in at most twelve hunks, and its message is not about releases, typos,
dependencies and the like. Docs and examples are never gold, tests only with ``--tests``. With ``--other``, a
commit is used if all its files are docs, examples, manifests, settings, data or of CI.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.folder.priors import prior_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_DULL = (
    r"releas|bump|typo|version|changelog|depend|upgrade|merge|revert|prettier|whitespace|spelling|license"
    r"|copyright|translat|prepare|update .*(?:lock|deps)|snapshot|renovate"
)
DULL_FOR_OTHER = re.compile(rf"\b(?:{_DULL})", re.IGNORECASE)
DULL = re.compile(
    rf"\b(?:{_DULL}|lint|format|readme|chore|ci\b|docs?\b|cargo|clippy|rustfmt|pre-commit|black\b|isort)",
    re.IGNORECASE,
)
SOURCE = re.compile(
    r"\.(?:py|js|mjs|cjs|jsx|ts|tsx|go|rs|java|c|h|cc|cpp|hpp|cxx|rb|php|cs|swift|kt|kts|scala|lua|exs|zig"
    r"|dart|sh|vue|svelte|m|mm|ml|mli|hs|pl|pm|jl|sql|css|clj|cljs|cljc|erl|hrl|nim|f90|F90|f|sol|v|sv|vhd|vhdl"
    r"|r|R|el|lisp|scm|rkt|fs|fsi|groovy|tf|nix|ps1|psm1|proto|thrift|graphql|adb|ads|pas|d|cr|ex|tcl|cmake"
    r"|abap|astro|bicep|bzl|cshtml|g4|gd|gleam|jsonnet|libsonnet|move|pp|pro|qml|razor|rego|sml)$"
)
TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|specs|e2e|testing|testdata|fixtures|features|[\w.]*\.?Tests|[a-z]+Test)(?:/|$)"
    r"|(?:^|/)test_[^/]*$|[_.-](?:test|spec|tests)\.[^/]*$|(?:^|/)[^/]*Tests?\.(?:java|kt|cs|swift|php)$|conftest\.py$"
)
OTHER = re.compile(
    r"(?:^|/)(?:docs?|examples?|samples?|benchmarks?|bench|vendor|third_party|deps|node_modules|dist|\.github)(?:/|$)|\.min\."
)
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)
MAX_QUERY = 1500  # characters
MAX_COMMITS = 3000


def is_gold(path: str, *, tests: bool, other: bool) -> bool:
    """Return whether the lines of a file count. ``other``: if a query may be about it and it is no source."""
    if other:
        prior = prior_of(path, b"")
        return prior.if_about > prior.percent
    is_source = SOURCE.search(path) is not None and OTHER.search(path) is None
    return is_source and (tests or TEST.search(path) is None)


def named_clones(folder: Path, only: str) -> Iterator[tuple[str, Path]]:
    """Yield the clones with their names; with ``only``, those of these names, separated by commas."""
    wanted = set(filter(None, only.split(",")))
    for clone in clones(folder):
        name = str(clone.relative_to(folder)).removesuffix("/.git").removesuffix("/repo")
        if not wanted or name in wanted:
            yield name, clone


def clones(folder: Path) -> list[Path]:
    """Return the git directories below a folder, sorted."""
    found = [
        path.parent
        for pattern in ("HEAD", "*/HEAD", "*/*/HEAD")
        for path in folder.glob(pattern)
        if (path.parent / "objects").is_dir()
    ]
    found += [path.parent for pattern in (".git/HEAD", "*/.git/HEAD") for path in folder.glob(pattern)]
    return sorted(set(found))


def git(clone: Path, *arguments: str) -> str:
    ended = subprocess.run(["git", "--git-dir", str(clone), *arguments], capture_output=True, check=True)
    return ended.stdout.decode("utf-8", "replace")


def gold_of(diff: str) -> list[list[object]]:
    """Return the old lines of each hunk of ``git diff -U0``; for an insertion, the two lines around it."""
    gold: list[list[object]] = []
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        old = re.search(r"^--- a/(.*)$", part, re.MULTILINE)
        if old is None or re.search(r"^(?:new file|deleted file|rename from)", part, re.MULTILINE):
            return []
        for match in HUNK.finditer(part):
            first, count = int(match[1]), int(match[2] or 1)
            lines = [first, first + count - 1] if count else [max(1, first), first + 1]
            gold.append([old[1].rstrip("\t"), *lines])
    return gold


def tasks(clone: Path, name: str, per: int, *, tests: bool, other: bool) -> list[dict[str, object]]:
    log = git(clone, "log", "--no-merges", f"-{MAX_COMMITS}", "--format=%H%x00%P%x00%B%x01")
    found: list[dict[str, object]] = []
    for entry in log.split("\x01"):
        if len(found) == per:
            break
        parts = entry.strip().split("\0")
        if len(parts) != 3 or " " in parts[1] or not parts[1]:
            continue
        commit, parent, message = parts
        message = re.sub(
            r"^(?:Co-authored-by|Signed-off-by|Reviewed-by|Change-Id):.*$", "", message, flags=re.MULTILINE
        ).strip()
        title = message.partition("\n")[0]
        if len(title) < 12 or (DULL_FOR_OTHER if other else DULL).search(title):
            continue
        try:
            names = git(clone, "diff", "--name-status", parent, commit).splitlines()
        except subprocess.CalledProcessError:
            continue  # a shallow clone ends here
        changed = [line.split("\t") for line in names]
        wanted = [c[-1] for c in changed if c[0] == "M" and is_gold(c[-1], tests=tests, other=other)]
        if other and len(wanted) < len(changed):
            continue
        if not 1 <= len(wanted) <= 4 or len(changed) > 12:
            continue
        gold = gold_of(
            git(clone, "diff", "-U0", "--no-color", "--no-ext-diff", parent, commit, "--", *wanted)
        )
        if not 1 <= len(gold) <= 12:
            continue
        found.append(
            {
                "repository": name,
                "commit": commit,
                "parent": parent,
                "query": message[:MAX_QUERY],
                "gold": gold,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--per", type=int, default=20, help="tasks per clone")
    parser.add_argument("--only", default="", help="names of clones, separated by commas")
    parser.add_argument("--tests", action="store_true", help="tests are gold too")
    parser.add_argument("--other", action="store_true", help="docs, CI and the like are gold, source is not")
    options = parser.parse_args()
    for name, clone in named_clones(options.folder, options.only):
        for task in tasks(clone, name, options.per, tests=options.tests, other=options.other):
            sys.stdout.write(json.dumps(task) + "\n")


if __name__ == "__main__":
    main()
