"""The table of the layout suite: each target, what was measured, met or LOST."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

MARK = 10_000  # the N of the time targets
MAX_CHARACTERS = 1.05
MAX_EXTRA_CALLS = 3
MAX_GROWTH = 12.0
MAX_RELAYOUT = 0.2
MAX_RECOUNT = 100e-6
MAX_PREFIX = 1e-3
# times the fastest peer
MAX_RATIO = {("cheap", "tokenbox"): 1.0, ("o200k", "tokenbox"): 1.1, ("o200k", "tokenbox fast"): 0.5}
# Small prompts, where the work beside counting dominates: no slower than any library.
SMALL = (100, 1_000)
MIN_THROUGHPUT = {"tiktoken": 0.9, "fast": 1.0}
# Why rows are lost that no change of the code is known to win, by a word of the row.
WHY = {
    "longest prefix of 100,000 tokens, no index": (
        "An exact prefix has to count its 450,000 characters: the engine alone takes nearly all of this "
        "time. A TextIndex counts once."
    ),
    "its first": (
        "With a cheap counter nothing is saved by not counting again: most of a layout is reading 10,000 "
        "sections or mappings, any of which may have changed, and joining the text."
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line; ``met`` is None if there is no target or nothing to compare with."""

    what: str
    target: str
    ours: str
    peer: str
    ratio: str
    met: bool | None

    def line(self) -> str:
        verdict = {True: "met", False: "**LOST**", None: ""}[self.met]
        return f"| {self.what} | {self.target} | {self.ours} | {self.peer} | {self.ratio} | {verdict} |"


HEAD = "| what | target | ours | best peer | ratio | |\n|---|---|---|---|---|---|"


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    sections = [
        ("Time to pack prepared inputs", times(results, whole=False)),
        ("Time from plain texts: making the library's inputs, then packing", times(results, whole=True)),
        ("Growth from 10,000 to 100,000", growth(results)),
        ("Again after one section changed", relayouts(results)),
        ("Asked of the counter", asked(results)),
        ("The whole, counted independently", wholes(results)),
        ("Counting", throughput(results)),
        ("In 1 MB", documents(results)),
    ]
    parts = ["# Layout, beside other libraries", introduction(results), summary(sections)]
    for title, some in sections:
        if some:
            parts.append(f"## {title}\n\n{HEAD}\n" + "\n".join(row.line() for row in some))
    parts.append(all_cells(results))
    parts.append(libraries(results))
    return "\n\n".join(parts) + "\n"


def introduction(results: dict[str, Any]) -> str:
    machine = results["machine"]
    work = results["workloads"]["o200k"]
    mean = median(one["mean"] for one in work.values())
    corpus = next(iter(work.values()))["corpus"]
    quick = " A quick run: few repeats, no 100,000." if results["quick"] else ""
    command = "make bench"
    if "parts" in results:
        command = "python bench/layout_parts.py"
        quick = (
            f" Measured in {results['parts']} parts on a shared machine, whose load the figures still show;"
            " slow libraries are left out at N = 10,000 and more."
        )
    return (
        f"`{command}`, {results['when']}.{quick} {machine['processor']}, {machine['cpus']} processors, "
        f"{machine['system']}, Python {machine['python']}; load before {machine['load_before'][0]:.1f}, "
        f"after {results['load'][0]:.1f}.\n\n"
        f"N texts of {mean:.0f} o200k tokens on average, half prose and half code from the documentation and "
        f"the sources of this Python (SHA-256 of the corpus {corpus[:16]}), five priorities, budget half of "
        "the total. Two counters: *cheap*, `len(text) // 4` as a plain function, and *o200k*, real tokens by "
        "tiktoken, which tokenbox also counts with fastokens (*tokenbox fast*). Each library in its own "
        "process, asked in turn, every repeat with texts it has not seen; medians. tokenbox makes the record "
        "(sections, digest) when it is read, which these times do not include. Targets of time are set "
        "at N = 10,000, with o200k at 100 and 1,000 too; elsewhere the ratio is shown without one."
    )


