"""The priority ladder at 100 to 100,000 blocks: growth of time, and renderings and counts per form."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from math import log2
from statistics import median
from typing import TYPE_CHECKING, Any

import workload
from bench_layout import machine, say
from table_layout import HEAD, Row
from workers import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.engine.ladder import Form
    from tokenbox.render.templates import Framed

SIZES = (100, 1_000, 10_000, 100_000)
REPEATS = {100: 15, 1_000: 9, 10_000: 5, 100_000: 3}
# Allowance for caches and memory above n log n.
SLACK = 1.5
SHARES = ("half", "a tenth", "a hundredth")
FIGURES = (
    "| budget | N | tokens | given | time | per block | forms rendered | texts counted | forms |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
DIVISORS = dict(zip(SHARES, (2, 10, 100), strict=True))


def run(*, quick: bool) -> dict[str, Any]:
    sys.path.insert(0, str(SOURCE))
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "quick": quick,
        "cells": [],
    }
    for share in SHARES:
        for n in SIZES[:3] if quick else SIZES:
            one = _cell(n, share, 2 if quick else REPEATS[n])
            results["cells"].append(one)
            say(f"{share:12} {n:>7,} {median(one['seconds']) * 1000:9.1f} ms")
    results["load"] = list(os.getloadavg())
    return results


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    growth, once, cells = [], [], []
    by_key = {(one["share"], one["n"]): one for one in results["cells"]}
    for (share, n), one in by_key.items():
        seconds = median(one["seconds"])
        cells.append(
            f"| {share} | {n:,} | {one['budget']:,} | {one['total']:,} | {seconds * 1000:.1f} ms "
            f"| {1e6 * seconds / n:.1f} us | {one['rendered']:,} | {one['counted']:,} | {one['forms']} |"
        )
        once.append(
            Row(
                f"{share}, N = {n:,}: most often a form was rendered; a text counted",
                "once",
                f"{one['most_rendered']}; {one['most_counted']}",
                "",
                "",
                max(one["most_rendered"], one["most_counted"]) <= 1,
            )
        )
        once.append(
            Row(
                f"{share}, N = {n:,}: forms rendered per block",
                "<= 3, the ladder's length",
                f"{one['rendered'] / n:.2f}",
                "",
                "",
                one["rendered"] <= 3 * n,
            )
        )
        smaller = by_key.get((share, n // 10))
        if smaller is not None:
            ratio = seconds / median(smaller["seconds"])
            most = 10 * log2(n) / log2(n // 10) * SLACK
            target = f"<= {most:.1f}x (10 log N / log N/10, and {SLACK}x for memory)"
            shown = f"{seconds * 1000:.1f} ms"
            growth.append(
                Row(f"{share}, from {n // 10:,} to {n:,}", target, shown, "", f"{ratio:.1f}x", ratio <= most)
            )
    rows = [*growth, *once]
    lost = [f"* {row.what}: {row.ours} {row.ratio}, target {row.target}" for row in rows if row.met is False]
    here = results["machine"]
    quick = " A quick run: two repeats, no 100,000." if results["quick"] else ""
    parts = [
        "# The priority ladder",
        (
            f"`make bench`, {results['when']}.{quick} {here['processor']}, {here['cpus']} processors, "
            f"{here['system']}, Python {'.'.join(map(str, sys.version_info[:3]))}; load before "
            f"{here['load_before'][0]:.1f}, after {results['load'][0]:.1f}.\n\n"
            "N code blocks of about 100 o200k tokens, each with a summary, of all five priorities, as XML "
            "into a half, a tenth and a hundredth of what they count together, contents counted before (a "
            "cache that is warm, so that the ladder is measured and not tiktoken); medians. What is rendered "
            "and counted is recorded in a run of its own, without a cache. Counted are texts, small windows "
            "around the markup included."
        ),
        f"**{sum(row.met is True for row in rows)} met, {len(lost)} lost.**",
        *(["Lost:\n\n" + "\n".join(lost)] if lost else []),
        f"## Growth\n\n{HEAD}\n" + "\n".join(row.line() for row in growth),
        f"## Once, and only if it can matter\n\n{HEAD}\n" + "\n".join(row.line() for row in once),
        f"## All figures\n\n{FIGURES}\n" + "\n".join(cells),
    ]
    return "\n\n".join(parts) + "\n"


def _cell(n: int, share: str, repeats: int) -> dict[str, Any]:
    from tokenbox.compose.blocks import render_blocks
    from tokenbox.tokenizers import registry
    from tokenbox.tokenizers.cache import CountCache

    counter, cache = registry.get("o200k_base"), CountCache(1_000_000)
    blocks = _blocks(n)
    whole = render_blocks(blocks, counter, cache=cache)
    budget = whole.total // DIVISORS[share]
    seconds = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        result = render_blocks(blocks, counter, budget, cache=cache)
        seconds.append(time.perf_counter() - start)
    if counter.count(result.text) != result.total or result.total > budget:
        raise SystemExit("the ladder's total is not the count of its text")
    return {
        "n": n,
        "share": share,
        "budget": budget,
        "total": result.total,
        "seconds": seconds,
        "forms": ", ".join(f"{k} {v:,}" for k, v in Counter(b.form.value for b in result.blocks).items()),
        **_recorded(blocks, budget),
    }


def _recorded(blocks: list[Any], budget: int) -> dict[str, int]:
    """Return the numbers of rendered forms and counted texts, and the maximum for a single one."""
    from unittest.mock import patch

    from tokenbox.compose.block_whole import BlockForms
    from tokenbox.compose.blocks import render_blocks
    from tokenbox.tokenizers import registry
    from tokenbox.tokenizers.cache import CountCache

    counter = registry.get("o200k_base")
    rendered: Counter[tuple[int, str]] = Counter()
    counted: Counter[str] = Counter()
    framed, batch, one = BlockForms._framed, counter.count_batch, counter.count

    def rendering(forms: BlockForms, i: int, form: Form) -> Framed:
        rendered[i, form.value] += 1
        return framed(forms, i, form)

    def counting(texts: Sequence[str]) -> list[int]:
        counted.update(texts)
        return batch(texts)

    def counting_one(text: str) -> int:
        counted[text] += 1
        return one(text)

    with (
        patch.object(BlockForms, "_framed", rendering),
        patch.object(counter, "count_batch", counting),
        patch.object(counter, "count", counting_one),
    ):
        whole = render_blocks(blocks, counter, budget, cache=CountCache(1_000_000))
    del counted[whole.text]  # the final check of the output
    return {
        "rendered": sum(rendered.values()),
        "most_rendered": max(rendered.values()),
        "counted": sum(counted.values()),
        "most_counted": max(counted.values()),
    }


def _blocks(n: int) -> list[Any]:
    from tokenbox.content.block_kinds import Lang, Priority
    from tokenbox.content.blocks import AnnotationBlock, CodeBlock

    items = workload.items(n, 1)
    blocks: list[Any] = [
        CodeBlock(
            Lang.PYTHON, f"src/f{i}.py", item.text.encode(), summary=f"what f{i} does: {item.text[:40]}"
        )
        for i, item in enumerate(items)
    ]
    # One block in a thousand is critical, so that these fit a hundredth; the others take turns.
    classes = (Priority.HIGH, Priority.NORMAL, Priority.NORMAL, Priority.LOW, Priority.BACKGROUND)
    annotations = [
        AnnotationBlock.of_priority(i, Priority.CRITICAL if i % 1_000 == 3 else classes[i % len(classes)])
        for i in range(n)
    ]
    return [*blocks, *annotations]
