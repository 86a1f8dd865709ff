"""The layout suite in parts of a few minutes each, for a machine that is only sometimes idle.

    python bench/layout_parts.py o200k-1000     # also cheap-100 ..., o200k-relayout, micro-fast ...
    python bench/layout_parts.py table
    python bench/layout_parts.py all            # every part of the page, and the page: about 15 minutes

Each part writes its figures to bench/results/layout-PART.json; `table` makes the page of all existing parts.
At N = 10,000, libraries that take over 20 s or much longer than the others are skipped; at 100,000, all but
the two fastest.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import bench_layout as suite
from run import RESULTS

COUNTERS = ("cheap", "o200k")
ENGINES = ("tiktoken", "fast")
REPEATS = {100: 15, 1_000: 7, 10_000: 5, 100_000: 2}
PEERS = {
    10_000: ("contextcram", "cendor-contextkit", "llm-ctxpack", "langchain-core"),
    100_000: ("contextcram", "llm-ctxpack"),
}
PARTS = (
    *(f"{counter}-{size}" for counter in COUNTERS for size in (*suite.SIZES, "relayout")),
    *(f"micro-{engine}" for engine in ENGINES),
)
# Its libraries take many minutes, and o200k at 10,000 shows the same.
NOT_ON_THE_PAGE = "o200k-100000"


def main() -> int:
    part = sys.argv[1]
    parts = [one for one in PARTS if one != NOT_ON_THE_PAGE] if part == "all" else [part]
    for one in parts:
        if one != "table":
            figures = json.dumps(measured(one), indent=1)
            (RESULTS / f"layout-{one}.json").write_text(f"{figures}\n", encoding="utf-8")
    if part in ("all", "table"):
        (RESULTS / "layout.md").write_text(suite.table(merged()), encoding="utf-8")
    return 0


def measured(part: str) -> dict[str, Any]:
    """Measure one part; return results in the form of the suite."""
    results = suite.empty(quick=False)
    counter, what = part.split("-")
    libraries = suite.OURS + (suite.OURS_FAST if counter == "o200k" else [])
    if counter == "micro":
        results["micro"][what] = suite.micro(what, 9)
    elif what == "relayout":
        results["workloads"][counter] = suite.workloads(counter, (suite.RELAYOUT,))
        results["relayout"] = [suite.relayout(library, counter, results) for library in libraries]
    else:
        size = int(what)
        suite.REPEATS.update(REPEATS)
        results["workloads"][counter] = suite.workloads(counter, (size,))
        peers = [peer for peer in suite.PEERS if peer["name"] in PEERS.get(size, (peer["name"],))]
        suite.pack(libraries + peers, counter, (size,), results, quick=False)
    return {**results, "load": list(os.getloadavg())}


def merged() -> dict[str, Any]:
    """Return the existing parts as one run."""
    whole: dict[str, Any] = {}
    for part in PARTS:
        path = RESULTS / f"layout-{part}.json"
        if not path.exists():
            print(f"{part} was not measured", file=sys.stderr)
            continue
        one = json.loads(path.read_text(encoding="utf-8"))
        if not whole:
            whole = {**one, "parts": 0}
        else:
            for name in ("cells", "relayout"):
                whole[name] += one[name]
            for name in ("libraries", "micro"):
                whole[name].update(one[name])
            for counter, sizes in one["workloads"].items():
                whole["workloads"].setdefault(counter, {}).update(sizes)
        whole["parts"] += 1
        whole["when"] = max(whole["when"], one["when"])
        whole["load"] = one["load"]
    return whole


if __name__ == "__main__":
    sys.exit(main())