def summary(sections: list[tuple[str, list[Row]]]) -> str:
    """Return the number of targets that are met, and those that are lost."""
    verdicts = [row.met for _, rows in sections for row in rows]
    text = f"**{verdicts.count(True)} met, {verdicts.count(False)} lost"
    if None in verdicts:
        text += f", {verdicts.count(None)} rows without a target or a figure"
    text += ".**"
    for title, rows in sections:
        lost = [
            f"* {row.what}: {row.ours}; {row.ratio}, target {row.target}" for row in rows if row.met is False
        ]
        if lost:
            text += f"\n\nLost, {title[0].lower()}{title[1:]}:\n\n" + "\n".join(lost)
            text += "".join(f"\n\n{why}" for word, why in WHY.items() if any(word in row for row in lost))
    return text


def times(results: dict[str, Any], *, whole: bool) -> list[Row]:
    rows = []
    for counter, n in workload_keys(results):
        peers = {
            one["library"]: seconds(one, whole=whole) for one in cells(results, counter, n) if is_peer(one)
        }
        best = min(
            (name for name in peers if peers[name] is not None),
            key=lambda name: peers[name] or 0,
            default=None,
        )
        for one in cells(results, counter, n):
            name = one["library"]
            if is_peer(one) or (name.endswith("dicts") and not whole):
                continue
            allowed = _allowed(counter, name.removesuffix(", dicts"), n)
            ours = seconds(one, whole=whole)
            what = f"{counter}, N = {n:,}: {name}"
            target = "-" if allowed is None else f"<= {allowed:g}x the fastest"
            peer = peers[best] if best else None
            if ours is None or peer is None:
                rows.append(Row(what, target, show(ours), show(peer), "-", None if ours is None else True))
                continue
            ratio = ours / peer
            met = None if allowed is None else ratio <= allowed
            rows.append(Row(what, target, show(ours), f"{show(peer)} ({best})", f"{ratio:.2f}x", met))
    return rows


def _allowed(counter: str, name: str, n: int) -> float | None:
    """Return the limit as a multiple of the fastest other library, or None."""
    if n == MARK:
        return MAX_RATIO[counter, name]
    return 1.0 if counter == "o200k" and n in SMALL else None


def growth(results: dict[str, Any]) -> list[Row]:
    rows = []
    for counter in results["workloads"]:
        grown: dict[str, float] = {}
        for name in {one["library"] for one in results["cells"]}:
            small, large = (find(results, counter, n, name) for n in (MARK, 10 * MARK))
            if small and large and seconds(small) and seconds(large):
                grown[name] = seconds(large) / seconds(small)  # type: ignore[operator]
        peers = {name: factor for name, factor in grown.items() if not name.startswith("tokenbox")}
        best = min(peers, key=peers.__getitem__, default=None)
        for name in sorted(grown.keys() - peers.keys()):
            factor = grown[name]
            peer = f"{peers[best]:.1f}x ({best})" if best else "none ends"
            ratio = f"{factor / peers[best]:.2f}x" if best else "-"
            rows.append(
                Row(
                    f"{counter}: {name}",
                    f"<= {MAX_GROWTH:g}x",
                    f"{factor:.1f}x",
                    peer,
                    ratio,
                    factor <= MAX_GROWTH,
                )
            )
    return rows


def relayouts(results: dict[str, Any]) -> list[Row]:
    rows = []
    for one in results["relayout"]:
        what = f"{one['counter']}, N = {MARK:,}: {one['library']}"
        target = f"<= {MAX_RELAYOUT:g}x its first"
        found = [c for c in cells(results, one["counter"], MARK) if is_peer(c) and seconds(c)]
        fastest = min(found, key=lambda c: seconds(c) or 0, default=None)
        peer = f"{show(seconds(fastest))} ({fastest['library']}, packs again)" if fastest else "-"
        if not one["again"]:
            rows.append(Row(what, target, one.get("problem", "-"), peer, "-", None))
            continue
        first, again = median(one["first"]), median(one["again"])
        rows.append(
            Row(
                what,
                target,
                f"{show(again)} after {show(first)}",
                peer,
                f"{again / first:.2f}x",
                again <= MAX_RELAYOUT * first,
            )
        )
    return rows


