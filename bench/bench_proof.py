"""Proof bundles: time to write one after the layout, and to verify one beside reading and hashing it."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

# run.py may run in an environment of other libraries.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import tokenbox
from tokenbox.proof.calls import evidence_of
from tokenbox.proof.of_sections import LAYOUT
from tokenbox.proof.verify import verify
from tokenbox.store.bundles import Bundles
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tokenbox.proof.evidence import Evidence

SECTIONS = 100
# Sections of a small bundle, where the cost per file dominates.
FEW = 2
BUNDLES = 1_000
WORDS = ("what", "a model", "is told", "about", "the whole", "of it", "and why,", "in order")
TARGET_WRITE_MS = 5.0
TARGET_VERIFY = 2.0


def run(*, quick: bool) -> dict[str, Any]:
    rounds = 3 if quick else 9
    layouts = 20 if quick else 100
    bundles = BUNDLES // 10 if quick else BUNDLES
    before = list(os.getloadavg())
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "quick": quick,
        "write": write(layouts),
        "verify": verifying(bundles, rounds, SECTIONS),
        "verify small": verifying(bundles, rounds, FEW),
        "load": [before, list(os.getloadavg())],
    }


def sections(variant: int, count: int = SECTIONS) -> list[dict[str, object]]:
    """Return ``count`` sections of about 100 tokens; variants have different texts."""
    return [
        {
            "id": f"section {i}",
            "content": f"{variant}: " + " ".join(f"{WORDS[(i * 7 + k) % len(WORDS)]} {i}" for k in range(40)),
            "priority": i % 5,
            "shrink": i % 3,
        }
        for i in range(count)
    ]


def laid_out(variant: int, count: int = SECTIONS) -> tokenbox.Layout:
    return tokenbox.layout(sections(variant, count), 6_000, "o200k_base")


def of_layout(result: tokenbox.Layout, variant: int) -> Evidence:
    """Return the evidence of the layout, as `tokenbox.layout` with `proof=` makes it."""
    arguments = {
        "sections": result.inputs,
        "budget": result.budget,
        "tokenizer": get("o200k_base"),
        "separator": result.separator,
        "reclaim": result.reclaim,
    }
    return evidence_of(LAYOUT, arguments, result, source=f"variant {variant}")


def write(layouts: int) -> dict[str, Any]:
    """Measure milliseconds from a layout to its bundle on disk: evidence, digests, files, rename."""
    with tempfile.TemporaryDirectory() as folder:
        sinks = {
            "write": Bundles(f"{folder}/plain"),
            "write, fsync": Bundles(f"{folder}/fsync", fsync=True),
            "write with texts": Bundles(f"{folder}/texts", texts=True),
            "write with texts, fsync": Bundles(f"{folder}/texts-fsync", texts=True, fsync=True),
        }
        times: dict[str, list[float]] = {name: [] for name in ("layout", *sinks, "processor")}
        for variant in range(layouts + 1):
            for name, sink in sinks.items():
                start = time.perf_counter()
                result = laid_out(variant)
                between, worked = time.perf_counter(), time.process_time()
                sink(of_layout(result, variant))
                end = time.perf_counter()
                if variant and name == "write":
                    times["processor"].append(1000 * (time.process_time() - worked))
                if variant:  # the first is a warm-up
                    times[name].append(1000 * (end - between))
                    if name == "write":  # later sinks find its texts in the cache
                        times["layout"].append(1000 * (between - start))
        size = sum(path.stat().st_size for path in next(Path(folder, "plain").glob("?" * 64)).iterdir())
    return {
        "sections": SECTIONS,
        "layouts": layouts,
        "bytes": size,
        **{
            name: {"best": min(found), "median": median(found), "worst": max(found)}
            for name, found in times.items()
        },
    }


def verifying(count: int, rounds: int, size: int) -> dict[str, Any]:
    """Measure seconds to read and hash all files of a bundle by their names, and to verify it, in turn.

    What else the machine does only adds time, so the figure compared with the target is the ratio of the
    least times of each bundle; the ratios of whole rounds are reported beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Bundles(folder)
        for variant in range(count):
            store.write(of_layout(laid_out(variant, size), variant))
        ids = store.ids()
        names = sorted(path.name for path in Path(folder, ids[0]).iterdir())
        opened = [f"{folder}/{bundle_id}" for bundle_id in ids]

        def read(place: int) -> None:
            for name in names:
                with open(f"{opened[place]}/{name}", "rb") as file:  # the fastest way to read
                    hashlib.sha256(file.read()).digest()

        def verified(place: int) -> None:
            verify(store.files(ids[place]), ids[place])

        works = [read, verified]
        least = [[float("inf")] * len(ids) for _ in works]
        ratios = []
        for number in range(rounds):
            sums = [0.0, 0.0]
            for place in range(len(ids)):
                for which in (0, 1) if number % 2 else (1, 0):  # each is the second half of the time
                    start = time.perf_counter()
                    works[which](place)
                    spent = time.perf_counter() - start
                    sums[which] += spent
                    least[which][place] = min(least[which][place], spent)
            ratios.append(sums[1] / sums[0])
    return {
        "bundles": len(ids),
        "sections": size,
        "read": sum(least[0]),
        "verify": sum(least[1]),
        "least ratio": sum(least[1]) / sum(least[0]),
        "ratio": median(ratios),
        "worst ratio": max(ratios),
    }


def table(results: dict[str, Any]) -> str:
    writing, verified = results["write"], results["verify"]
    rows = [
        "| what | target | best | median | worst | met |",
        "|---|---|---|---|---|---|",
        f"| layout of {writing['sections']} sections, alone | - | {_ms(writing['layout'])} | - |",
        f"| write: time of the processor alone | reported | {_ms(writing['processor'])} | - |",
    ]
    for name, target in (
        ("write", TARGET_WRITE_MS),
        ("write, fsync", None),
        ("write with texts", None),
        ("write with texts, fsync", None),
    ):
        found = writing[name]
        met = "-" if target is None else ("yes" if found["median"] <= target else "NO")
        wanted = "reported" if target is None else f"{target:.0f} ms"
        rows.append(f"| {name}, beyond the layout | {wanted} | {_ms(found)} | {met} |")
    for found in (verified, results["verify small"]):
        met = "yes" if found["least ratio"] <= TARGET_VERIFY else "NO"
        rows.append(
            f"| verify {found['bundles']:,} bundles of {found['sections']} sections, beside reading and "
            f"hashing | {TARGET_VERIFY:.0f}x | {found['least ratio']:.2f}x | {found['ratio']:.2f}x | "
            f"{found['worst ratio']:.2f}x | {met} |"
        )
    before, after = results["load"]
    per_bundle = {name: 1000 * verified[name] / verified["bundles"] for name in ("verify", "read")}
    about = (
        f"{results['when']}, Python {results['python']}, {results['cpus']} CPUs; load {before[0]:.1f} before "
        f"and {after[0]:.1f} after{' (a quick run)' if results['quick'] else ''}. A bundle of "
        f"{writing['sections']} sections has {writing['bytes']:,} bytes in 4 files. `verify` took "
        f"{per_bundle['verify']:.2f} ms for each, reading and hashing {per_bundle['read']:.2f} ms: the "
        "least of all rounds, which is also what the best of the last rows divides."
    )
    return "\n".join(["# Proof bundles", "", about, "", *rows, ""])


def _ms(found: dict[str, float]) -> str:
    return " | ".join(f"{found[name]:.2f} ms" for name in ("best", "median", "worst"))
