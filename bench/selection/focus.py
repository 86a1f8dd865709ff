"""What a pack with a function in focus has of what the function uses, and of what uses it.

    python bench/selection/focus.py [CLONE ...] [--tasks 12] [--selectors "tokenbox,bm25 chunks"]

``CLONE`` is a clone of a Python project; without one, the tree is the installed standard library. A task is a
function of 6 to 60 lines. Its gold are the definitions that it names and the functions that name it, if only
one definition in the tree has that name: at least two, one of them in another file. BM25 has the text of the
function as its query.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from docstrings import library
from peers_of_selection import bm25_chunks
from score import interval
from trees import files_of, source_of

from tests.compose.independent import encoding
from tokenbox.folder import PackOptions, pack_source
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache

SHORTEST, LONGEST = 6, 60
LEAST_GOLD = 2
_SKIPPED = {"test", "tests", "testing", "docs", "doc", "examples", "site-packages"}


class Defined(NamedTuple):
    """A definition. ``named``: the names in it; ``signature``: its first line, stripped."""

    path: str
    name: str
    first: int
    last: int
    signature: str
    lines: frozenset[str]
    named: frozenset[str]
    is_class: bool

    def is_around(self, other: Defined) -> bool:
        return self.path == other.path and self.first <= other.first and other.last <= self.last


class Task(NamedTuple):
    """A function in focus, and the definitions that are wanted beside it."""

    focus: Defined
    gold: Sequence[Defined]


def definitions(files: Mapping[str, bytes]) -> Iterator[Defined]:
    """Yield the functions and classes of the sources that are no tests."""
    for path, data in files.items():
        if not path.endswith(".py") or _SKIPPED & set(path.split("/")) or "test_" in path:
            continue
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError):
            continue
        lines = data.decode("utf-8", "replace").split("\n")
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            last = node.end_lineno or node.lineno
            inside = [line.strip() for line in lines[node.lineno - 1 : last]]
            named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            named |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
            is_class = isinstance(node, ast.ClassDef)
            yield Defined(
                path, node.name, node.lineno, last, inside[0], frozenset(inside), frozenset(named), is_class
            )


def tasks_of(files: Mapping[str, bytes], count: int) -> list[Task]:
    """Return ``count`` tasks, drawn by a fixed seed."""
    found = list(definitions(files))
    called: dict[str, list[Defined]] = defaultdict(list)
    users: dict[str, list[Defined]] = defaultdict(list)
    for one in found:
        called[one.name].append(one)
        for name in () if one.is_class else one.named:
            users[name].append(one)
    drawn = [one for one in found if not one.is_class and SHORTEST <= one.last - one.first <= LONGEST]
    random.Random(0).shuffle(drawn)
    tasks: list[Task] = []
    for one in drawn:
        near = [called[name][0] for name in sorted(one.named) if len(called.get(name, ())) == 1]
        near += users[one.name] if len(called[one.name]) == 1 else []
        gold = list(dict.fromkeys(d for d in near if not d.is_around(one) and not one.is_around(d)))
        if len(gold) >= LEAST_GOLD and any(d.path != one.path for d in gold):
            tasks.append(Task(one, gold))
        if len(tasks) == count:
            break
    return tasks


def git_of(clone: Path) -> Path:
    return clone / ".git" if (clone / ".git").is_dir() else clone


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="*", type=Path)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--selectors", default="tokenbox,bm25 chunks")
    parser.add_argument("--budgets", default="2000,4000,8000")
    options = parser.parse_args()
    counter, cache, judge = registry.get("o200k_base"), CountCache(), encoding("o200k_base")
    trees = [files_of(git_of(clone), "HEAD") for clone in options.clones] or [library()]
    for name in options.selectors.split(","):
        for budget in map(int, options.budgets.split(",")):
            signatures, bodies = [], []
            for files in trees:
                source = source_of(files)
                for focus, gold in tasks_of(files, options.tasks):
                    place = f"{focus.path}:{focus.first}-{focus.last}"
                    asked = PackOptions(focus=(place,))
                    text = (
                        pack_source(source, counter, budget, options=asked, cache=cache).text
                        if name == "tokenbox"
                        else bm25_chunks(source, "\n".join(sorted(focus.lines)), budget, counter, cache)
                    )
                    if len(judge.encode_ordinary(text)) > budget:
                        raise SystemExit(f"{name} is over {budget} for {place}")
                    shown = {line.strip() for line in text.split("\n")}
                    signatures.append(sum(d.signature in shown for d in gold) / len(gold))
                    bodies.append(sum(d.lines <= shown for d in gold) / len(gold))
            low, high = interval(signatures)
            mean, whole = sum(signatures) / len(signatures), sum(bodies) / len(bodies)
            print(
                f"{name} {budget:>6}  signatures {mean:.3f} ({low:.3f}-{high:.3f})  bodies {whole:.3f}"
                f"  n={len(bodies)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