def asked(results: dict[str, Any]) -> list[Row]:
    rows = []
    for counter, n in workload_keys(results):
        found = [one for one in cells(results, counter, n) if "characters" in one]
        peers = [one for one in found if is_peer(one) and one["characters"]]
        least = min(peers, key=read, default=None)
        fewest = min(peers, key=lambda one: one["texts"], default=None)
        for one in found:
            if is_peer(one) or one["library"].endswith("dicts"):
                continue
            what = f"{counter}, N = {n:,}: {one['library']}"
            rows.append(
                Row(
                    f"{what}, characters tokenized / (input + output)",
                    f"<= {MAX_CHARACTERS:g}",
                    f"{read(one):.3f}",
                    f"{read(least):.3f} ({least['library']})" if least else "-",
                    f"{read(one) / read(least):.2f}x" if least else "-",
                    read(one) <= MAX_CHARACTERS,
                )
            )
            rows.append(
                Row(
                    f"{what}, calls (texts counted)",
                    f"<= N + {MAX_EXTRA_CALLS}",
                    f"{one['calls']:,} ({excess(one)})",
                    f"{fewest['calls']:,} ({excess(fewest)}, {fewest['library']})" if fewest else "-",
                    f"{one['calls'] / fewest['calls']:.2f}x" if fewest else "-",
                    one["calls"] <= n + MAX_EXTRA_CALLS,
                )
            )
    return rows


def wholes(results: dict[str, Any]) -> list[Row]:
    rows = []
    for counter, n in workload_keys(results):
        found = [one for one in cells(results, counter, n) if "whole" in one]
        peers = [one for one in found if is_peer(one)]
        over = [one for one in peers if one["whole"] > one["budget"]]
        fitting = [one for one in peers if one["whole"] <= one["budget"]]
        fullest = max(fitting, key=lambda one: one["whole"], default=None)
        peer = f"{len(over)} of {len(peers)} over, to {max((used(one) for one in over), default=0):+.2%}"
        if fullest:
            peer += f"; best that fits {used(fullest):+.2%} ({fullest['library']})"
        for one in found:
            if not is_peer(one) and not one["library"].endswith("dicts"):
                ratio = one["whole"] / fullest["whole"] if fullest else None
                rows.append(
                    Row(
                        f"{counter}, N = {n:,}: {one['library']}",
                        "not over the budget",
                        f"{one['whole'] - one['budget']:+,} of {one['budget']:,} tokens",
                        peer,
                        f"{ratio:.3f}x used" if ratio else "-",
                        one["whole"] <= one["budget"],
                    )
                )
    return rows


def throughput(results: dict[str, Any]) -> list[Row]:
    rows = []
    for engine, found in results["micro"].items():
        allowed = MIN_THROUGHPUT[engine]
        for label, one in found.get("count", {}).items():
            ratio = one["ours"] / one["tiktoken"]
            wrong = f", {one['wrong']} WRONG" if one["wrong"] else ""
            rows.append(
                Row(
                    f"count {label}, engine {engine}",
                    f">= {allowed:g}x tiktoken",
                    f"{one['ours'] / 1e6:.1f} MB/s{wrong}",
                    f"{one['tiktoken'] / 1e6:.1f} MB/s",
                    f"{ratio:.2f}x",
                    ratio >= allowed and not one["wrong"],
                )
            )
        if "error" in found:
            rows.append(Row(f"engine {engine}", "-", found["error"], "-", "-", None))
    return rows


def documents(results: dict[str, Any]) -> list[Row]:
    rows = []
    for engine, found in results["micro"].items():
        edit = found.get("edit", {})
        if "ours" in edit:
            wrong = f", {edit['wrong']} WRONG" if edit["wrong"] else ""
            rows.append(
                Row(
                    f"recount after an edit, engine {engine} (index built in {show(edit['build'])})",
                    f"<= {MAX_RECOUNT * 1e6:g} us",
                    f"{edit['ours'] * 1e6:.0f} us, worst {edit['worst'] * 1e6:.0f} us{wrong}",
                    f"{show(edit['tiktoken'])} (counts all)",
                    f"{edit['ours'] / edit['tiktoken']:.4f}x",
                    edit["ours"] <= MAX_RECOUNT and not edit["wrong"],
                )
            )
        elif edit:
            rows.append(Row(f"recount after an edit, engine {engine}", "-", edit["error"], "-", "-", None))
        rows += prefixes(engine, found.get("prefix", {}), "no index")
        rows += prefixes(engine, found.get("indexed", {}), "of a TextIndex")
    return rows


