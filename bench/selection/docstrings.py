"""Recall of functions of the standard library, with the first sentence of the docstring as the query.

    python bench/selection/docstrings.py [--tasks 40] [--selectors "tokenbox,bm25 chunks"]

The gold is the function without its docstring, which is removed from the packed tree.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import sysconfig
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from measuring import Recalls
from score import lines_of
from trees import source_of

SHORTEST, LONGEST = 6, 60
LEAST_WORDS = 5


def library() -> dict[str, bytes]:
    """Return the modules of the standard library, without its tests."""
    root = Path(sysconfig.get_path("stdlib"))
    wanted = [
        path
        for path in sorted(root.rglob("*.py"))
        if not {"test", "tests", "site-packages", "idlelib"} & set(path.parts)
    ]
    return {str(path.relative_to(root)): path.read_bytes() for path in wanted}


def functions(files: dict[str, bytes]) -> list[tuple[str, str, int, int, int, int]]:
    """Return (path, query, lines of the function, lines of the docstring) of well-documented functions."""
    found = []
    for path, data in files.items():
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or not (text := ast.get_docstring(node)):
                continue
            query = " ".join(text.partition("\n\n")[0].split())
            lines = (node.end_lineno or node.lineno) - node.lineno
            if SHORTEST <= lines <= LONGEST and len(query.split()) >= LEAST_WORDS and len(node.body) > 1:
                note = node.body[0]
                last = note.end_lineno or note.lineno
                found.append((path, query, node.lineno, node.end_lineno or 0, note.lineno, last))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--selectors", default="tokenbox,bm25 chunks")
    parser.add_argument("--budgets", default="2000,8000,32000")
    options = parser.parse_args()
    recalls = Recalls([int(budget) for budget in options.budgets.split(",")])
    files = library()
    tasks = functions(files)
    random.Random(0).shuffle(tasks)
    for name in options.selectors.split(","):
        rows = []
        for path, query, first, last, note, note_end in tasks[: options.tasks]:
            lines = files[path].decode("utf-8", "replace").split("\n")
            kept = [line for n, line in enumerate(lines, 1) if not note <= n <= note_end]
            gold = lines_of(
                "\n".join(
                    line
                    for n, line in enumerate(lines, 1)
                    if first <= n <= last and not note <= n <= note_end
                )
            )
            source = source_of({**files, path: "\n".join(kept).encode()})
            rows.append(recalls.of(name, source, query, [gold]))
        recalls.show(f"{name}: {len(rows)} functions of {len(tasks)}", rows)


if __name__ == "__main__":
    main()
