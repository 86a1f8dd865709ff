"""Folders of many files: 5,500 files of code, and 100,000 small files, both written by this script."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import sysconfig
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import packers
from bench_layout import machine, say
from bench_pack import PackBench

BUDGET = 32_000
FILES, SMALL_FILES = 5_500, 100_000
QUERY = "the deadline of a connection is ignored when a proxy answers slowly"
# The targets, set before anything was measured.
MAX_BESIDE_REPOMIX, MAX_BESIDE_READING, MAX_GROWTH = 1.0, 2.0, 1.2
# What a pack cannot avoid: list the folder, read each file, count its tokens.
_READING = """
import os, sys
from tokenbox.compose.counting import Counter
from tokenbox.tokenizers import registry
texts = []
for folder, folders, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
print(sum(Counter(registry.get("o200k_base")).count_all(texts)), file=open(sys.argv[2], "w"))
"""


def run(*, quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "programs": {"repomix": packers.BY_NAME["repomix"].version()},
        "cells": [],
    }
    part = 10 if quick else 1
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as name:
        for kind, number, write in (
            ("code", FILES // part, _write_code),
            ("small", SMALL_FILES // 2 // part, _write_small),
            ("small", SMALL_FILES // part, _write_small),
        ):
            bench = PackBench(Path(name, f"{kind}-{number}"), results)
            corpus = bench.folder / "corpus"
            size = write(corpus, number)
            line = bench.folder / "line"
            line.mkdir()
            (line / "a.py").write_text("x = 1\n", encoding="utf-8")
            bench.once(
                packers.BY_NAME["tokenbox"], line, None
            )  # writes the bytecode, as an installation does
            for program in _programs(kind):
                results["cells"].append(_measured(bench, program, corpus, kind, number, size, quick=quick))
            shutil.rmtree(bench.folder)
    results["load"] = list(os.getloadavg())
    return results


def _programs(kind: str) -> list[packers.Program]:
    ours = packers.BY_NAME["tokenbox"]
    asked = replace(
        ours, name="tokenbox --query", arguments=lambda *given: [*ours.arguments(*given), "--query", QUERY]
    )
    if kind == "code":
        return [ours, asked, packers.BY_NAME["repomix"]]
    reading = replace(
        ours,
        name="reading and counting",
        executable=Path(sys.executable),
        arguments=lambda corpus, output, _: ["-c", _READING, str(corpus), str(output)],
        caches=False,
    )
    return [ours, asked, reading]


def _measured(
    bench: PackBench,
    program: packers.Program,
    corpus: Path,
    kind: str,
    number: int,
    size: int,
    *,
    quick: bool,
) -> dict[str, Any]:
    """Run a program cold, then warm if it has a cache."""
    cell: dict[str, Any] = {
        "program": program.name,
        "kind": kind,
        "files": number,
        "bytes": size,
        "cold": [],
        "warm": [],
        "memory": [],
    }
    if not program.executable.exists():
        return {**cell, "problem": "not installed"}
    home = corpus.parent
    for _ in range(1 if quick else 3):
        for folder in ("cache", "tmp"):
            shutil.rmtree(home / folder, ignore_errors=True)
        for temperature in ("cold", "warm") if program.name.startswith("tokenbox") else ("cold",):
            try:
                given = bench.once(program, corpus, BUDGET)
            except packers.Failed as error:
                return {**cell, "problem": str(error)[:200]}
            cell[temperature].append(given["seconds"])
            cell["memory"].append(given["memory"])
            if program.name.startswith("tokenbox"):
                cell["tokens"] = bench.count(given["output"])
    say(f"{program.name:22} {number:>7,} files, cold {cell['cold']}, warm {cell['warm']}")
    return cell


def _write_code(folder: Path, number: int) -> int:
    """Write copies of the modules of the standard library. Their first lines differ, so no two are equal."""
    library = Path(sysconfig.get_path("stdlib"))
    sources = [
        path
        for path in sorted(library.rglob("*.py"))
        if not {"test", "tests", "site-packages", "idlelib"} & set(path.parts)
    ]
    size = 0
    for n in range(number):
        source = sources[n % len(sources)]
        data = f"# module {n}\n".encode() + source.read_bytes()
        path = folder / f"part{n // len(sources)}" / source.relative_to(library)
        path.parent.mkdir(parents=True, exist_ok=True)
        size += path.write_bytes(data)
    return size


def _write_small(folder: Path, number: int) -> int:
    """Write modules of one function, a hundred in a folder."""
    size = 0
    for n in range(number):
        path = folder / f"group{n // 100}" / f"task{n}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f'"""Step {n} of all."""\n\n\ndef step_{n}(value):\n    return value + {n * 7919 % 1009}\n'
        size += path.write_text(text, encoding="utf-8")
    return size


def table(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    given, peer = results["machine"], results["programs"]["repomix"]["version"]
    introduction = (
        f"`python bench/run.py manyfiles`, {results['when']}. {given['processor']}, {given['cpus']} "
        f"processors, Python {given['python']}; load before {given['load_before'][0]:.1f}, after "
        f"{results['load'][0]:.1f}.\n\nInto {BUDGET:,} tokens; repomix {peer} has no budget and writes all. "
        "Medians of whole commands. The code is the standard library, copied with a first line that differs; "
        "a small file is one function. The targets are those of cold runs.\n"
    )
    lines = [
        "# Packing folders of many files",
        "",
        introduction,
        "| files | program | cold | warm | peak memory | tokens | target | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in results["cells"]:
        files = f"{cell['files']:,} ({cell['bytes'] / 1e6:.0f} MB)"
        if "problem" in cell:
            lines.append(f"| {files} | {cell['program']} | {cell['problem']} | | | | | |")
            continue
        target, verdict = _judged(cell, results["cells"])
        warm = f"{statistics.median(cell['warm']):.1f} s" if cell["warm"] else ""
        lines.append(
            f"| {files} | {cell['program']} | {statistics.median(cell['cold']):.1f} s | {warm} "
            f"| {max(cell['memory']) / 1e6:.0f} MB | {cell.get('tokens', '')} | {target} | {verdict} |"
        )
    return "\n".join([*lines, "", _growth(results["cells"])]) + "\n"


def _judged(cell: dict[str, Any], cells: list[dict[str, Any]]) -> tuple[str, str]:
    peer, limit = {
        "code": ("repomix", MAX_BESIDE_REPOMIX),
        "small": ("reading and counting", MAX_BESIDE_READING),
    }[cell["kind"]]
    others = [c for c in cells if c["program"] == peer and c["files"] == cell["files"] and "problem" not in c]
    if cell["program"] == peer or not others:
        return "", ""
    ratio = statistics.median(cell["cold"]) / statistics.median(others[0]["cold"])
    return f"<= {limit}x {peer}", f"{ratio:.2f}x {'met' if ratio <= limit else '**LOST**'}"


def _growth(cells: list[dict[str, Any]]) -> str:
    """Return a sentence about the growth of memory from half of the small files to all."""
    sizes = {
        c["files"]: max(c["memory"])
        for c in cells
        if c["kind"] == "small" and c["program"] == "tokenbox" and "problem" not in c
    }
    if len(sizes) != 2:  # half of the files and all
        return "The growth of memory was not measured."
    (half, less), (all_of_them, more) = sorted(sizes.items())
    growth = more * half / (less * all_of_them)
    verdict = "met" if growth <= MAX_GROWTH else "**LOST**"
    return (
        f"Memory per file at {all_of_them:,} small files is {growth:.2f}x that at {half:,} "
        f"(target <= {MAX_GROWTH}x, that is linear or better): {verdict}."
    )