def prefixes(engine: str, found: dict[str, Any], how: str) -> list[Row]:
    if "error" in found:
        return [Row(f"longest prefix, {how}, engine {engine}", "-", found["error"], "-", "-", None)]
    rows = []
    for tokens, one in found.items():
        bad = f", {one['wrong']} WRONG" if one["wrong"] else ""
        bad += f", {one['shorter']} SHORTER" if one["shorter"] else ""
        rows.append(
            Row(
                f"longest prefix of {int(tokens):,} tokens, {how}, engine {engine}",
                f"<= {MAX_PREFIX * 1e3:g} ms",
                f"{show(one['ours'])}{bad}",
                f"{show(one['tiktoken'])} (encodes all, cuts)",
                f"{one['ours'] / one['tiktoken']:.4f}x",
                one["ours"] <= MAX_PREFIX and not bad,
            )
        )
    return rows


def all_cells(results: dict[str, Any]) -> str:
    lines = [
        "## Every library\n",
        (
            "Inputs + packing in milliseconds (medians); texts counted; characters tokenized / "
            "(input + output); the joined whole against the budget, by independent count.\n"
        ),
        "| counter | N | library | inputs | packing | texts counted | characters | whole |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in results["cells"]:
        begin = f"| {one['counter']} | {one['n']:,} | {one['library']} "
        if "problem" in one:
            lines.append(f"{begin}| {one['problem']} | | | | |")
        elif not one["pack"]:
            lines.append(f"{begin}| not tried | | | | |")
        else:
            rest = "| | | |"
            if "characters" in one:
                rest = f"| {one['texts']:,} | {read(one):.3f} | {used(one):+.2%} |"
            lines.append(
                f"{begin}| {median(one['build']) * 1e3:.1f} | {median(one['pack']) * 1e3:.1f} {rest}"
            )
    tried = {(one["counter"], one["n"], one["library"]) for one in results["cells"]}
    for counter, n in workload_keys(results):
        skipped = [
            name
            for name in results["libraries"]
            if (counter, n, name) not in tried
            and not (counter == "cheap" and name.startswith("tokenbox fast"))
        ]
        if skipped:
            names = ", ".join(skipped)
            why = "not tried: too slow or failed at a smaller N"
            lines.append(f"| {counter} | {n:,} | {names} | {why} | | | | |")
    return "\n".join(lines)


def libraries(results: dict[str, Any]) -> str:
    lines = ["## What was asked of each\n", "| library | versions | unit |", "|---|---|---|"]
    for name, one in results["libraries"].items():
        versions = ", ".join(f"{key} {value}" for key, value in one["versions"].items())
        lines.append(f"| {name} | {versions} | {one['unit']} |")
    return "\n".join(lines)


def workload_keys(results: dict[str, Any]) -> list[tuple[str, int]]:
    return [(counter, int(n)) for counter, sizes in results["workloads"].items() for n in sizes]


def cells(results: dict[str, Any], counter: str, n: int) -> list[dict[str, Any]]:
    return [one for one in results["cells"] if one["counter"] == counter and one["n"] == n]


def find(results: dict[str, Any], counter: str, n: int, name: str) -> dict[str, Any] | None:
    return next((one for one in cells(results, counter, n) if one["library"] == name), None)


def is_peer(one: dict[str, Any]) -> bool:
    return not one["library"].startswith("tokenbox")


def seconds(one: dict[str, Any], *, whole: bool = False) -> float | None:
    """Return the median time of packing, ``whole`` with building the inputs; None if it did not finish."""
    if not one["pack"] or "problem" in one:
        return None
    if whole:
        return median(a + b for a, b in zip(one["build"], one["pack"], strict=True))
    return median(one["pack"])


def read(one: dict[str, Any]) -> float:
    return one["characters"] / (one["input"] + one["output"])


def excess(one: dict[str, Any]) -> str:
    more = one["texts"] - one["n"]
    return (
        f"N {'+' if more >= 0 else '-'} {abs(more):,}"
        if abs(more) < 2 * one["n"]
        else f"{one['texts'] / one['n']:.1f} N"
    )


def used(one: dict[str, Any]) -> float:
    """Return the distance of the whole from the budget, as a fraction of it; positive is over."""
    return (one["whole"] - one["budget"]) / one["budget"]


def show(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"
