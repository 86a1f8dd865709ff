"""The table of the pack suite: each target, what was measured, met or LOST."""

from __future__ import annotations

from statistics import median
from typing import Any

from table_layout import HEAD, Row

OURS, FULL, COMPRESSED = "tokenbox", "repomix", "repomix --compress"
MAX_COLD, MAX_WARM, MAX_INTO_BUDGET = 0.9, 0.6, 0.4
MAX_MEMORY = 3.0  # times the input
MARK = 50_000


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    times, peaks, tokens = speed(results), memory(results), budgets(results)
    rows = [*times, *peaks, *tokens]
    lost = [f"* {row.what}: {row.ours}; {row.ratio}, target {row.target}" for row in rows if row.met is False]
    met = sum(row.met is True for row in rows)
    parts = [
        "# Packing a folder, beside other programs",
        introduction(results),
        f"**{met} met, {len(lost)} lost, {len(rows) - met - len(lost)} rows without a target or a figure.**",
        *(["Lost:\n\n" + "\n".join(lost)] if lost else []),
        _section("Time", times),
        _section("Memory", peaks),
        _section("Tokens by an independent count, against the budget asked for", tokens),
        everything(results),
        programs(results),
    ]
    return "\n\n".join(parts) + "\n"


def introduction(results: dict[str, Any]) -> str:
    machine, given = results["machine"], results["input"]
    quick = " A quick run: two repeats." if results["quick"] else ""
    return (
        f"`make bench`, {results['when']}.{quick} {machine['processor']}, {machine['cpus']} processors, "
        f"{machine['system']}, Python {machine['python']}; load before {machine['load_before'][0]:.1f}, "
        f"after {results['load'][0]:.1f}.\n\n"
        f"The standard library of this Python without its tests: {given['files']:,} files, "
        f"{given['bytes'] / 1e6:.1f} MB (SHA-256 {given['sha256'][:16]}). Whole commands from start to exit, "
        "each in its own environment and, for every repeat, in turn; medians. *Cold*: a new copy of the "
        "folder and an empty home; *warm*: the same again. The files themselves are in the system's cache in "
        "either case. Nothing can be fetched. Tokens are o200k, counted by tiktoken with its own ranks over "
        "what the program wrote. Of the memory of tokenbox, the tables of the vocabulary and Python itself "
        "are most; what packing adds is in a row of its own, without a target, as that is for all of it."
    )


def speed(results: dict[str, Any]) -> list[Row]:
    return [
        _row(
            results,
            "in full, cold",
            f"<= {MAX_COLD}x repomix cold",
            (OURS, None, "cold"),
            (FULL, None, "cold"),
            MAX_COLD,
        ),
        _row(
            results,
            "in full, counts cached",
            f"<= {MAX_WARM}x repomix cold",
            (OURS, None, "warm"),
            (FULL, None, "cold"),
            MAX_WARM,
        ),
        _row(
            results, "in full, both with their caches", "-", (OURS, None, "warm"), (FULL, None, "warm"), None
        ),
        _row(
            results,
            f"into {MARK:,} with outlines, cold",
            f"<= {MAX_INTO_BUDGET}x repomix --compress",
            (OURS, MARK, "cold"),
            (COMPRESSED, None, "cold"),
            MAX_INTO_BUDGET,
        ),
        _row(
            results,
            f"into {MARK:,} with outlines, counts cached",
            f"<= {MAX_INTO_BUDGET}x repomix --compress with its cache",
            (OURS, MARK, "warm"),
            (COMPRESSED, None, "warm"),
            MAX_INTO_BUDGET,
        ),
    ]


