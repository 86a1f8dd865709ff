"""The standard library as a prompt: tokenbox beside other programs that turn a folder into a prompt."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import packers
import table_pack
from bench_layout import machine, say
from workers import ENVIRONMENTS, rank_files

REPEATS = 5
LIMIT = 120.0  # seconds for one run
BUDGETS = (50_000, 5_000)
# Seconds per row after which no more repeats are run, but at least two.
PATIENCE = 12.0

table = table_pack.table


def run(*, quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "programs": {},
        "cells": [],
        "quick": quick,
    }
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as name:
        bench = PackBench(Path(name), results)
        results["input"] = bench.corpus()
        for program in packers.PROGRAMS:
            results["programs"][program.name] = program.version()
        bench.measure(quick=quick)
    results["load"] = list(os.getloadavg())
    return results


class PackBench:
    """A folder with the corpus, and for each program its own copy and an initially empty home."""

    def __init__(self, folder: Path, results: dict[str, Any]) -> None:
        self.folder = folder
        self.results = results
        self.tokens: dict[str, int] = {}

    def corpus(self) -> dict[str, Any]:
        """Copy the standard library of this Python, without tests and compiled files; return its figures."""
        source = Path(sysconfig.get_path("stdlib"))

        def left_out(folder: str, names: list[str]) -> list[str]:
            return [
                name
                for name in names
                if name in ("__pycache__", "site-packages", "dist-packages", "lib-dynload")
                or (name == "test" and Path(folder) == source)
                or name.startswith("config-")
                or name.endswith((".so", ".a", ".pyc", ".whl"))
                or Path(folder, name).is_symlink()
            ]

        shutil.copytree(source, self.folder / "corpus", ignore=left_out)
        files = sorted(path for path in (self.folder / "corpus").rglob("*") if path.is_file())
        digest = hashlib.sha256()
        for path in files:
            digest.update(path.read_bytes())
        size = sum(path.stat().st_size for path in files)
        return {"files": len(files), "bytes": size, "sha256": digest.hexdigest()}

    def measure(self, *, quick: bool) -> None:
        """Measure the programs in turn, one repeat each, so that a busy minute affects all alike."""
        cells = [
            {"program": program.name, "budget": budget, "cache": cache, "seconds": [], "memory": []}
            for budget in (None, *BUDGETS)
            for program in packers.PROGRAMS
            for cache in ("cold", "warm")
            if program.takes(budget)
            and (cache == "cold" or (program.caches and (budget is None or program.name == "tokenbox")))
        ]
        self.results["cells"] = cells
        small = self.folder / "small"
        small.mkdir()
        (small / "a.py").write_text("x = 1\n", encoding="utf-8")
        self.once(packers.BY_NAME["tokenbox"], small, None)  # writes the bytecode, as an installation does
        for repeat in range(2 if quick else REPEATS):
            for cell in cells:
                spent = sum(cell["seconds"])
                if "problem" in cell or (repeat > 1 and spent > PATIENCE):
                    continue
                self._run(cell, packers.BY_NAME[cell["program"]], first=repeat == 0)
        for cell in cells:
            shown = " ".join(f"{seconds:.2f}" for seconds in cell["seconds"])
            into = cell["budget"] or "in full"
            say(f"{cell['program']:20} {into:>8} {cell['cache']} {shown} s {cell.get('problem', '')}")
        for program in packers.PROGRAMS:
            if program.name in ("tokenbox", "repomix"):
                self.results["programs"][program.name]["memory_of_nothing"] = self.once(program, small, None)[
                    "memory"
                ]

    def _run(self, cell: dict[str, Any], program: packers.Program, *, first: bool) -> None:
        home = self.folder / "homes" / program.name
        if cell["cache"] == "cold":
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(self.folder / "corpus", home / "corpus")
            if program.needs_git:
                for arguments in (["init", "-q"], ["add", "-A"], packers.COMMIT):
                    subprocess.run(["git", *arguments], cwd=home / "corpus", check=True, capture_output=True)
        elif first:
            self.once(program, home / "corpus", cell["budget"])  # fills its cache
        try:
            given = self.once(program, home / "corpus", cell["budget"])
        except packers.Failed as error:
            cell["problem"] = str(error)[:200]
            return
        cell["seconds"].append(given["seconds"])
        cell["memory"].append(given["memory"])
        if first:
            cell["status"] = given["status"]
            cell["bytes"] = len(given["output"])
            cell["tokens"] = self.count(given["output"])
            cell["said"] = program.last_message(given["messages"])

    def once(self, program: packers.Program, corpus: Path, budget: int | None) -> dict[str, Any]:
        """Run a program once; return seconds, peak memory in bytes, and its output."""
        home = corpus.parent
        for part in ("cache", "tmp"):
            (home / part).mkdir(parents=True, exist_ok=True)
        output = corpus / "codefetch" / "out.md" if program.name == "codefetch" else home / "out"
        output.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TOKENBOX_CACHE_DIR": str(home / "cache"),
            "TMPDIR": str(home / "tmp"),
            "TIKTOKEN_CACHE_DIR": str(rank_files()),
            **packers.OFFLINE,
            # As after an installation: Python programs are compiled once, not at every start.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }
        with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
            start = time.perf_counter()
            process = subprocess.Popen(
                program.command(corpus, output, budget),
                cwd=corpus,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            status, usage = _ended(process, LIMIT)
            seconds = time.perf_counter() - start
        messages = (home / "stderr").read_text(errors="replace") + (
            "" if program.writes_stdout else (home / "stdout").read_text(errors="replace")
        )
        written = home / "stdout" if program.writes_stdout else output
        if status is None:
            raise packers.Failed(f"over {LIMIT:.0f} s")
        if not written.is_file() or not written.stat().st_size:
            raise packers.Failed(f"exit status {status}, and nothing written: {messages.strip()[-150:]}")
        return {
            "seconds": seconds,
            "memory": usage,
            "status": status,
            "output": program.result(written.read_bytes()),
            "messages": messages,
        }

    def count(self, output: bytes) -> int:
        """Return o200k tokens by tiktoken with its own ranks, in another process, independent of tokenbox."""
        digest = hashlib.sha256(output).hexdigest()
        if digest not in self.tokens:
            done = subprocess.run(
                [ENVIRONMENTS["peers"] / "bin" / "python", "-c", packers.COUNT],
                input=output,
                capture_output=True,
                env={**os.environ, "TIKTOKEN_CACHE_DIR": str(rank_files())},
                check=True,
            )
            self.tokens[digest] = int(done.stdout)
        return self.tokens[digest]


def _ended(process: subprocess.Popen[bytes], limit: float) -> tuple[int | None, int]:
    """Return the exit status, or None if it had to be killed, and the peak memory in bytes."""
    deadline = time.monotonic() + limit
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 if sys.platform == "darwin" else 1024
            return process.returncode, usage.ru_maxrss * unit
        if time.monotonic() > deadline:
            os.killpg(process.pid, 9)
            process.wait()
            return None, 0
        time.sleep(0.005)
