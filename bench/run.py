"""Run a suite of measurements: ``python bench/run.py layout [--quick]``.

A suite is a module ``bench_NAME`` with ``run(options) -> results`` and ``table(results) -> text``.
The table goes to bench/results/NAME.md and to the terminal, all figures to NAME.json beside it, which git
ignores: the table, or the section below it, has what a reader needs to judge the result.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from measurements import measurements

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# Suites whose table gets a section Measurements; the tables of the others contain all rows.
MEASURED = ("codec", "conversation", "gateway", "ladder", "policy")


def main() -> int:
    suites = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="Measure tokenbox beside other libraries."
    )
    parser.add_argument("suite", choices=suites)
    parser.add_argument("--quick", action="store_true", help="a short run, kept only with --results")
    parser.add_argument("--results", type=Path, help="folder for the table and the figures")
    options = parser.parse_args()
    suite = importlib.import_module(f"bench_{options.suite}")
    results = suite.run(quick=options.quick)
    folder = options.results or (None if options.quick else RESULTS)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        figures = json.dumps(results, indent=1) + "\n"
        (folder / f"{options.suite}.json").write_text(figures, encoding="utf-8")
    table = suite.table(results)
    if options.suite in MEASURED:
        table += "\n" + measurements(results.get("rows") or results["cells"])
    print(table)
    if folder:
        (folder / f"{options.suite}.md").write_text(table, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