def memory(results: dict[str, Any]) -> list[Row]:
    rows = []
    size = results["input"]["bytes"]
    nothing = results["programs"][OURS].get("memory_of_nothing")
    for what, budget in (("in full", None), (f"into {MARK:,}", MARK)):
        ours, theirs = _cell(results, OURS, budget, "cold"), _cell(results, FULL, None, "cold")
        if not _is_measured(ours) or not _is_measured(theirs):
            continue
        peak, peer = max(ours["memory"]), max(theirs["memory"])
        rows.append(
            Row(
                f"{what}: peak",
                "under repomix",
                _mb(peak),
                f"{_mb(peer)} (repomix)",
                f"{peak / peer:.2f}x",
                peak < peer,
            )
        )
        rows.append(
            Row(
                f"{what}: peak against the input",
                f"<= {MAX_MEMORY:.0f}x the input",
                _mb(peak),
                f"{_mb(size)} (input)",
                f"{peak / size:.1f}x",
                peak <= MAX_MEMORY * size,
            )
        )
        if nothing is not None:
            rows.append(
                Row(
                    f"{what}: peak beyond packing one line ({_mb(nothing)}: Python and the vocabulary)",
                    "-",
                    _mb(peak - nothing),
                    f"{_mb(size)} (input)",
                    f"{(peak - nothing) / size:.1f}x",
                    None,
                )
            )
    return rows


def budgets(results: dict[str, Any]) -> list[Row]:
    rows = []
    full = _cell(results, OURS, None, "cold")
    if _is_measured(full):
        equal = full["said"].startswith(f"{full['tokens']:,} tokens")
        own = full["said"].partition(" tokens")[0]
        rows.append(
            Row(
                "tokenbox in full: its own figure",
                "the independent one",
                own,
                f"{full['tokens']:,}",
                "",
                equal,
            )
        )
    for cell in results["cells"]:
        if cell["budget"] is None or cell["cache"] != "cold":
            continue
        what = f"{cell['program']} into {cell['budget']:,}"
        if "tokens" not in cell:
            rows.append(Row(what, "-", "-", "-", cell.get("problem", "not measured"), None))
            continue
        over = cell["tokens"] - cell["budget"]
        shown = f"{over:,} over ({100 * over / cell['budget']:.1f} %)" if over > 0 else f"{-over:,} under"
        target = "never over" if cell["program"] == OURS else "-"
        status = f"exit status {cell['status']}" if cell["status"] else ""
        rows.append(
            Row(
                what,
                target,
                f"{cell['tokens']:,}",
                status,
                shown,
                over <= 0 if cell["program"] == OURS else None,
            )
        )
    return rows


def everything(results: dict[str, Any]) -> str:
    lines = [
        "## All rows\n",
        "| program | into | cache | seconds (median, fastest, slowest of n) | peak memory | wrote | tokens |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in results["cells"]:
        into = "in full" if cell["budget"] is None else f"{cell['budget']:,}"
        start = f"| {cell['program']} | {into} | {cell['cache']} |"
        if not _is_measured(cell):
            lines.append(f"{start} {cell.get('problem', 'not measured').replace('|', '/')} | | | |")
            continue
        times = cell["seconds"]
        shown = f"{median(times):.2f} s ({min(times):.2f} to {max(times):.2f}; {len(times)})"
        lines.append(
            f"{start} {shown} | {_mb(max(cell['memory']))} | {_mb(cell['bytes'])} | {cell['tokens']:,} |"
        )
    return "\n".join(lines)


def programs(results: dict[str, Any]) -> str:
    lines = ["## Programs\n", "| program | version | how |", "|---|---|---|"]
    lines += [f"| {name} | {one['version']} | {one['note']} |" for name, one in results["programs"].items()]
    return "\n".join(lines)


def _row(
    results: dict[str, Any],
    what: str,
    target: str,
    ours: tuple[str, int | None, str],
    peer: tuple[str, int | None, str],
    most: float | None,
) -> Row:
    mine, theirs = _cell(results, *ours), _cell(results, *peer)
    if not _is_measured(mine) or not _is_measured(theirs):
        return Row(what, target, "-", "-", "not measured", None)
    a, b = median(mine["seconds"]), median(theirs["seconds"])
    met = None if most is None else a <= most * b
    return Row(what, target, f"{a:.2f} s", f"{b:.2f} s ({peer[0]} {peer[2]})", f"{a / b:.2f}x", met)


def _cell(results: dict[str, Any], program: str, budget: int | None, cache: str) -> dict[str, Any]:
    wanted = (program, budget, cache)
    return next((c for c in results["cells"] if (c["program"], c["budget"], c["cache"]) == wanted), {})


def _is_measured(cell: dict[str, Any]) -> bool:
    return "problem" not in cell and bool(cell.get("seconds"))


def _section(title: str, rows: list[Row]) -> str:
    return f"## {title}\n\n{HEAD}\n" + "\n".join(row.line() for row in rows)


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
