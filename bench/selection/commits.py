"""Recall of the lines that commits change, with the commit's message as the query.

    python bench/selection/commits.py CLONES tasks.jsonl --selectors "tokenbox,bm25 chunks"

``CLONES`` is the folder that ``mine.py`` was run on. tiktoken counts every output; an output over its budget
is an error. The mean is over tasks, with a bootstrap interval of 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from peers_of_selection import SELECTORS
from score import hunks, interval, recall
from trees import files_of, history_of, source_of

from tests.compose.independent import encoding
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache


def clone_of(folder: Path, repository: str) -> Path:
    """Return the git directory of a repository, by its name or ``owner/name``."""
    for name in (repository, repository.replace("/", "+")):
        for inner in ("", ".git", "repo"):
            if (folder / name / inner / "objects").is_dir():
                return folder / name / inner
    raise SystemExit(f"no clone of {repository} in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--selectors", default="tokenbox,bm25 chunks")
    parser.add_argument("--budgets", default="2000,8000,32000")
    parser.add_argument("--without-query", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for all measurements")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    names = options.selectors.split(",")
    counter, cache, judge = registry.get("o200k_base"), CountCache(), encoding("o200k_base")
    found: dict[str, dict[str, list[list[float]]]] = {name: defaultdict(list) for name in names}
    used: dict[str, list[list[float]]] = {name: [] for name in names}
    seconds: dict[str, float] = defaultdict(float)
    for line in options.tasks.read_text().splitlines():
        task = json.loads(line)
        clone = clone_of(options.clones, task["repository"])
        files = files_of(clone, task["parent"])
        source = source_of(files, history_of(clone, task["parent"]))
        gold = hunks(files, task["gold"])
        query = None if options.without_query else task["query"]
        for name in names:
            row, part = [], []
            for budget in budgets:
                began = time.perf_counter()
                text = SELECTORS[name](source, query, budget, counter, cache)
                seconds[name] += time.perf_counter() - began
                counted = len(judge.encode_ordinary(text))
                if counted > budget:
                    raise SystemExit(
                        f"{name} is over {budget}: {counted} in {task['repository']} {task['commit']}"
                    )
                row.append(recall(text, gold))
                part.append(counted / budget)
            found[name][task["repository"]].append(row)
            used[name].append(part)
    for name in names:
        rows = [row for some in found[name].values() for row in some]
        print(f"{name}: {len(rows)} tasks, {seconds[name]:.0f} s")
        for at, budget in enumerate(budgets):
            values = [row[at] for row in rows]
            low, high = interval(values)
            filled = sum(part[at] for part in used[name]) / len(rows)
            print(
                f"  {budget:>6}  {sum(values) / len(values):.3f}  ({low:.3f}-{high:.3f})  {filled:.1%} used"
            )
        for repository, some in sorted(found[name].items()):
            means = "  ".join(f"{sum(row[at] for row in some) / len(some):.3f}" for at in range(len(budgets)))
            print(f"    {means}  {repository}")
    if options.json is not None:
        options.json.write_text(json.dumps({"budgets": budgets, "recall": found, "used": used}, indent=1))


if __name__ == "__main__":
    main()
